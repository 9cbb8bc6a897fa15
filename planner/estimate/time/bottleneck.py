"""What a measured step is bound by, and what faster hardware would not buy. Pure.

A step's phases add up (data wait, copy, forward and backward, exposed synchronisation, optimizer, idle), so
what shortens one leaves the others: Amdahl's law with measured shares. Of forward and backward, what no
smaller batch avoids is the host's (launching operations) unless reading the weights explains it. What is
left is the device's own work, bound by arithmetic or by memory, whichever the roofline says takes longer
(Williams, Waterman and Patterson, 2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from catalogs.gpus import Gpu
from planner.estimate.time.chips import Chip, chip_of
from planner.estimate.time.loading import Loaders, best_loaders
from planner.estimate.values import Hardware
from planner.modes.chosen import traced_part
from trials.api import Measurement, OperationClass, Phases, Trace, TrialConfig, WorkloadProfile

FASTER_GPU_FACTOR = 2.0  # "a GPU twice as fast"
_WEIGHT_PASSES = 3  # forward, gradients of inputs and of weights each read or write every weight


class BottleneckKind(StrEnum):
    """The part of a step that takes the longest."""

    INPUT = "input-bound"
    LAUNCH = "launch-bound"
    COMMUNICATION = "communication-bound"
    COMPUTE = "compute-bound"
    MEMORY = "bound by memory bandwidth"
    DEVICE = "bound by the device"  # by arithmetic or by memory is not known without a trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """What binds the step of a measured configuration."""

    config: TrialConfig
    phases: Phases
    bound: BottleneckKind
    fraction: float  # of the step, in what binds it
    faster_gpu_ratio: float  # of the speed, with a GPU `FASTER_GPU_FACTOR` as fast and all else as it is
    loaders: Loaders | None  # None where there is no dataset to load, or nothing to gain


def bottleneck_of(
    measurement: Measurement, profile: WorkloadProfile | None, gpu: Gpu | None
) -> Bottleneck | None:
    """What binds the measured step; None where its phases were not taken.

    Args:
        measurement: with phases.
        profile: with the traces that tell arithmetic from memory; None where nobody traced.
        gpu: the device's figures; None where the catalog lacks it.
    """
    phases = measurement.phases
    if phases is None or phases.step_s <= 0:
        return None
    config = measurement.config
    trace = _nearest_trace(profile, config)
    vcpus = measurement.environment.host_cpu_count
    chip = None if gpu is None else chip_of(config, Hardware(gpu=gpu, link=gpu.link, vcpus=vcpus))
    launch_s = phases.launch_s or 0.0
    weights_s = _weights_s(trace, chip) * config.accumulation
    is_weights = weights_s > launch_s / 2
    device_s = phases.forward_backward_s - launch_s + phases.optimizer_s
    parts = {
        BottleneckKind.INPUT: phases.data_wait_s + phases.host_to_device_s,
        BottleneckKind.LAUNCH: phases.other_s + (0.0 if is_weights else launch_s),
        BottleneckKind.COMMUNICATION: phases.gradient_sync_s or 0.0,
        BottleneckKind.MEMORY: launch_s if is_weights else 0.0,
    }
    by_device = _by_device(profile, config, chip)
    parts[by_device] = parts.get(by_device, 0.0) + device_s
    bound, bound_s = max(parts.items(), key=lambda part: part[1])
    scaled_s = device_s + (launch_s if is_weights else 0.0)
    faster_s = phases.step_s - scaled_s * (1 - 1 / FASTER_GPU_FACTOR)
    has_dataset = profile is not None and profile.dataset_size is not None
    return Bottleneck(
        config=config,
        phases=phases,
        bound=bound,
        fraction=bound_s / phases.step_s,
        faster_gpu_ratio=phases.step_s / faster_s,
        loaders=best_loaders(measurement) if has_dataset else None,
    )


def _nearest_trace(profile: WorkloadProfile | None, config: TrialConfig) -> Trace | None:
    """The same technique before the same arithmetic before the nearest micro batch size."""
    traces = profile.traces if profile is not None else ()
    return min(
        traces,
        key=lambda one: (
            one.techniques != traced_part(config.techniques),
            one.precision != config.precision,
            abs(one.micro_batch_size - config.micro_batch_size),
        ),
        default=None,
    )


def _weights_s(trace: Trace | None, chip: Chip | None) -> float:
    """Least time to read the weights as often as a pass does; 0 where it is not known."""
    if trace is None or chip is None:
        return 0.0
    return _WEIGHT_PASSES * trace.parameter_bytes / chip.peak_bytes_per_s


def _by_device(profile: WorkloadProfile | None, config: TrialConfig, chip: Chip | None) -> BottleneckKind:
    """Whether arithmetic or memory takes longer over the operations of a step, each at its roofline."""
    operations = _operations(profile, config)
    if not operations or chip is None:
        return BottleneckKind.DEVICE
    compute_s = memory_s = 0.0
    for flops, bytes_, count in operations:
        flops_s, bytes_s = flops / chip.product_peak_flop_per_s, bytes_ / chip.peak_bytes_per_s
        if flops_s >= bytes_s:
            compute_s += flops_s * count
        else:
            memory_s += bytes_s * count
    return BottleneckKind.COMPUTE if compute_s >= memory_s else BottleneckKind.MEMORY


def _operations(profile: WorkloadProfile | None, config: TrialConfig) -> list[tuple[float, float, int]]:
    """FLOPs, bytes and times per step of each operation, at the micro batch size that was measured.

    What each operation does is linear in the batch, so two traced sizes give it at any; where they do not run
    the same operations the nearer one stands for it.
    """
    near = _nearest_trace(profile, config)
    if profile is None or near is None:
        return []
    alike = (
        one
        for one in profile.traces
        if (one.techniques, one.precision) == (near.techniques, near.precision)
        and one.micro_batch_size != near.micro_batch_size
        and [(each.name, each.kind, each.count) for each in one.operations]
        == [(each.name, each.kind, each.count) for each in near.operations]
    )
    far = next(alike, near)
    reach = 0.0
    if far is not near:
        reach = (config.micro_batch_size - near.micro_batch_size) / (
            far.micro_batch_size - near.micro_batch_size
        )
    return [
        (
            max(one.flops + reach * (other.flops - one.flops), 0.0),
            max(one.bytes + reach * (other.bytes - one.bytes), 0.0),
            one.count * (1 if one.kind is OperationClass.OPTIMIZER else config.accumulation),
        )
        for one, other in zip(near.operations, far.operations, strict=True)
    ]
