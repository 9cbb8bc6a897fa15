"""Where a measured step goes, what binds it and what faster hardware would not buy, in words."""

from __future__ import annotations

from planner.estimate.time.bottleneck import FASTER_GPU_FACTOR, Bottleneck, BottleneckKind
from planner.reports import formats
from planner.reports.labels import configuration
from planner.reports.report import Report

_FACTOR = f"{FASTER_GPU_FACTOR:g}"
_MEANING = {
    BottleneckKind.INPUT: "the devices wait for data",
    BottleneckKind.LAUNCH: "the devices wait for the host to launch their work",
    BottleneckKind.COMMUNICATION: "the workers wait for each other's gradients",
    BottleneckKind.COMPUTE: "arithmetic takes the longest",
    BottleneckKind.MEMORY: "reading and writing memory takes the longest",
    BottleneckKind.DEVICE: "the device's own work takes the longest",
}


def binding_lines(report: Report) -> tuple[str, ...]:
    """The split of the measured step and what follows; empty where none was taken."""
    binding = report.binding
    if binding is None:
        return ()
    device = formats.times(binding.config.gpu_count, binding.config.gpu)
    return (
        f"{device}, {configuration(binding.config)}: a step of {formats.duration(binding.phases.step_s)} is "
        f"{_split(binding)}.",
        f"{_sentence(binding.bound)} ({_MEANING[binding.bound]}, {formats.percent(binding.fraction)} of the "
        f"step): {_gains(binding)}.",
    )


def _split(binding: Bottleneck) -> str:
    phases = binding.phases
    sync_s = phases.gradient_sync_s
    passes = "forward and backward" + (" with gradient synchronisation" if sync_s is None else "")
    parts = (
        ("data wait", phases.data_wait_s),
        ("host to device", phases.host_to_device_s),
        (passes, phases.forward_backward_s),
        ("gradient synchronisation", sync_s if binding.config.gpu_count > 1 else None),
        ("optimizer", phases.optimizer_s),
        ("idle", phases.other_s),
    )
    shares = [
        f"{formats.percent(seconds / phases.step_s)} {name}" for name, seconds in parts if seconds is not None
    ]
    return ", ".join(shares)


def _gains(binding: Bottleneck) -> str:
    loaders = binding.loaders
    faster = (
        f"a device {_FACTOR} times as fast would give {formats.ratio(binding.faster_gpu_ratio)} the speed"
    )
    if loaders is None:
        return faster
    gain = formats.ratio(loaders.speed_ratio)
    return f"{formats.counted(loaders.worker_count, 'loader worker')} would give {gain} the speed, {faster}"


def _sentence(bound: BottleneckKind) -> str:
    return bound.value[0].upper() + bound.value[1:]
