"""`planner verify` on runs whose truth is known: how often it cries wolf, how soon it sees a slowdown.

    python -m benchmarks.verify [--runs 20]

Runs have looks of five seconds, as real ones do, at half a second a step; a plan states it within 5%, and the
run's own level lies within 4%. Their noise is drawn, or taken from the step times that real trials recorded
(benchmarks/recordings), each series whole, in random order, over its own median.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from benchmarks.recording import load
from catalogs.gpus import GIB, Link
from catalogs.offers import Offer, Pricing
from planner.estimate.values import Basis, Estimate
from planner.target import Target
from planner.verify.evidence import LOOK_S, Evidence, Finding, Look
from planner.verify.run_plan import SCHEMA_VERSION, RunPlan
from trials.measurement import Measurement
from trials.trial import Parallelism, Precision, TrialConfig

STEP_S = 0.5
STATED_FRACTION = 0.05  # half of the stated interval
LEVEL_FRACTION = 0.04  # how far a sane run's own level may lie off
STEPS_PER_LOOK = round(LOOK_S / STEP_S)
SANE_HOURS = 2
PATIENCE_MINUTES = 10
LATE_MINUTES = 60
ALARMS = frozenset({Finding.SLOWER, Finding.FASTER, Finding.SLOWED})

Noise = Callable[[random.Random], Iterator[float]]


def plan(step_time_s: float) -> RunPlan:
    """A run of 36,000 steps that states its step time within 5%."""
    low, high = (step_time_s * (1 + sign * STATED_FRACTION) for sign in (-1, 1))
    stated = Estimate(low=low, expected=step_time_s, high=high, basis=Basis.MEASURED)
    steps = 36_000
    offer = Offer(
        provider="own",
        instance_type="one",
        region="any",
        pricing=Pricing.ON_DEMAND,
        gpu="L4-24GB",
        gpu_count=1,
        vcpus=8,
        memory_bytes=32 * GIB,
        gpu_link=Link.NONE,
        network_bytes_per_s=None,
        price_usd_per_hour=0.72,
        billing_increment_s=1,
        source="a round number",
        as_of=date(2026, 11, 21),
    )
    return RunPlan(
        schema_version=SCHEMA_VERSION,
        study="benchmark",
        rank=1,
        model_file="model.py",
        sha256="",
        config=TrialConfig(
            gpu="L4-24GB",
            gpu_count=1,
            micro_batch_size=32,
            accumulation=1,
            precision=Precision.FP32,
            parallelism=Parallelism.SINGLE,
        ),
        is_cpu=False,
        target=Target(samples=32 * steps, global_batch_size=32),
        confidence=0.9,
        step_time_s=stated,
        duration_s=stated.scaled(steps),
        total_usd=stated.scaled(steps * 0.72 / 3600),
        fixed_usd=0.0,
        offer=offer,
        instance_count=1,
        provisioning_s=300.0,
        torch_version=None,
        ray_version=None,
        python_version=None,
        planner_version="",
        written_at=datetime.now(UTC),
    )


def gaussian(chance: random.Random) -> Iterator[float]:
    """Four per cent of independent noise."""
    while True:
        yield max(chance.gauss(1.0, 0.04), 0.5)


def stalling(chance: random.Random) -> Iterator[float]:
    """Slow first steps, a slow walk of the clocks, a heavy tail, and now and then a step that stalls."""
    drift, step = 0.0, 0
    while True:
        step += 1
        drift = 0.999 * drift + chance.gauss(0.0, 0.0004)
        value = (1.0 + drift) * chance.lognormvariate(0.0, 0.03)
        if step <= 8:
            value *= 1 + 20 / step**2
        if chance.random() < 0.02:
            value *= 1 + chance.paretovariate(1.5) / 3
        yield value + (8.0 if step % 600 == 0 else 0.0)  # a checkpoint, or the data set anew


def recorded(folder: Path) -> Noise:
    """What real trials recorded, series by series."""
    outcomes = [one for path in sorted(folder.glob("*.json")) for one in load(path).outcomes]
    series = [part for one in outcomes if isinstance(one, Measurement) for part in one.series]
    relative = []
    for one in series:
        middle_s = statistics.median(one.step_times_s)
        relative.append([step_s / middle_s for step_s in one.step_times_s])

    def noise(chance: random.Random) -> Iterator[float]:
        while True:
            yield from chance.choice(relative)

    return noise


def looks(step_times_s: Iterator[float], minutes: float) -> Iterator[Look]:
    """Looks of ten steps each, as a run writes them."""
    at_s, step = 30.0, 0
    for _ in range(round(minutes * 60 / LOOK_S)):
        times_s = [next(step_times_s) for _ in range(STEPS_PER_LOOK)]
        at_s, step = at_s + sum(times_s), step + STEPS_PER_LOOK
        yield Look(
            begun_at_s=0.0,
            at_s=at_s,
            step=step,
            step_count=STEPS_PER_LOOK,
            step_time_s=statistics.median(times_s),
        )


def minutes_to_alarm(steps: Iterator[float], minutes: float) -> float | None:
    """Minutes of steps until any alarm; None where there is none."""
    evidence = Evidence(plan(STEP_S))
    for number, look in enumerate(looks(steps, minutes), start=1):
        evidence.add(look)
        if evidence.finding in ALARMS:
            return number * LOOK_S / 60
    return None


def print_noise(name: str, noise: Noise, runs: int) -> None:
    """False alarms, and how soon slowdowns of several sizes are seen."""
    false_alarms = 0
    for seed in range(runs):
        chance = random.Random(f"{name} sane {seed}")
        level = chance.uniform(1 - LEVEL_FRACTION, 1 + LEVEL_FRACTION)
        steps = (STEP_S * level * one for one in noise(chance))
        false_alarms += minutes_to_alarm(steps, SANE_HOURS * 60) is not None
    print(f"{name:28} {runs} sane runs of {SANE_HOURS} h: {false_alarms} with an alarm")
    late_step = round(LATE_MINUTES * 60 / LOOK_S) * STEPS_PER_LOOK
    for slowdown, from_step in ((1.1, 0), (1.2, 0), (1.2, late_step)):
        since = from_step / STEPS_PER_LOOK * LOOK_S / 60
        found = []
        for seed in range(runs):
            chance = random.Random(f"{name} {slowdown} {from_step} {seed}")
            steps = (
                STEP_S * one * (slowdown if number >= from_step else 1.0)
                for number, one in enumerate(noise(chance))
            )
            minutes = minutes_to_alarm(steps, since + PATIENCE_MINUTES)
            if minutes is not None:
                found.append(minutes - since)
        when = "from the start" if from_step == 0 else f"after {LATE_MINUTES} min"
        soon = f"median {statistics.median(found):.1f} min, last {max(found):.1f} min" if found else "-"
        print(f"{'':28} {slowdown - 1:4.0%} slower {when:14}: caught in {len(found)} of {runs}; {soon}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    folder = Path(__file__).parent / "recordings"
    for name, noise in (
        ("independent noise", gaussian),
        ("drift, heavy tail and stalls", stalling),
        ("recorded in real trials", recorded(folder)),
    ):
        print_noise(name, noise, arguments.runs)


if __name__ == "__main__":
    main()
