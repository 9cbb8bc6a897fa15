"""A GPU with exact numbers: the seam `run_trial` without a machine.

Time and memory follow simple laws, so that a test knows the best configuration beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.builders import GIB, make_environment, make_failure, make_measurement
from trials.trial import FailureKind, Outcome, Parallelism, Precision, TrialConfig

SPEEDUP = {Precision.FP32: 1.0, Precision.TF32: 1.6, Precision.BF16: 2.2, Precision.FP16: 2.1}


@dataclass
class FakeGpu:
    """Seconds per micro batch are ``launch_s + per_sample_s x size``; memory is linear in the micro batch.

    ``failures`` answers the n-th trial (from 0) with a failure of that kind.
    """

    name: str = "L4-24GB"
    launch_s: float = 0.010
    per_sample_s: float = 0.004
    optimizer_s: float = 0.005
    sync_s: float = 0.020
    fixed_bytes: int = 2 * GIB
    per_sample_bytes: int = GIB // 4
    memory_bytes: int = 24 * GIB
    failures: dict[int, FailureKind] = field(default_factory=dict)
    seen: list[TrialConfig] = field(default_factory=list)

    def run_trial(self, config: TrialConfig) -> Outcome:
        index = len(self.seen)
        self.seen.append(config)
        if index in self.failures:
            return make_failure(config, kind=self.failures[index], reason="injected", trial_s=5.0)
        peak = self.peak_bytes(config)
        if peak > self.memory_bytes:
            return make_failure(config, trial_s=5.0)
        return make_measurement(
            config,
            step_time_s=self.step_s(config),
            peak_memory_bytes=peak,
            half_width_fraction=0.005,
            environment=make_environment(device_memory_bytes=self.memory_bytes),
        )

    def step_s(self, config: TrialConfig) -> float:
        speed = SPEEDUP[config.precision] * (1.25 if config.is_compiled else 1.0)
        per_sample_s = self.per_sample_s / speed * (4 / 3 if config.is_checkpointed else 1.0)
        micro_s = self.launch_s + per_sample_s * config.micro_batch_size
        sync_s = self.sync_s * math.log2(config.gpu_count) if config.gpu_count > 1 else 0.0
        if config.parallelism is Parallelism.FSDP2:
            sync_s *= 2 * config.accumulation
        return micro_s * config.accumulation + sync_s + self.optimizer_s

    def peak_bytes(self, config: TrialConfig) -> int:
        per_sample = self.per_sample_bytes * (0.35 if config.is_checkpointed else 1.0)
        per_sample *= 1.0 if config.precision in (Precision.FP32, Precision.TF32) else 0.6
        shards = config.gpu_count if config.parallelism is Parallelism.FSDP2 else 1
        return int(self.fixed_bytes / shards + per_sample * config.micro_batch_size)
