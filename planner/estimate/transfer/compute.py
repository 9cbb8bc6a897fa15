"""One worker's micro batch and optimizer on any chip: from the nearest measured setting, or from the trace.

The way from a measured setting follows its line to the batch size asked for, and multiplies by what changes:
chip and precision (`workload_decomposition`, corrected by `cross_workload`), checkpointing, compilation. Each
adds its spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from planner.estimate.interval.conformal import Ground
from planner.estimate.time.chips import Chip, chip_of
from planner.estimate.time.traced import TracedStepTime
from planner.estimate.transfer.cross_workload import CrossWorkloadRatios, PredictedRatio
from planner.estimate.transfer.distance import chip_log_spread
from planner.estimate.transfer.transfer_path import (
    CONVOLUTION_LOG_SPREAD,
    Anchor,
    SingleWorkerStep,
    TransferPath,
    path_by_trace,
    shards_of,
)
from planner.estimate.transfer.workload_decomposition import (
    MicroBatchTime,
    TimeRatio,
    WorkloadDecomposition,
    decompose,
)
from planner.estimate.values import Hardware
from planner.modes import TECHNIQUES
from planner.modes.chosen import changed, traced_part
from trials.api import TrialConfig

_WAYS_TRIED = 3  # of the measured settings, the likeliest first
_SHARED_LOG_SPREAD = 0.05  # taking synchronisation out of a step of several workers

Techniques = tuple[str, ...]  # of a configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """What one worker takes; made by `fit_compute`."""

    starts: tuple[Anchor, ...]
    mixes: Mapping[Techniques, WorkloadDecomposition]
    traced: Mapping[Techniques, TracedStepTime]
    cross_workload: Mapping[
        tuple[str, str], CrossWorkloadRatios
    ]  # other workloads, by source and target chip
    name: str  # of the workload, among those
    _ways: dict[tuple[Chip, Techniques, int, int], tuple[TransferPath, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _host_shares: dict[tuple[Techniques, Chip, int], float] = field(
        default_factory=dict, repr=False, compare=False
    )
    _ratios: dict[tuple[Techniques, Chip, Chip, int], tuple[TimeRatio, float]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def step(self, config: TrialConfig, hardware: Hardware) -> SingleWorkerStep | None:
        """The least uncertain of the ways to ``config``; None where there is none."""
        chip = chip_of(config, hardware)
        if chip is None:
            return None
        technique = config.techniques
        is_count_measured = any(one.source.setting.gpu_count == config.gpu_count for one in self.starts)
        key = (chip, technique, config.micro_batch_size, config.gpu_count if is_count_measured else 0)
        if key not in self._ways:
            self._ways[key] = tuple(self._ways_to(config, chip))
        return min(
            (one.step(config) for one in self._ways[key]), key=lambda one: one.half_width, default=None
        )

    def _ways_to(self, config: TrialConfig, chip: Chip) -> Iterator[TransferPath]:
        """From the likeliest settings, and by the trace where none is of the chip's kind.

        Else the trace is in the way's ratio. What was measured in the precision itself leaves no say to
        other precisions: how much one gains over another is what data sheets know least.
        """
        near = sorted(self.starts, key=lambda one: one.unlikeness(config))[:_WAYS_TRIED]
        near = [one for one in near if one.is_like(chip)] or near
        yield from (self._way(start, config, chip) for start in near)
        traced = self.traced.get(traced_part(config.techniques))
        if traced is not None and not any(one.chip.is_cpu == chip.is_cpu for one in near):
            yield path_by_trace(traced, config, chip)

    def floor_s(self, config: TrialConfig, hardware: Hardware) -> float:
        """Least time of a micro batch by the roofline; 0 without a trace."""
        chip, traced = chip_of(config, hardware), self.traced.get(traced_part(config.techniques))
        return 0.0 if chip is None or traced is None else traced.roofline_s(chip, config.micro_batch_size)

    def host_fraction(self, config: TrialConfig, hardware: Hardware) -> float | None:
        """Expected share of a micro batch that no faster GPU shortens.

        None where nothing was measured, and on CPU, which is the host.
        """
        chip = chip_of(config, hardware)
        if chip is None or chip.is_cpu or not self.starts:
            return None
        setting = min(self.starts, key=lambda one: one.unlikeness(config)).source.setting
        technique = setting.techniques
        return self._host_share(technique, chip, config.micro_batch_size)

    def _host_share(self, technique: Techniques, chip: Chip, size: int) -> float:
        key = (technique, chip, size)
        if key not in self._host_shares:
            self._host_shares[key] = self.mixes[technique].host_share(chip, size)
        return self._host_shares[key]

    def _way(self, start: Anchor, config: TrialConfig, chip: Chip) -> TransferPath:
        """From a measured setting to ``config`` on ``chip``."""
        source, line = start.source, start.source.line
        technique = source.setting.techniques
        size = config.micro_batch_size
        micro_s = start.micro_batch_s(size)
        optimizer_s = line.fixed_s if source.setting.gpu_count == 1 else line.optimizer_s
        optimizer_s *= source.stack_ratio
        spreads = [line.size_log_spread(size)]
        if source.stack_change is not None:
            spreads.append(source.stack_change.transfer_log_spread)
        ground = Ground.LINE
        if start.chip != chip:
            ratio, spread = self._ratio(technique, start.chip, chip, size, micro_s)
            micro_s *= ratio.median
            optimizer_s *= start.chip.bytes_per_s / chip.bytes_per_s
            spreads.append(spread)
            traced = self.mixes[technique].traced
            ground = Ground.CHIPS if traced is None else Ground.TRACED
            if traced is not None and traced.has_convolutions:
                spreads.append(CONVOLUTION_LOG_SPREAD[ground])
        for one in changed(source.setting.techniques, config.techniques):
            factor = self._factor(one, chip, size)
            micro_s *= factor if one in config.techniques else 1.0 / factor
            spreads.append(TECHNIQUES[one].log_spread)
        if start.synchronisation_s > 0:
            spreads.append(_SHARED_LOG_SPREAD)
        optimizer_s *= shards_of(source.setting)
        return TransferPath(line, micro_s, optimizer_s, math.hypot(*spreads), ground)

    def _ratio(
        self, technique: Techniques, source: Chip, target: Chip, size: int, source_s: float
    ) -> tuple[TimeRatio, float]:
        key = (technique, source, target, size)
        if key not in self._ratios:
            mix = self.mixes[technique]
            ratio = mix.ratio(source, target, size)
            ratios = self.cross_workload.get((source.gpu, target.gpu))
            if ratios is not None:
                predicted = predicted_ratio(self.name, mix, source, target, size, source_s)
                ratio = TimeRatio(math.exp(ratios.corrected(predicted)), ratio.log_spread)
            share = self._host_share(technique, target, size)
            links = (mix.link_share(source, size), mix.link_share(target, size))
            self._ratios[key] = (ratio, chip_log_spread(source, target, ratio, share, links))
        return self._ratios[key]

    def _factor(self, technique: str, chip: Chip, size: int) -> float:
        """By how much a technique multiplies a micro batch: by the traces, where they have it."""
        plain, traced = self.traced.get(()), self.traced.get((technique,))
        if plain is None or traced is None:
            return TECHNIQUES[technique].time_factor
        return traced.gpu_s(chip, size) / plain.gpu_s(chip, size)


def fit_compute(
    starts: Sequence[Anchor],
    traced: Mapping[Techniques, TracedStepTime],
    cross_workload: Mapping[tuple[str, str], CrossWorkloadRatios] | None = None,
    *,
    name: str = "",
    is_training: bool = True,
    tensor_count: int = 1,
) -> Compute:
    """What one worker takes, from measured settings (there may be none) and traces (likewise)."""
    techniques: dict[Techniques, list[Anchor]] = {}
    for one in starts:
        setting = one.source.setting
        techniques.setdefault(setting.techniques, []).append(one)
    mixes = {
        technique: decompose(
            micro_batch_times(group),
            traced.get(traced_part(technique)),
            is_training=is_training,
            tensor_count=tensor_count,
        )
        for technique, group in techniques.items()
    }
    return Compute(
        starts=tuple(starts), mixes=mixes, traced=traced, cross_workload=cross_workload or {}, name=name
    )


def traced_optimizer_s(
    traced: Mapping[Techniques, TracedStepTime], config: TrialConfig, hardware: Hardware
) -> float | None:
    """Expected time of the optimizer on one worker of ``config``; None without a trace."""
    chip, steps = chip_of(config, hardware), next(iter(traced.values()), None)
    if chip is None or steps is None:
        return None
    shards = shards_of(config)
    return steps.time(chip, config.micro_batch_size).optimizer_s / shards


def micro_batch_times(starts: Sequence[Anchor]) -> list[MicroBatchTime]:
    """Every measured batch size of one technique; settings of one worker are enough for a chip."""
    singles = {one.chip for one in starts if one.source.setting.gpu_count == 1}
    return [
        MicroBatchTime(one.chip, size, one.micro_batch_s(size))
        for one in starts
        if one.source.setting.gpu_count == 1 or one.chip not in singles
        for size in one.source.line.micro_batch_sizes
    ]


def predicted_ratio(
    workload: str, mix: WorkloadDecomposition, source: Chip, target: Chip, size: int, source_s: float
) -> PredictedRatio:
    """The way from ``source`` to ``target`` as `workload_decomposition` sees it, for `cross_workload`."""
    return PredictedRatio(
        workload=workload,
        kind=source.precision,
        source_s=source_s,
        log_ratio=math.log(mix.ratio(source, target, size).median),
        host_share=mix.host_share(source, size),
        gpu_ratio=mix.gpu_ratio(source, target, size),
    )
