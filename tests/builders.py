"""Values for tests, each with sane defaults; name only what the test is about.

``FakeEstimator`` answers with exact numbers from a table or a formula, so that a test can be checked by
hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from catalogs.gpus import DeviceKind, Gpu, Link
from catalogs.offers import Offer, Pricing
from planner.cost.bill.cost_assumptions import CostAssumptions
from planner.estimate.memory.usable_memory import usable_memory_bytes
from planner.estimate.values import Basis, Estimate, Hardware
from planner.target import Target
from trials.extras import GradientDraw, GradientNoise
from trials.measurement import Environment, Measurement, Series, Telemetry
from trials.profile import Adapter, Operation, OperationClass, TargetHint, Trace, WorkloadProfile
from trials.trial import Failure, FailureKind, Parallelism, Precision, TrialConfig, Workload

GIB = 1024**3
TODAY = date(2025, 6, 2)


def make_gpu(name: str = "L4-24GB", **changes: Any) -> Gpu:
    """A GPU with an L4's figures unless changed."""
    figures: dict[str, Any] = {
        "kind": DeviceKind.GPU,
        "device_names": (f"NVIDIA {name.split('-', maxsplit=1)[0]}",),
        "architecture": "Ada Lovelace",
        "compute_capability": 8.9,
        "memory_bytes": 24 * GIB,
        "bandwidth_bytes_per_s": 300e9,
        "fp32_flop_per_s": 30.3e12,
        "tf32_flop_per_s": 60e12,
        "bf16_flop_per_s": 121e12,
        "fp16_flop_per_s": 121e12,
        "sm_count": 58,
        "l2_cache_bytes": 48 * 1024**2,
        "link": Link.PCIE,
        "link_bytes_per_s": 32e9,
        "power_w": 72.0,
        "source": "a test",
    }
    return Gpu(name=name, **{**figures, **changes})


def make_cpu(name: str = "CPU-X86", **changes: Any) -> Gpu:
    """A CPU class: every figure is per vCPU."""
    figures: dict[str, Any] = {
        "kind": DeviceKind.CPU,
        "device_names": (),
        "architecture": "x86-64",
        "compute_capability": None,
        "memory_bytes": 4 * GIB,
        "bandwidth_bytes_per_s": 5e9,
        "fp32_flop_per_s": 50e9,
        "tf32_flop_per_s": None,
        "bf16_flop_per_s": None,
        "fp16_flop_per_s": None,
        "sm_count": None,
        "l2_cache_bytes": None,
        "link": Link.NONE,
        "link_bytes_per_s": None,
        "power_w": None,
    }
    return make_gpu(name, **{**figures, **changes})


def make_offer(gpu: str = "L4-24GB", price_usd_per_hour: float = 0.72, **changes: Any) -> Offer:
    """An on-demand instance with one GPU, billed by the second."""
    row: dict[str, Any] = {
        "provider": "gcp",
        "instance_type": f"box-{gpu.lower()}",
        "region": "us-central1",
        "pricing": Pricing.ON_DEMAND,
        "gpu_count": 1,
        "vcpus": 8,
        "memory_bytes": 32 * GIB,
        "gpu_link": Link.NONE,
        "network_bytes_per_s": 2e9,
        "billing_increment_s": 1,
        "source": "a test",
        "as_of": date(2025, 6, 1),
    }
    return Offer(gpu=gpu, price_usd_per_hour=price_usd_per_hour, **{**row, **changes})


def make_config(gpu: str = "L4-24GB", **changes: Any) -> TrialConfig:
    """One worker, fp32, micro batch 8, accumulation 4: a global batch of 32."""
    knobs: dict[str, Any] = {
        "gpu_count": 1,
        "micro_batch_size": 8,
        "accumulation": 4,
        "precision": Precision.FP32,
        "parallelism": Parallelism.SINGLE,
    }
    return TrialConfig(gpu=gpu, **{**knobs, **changes})


def make_target(**changes: Any) -> Target:
    """32,000 samples in batches of 32: a thousand steps."""
    figures: dict[str, Any] = {"samples": 32_000, "global_batch_size": 32, "budget_usd": 500.0}
    return Target(**{**figures, **changes})


def make_assumptions(**changes: Any) -> CostAssumptions:
    """A bill of steps and what trials measured: no provisioning, no storage, and saving takes no time."""
    figures = {"provisioning_s": 0.0, "storage_usd_per_gib_month": None, "checkpoint_bytes_per_s": 1e30}
    return CostAssumptions(**{**figures, **changes})


def make_environment(**changes: Any) -> Environment:
    """A node with one L4."""
    figures: dict[str, Any] = {
        "device_name": "NVIDIA L4",
        "device_memory_bytes": 24 * GIB,
        "driver": "550.54.15",
        "cuda": "12.4",
        "torch": "2.8.0",
        "ray": "2.55.0",
        "python": "3.11.9",
        "host_cpu_count": 8,
        "node_count": 1,
        "threads_per_worker": None,
    }
    return Environment(**{**figures, **changes})


def make_telemetry(**changes: Any) -> Telemetry:
    """A GPU that nothing disturbed."""
    facts: dict[str, Any] = {
        "sample_count": 10,
        "gpu_utilisation_fraction": 0.9,
        "memory_utilisation_fraction": 0.5,
        "sm_clock_hz": 1.4e9,
        "sm_clock_max_hz": 1.7e9,
        "power_w": 200.0,
        "power_limit_w": 300.0,
        "temperature_max_c": 60.0,
        "energy_j": 100.0,
        "throttle_reasons": (),
        "other_process_count": 0,
    }
    return Telemetry(**{**facts, **changes})


def make_measurement(
    config: TrialConfig | None = None,
    *,
    step_time_s: float = 0.5,
    peak_memory_bytes: int = 6 * GIB,
    **changes: Any,
) -> Measurement:
    """Twelve equal steps; peak memory as given, on every rank."""
    config = config or make_config()
    series = Series(accumulation=config.accumulation, step_times_s=(step_time_s,) * 12)
    figures: dict[str, Any] = {
        "series": (series,),
        "is_steady": True,
        "half_width_fraction": 0.01,
        "warmup_step_count": 3,
        "startup_s": 1.0,
        "first_step_s": 2 * step_time_s,
        "trial_s": 20 * step_time_s,
        "peak_allocated_bytes": (peak_memory_bytes,) * config.gpu_count,
        "peak_reserved_bytes": (peak_memory_bytes,) * config.gpu_count,
        "losses": (2.5, 2.4, 2.3),
        "phases": None,
        "telemetry": None,
        "environment": make_environment(),
    }
    return Measurement(config=config, **{**figures, **changes})


def make_noise(scale: float, *, checkpoint: str | None = None) -> GradientNoise:
    """Gradients whose noise scale is exactly ``scale`` samples."""
    draw = GradientDraw(small_square=1 + scale / 8, big_square=1 + scale / 64)
    return GradientNoise(small_batch_size=8, big_batch_size=64, draws=(draw,) * 20, checkpoint=checkpoint)


def make_failure(config: TrialConfig | None = None, **changes: Any) -> Failure:
    """Out of memory unless changed."""
    facts: dict[str, Any] = {
        "kind": FailureKind.OUT_OF_MEMORY,
        "reason": "CUDA out of memory: tried to allocate 2.00 GiB",
        "trial_s": 12.0,
    }
    return Failure(config=config or make_config(), **{**facts, **changes})


def make_trace(**changes: Any) -> Trace:
    """One matrix product and its optimizer step."""
    matmul = Operation(
        name="aten.mm", kind=OperationClass.MATMUL, dtype="float32", shape=(1, 512, 512, 512), count=24,
        flops=2.0 * 512**3, bytes=3.0 * 4 * 512**2,
    )  # fmt: skip
    update = Operation(
        name="aten._foreach_add", kind=OperationClass.OPTIMIZER, dtype="float32", shape=(262_144,), count=4,
        flops=262_144.0, bytes=3.0 * 4 * 262_144,
    )  # fmt: skip
    figures: dict[str, Any] = {
        "micro_batch_size": 2,
        "precision": Precision.FP32,
        "operations": (matmul, update),
        "peak_bytes": 64 * 1024**2,
        "parameter_bytes": 4 * 1_000_000,
        "gradient_bytes": 4 * 1_000_000,
        "optimizer_bytes": 8 * 1_000_000,
    }
    return Trace(**{**figures, **changes})


def make_profile(**changes: Any) -> WorkloadProfile:
    """A small transformer that was checked and traced."""
    figures: dict[str, Any] = {
        "adapter": Adapter.PLAIN,
        "parameter_count": 1_000_000,
        "trainable_parameter_count": 1_000_000,
        "sample_shape": "input_ids int64[128]",
        "loss": 4.17,
        "dataset_size": 32_000,
        "tokens_per_sample": None,
        "hint": TargetHint(),
        "block_count": 4,
        "clip_norm": None,
        "traces": (make_trace(),),
        "trace_note": "",
    }
    return WorkloadProfile(**{**figures, **changes})


def make_workload(**changes: Any) -> Workload:
    """A model file by name and hash only."""
    return Workload(**{"path": "/models/gpt.py", "sha256": "0123456789abcdef" * 4, **changes})


def make_estimate(
    expected: float, spread: float = 0.0, basis: Basis = Basis.PREDICTED, *, high: float | None = None
) -> Estimate:
    """``expected`` give or take a share ``spread`` of it; ``high`` on its own where it matters."""
    top = expected * (1 + spread) if high is None else high
    return Estimate(low=expected * (1 - spread), expected=expected, high=top, basis=basis)


@dataclass
class FakeEstimator:
    """Step time and memory by formula; what is in ``measured`` is measured. Counts its calls.

    ``step_s(config)`` is seconds per step, ``peak_bytes(config)`` bytes per worker; None means unknown.
    """

    step_s: Callable[[TrialConfig], float | None] = lambda config: 1.0 / config.gpu_count
    peak_bytes: Callable[[TrialConfig], float | None] = lambda config: config.micro_batch_size * GIB / 4
    spread: float = 0.3
    measured_spread: float = 0.02
    measured: Iterable[TrialConfig] = ()
    host_share: float | None = None  # of the step, that no faster GPU shortens
    step_calls: list[tuple[TrialConfig, Hardware]] = field(default_factory=list)
    memory_calls: list[tuple[TrialConfig, Hardware]] = field(default_factory=list)

    def step_time_s(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        self.step_calls.append((config, hardware))
        seconds = self.step_s(config)
        if seconds is None:
            return None
        if config in self.measured:
            return make_estimate(seconds, self.measured_spread, Basis.MEASURED)
        return make_estimate(seconds, self.spread)

    def peak_memory_bytes(self, config: TrialConfig, hardware: Hardware) -> Estimate | None:
        self.memory_calls.append((config, hardware))
        peak = self.peak_bytes(config)
        if peak is None:
            return None
        if config in self.measured:
            return make_estimate(peak, 0.0, Basis.MEASURED)
        return make_estimate(peak, 0.1)

    def usable_memory_bytes(self, config: TrialConfig, gpu: Gpu, memory_bytes: int) -> int:
        return usable_memory_bytes(gpu.kind, memory_bytes, config)

    def host_fraction(self, config: TrialConfig, hardware: Hardware) -> float | None:
        return self.host_share
