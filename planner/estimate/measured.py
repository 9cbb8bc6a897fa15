"""What was measured, a line for each setting, with the hardware that it was measured on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from catalogs.gpus import Gpu, Link
from planner.estimate.line import Line, fit_line
from planner.estimate.setting import Setting, setting_of, vcpus_used
from planner.estimate.values import Hardware
from trials.trial import Measurement, TrialConfig

_MEASURED_NETWORK_BYTES_PER_S = 50e9
"""Between measured nodes with NVLink, which are sold with 400 Gbit/s or more; nobody measured it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A measured setting: its line, and the hardware that it was measured on."""

    setting: Setting
    line: Line
    hardware: Hardware
    config: TrialConfig  # of one of its measurements

    def config_at(self, micro_batch_size: int, accumulation: int) -> TrialConfig:
        """The setting's configuration at another batch."""
        return replace(self.config, micro_batch_size=micro_batch_size, accumulation=accumulation)


OptimizerTime = Callable[[TrialConfig, Hardware], float | None]


def sources_of(
    measurements: Sequence[Measurement],
    gpus: Mapping[str, Gpu],
    optimizer_s: OptimizerTime = lambda _config, _hardware: None,
) -> tuple[Source, ...]:
    """One source per measured setting; measurements on chips that ``gpus`` lacks are left out.

    Args:
        measurements: of one workload.
        gpus: catalog by name.
        optimizer_s: expected time of the optimizer, for settings whose phases were not measured; None
            where nothing is expected.
    """
    groups: dict[Setting, list[Measurement]] = {}
    for one in measurements:
        gpu = gpus.get(one.config.gpu)
        if gpu is not None:
            setting = setting_of(one.config, gpu, vcpus_used(one))
            groups.setdefault(setting, []).append(one)
    sources = []
    for setting, group in groups.items():
        config, gpu = group[-1].config, gpus[setting.gpu]
        hardware = hardware_measured(gpu, vcpus_used(group[-1]))
        line = fit_line(group, optimizer_s(config, hardware))
        sources.append(Source(setting=setting, line=line, hardware=hardware, config=config))
    return tuple(sources)


def hardware_measured(gpu: Gpu, vcpus: int | None) -> Hardware:
    """What a trial ran on: the chip with its own link, and the host's cores."""
    return Hardware(
        gpu=gpu,
        link=gpu.link,
        vcpus=vcpus,
        network_bytes_per_s=_MEASURED_NETWORK_BYTES_PER_S if gpu.link is Link.NVLINK else None,
    )
