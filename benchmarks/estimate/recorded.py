"""Recorded rows as measurements of the product, and the chips that they were recorded on.

The estimator sees nothing but what a user's own trials would give it: a configuration, step times, where.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from catalogs.gpus import Gpu, load_gpus
from trials.measurement import Environment, Measurement, Series
from trials.profile import Adapter, TargetHint, Trace, WorkloadProfile
from trials.trial import Parallelism, Precision, TrialConfig


def chips() -> dict[str, Gpu]:
    """The catalog, and chips of the recordings that no provider rents out any more.

    GeForce GTX 1080 Ti and TITAN Xp: NVIDIA's product pages (GP102, Pascal, no usable fp16 unit; the
    recordings ran fp16 there, in fp32 arithmetic). TITAN V: NVIDIA's product page (GV100, three of four
    memory stacks).
    """
    gpus = load_gpus()
    pascal = replace(
        gpus["P40-24GB"],
        name="GTX-1080-TI",
        device_names=(),
        bandwidth_bytes_per_s=484e9,
        fp32_flop_per_s=11.3e12,
        fp16_flop_per_s=11.3e12,
        sm_count=28,
        power_w=250.0,
    )
    titan_xp = replace(
        pascal,
        name="TITAN-XP",
        bandwidth_bytes_per_s=548e9,
        fp32_flop_per_s=12.1e12,
        fp16_flop_per_s=12.1e12,
        sm_count=30,
    )
    titan_v = replace(
        gpus["V100-PCIE-16GB"],
        name="TITAN-V",
        device_names=(),
        bandwidth_bytes_per_s=653e9,
        fp32_flop_per_s=14.9e12,
        fp16_flop_per_s=110e12,
        l2_cache_bytes=int(4.5 * 1024**2),
    )
    return {**gpus, **{one.name: one for one in (pascal, titan_xp, titan_v)}}


def config_of(gpu: str, precision: Precision, micro_batch_size: int, gpu_count: int = 1) -> TrialConfig:
    """One worker's step, no accumulation."""
    return TrialConfig(
        gpu=gpu,
        gpu_count=gpu_count,
        micro_batch_size=micro_batch_size,
        accumulation=1,
        precision=precision,
        parallelism=Parallelism.SINGLE,
    )


def measurement_of(config: TrialConfig, step_s: float) -> Measurement:
    """A recorded time as a trial would report it."""
    environment = Environment(
        device_name=config.gpu,
        device_memory_bytes=1,
        driver=None,
        cuda=None,
        torch="recorded",
        ray=None,
        python="recorded",
        host_cpu_count=1,
        node_count=config.node_count,
        threads_per_worker=None,
    )
    return Measurement(
        config=config,
        series=(Series(accumulation=config.accumulation, step_times_s=(step_s,)),),
        is_steady=True,
        half_width_fraction=0.01,
        warmup_step_count=0,
        startup_s=0.0,
        first_step_s=step_s,
        trial_s=step_s,
        peak_allocated_bytes=(1,),
        peak_reserved_bytes=None,
        losses=(),
        phases=None,
        telemetry=None,
        environment=environment,
    )


def profile_of(
    parameter_count: int = 0,
    traces: Iterable[Trace] = (),
    *,
    block_count: int = 0,
    tokens_per_sample: int | None = None,
) -> WorkloadProfile:
    """What `planner check` would know of a recorded model; 0 parameters where its size was not published."""
    return WorkloadProfile(
        adapter=Adapter.PLAIN,
        parameter_count=parameter_count,
        trainable_parameter_count=parameter_count,
        sample_shape="",
        loss=0.0,
        dataset_size=None,
        tokens_per_sample=tokens_per_sample,
        hint=TargetHint(),
        block_count=block_count,
        clip_norm=None,
        traces=tuple(traces),
        trace_note="",
    )
