"""A GPU with exact numbers: the seam `run_trial` without a machine.

Time and memory follow simple laws, so that a test knows the best configuration beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from tests.builders import GIB, make_environment, make_failure, make_measurement
from trials.measurement import Outcome, PeakParts, Series
from trials.trial import FailureKind, Parallelism, Precision, Purpose, TrialConfig

SPEEDUP = {Precision.FP32: 1.0, Precision.TF32: 1.6, Precision.BF16: 2.2, Precision.FP16: 2.1}


@dataclass
class FakeGpu:
    """Seconds per micro batch are ``launch_s + per_sample_s x size``; memory is linear in the micro batch.

    ``failures`` answers the n-th trial (from 0) with a failure of that kind; the times of those in
    ``disturbed`` are unsteady. An accumulation of 5 or more is timed at 1 and 3 where ``is_interpolating``.
    The longest batch, which only a confirmation meets, needs ``longest_factor`` times the memory per sample.
    With ``update_bytes`` the update needs so much beside the fixed part, and trials tell it apart.
    """

    name: str = "L4-24GB"
    launch_s: float = 0.010
    per_sample_s: float = 0.004
    optimizer_s: float = 0.005
    sync_s: float = 0.020
    fixed_bytes: int = 2 * GIB
    per_sample_bytes: int = GIB // 4
    memory_bytes: int = 24 * GIB
    update_bytes: int | None = None
    longest_factor: float = 1.0
    is_interpolating: bool = False
    disturbed: frozenset[int] = frozenset()
    failures: dict[int, FailureKind] = field(default_factory=dict)
    seen: list[TrialConfig] = field(default_factory=list)

    def run_trial(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Outcome:
        index = len(self.seen)
        self.seen.append(config)
        if index in self.failures:
            return make_failure(config, kind=self.failures[index], reason="injected", trial_s=5.0)
        is_confirmed = purpose is Purpose.CONFIRM
        peak = passes = self.peak_bytes(config, self.longest_factor if is_confirmed else 1.0)
        parts = None
        if self.update_bytes is not None:
            base = self.peak_bytes(replace(config, micro_batch_size=0))
            parts = PeakParts(base_bytes=base, passes_bytes=passes, update_bytes=base + self.update_bytes)
            peak = max(passes, parts.update_bytes)
        if peak > self.memory_bytes:
            return make_failure(config, trial_s=5.0)
        accumulations = [config.accumulation]
        if self.is_interpolating and config.accumulation >= 5 and not is_confirmed:
            accumulations = [1, 3]
        is_steady = index not in self.disturbed
        return make_measurement(
            config,
            series=tuple(
                Series(accumulation=one, step_times_s=(self.step_s(replace(config, accumulation=one)),) * 12)
                for one in accumulations
            ),
            peak_memory_bytes=peak,
            usable_memory_bytes=self.memory_bytes,
            peak_parts=parts,
            is_steady=is_steady,
            half_width_fraction=0.005 if is_steady else 0.1,
            environment=make_environment(device_memory_bytes=self.memory_bytes),
        )

    def step_s(self, config: TrialConfig) -> float:
        speed = SPEEDUP[config.precision] * (1.25 if ("compile" in config.techniques) else 1.0)
        per_sample_s = (
            self.per_sample_s / speed * (4 / 3 if ("activation_checkpointing" in config.techniques) else 1.0)
        )
        micro_s = self.launch_s + per_sample_s * config.micro_batch_size
        sync_s = self.sync_s * math.log2(config.gpu_count) if config.gpu_count > 1 else 0.0
        if config.parallelism == Parallelism.FSDP2:
            sync_s *= 2 * config.accumulation
        return micro_s * config.accumulation + sync_s + self.optimizer_s

    def peak_bytes(self, config: TrialConfig, length: float = 1.0) -> int:
        per_sample = (
            length
            * self.per_sample_bytes
            * (0.35 if ("activation_checkpointing" in config.techniques) else 1.0)
        )
        per_sample *= 1.0 if config.precision in (Precision.FP32, Precision.TF32) else 0.6
        shards = config.gpu_count if config.parallelism == Parallelism.FSDP2 else 1
        return int(self.fixed_bytes / shards + per_sample * config.micro_batch_size)
