"""Where the time of a measured step goes, what its bottleneck is, and what faster hardware would gain."""

from __future__ import annotations

from pydantic import Field

from planner.estimate.time.bottleneck import FASTER_GPU_FACTOR, Bottleneck, BottleneckKind
from planner.reports import formats
from planner.reports.content import Section, texts
from planner.reports.labels import configuration
from planner.reports.models import ConfigJson, JsonModel
from planner.reports.report import Report
from trials.api import Phases

_FACTOR = f"{FASTER_GPU_FACTOR:g}"
_MEANING = {
    BottleneckKind.INPUT: "the devices wait for data",
    BottleneckKind.LAUNCH: "the devices wait for the CPU to launch their kernels",
    BottleneckKind.COMMUNICATION: "the workers wait for each other's gradients",
    BottleneckKind.COMPUTE: "arithmetic takes the longest",
    BottleneckKind.MEMORY: "reading and writing memory takes the longest",
    BottleneckKind.DEVICE: "the device's own work takes the longest",
}


class LoadersJson(JsonModel):
    """What more loader workers would gain."""

    loader_worker_count: int = Field(validation_alias="worker_count")
    speed_ratio: float


class BottleneckJson(JsonModel):
    """The split of a measured step."""

    configuration: ConfigJson = Field(validation_alias="config")
    phases: Phases
    bound: BottleneckKind
    bound_fraction: float = Field(validation_alias="fraction")
    twice_as_fast_device_speed_ratio: float = Field(validation_alias="faster_gpu_ratio")
    loaders: LoadersJson | None


class Data(JsonModel):
    """Null where no step was split."""

    binding: BottleneckJson | None


def section(report: Report) -> Section:
    """Of the winner's configuration where it was measured, else of the fastest that was."""
    return Section(
        title="Bottleneck of the step",
        blocks=texts(" ".join(binding_lines(report))),
        data=Data.model_validate(report),
    )


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
