from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
import torch

from trials.measuring.telemetry import Sample, Sampler, gpu_reader, read_card, summarise

SAMPLE = Sample(
    gpu_utilisation_fraction=0.5,
    memory_utilisation_fraction=0.25,
    sm_clock_hz=1.4e9,
    sm_clock_max_hz=1.8e9,
    power_w=200.0,
    power_limit_w=300.0,
    temperature_c=60.0,
    energy_j=1000.0,
    throttle_bits=0,
    other_process_count=0,
)


@dataclass
class FakeNvml:
    """Answers like pynvml for one card."""

    throttle_bits: int = 0
    process_count: int = 1

    def nvmlDeviceGetUtilizationRates(self, card: str) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=80, memory=40)

    def nvmlDeviceGetClockInfo(self, card: str, kind: int) -> int:  # noqa: N802
        return 1410

    def nvmlDeviceGetMaxClockInfo(self, card: str, kind: int) -> int:  # noqa: N802
        return 1980

    def nvmlDeviceGetPowerUsage(self, card: str) -> int:  # noqa: N802
        return 250_000

    def nvmlDeviceGetEnforcedPowerLimit(self, card: str) -> int:  # noqa: N802
        return 400_000

    def nvmlDeviceGetTemperature(self, card: str, sensor: int) -> int:  # noqa: N802
        return 61

    def nvmlDeviceGetTotalEnergyConsumption(self, card: str) -> int:  # noqa: N802
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceGetCurrentClocksEventReasons(self, card: str) -> int:  # noqa: N802
        return self.throttle_bits

    def nvmlDeviceGetComputeRunningProcesses(self, card: str) -> list[str]:  # noqa: N802
        return ["process"] * self.process_count


def test_units_are_base_units_and_what_a_card_does_not_tell_is_none() -> None:
    sample = read_card(FakeNvml(process_count=3), "card")
    assert sample == Sample(
        gpu_utilisation_fraction=0.8,
        memory_utilisation_fraction=0.4,
        sm_clock_hz=1.41e9,
        sm_clock_max_hz=1.98e9,
        power_w=250.0,
        power_limit_w=400.0,
        temperature_c=61.0,
        energy_j=None,
        throttle_bits=0,
        other_process_count=2,
    )


def test_summary_takes_medians_the_hottest_and_the_energy_between() -> None:
    changes = [(0.2, 60.0, 1000.0), (0.9, 70.0, 1500.0), (0.8, 65.0, 1900.0)]
    telemetry = summarise(
        [
            Sample(
                **{
                    **vars_of(SAMPLE),
                    "gpu_utilisation_fraction": use,
                    "temperature_c": heat,
                    "energy_j": energy,
                }
            )
            for use, heat, energy in changes
        ]
    )
    assert telemetry.sample_count == 3
    assert telemetry.gpu_utilisation_fraction == 0.8
    assert telemetry.temperature_max_c == 70.0
    assert telemetry.energy_j == 900.0
    assert telemetry.sm_clock_hz == 1.4e9


def test_throttling_counts_from_a_tenth_of_the_samples() -> None:
    hot = pynvml.nvmlClocksEventReasonHwThermalSlowdown
    idle = pynvml.nvmlClocksEventReasonGpuIdle
    samples = [read_card(FakeNvml(throttle_bits=hot | idle), "card")] + [SAMPLE] * 10
    assert summarise(samples).throttle_reasons == ()
    assert summarise(samples[:5]).throttle_reasons == ("thermal slowdown (hardware)",)


def test_sampler_reads_at_both_ends_of_its_block() -> None:
    energies = iter(range(100))

    def read() -> Sample:
        return Sample(**{**vars_of(SAMPLE), "energy_j": float(next(energies))})

    with Sampler(read, period_s=60.0) as sampler:
        pass
    assert sampler.telemetry is not None
    assert (sampler.telemetry.sample_count, sampler.telemetry.energy_j) == (2, 1.0)


def test_without_a_card_there_is_no_telemetry_and_no_error() -> None:
    assert gpu_reader(torch.device("cpu")) is None
    with Sampler(None) as sampler:
        pass
    assert sampler.telemetry is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_real_card_answers() -> None:
    read = gpu_reader(torch.device("cuda:0"))
    assert read is not None
    assert read().power_w is not None


def vars_of(sample: Sample) -> dict[str, Any]:
    return {name: getattr(sample, name) for name in Sample.__dataclass_fields__}
