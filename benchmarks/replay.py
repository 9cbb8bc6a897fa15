"""Recordings played back through the seam of a trial: what a sweep would have found, and how right it was.

    python -m benchmarks.replay [benchmarks/recordings/*.json]

For each recording: how many trials a sweep took of those that were recorded, how much longer a step of its
best takes than one of the best recorded, and how the estimates of all that the sweep did not try compare with
what was recorded: step time, peak memory, how often the truth lay in the 90% interval. No GPU is needed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from benchmarks.estimate.scores import median_of
from benchmarks.recording import Recording, load, replay
from catalogs.gpus import DeviceKind, load_gpus
from catalogs.offers import load_offers
from planner.cost.hours import device_usd_per_hour
from planner.estimate import Estimate, Estimator, Hardware, fit
from planner.search.market import Market
from planner.search.search import Search
from planner.search.state import SearchState
from planner.study.store import open_study
from planner.sweep import Limits, Sweep
from trials.devices import DeviceGroup, Node, Versions
from trials.measurement import Measurement, Outcome
from trials.trial import Purpose, TrialConfig, Workload

FOLDER = Path(__file__).parent / "recordings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A sweep over a recording."""

    recording: Recording
    outcomes: tuple[Outcome, ...]  # of the sweep, in order
    reason: str  # why it ended

    @property
    def regret_fraction(self) -> float:
        """How much longer a step of the sweep's best takes than one of the best recorded."""
        return fastest(self.outcomes).step_time_s / fastest(self.recording.outcomes).step_time_s - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Estimates of recorded trials that the estimator had not seen; None where there were none."""

    count: int
    time_error_fraction: float | None  # mean absolute
    time_coverage_fraction: float | None  # of the 90% intervals
    memory_error_fraction: float | None
    memory_coverage_fraction: float | None


def fastest(outcomes: tuple[Outcome, ...]) -> Measurement:
    """The cheapest on one device."""
    return min((one for one in outcomes if isinstance(one, Measurement)), key=lambda one: one.step_time_s)


def play(recording: Recording, folder: Path) -> Played:
    """Sweep the recorded configurations until no other trial pays; the study goes into ``folder``."""
    gpus, offers = load_gpus(), load_offers()
    group = _group(recording)
    price = device_usd_per_hour(offers, gpus[recording.gpu], group.nodes[0].cpu_count)
    market = Market(
        target=recording.target,
        offers=tuple(one for one in offers if one.gpu == recording.gpu),
        gpus=gpus,
        groups=(group,),
        usd_per_hour={recording.gpu: price},
    )
    workload = Workload(path=f"{recording.workload}.py", sha256=recording.sha256)
    study = open_study(f"sqlite:///{folder / 'replay.db'}", workload, recording.name)
    configs = tuple(one.config for one in recording.outcomes)
    outcomes: list[Outcome] = []
    run_recorded = replay(recording)

    def run_trial(config: TrialConfig, purpose: Purpose) -> Outcome:
        outcome = run_recorded(config, purpose)
        if purpose is Purpose.SEARCH:
            outcomes.append(outcome)
        return outcome

    sweep = Sweep(
        search=Search(SearchState(study, configs, market, recording.profile), study),
        study=study,
        limits=Limits(max_trials=len(configs), max_s=3600.0, max_usd=None),
        watch=lambda _: None,
    )
    reason = sweep.run(run_trial)
    return Played(recording=recording, outcomes=tuple(outcomes), reason=reason)


def fit_of(played: Played) -> Fit:
    """What the sweep's trials say of the recorded ones that it did not try."""
    estimator = estimator_of(played.recording, played.outcomes)
    seen = {one.config for one in played.outcomes}
    unseen = [
        one for one in played.recording.outcomes if isinstance(one, Measurement) and one.config not in seen
    ]
    hardware = _hardware(played.recording)
    times = _pairs(unseen, lambda one: estimator.step_time_s(one, hardware), lambda one: one.step_time_s)
    memory = _pairs(
        unseen, lambda one: estimator.peak_memory_bytes(one, hardware), lambda one: one.peak_memory_bytes
    )
    return Fit(
        count=len(unseen),
        time_error_fraction=_error([(median_of(one), true) for one, true in times]),
        time_coverage_fraction=_coverage(times),
        memory_error_fraction=_error([(one.expected, true) for one, true in memory]),
        memory_coverage_fraction=_coverage(memory),
    )


def estimator_of(recording: Recording, outcomes: tuple[Outcome, ...]) -> Estimator:
    """Fitted to ``outcomes`` and the recorded trace."""
    return fit(outcomes, gpus=load_gpus(), profile=recording.profile)


def _group(recording: Recording) -> DeviceGroup:
    """The recorded device as discovery would have described it."""
    environment = fastest(recording.outcomes).environment
    is_cpu = load_gpus()[recording.gpu].kind is DeviceKind.CPU
    node = Node(
        node_id=recording.gpu,
        hostname=recording.gpu,
        device_name=environment.device_name,
        device_memory_bytes=environment.device_memory_bytes,
        gpu_count=0 if is_cpu else 1,
        cpu_count=environment.host_cpu_count,
        accelerator_type=None,
        is_mig=False,
        versions=Versions(python=environment.python, ray="none", torch=environment.torch),
    )
    return DeviceGroup(gpu=recording.gpu, is_cpu=is_cpu, device_name=environment.device_name, nodes=(node,))


def _hardware(recording: Recording) -> Hardware:
    gpu = load_gpus()[recording.gpu]
    return Hardware(gpu=gpu, link=gpu.link, vcpus=_group(recording).nodes[0].cpu_count)


Pair = tuple[Estimate, float]


def _pairs(
    measured: list[Measurement],
    estimate: Callable[[TrialConfig], Estimate | None],
    truth: Callable[[Measurement], float],
) -> list[Pair]:
    found = [(estimate(one.config), truth(one)) for one in measured]
    return [(one, true) for one, true in found if one is not None]


def _error(pairs: list[tuple[float, float]]) -> float | None:
    return mean(abs(one / true - 1) for one, true in pairs) if pairs else None


def _coverage(pairs: list[Pair]) -> float | None:
    return mean(one.low <= true <= one.high for one, true in pairs) if pairs else None


def _share(fraction: float | None) -> str:
    return f"{'-':>9}" if fraction is None else f"{fraction:9.1%}"


def main() -> None:
    """Print the table."""
    paths = [Path(one) for one in sys.argv[1:]] or sorted(FOLDER.glob("*.json"))
    print(f"{'':32} {'recorded':>8} {'swept':>6} {'regret':>7} {'unseen':>6}", end="")
    print(f" {'time err':>9} {'in 90%':>9} {'mem err':>9} {'in 90%':>9}")
    for path in paths:
        recording = load(path)
        with tempfile.TemporaryDirectory() as folder:
            played = play(recording, Path(folder))
        found = fit_of(played)
        print(f"{recording.name:32} {len(recording.outcomes):8} {len(played.outcomes):6}", end="")
        print(f" {played.regret_fraction:7.1%} {found.count:6}", end="")
        print(f" {_share(found.time_error_fraction)} {_share(found.time_coverage_fraction)}", end="")
        print(f" {_share(found.memory_error_fraction)} {_share(found.memory_coverage_fraction)}")


if __name__ == "__main__":
    main()
