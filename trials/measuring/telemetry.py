"""NVML while the steps are timed: utilisation, clocks, power, temperature, throttling, other processes.

A thread reads the card about ten times a second; without NVML or a GPU there is no telemetry, and no error.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import pynvml
import torch

from trials.measurement import Telemetry

T = TypeVar("T")

THROTTLE_REASONS = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "power cap",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "thermal slowdown (software)",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "thermal slowdown (hardware)",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
}
THROTTLED_SHARE = 0.1  # of the samples, from which a reason counts: single ones come with every clock change


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reading of a card; None where it does not tell."""

    gpu_utilisation_fraction: float | None
    memory_utilisation_fraction: float | None
    sm_clock_hz: float | None
    sm_clock_max_hz: float | None
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None
    energy_j: float | None  # since the driver was loaded
    throttle_bits: int
    other_process_count: int


class Sampler:
    """Reads a card in the background while its ``with`` block runs; does nothing without a reader."""

    def __init__(self, read: Callable[[], Sample] | None, period_s: float = 0.1) -> None:
        self._read = read
        self._period_s = period_s
        self._samples: list[Sample] = []
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def __enter__(self) -> Sampler:
        if self._read is not None:
            self._samples.append(self._read())
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_ended.set()
        if self._read is not None:
            self._thread.join()
            self._samples.append(self._read())

    def _run(self) -> None:
        assert self._read is not None
        while not self._has_ended.wait(self._period_s):
            self._samples.append(self._read())

    @property
    def telemetry(self) -> Telemetry | None:
        """The samples in short; None if there are none."""
        return summarise(self._samples) if self._samples else None


def summarise(samples: Sequence[Sample]) -> Telemetry:
    """Medians of at least one sample; the energy is the last reading less the first."""
    energies = [one.energy_j for one in samples if one.energy_j is not None]
    return Telemetry(
        sample_count=len(samples),
        gpu_utilisation_fraction=_median(one.gpu_utilisation_fraction for one in samples),
        memory_utilisation_fraction=_median(one.memory_utilisation_fraction for one in samples),
        sm_clock_hz=_median(one.sm_clock_hz for one in samples),
        sm_clock_max_hz=_median(one.sm_clock_max_hz for one in samples),
        power_w=_median(one.power_w for one in samples),
        power_limit_w=_median(one.power_limit_w for one in samples),
        temperature_max_c=max(
            (one.temperature_c for one in samples if one.temperature_c is not None), default=None
        ),
        energy_j=energies[-1] - energies[0] if energies else None,
        throttle_reasons=_throttle_reasons(samples),
        other_process_count=max(one.other_process_count for one in samples),
    )


def all_ranks(found: Sequence[Telemetry]) -> Telemetry | None:
    """What the GPUs of several ranks told, as one; None if none did. No GPU's trouble is averaged away."""
    if not found:
        return None

    def middle(name: str) -> float | None:
        return _median(getattr(rank, name) for rank in found)

    return Telemetry(
        sample_count=sum(rank.sample_count for rank in found),
        gpu_utilisation_fraction=middle("gpu_utilisation_fraction"),
        memory_utilisation_fraction=middle("memory_utilisation_fraction"),
        sm_clock_hz=middle("sm_clock_hz"),
        sm_clock_max_hz=middle("sm_clock_max_hz"),
        power_w=middle("power_w"),
        power_limit_w=middle("power_limit_w"),
        temperature_max_c=max(
            (rank.temperature_max_c for rank in found if rank.temperature_max_c is not None), default=None
        ),
        energy_j=middle("energy_j"),
        throttle_reasons=tuple(dict.fromkeys(reason for rank in found for reason in rank.throttle_reasons)),
        other_process_count=max(rank.other_process_count for rank in found),
    )


def _throttle_reasons(samples: Sequence[Sample]) -> tuple[str, ...]:
    return tuple(
        reason
        for bit, reason in THROTTLE_REASONS.items()
        if sum(bool(one.throttle_bits & bit) for one in samples) > THROTTLED_SHARE * len(samples)
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def gpu_reader(device: torch.device) -> Callable[[], Sample] | None:
    """Reads the card behind a CUDA device; None on CPU or without NVML."""
    if device.type != "cuda":
        return None
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
    except pynvml.NVMLError:
        return None
    return lambda: read_card(pynvml, handle)


def read_card(nvml: Any, handle: Any) -> Sample:
    """One reading through ``nvml``, the pynvml module or what answers like it."""

    def ask(name: str, *arguments: Any) -> Any:
        try:
            return getattr(nvml, name)(handle, *arguments)
        except pynvml.NVMLError:  # not told by this card or to this user
            return None

    use = ask("nvmlDeviceGetUtilizationRates")
    processes = ask("nvmlDeviceGetComputeRunningProcesses") or []
    return Sample(
        gpu_utilisation_fraction=None if use is None else use.gpu / 100,
        memory_utilisation_fraction=None if use is None else use.memory / 100,
        sm_clock_hz=_times(ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM), 1e6),
        sm_clock_max_hz=_times(ask("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM), 1e6),
        power_w=_times(ask("nvmlDeviceGetPowerUsage"), 1e-3),
        power_limit_w=_times(ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
        temperature_c=_times(ask("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU), 1.0),
        energy_j=_times(ask("nvmlDeviceGetTotalEnergyConsumption"), 1e-3),
        throttle_bits=ask("nvmlDeviceGetCurrentClocksEventReasons") or 0,
        other_process_count=max(len(processes) - 1, 0),  # one is this worker, under whatever process id
    )


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def driver_version() -> str | None:
    """The NVIDIA driver's version; None without one."""
    try:
        pynvml.nvmlInit()
        version: str | bytes = pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError:
        return None
    return version.decode() if isinstance(version, bytes) else version
