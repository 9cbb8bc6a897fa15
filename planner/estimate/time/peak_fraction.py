"""The share of a chip's peak that a measured step achieved: model FLOPs utilisation (MFU).

Model FLOPs are those of the operations that the model defines, two per multiply-add, forward once and
backward twice (Chowdhery et al., PaLM, 2022, appendix B): what activation checkpointing or flash attention's
backward pass computes again is no work done. So every technique of one model is held against the same FLOPs.
The peak is the catalog's dense figure of the unit that the precision uses; on CPU, of all the host's vCPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalogs.gpus import DeviceKind, Gpu
from planner.estimate.setting import vcpus_used
from planner.estimate.time.chips import peak_flop_per_s
from trials.api import Measurement, OperationClass, Trace, TraceMode

ATTENTION_BACKWARD_FRACTION = 4 / 5  # five products run in the fused backward pass, one of them a repetition


def peak_fraction(measurement: Measurement, traces: Sequence[Trace], gpus: Mapping[str, Gpu]) -> float | None:
    """Achieved model FLOP/s over the peak of all devices; None where the FLOPs or the peak are not known."""
    config = measurement.config
    gpu = gpus.get(config.gpu)
    peak = None if gpu is None else peak_flop_per_s(gpu, config.precision)
    flops = micro_batch_flops(traces, config.micro_batch_size)
    if gpu is None or peak is None or flops is None:
        return None
    is_cpu = gpu.kind is DeviceKind.CPU
    units = vcpus_used(measurement) * config.node_count if is_cpu else config.gpu_count
    achieved = flops * config.accumulation * config.gpu_count / measurement.step_time_s
    return achieved / (peak * units)


def micro_batch_flops(traces: Sequence[Trace], micro_batch_size: int) -> float | None:
    """Model FLOPs of one worker's micro batch: on the line through the traced sizes; None without a trace."""
    by_size = {
        one.micro_batch_size: model_flops(one)
        for one in traces
        if not one.techniques and one.mode is TraceMode.TRAINING
    }
    if not by_size:
        return None
    low, high = min(by_size), max(by_size)
    if low == high:
        return by_size[low] * micro_batch_size / low
    slope = (by_size[high] - by_size[low]) / (high - low)
    return by_size[low] + slope * (micro_batch_size - low)


def model_flops(trace: Trace) -> float:
    """FLOPs of a trace without checkpointing, less what the fused attention's backward pass repeats."""
    return sum(
        one.flops
        * one.count
        * (
            ATTENTION_BACKWARD_FRACTION
            if one.kind is OperationClass.ATTENTION and "backward" in one.name
            else 1.0
        )
        for one in trace.operations
    )
