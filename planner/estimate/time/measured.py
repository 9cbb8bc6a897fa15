"""What was measured, a line for each setting, with the hardware that it was measured on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from catalogs.gpus import Gpu
from planner.estimate.setting import Setting, hardware_measured, setting_measured, vcpus_used
from planner.estimate.software_stack import StackChange, stack_changes
from planner.estimate.time.line import StepTimeLine, fit_line
from planner.estimate.values import Hardware
from trials.api import Measurement, TrialConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSetting:
    """A measured setting: its line, and the hardware that it was measured on."""

    setting: Setting
    stack_change: StackChange | None  # to the newest stack; None for one measured under it
    line: StepTimeLine
    hardware: Hardware
    config: TrialConfig  # of one of its measurements

    @property
    def stack_ratio(self) -> float:
        """Step time under the newest stack over that measured."""
        return 1.0 if self.stack_change is None else math.exp(self.stack_change.log_ratio)

    def config_at(self, micro_batch_size: int, accumulation: int) -> TrialConfig:
        """The setting's configuration at another batch."""
        return replace(self.config, micro_batch_size=micro_batch_size, accumulation=accumulation)


OptimizerTime = Callable[[TrialConfig, Hardware], float | None]


def measured_settings(
    measurements: Sequence[Measurement],
    gpus: Mapping[str, Gpu],
    optimizer_s: OptimizerTime = lambda _config, _hardware: None,
) -> tuple[MeasuredSetting, ...]:
    """One source per measured setting; measurements on chips that ``gpus`` lacks are left out.

    Args:
        measurements: of one workload.
        gpus: catalog by name.
        optimizer_s: expected time of the optimizer, for settings whose phases were not measured; None
            where nothing is expected.
    """
    changes = stack_changes(measurements)
    groups: dict[Setting, list[Measurement]] = {}
    for one in measurements:
        gpu = gpus.get(one.config.gpu)
        if gpu is not None:
            setting = setting_measured(one, gpu, changes)
            groups.setdefault(setting, []).append(one)
    sources = []
    for setting, group in groups.items():
        config, gpu = group[-1].config, gpus[setting.gpu]
        hardware = hardware_measured(gpu, vcpus_used(group[-1]))
        line = fit_line(group, optimizer_s(config, hardware))
        change = None if setting.older_stack is None else changes[setting.gpu, setting.older_stack]
        sources.append(
            MeasuredSetting(setting=setting, stack_change=change, line=line, hardware=hardware, config=config)
        )
    return tuple(sources)
