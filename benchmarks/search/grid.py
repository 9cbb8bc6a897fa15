"""A recorded grid, priced: every configuration with its true cost, and a bench that counts what trials cost.

A method sees nothing but what a sweep would: it asks the bench for a trial and is given a measurement, the
recorded step time off by 1% at random, and the bill for it. The target run is `RUN_S` long on the best
configuration, so that the price of a trial bears the same relation to the run in every data set.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache

from catalogs.gpus import Gpu, Link
from catalogs.offers import Offer, Pricing, load_offers
from planner.cost.defaults import PROVISIONING_S
from planner.cost.hours import SECONDS_PER_HOUR, held_usd
from planner.estimate import Basis, Estimate
from planner.search.market import expected_trial_s
from planner.target import Target
from trials.profile import WorkloadProfile
from trials.trial import Purpose, TrialConfig

RUN_S = 24 * 3600.0
NOISE_FRACTION = 0.01  # standard deviation of a measured time about the recorded one
RANDOM_USD_PER_GPU_HOUR = (0.40, 3.20)  # log-uniform, one draw for each GPU type and instance size
CATALOG, RANDOM = "catalog", "random"  # where the prices come from
STAND_INS = {  # nobody in the catalog rents these out: the card of the same chip, of the same memory
    "A40-48GB": "RTX-A6000-48GB",
    "QUADRO-RTX-6000-24GB": "A10-24GB",
}

Shape = tuple[str, int]  # GPU and how many an instance has
Value = float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A configuration that was recorded."""

    values: tuple[Value, ...]  # along the grid's dimensions: what a black-box method sees
    config: TrialConfig  # what the product sees; of vtrain only the count and the micro batch say something
    step_s: float
    samples: float  # of the target run, up to the factor that makes it `RUN_S` long


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One workload's recording."""

    data_set: str
    name: str
    dimensions: tuple[str, ...]
    points: tuple[Point, ...]
    instance_sizes: Mapping[str, tuple[int, ...]]  # by GPU: what can be rented, in GPUs
    profile: WorkloadProfile  # what is known of the model without running it
    network_bytes_per_s: Mapping[str, float] = field(default_factory=dict)  # of a node, by GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """One offer for each GPU type and instance size."""

    offers: tuple[Offer, ...]

    @classmethod
    def of(cls, grid: Grid, gpus: Mapping[str, Gpu], source: str, seed: int) -> Prices:
        """The catalog's cheapest on demand, or a random vector."""
        draw = random.Random(f"{grid.data_set} {grid.name} {seed}")
        low, high = (math.log(one) for one in RANDOM_USD_PER_GPU_HOUR)
        offers = []
        for name, sizes in sorted(grid.instance_sizes.items()):
            for size in sizes:
                drawn = math.exp(draw.uniform(low, high))
                usd = catalog_usd_per_gpu_hour(name, size) if source == CATALOG else drawn
                offers.append(_offer(gpus[name], size, usd * size, grid.network_bytes_per_s.get(name)))
        return cls(offers=tuple(offers))

    def usd_per_gpu_hour(self, gpu: str) -> float:
        """What an hour of one GPU costs in a trial: where it is cheapest, as the product counts."""
        return min(one.price_usd_per_gpu_hour for one in self.offers if one.gpu == gpu)

    def carrier(self, config: TrialConfig) -> Offer:
        """The cheapest instances that carry the configuration."""
        return min(
            (
                one
                for one in self.offers
                if one.gpu == config.gpu and one.gpu_count * config.node_count >= config.gpu_count
            ),
            key=lambda one: one.price_usd_per_hour,
        )

    def run_usd(self, config: TrialConfig, target: Target, step_s: Estimate) -> Estimate:
        """The target run on the cheapest instances that carry it: rent from the request to the last step."""
        usd_per_s = self.carrier(config).price_usd_per_hour * config.node_count / SECONDS_PER_HOUR
        low, expected, high = (
            (PROVISIONING_S + target.step_count * one) * usd_per_s
            for one in (step_s.low, step_s.expected, step_s.high)
        )
        return Estimate(low=low, expected=expected, high=high, basis=step_s.basis)


@dataclass(slots=True, kw_only=True)
class Bench:
    """One grid under one price vector and one seed; what a method has tried and paid so far."""

    grid: Grid
    prices: Prices
    seed: int
    run_s: float = RUN_S
    tried: dict[int, float] = field(default_factory=dict)  # point -> observed cost of the target run
    spent_usd: list[float] = field(default_factory=list)  # after each trial
    best: list[int] = field(default_factory=list)  # after each trial: the point of the least observed cost
    stopped_after: int | None = None  # trials, where the method said that it was done
    true_usd: list[float] = field(init=False)
    _targets: list[Target] = field(init=False)

    def __post_init__(self) -> None:
        points = self.grid.points
        self._targets = [_target(one, 1.0) for one in points]
        once = [self._true(index) for index in range(len(points))]
        best = min(range(len(points)), key=lambda index: once[index])
        whole_s = self._targets[best].step_count * points[best].step_s
        self._targets = [_target(one, self.run_s / whole_s) for one in points]
        self.true_usd = [self._true(index) for index in range(len(points))]

    def target(self, index: int) -> Target:
        """The run that a point would do; the recordings have batch sizes of their own."""
        return self._targets[index]

    def step_s(self, index: int) -> float:
        """As a trial measures it: the same however often it is asked."""
        noise = random.Random(f"{self.grid.data_set} {self.grid.name} {self.seed} {index}")
        return self.grid.points[index].step_s * math.exp(noise.gauss(0.0, NOISE_FRACTION))

    def trial_s(self, index: int) -> float:
        """Wall time of a trial, as the product expects it."""
        point = self.grid.points[index]
        return expected_trial_s(point.config, Purpose.SEARCH, point.step_s, ())

    def trial_usd(self, config: TrialConfig, trial_s: float) -> float:
        """For the devices of a trial, at the price of where they are cheapest."""
        usd = held_usd(trial_s, config.gpu_count, self.prices.usd_per_gpu_hour(config.gpu))
        assert usd is not None
        return usd

    def trial(self, index: int) -> float:
        """Try a point: its observed cost. Asking again is answered from memory and costs nothing."""
        if index not in self.tried:
            config = self.grid.points[index].config
            usd = self.trial_usd(config, self.trial_s(index))
            self.tried[index] = self.prices.run_usd(
                config, self._targets[index], exact(self.step_s(index))
            ).expected
            self.spent_usd.append((self.spent_usd[-1] if self.spent_usd else 0.0) + usd)
            self.best.append(min(self.tried, key=lambda one: self.tried[one]))
        return self.tried[index]

    def stop(self) -> None:
        """The method is done of its own accord."""
        self.stopped_after = len(self.tried)

    def untried(self) -> Iterator[int]:
        """Points without a trial."""
        return (index for index in range(len(self.grid.points)) if index not in self.tried)

    def regrets(self) -> list[float]:
        """After each trial: the extra true cost of the run on what was observed best, as a fraction."""
        least = min(self.true_usd)
        return [self.true_usd[one] / least - 1.0 for one in self.best]

    def spent_fractions(self) -> list[float]:
        """After each trial: the money spent as a fraction of the best run's cost."""
        least = min(self.true_usd)
        return [one / least for one in self.spent_usd]

    def _true(self, index: int) -> float:
        point = self.grid.points[index]
        return self.prices.run_usd(point.config, self._targets[index], exact(point.step_s)).expected


def exact(value: float) -> Estimate:
    """A number without doubt."""
    return Estimate(low=value, expected=value, high=value, basis=Basis.MEASURED)


@cache
def catalog_usd_per_gpu_hour(gpu: str, size: int) -> float:
    """Cheapest on demand in instances of ``size``; of any size where there is no such instance."""
    name = STAND_INS.get(gpu, gpu)
    mine = [one for one in load_offers() if one.gpu == name and one.pricing is Pricing.ON_DEMAND]
    fitting = [one for one in mine if one.gpu_count == size] or mine
    return min(one.price_usd_per_gpu_hour for one in fitting)


def axis(values: Sequence[Value]) -> list[Value]:
    """The distinct values of a dimension in order."""
    return sorted(set(values), key=lambda one: (isinstance(one, str), one))


def _target(point: Point, factor: float) -> Target:
    return Target(
        samples=max(1, round(point.samples * factor)), global_batch_size=point.config.global_batch_size
    )


def _offer(gpu: Gpu, size: int, usd_per_hour: float, network_bytes_per_s: float | None) -> Offer:
    return Offer(
        provider="replay",
        instance_type=f"{size}x{gpu.name}",
        region="",
        pricing=Pricing.ON_DEMAND,
        gpu=gpu.name,
        gpu_count=size,
        vcpus=8 * size,
        memory_bytes=gpu.memory_bytes * size,
        gpu_link=gpu.link if size > 1 else Link.NONE,
        network_bytes_per_s=network_bytes_per_s,
        price_usd_per_hour=usd_per_hour,
        billing_increment_s=1,
        source="replay",
        as_of=date(2025, 11, 1),
    )
