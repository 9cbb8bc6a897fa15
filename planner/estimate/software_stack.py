"""Software under a measurement (torch, CUDA, driver), and what an upgrade changed.

Step times of two stacks share no line. Those of an older one are evidence through their ratio to the newest:
the mean log ratio of configurations measured under both, shrunk towards none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

from planner.estimate.interval.lognormal import sigmas
from planner.estimate.values import Basis, Estimate
from trials.api import Environment, Measurement, TrialConfig

UPGRADE_LOG_SPREAD = (
    0.1  # believed of an upgrade before it is measured: kernels and launches change by some percent
)
PAIR_LOG_SPREAD = 0.03  # of one configuration's ratio about the mean: two runs of 2%


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SoftwareStack:
    """Versions as far as they change kernels: torch's release, CUDA's, the driver's branch."""

    torch: str
    cuda: str | None
    driver: str | None

    def since(self, older: SoftwareStack) -> str:
        """What is new against ``older``: "torch 2.8.0 (before: 2.7.1)"."""
        parts = (
            ("torch", self.torch, older.torch),
            ("CUDA", self.cuda, older.cuda),
            ("driver", self.driver, older.driver),
        )
        return " and ".join(
            f"{name} {new or 'unknown'} (before: {old or 'unknown'})"
            for name, new, old in parts
            if new != old
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StackChange:
    """Step time under the newest stack over that under an older one."""

    older: SoftwareStack
    newest: SoftwareStack
    log_ratio: float
    log_spread: float  # of the mean ratio
    pair_log_spread: float  # of one configuration's about it
    pair_count: int  # configurations measured under both

    @property
    def transfer_log_spread(self) -> float:
        """Of a step time carried over."""
        return math.hypot(self.log_spread, self.pair_log_spread)

    def ratio(self, confidence: float) -> Estimate:
        """The mean ratio with its interval."""
        reach = sigmas(confidence) * self.log_spread
        low, middle, high = (math.exp(self.log_ratio + shift) for shift in (-reach, 0.0, reach))
        return Estimate(low=low, expected=middle, high=high, basis=Basis.MEASURED)


Stacks = Mapping[tuple[str, SoftwareStack], StackChange]  # by GPU, every stack but its newest


def stack_of(environment: Environment) -> SoftwareStack:
    """The stack that a measurement was taken under."""
    driver = environment.driver
    return SoftwareStack(
        torch=environment.torch.split("+")[0],
        cuda=environment.cuda,
        driver=None if driver is None else driver.split(".")[0],
    )


def stack_changes(measurements: Sequence[Measurement]) -> Stacks:
    """What leads from each older stack of a GPU to its newest, which the GPU's last measurement has.

    Args:
        measurements: in the order in which they were taken.
    """
    newest = {one.config.gpu: stack_of(one.environment) for one in measurements}
    older = {(one.config.gpu, stack_of(one.environment)) for one in measurements}
    older -= set(newest.items())
    if not older:
        return {}
    times: dict[tuple[TrialConfig, SoftwareStack], float] = {
        (one.config, stack_of(one.environment)): math.log(one.step_time_s) for one in measurements
    }
    ratios: dict[tuple[SoftwareStack, SoftwareStack], list[float]] = {}
    for (config, stack), log_s in times.items():
        now = newest[config.gpu]
        if stack != now and (config, now) in times:
            ratios.setdefault((stack, now), []).append(times[config, now] - log_s)
    return {
        (gpu, stack): _change(stack, newest[gpu], ratios.get((stack, newest[gpu]), ()))
        for gpu, stack in sorted(older, key=str)
    }


def _change(older: SoftwareStack, newest: SoftwareStack, log_ratios: Sequence[float]) -> StackChange:
    """The posterior of a normal mean, ratios of all GPUs with the same two stacks together."""
    count = len(log_ratios)
    spread = max(PAIR_LOG_SPREAD, stdev(log_ratios)) if count > 1 else PAIR_LOG_SPREAD
    precision = UPGRADE_LOG_SPREAD**-2 + count / spread**2
    return StackChange(
        older=older,
        newest=newest,
        log_ratio=sum(log_ratios) / spread**2 / precision,
        log_spread=precision**-0.5,
        pair_log_spread=spread,
        pair_count=count,
    )
