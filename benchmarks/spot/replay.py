"""The closed forms of planner/spot against replays of real preemptions.

SimulatedRun: python -m benchmarks.spot.replay [DATA] [--runs 600]    (DATA: the folder with spot/p3trace.csv)

Prints, for runs on one to sixteen instances, the expected billed time against the mean of replays, with the
rate taken from the whole record and with the rate of its first half held against its second; what the chosen
interval costs beyond the best of a grid; and what the policies were said to cost, against what they did.
"Own slot" is one instance that waits for its own replacement; "pool" is any so many of those that are up.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from benchmarks.estimate.scores import default_data
from benchmarks.spot.trace import Pool, PoolMarket, SlotMarket, read_pool
from catalogs.gpus import GIB, Link
from catalogs.offers import Offer, Pricing
from planner.cost.defaults import WAIT_S
from planner.cost.spot.compare import compare_policies, fallback_interval_s
from planner.cost.spot.history import replacement_wait_s
from planner.cost.spot.interval import best_interval_s
from planner.cost.spot.job import Restart, SaveCost, SpotJob
from planner.cost.spot.policy import Policy
from planner.cost.spot.segments import means
from planner.cost.spot.simulation import SimulatedRun, run_on_spot, run_with_fallback
from planner.estimate.values import Basis, Estimate

HOUR_S = 3600.0
POOL_TARGET = 32
RESTART = Restart(provisioning_s=150.0, set_up_s=60.0, load_s=30.0)
SAVE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run to be replayed; ``is_slot`` for one instance with its own replacement."""

    instance_count: int
    work_s: float
    is_slot: bool = False

    @property
    def name(self) -> str:
        """For the table."""
        where = "own slot" if self.is_slot else f"pool of {self.instance_count}"
        return f"{where}, {self.work_s / HOUR_S:g} h of work"


def record_in(data: Path) -> Path:
    """The record below a folder of public data; ends the program where it is not there."""
    path = data / "spot" / "p3trace.csv"
    if not path.exists():
        raise SystemExit(f"{path}: not there; give the folder that has spot/p3trace.csv (JF-D/Parcae)")
    return path


def job_in(pool: Pool, case: Case) -> SpotJob:
    """The run as someone would plan it who knows this part of the record."""
    estimate = pool.estimate(case.instance_count)
    wait_s = estimate.wait_s
    if case.is_slot:
        wait_s = replacement_wait_s(pool.changes(), pool.length_s, POOL_TARGET) or 0.0
    return SpotJob(
        work_s=case.work_s,
        restart=RESTART,
        saving=SaveCost.synchronous(SAVE_S),
        interruptions_per_s=estimate.interruptions_per_s,
        wait_s=wait_s,
    )


def replays(pool: Pool, case: Case, job: SpotJob, interval_s: float, runs: int) -> list[SimulatedRun]:
    """Runs from random starts; the clock of each begins when its instances are there."""
    found = []
    for number in range(runs):
        chance = random.Random(f"{case.name} {number}")
        start_s = chance.uniform(0, pool.length_s)
        if case.is_slot:
            market: SlotMarket | PoolMarket = SlotMarket(pool, chance.randrange(len(pool.slots)), start_s)
        else:
            market = PoolMarket(pool, case.instance_count, start_s, chance)
        first_s = market.available_at_s(0.0)
        run = run_on_spot(job, interval_s, market, chance)
        found.append(replace(run, wall_s=run.wall_s - first_s))
    return found


def held_s(runs: Iterable[SimulatedRun]) -> list[float]:
    """Seconds on the bill, by run."""
    return [sum(one.spot_held_s) for one in runs]


def print_billed(pool: Pool, first: Pool, second: Pool, cases: list[Case], runs: int) -> None:
    """Expected billed time against the mean of replays."""
    print(f"{'run':26} {'rate':>7} {'expected':>9} {'replayed':>9} {'error':>7}   first half for the second")
    for case in cases:
        texts = []
        for known, played in ((pool, pool), (first, second)):
            job = job_in(known, case)
            interval_s = best_interval_s(job)
            expected_s = means(job, interval_s).held_s
            mean_s = statistics.fmean(held_s(replays(played, case, job, interval_s, runs)))
            rate = job.interruptions_per_s * HOUR_S
            texts.append(
                f"{rate:5.2f}/h {expected_s / HOUR_S:7.2f} h {mean_s / HOUR_S:7.2f} h "
                f"{expected_s / mean_s - 1:+7.1%}"
            )
        print(f"{case.name:26} {texts[0]}   {texts[1]}")


def print_intervals(pool: Pool, cases: list[Case], runs: int) -> None:
    """Mean billed time of the chosen interval against the best of a grid, from the same starts."""
    print(f"\n{'run':26} {'chosen':>8} {'best':>8} {'cost beyond the best':>20}")
    for case in cases:
        job = job_in(pool, case)
        chosen_s = best_interval_s(job)
        grid = {min(chosen_s * factor, job.work_s) for factor in (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)}
        mean_s = {one: statistics.fmean(held_s(replays(pool, case, job, one, runs))) for one in grid}
        best_s = min(mean_s, key=lambda one: mean_s[one])
        print(
            f"{case.name:26} {chosen_s:6.0f} s {best_s:6.0f} s {mean_s[chosen_s] / mean_s[best_s] - 1:+20.2%}"
        )


def print_policies(known: Pool, played: Pool, wait_s: float | None, runs: int) -> None:
    """Spot alone and with fall-back, at a third of the on-demand price: what was said and what came.

    ``wait_s`` is the mean wait that is reckoned with; that of ``known`` where None.
    """
    on_demand_usd, spot_usd, work_h = 3.0, 1.0, 6.0
    case = Case(instance_count=1, work_s=work_h * HOUR_S, is_slot=True)
    job = job_in(known, case)
    job = job if wait_s is None else replace(job, wait_s=wait_s)
    work = Estimate(low=job.work_s, expected=job.work_s, high=job.work_s, basis=Basis.MEASURED)
    dear = offer(Pricing.ON_DEMAND, on_demand_usd)
    cheap = offer(Pricing.SPOT, spot_usd)
    print(
        f"\nown slot, {work_h:g} h of work, spot at a third of the price; first half for the second, "
        f"waits of {job.wait_s / 60:.0f} min"
    )
    for deadline_h in (7.0, 8.0, 10.0, 14.0, 20.0):
        deadline_s = deadline_h * HOUR_S
        said = compare_policies(job, work, 1, on_demand=dear, spot=cheap, deadline_s=deadline_s)
        interval_s = fallback_interval_s(job, deadline_s)
        for policy in (Policy.SPOT, Policy.SPOT_WITH_FALLBACK):
            costs, misses = [], 0
            for number in range(runs):
                chance = random.Random(f"{deadline_h} {number}")
                slot, start_s = chance.randrange(len(played.slots)), chance.uniform(0, played.length_s)
                start_s += SlotMarket(played, slot, start_s).available_at_s(0.0)
                market = SlotMarket(played, slot, start_s)
                if policy is Policy.SPOT:
                    run = run_on_spot(job, best_interval_s(job), market, chance)
                else:
                    run = run_with_fallback(job, interval_s, market, deadline_s, chance)
                costs.append(
                    (sum(run.spot_held_s) * spot_usd + sum(run.on_demand_held_s) * on_demand_usd) / HOUR_S
                )
                misses += run.wall_s > deadline_s
            expected = next(one for one in said if one.policy is policy)
            print(
                f"deadline {deadline_h:4.0f} h  {policy.name:19} said {expected.cost_usd.expected:5.2f} USD, "
                f"late {expected.miss_probability:4.0%}; replayed {statistics.fmean(costs):5.2f} USD, "
                f"late {misses / runs:4.0%}"
            )


def offer(pricing: Pricing, price_usd_per_hour: float) -> Offer:
    """A V100 instance such as the record's."""
    return Offer(
        provider="aws",
        instance_type="p3.2xlarge",
        region="any",
        pricing=pricing,
        gpu="V100-SXM2-16GB",
        gpu_count=1,
        vcpus=8,
        memory_bytes=61 * GIB,
        gpu_link=Link.NONE,
        network_bytes_per_s=None,
        price_usd_per_hour=price_usd_per_hour,
        billing_increment_s=1,
        source="round numbers for this table",
        as_of=date(2026, 11, 21),
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=default_data())
    parser.add_argument("--runs", type=int, default=600)
    arguments = parser.parse_args()
    path = record_in(arguments.data)
    pool, first, second = read_pool(path), read_pool(path, 0.0, 0.5), read_pool(path, 0.5, 1.0)
    cases = [Case(instance_count=1, work_s=hours * HOUR_S, is_slot=True) for hours in (1, 3, 6)]
    cases += [
        Case(instance_count=count, work_s=hours * HOUR_S) for count in (1, 4, 8, 16) for hours in (1, 3, 6)
    ]
    print_billed(pool, first, second, cases, arguments.runs)
    print_intervals(pool, cases, arguments.runs)
    for wait_s in (None, WAIT_S):
        print_policies(first, second, wait_s, arguments.runs)


if __name__ == "__main__":
    main()
