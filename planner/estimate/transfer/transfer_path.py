"""The ways to one worker's micro batch: what each starts from, where it ends, and how unsure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.estimate.interval.conformal import Ground, half_width
from planner.estimate.setting import Setting
from planner.estimate.time.chips import Chip
from planner.estimate.time.line import StepTimeLine
from planner.estimate.time.measured import MeasuredSetting
from planner.estimate.time.traced import TracedStepTime
from planner.estimate.transfer.distance import CPU_TO_GPU_LOG_SPREAD, POWER_LOG_SPREAD
from planner.modes import PARALLELISMS, TECHNIQUES
from planner.modes.chosen import changed
from planner.modes.terms import Group
from trials.api import TrialConfig

_TRACE_ALONE_LOG_SPREAD = 0.2
CONVOLUTION_LOG_SPREAD = {Ground.TRACED: 0.15, Ground.TRACE_ALONE: 0.4}
"""Set before traces of convnets were held against recordings (benchmarks/estimate/convnets.py: 66 of 74 of
Zeus's ResNet-50 rows lie in the interval so widened); cuDNN chooses among algorithms as it runs."""
_COMPARED_AT = 0.9  # confidence at which ways are compared


@dataclass(frozen=True, slots=True)
class SingleWorkerStep:
    """One worker's step with no one to wait for, and how unsure it is."""

    micro_batch_s: float
    optimizer_s: float
    log_spread: float  # standard deviation
    ground: Ground
    log_noise: float  # standard deviation of the measurement that it starts from

    @property
    def half_width(self) -> float:
        """Of its interval, in log."""
        return half_width(self.ground, self.log_spread, self.log_noise, _COMPARED_AT)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A source reduced to one worker."""

    source: MeasuredSetting
    chip: Chip
    synchronisation_s: float  # per micro batch, to be taken off the line; 0 for one worker

    def is_like(self, chip: Chip) -> bool:
        """Whether it was measured in the precision and on the kind of device of ``chip``."""
        return self.chip.precision == chip.precision and self.chip.is_cpu == chip.is_cpu

    def micro_batch_s(self, micro_batch_size: float) -> float:
        """Of one worker alone under the newest stack, at a batch size on the source's line."""
        line_s = self.source.line.micro_batch_s(micro_batch_size)
        return self.source.stack_ratio * max(0.05 * line_s, line_s - self.synchronisation_s)

    def unlikeness(self, config: TrialConfig) -> float:
        """Rough log spread of the way from here to ``config``, to try the most promising ones only."""
        setting = self.source.setting
        return (
            1.0 * (setting.gpu != config.gpu)
            + 0.4 * (setting.precision != config.precision)
            + sum(TECHNIQUES[one].unlikeness for one in changed(setting.techniques, config.techniques))
            + 0.05 * (setting.older_stack is not None)
            + 0.05 * (setting.gpu_count != config.gpu_count)
            + 0.05 * (setting.gpu_count != 1)
            + 0.2 * self.source.line.distance(config.micro_batch_size)
            + 2.0 * self.chip.is_cpu * (setting.gpu != config.gpu)
        )


@dataclass(frozen=True, slots=True)
class TransferPath:
    """A way to one worker's micro batch, before the counts of workers and of micro batches matter."""

    line: StepTimeLine | None  # followed to the size asked for; None from the trace alone
    micro_batch_s: float
    optimizer_s: float  # with all parameters on one worker
    log_spread: float
    ground: Ground

    def step(self, config: TrialConfig) -> SingleWorkerStep:
        """The way's end for ``config``."""
        spread, noise = self.log_spread, 0.0
        if self.line is not None:
            spread = math.hypot(spread, self.line.count_log_spread(config.accumulation))
            noise = self.line.log_noise
        optimizer_s = self.optimizer_s / shards_of(config)
        return SingleWorkerStep(self.micro_batch_s, optimizer_s, spread, self.ground, noise)


def path_by_trace(traced: TracedStepTime, config: TrialConfig, chip: Chip) -> TransferPath:
    """The way that starts from no measurement."""
    time = traced.time(chip, config.micro_batch_size)
    factor = math.prod(
        TECHNIQUES[one].time_factor for one in config.techniques if not TECHNIQUES[one].is_traced
    )
    ground = Ground.TRACE_ALONE
    spread = math.hypot(
        _TRACE_ALONE_LOG_SPREAD,
        POWER_LOG_SPREAD * math.log(chip.throttle),
        CONVOLUTION_LOG_SPREAD[ground] if traced.has_convolutions else 0.0,
        CPU_TO_GPU_LOG_SPREAD if chip.is_cpu else 0.0,
    )
    return TransferPath(None, time.micro_batch_s * factor, time.optimizer_s, spread, ground)


def shards_of(config: TrialConfig | Setting) -> int:
    """Among how many workers the optimizer's work is divided."""
    group = Group(rank_count=config.gpu_count, node_count=config.node_count)
    return PARALLELISMS[config.parallelism].shards(group)
