"""Search and sweep against a GPU with exact numbers: what is tried, saved, resumed, and when it ends."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import optuna
import pytest

from planner.cost.hours import with_waiting
from planner.errors import PlannerError
from planner.estimate import Basis, Estimate
from planner.estimate.setting import technique_of
from planner.plans.numerics_check import guards, reference_of
from planner.plans.space import configs_for, worker_counts
from planner.search.acquisition import most_worth
from planner.search.market import Market
from planner.search.params import distributions, params_of
from planner.search.running import RunningTrials
from planner.search.search import Search
from planner.search.state import SearchState
from planner.study.store import Study, open_study
from planner.sweep import GRACE_S, Event, Limits, Stop, Sweep, TrialEnded, TrialStarted, in_thread
from planner.target import Target
from tests.builders import (
    GIB,
    make_failure,
    make_gpu,
    make_noise,
    make_offer,
    make_profile,
    make_target,
    make_workload,
)
from tests.fake_gpu import FakeGpu
from trials.devices import DeviceGroup, Node, Versions
from trials.extras import Extras
from trials.measurement import Measurement, Outcome, Phases, Series
from trials.profile import WorkloadProfile
from trials.trial import Failure, FailureKind, Precision, Purpose, TrialConfig

L4 = make_gpu()
OFFERS = (make_offer(), make_offer(gpu_count=2, price_usd_per_hour=1.44))
TARGET = make_target(global_batch_size=64, samples=20_000_000)
UNLIMITED = Limits(max_trials=1000, max_s=1e9, max_usd=None)


def group(gpu: str = L4.name, gpu_count: int = 2) -> DeviceGroup:
    node = Node(
        node_id=gpu,
        hostname="box",
        device_name="NVIDIA L4",
        device_memory_bytes=24 * GIB,
        gpu_count=gpu_count,
        cpu_count=8,
        accelerator_type=None,
        is_mig=False,
        versions=Versions(python="3.11.7", ray="2.60.0", torch="2.13.0"),
    )
    return DeviceGroup(gpu=gpu, is_cpu=False, device_name="NVIDIA L4", nodes=(node,))


@dataclass
class Bench:
    """A study on disk, a fake GPU and the events of its sweeps."""

    url: str
    gpu: FakeGpu = field(default_factory=FakeGpu)
    target: Target = TARGET
    groups: tuple[DeviceGroup, ...] = field(default_factory=lambda: (group(),))
    gpus: dict = field(default_factory=lambda: {L4.name: L4})
    offers: tuple = OFFERS
    usd_per_hour: float | None = 0.72
    extras: Extras | None = None
    profile: WorkloadProfile = field(default_factory=make_profile)
    events: list[Event] = field(default_factory=list)

    def study(self) -> Study:
        return open_study(self.url, make_workload(), "study")

    def configs(self) -> tuple[TrialConfig, ...]:
        return tuple(
            config
            for one in self.groups
            for count in worker_counts(self.gpus[one.gpu], one.worker_count_max, self.target)
            for config in configs_for(
                self.target, self.gpus[one.gpu], count, one.node_count_for(count), self.profile
            )
        )

    def market(self) -> Market:
        return Market(
            target=self.target,
            offers=self.offers,
            gpus=self.gpus,
            groups=self.groups,
            usd_per_hour={one.gpu: self.usd_per_hour for one in self.groups},
        )

    def sweep(self, limits: Limits = UNLIMITED, stop: Stop | None = None, **options) -> Sweep:
        study = self.study()
        search = Search(SearchState(study, self.configs(), self.market(), self.profile), study, self.extras)
        search.recover_orphans()
        return Sweep(
            search=search,
            study=study,
            limits=limits,
            watch=self.events.append,
            stop=stop or Stop(),
            **{"start": at_once, **options},
        )

    def best_possible_usd(self) -> float:
        state = SearchState(self.study(), self.configs(), self.market(), make_profile())
        runs = [
            state.pricer.price(offer, 1, config, exact(self.gpu.step_s(config)))
            for config in self.configs()
            if self.gpu.peak_bytes(config) <= self.gpu.memory_bytes
            for offer in self.offers
            if offer.gpu_count >= config.gpu_count
        ]
        value_usd = self.target.hour_value_usd
        return min(
            with_waiting(one.bill.breakdown.run_usd, one.duration_s, value_usd).expected
            for one in runs
            if one is not None
        )

    @property
    def ended(self) -> list[TrialEnded]:
        return [one for one in self.events if isinstance(one, TrialEnded)]


def at_once(work: Callable[[], None]) -> None:
    work()


def exact(value: float) -> Estimate:
    return Estimate(low=value, expected=value, high=value, basis=Basis.MEASURED)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(url=f"sqlite:///{tmp_path / 'study.db'}")


def test_it_finds_the_best_configuration_and_stops_by_itself(bench: Bench) -> None:
    reason = bench.sweep().run(bench.gpu.run_trial)
    assert "further trials would save $" in reason
    best = bench.ended[-1].best_cost
    assert best is not None
    assert best.expected == pytest.approx(bench.best_possible_usd(), rel=0.02)
    assert len(bench.gpu.seen) < len(bench.configs()) / 4


def test_the_value_of_an_hour_sends_the_search_to_faster_configurations(bench: Bench) -> None:
    bench.target = replace(bench.target, hour_value_usd=1000.0)
    bench.sweep().run(bench.gpu.run_trial)
    fastest, cost = bench.ended[-1].best, bench.ended[-1].best_cost
    assert fastest is not None
    assert cost is not None
    assert fastest.gpu_count == 2
    assert cost.expected == pytest.approx(bench.best_possible_usd(), rel=0.02)


def test_a_deadline_that_one_gpu_misses_sends_the_search_to_two(bench: Bench) -> None:
    deadline_s = 9 * 3600.0
    bench.target = replace(bench.target, deadline_s=deadline_s)
    bench.sweep().run(bench.gpu.run_trial)
    best = bench.ended[-1].best
    assert best is not None
    assert best.gpu_count == 2
    one_gpu_s = min(bench.gpu.step_s(one) for one in bench.configs() if one.gpu_count == 1)
    steps = bench.target.step_count
    assert bench.gpu.step_s(best) * steps < deadline_s < one_gpu_s * steps


def test_a_deadline_that_nothing_meets_leaves_the_search_for_the_cheapest(bench: Bench) -> None:
    bench.target = replace(bench.target, deadline_s=600.0)
    reason = bench.sweep().run(bench.gpu.run_trial)
    assert reason.startswith("no trial so far keeps the budget and the deadline; ")
    assert any(one.precision == Precision.BF16 for one in bench.gpu.seen)


def test_no_configuration_is_tried_twice_within_and_across_sweeps(bench: Bench) -> None:
    bench.sweep(replace(UNLIMITED, max_trials=3)).run(bench.gpu.run_trial)
    bench.sweep(replace(UNLIMITED, max_trials=4)).run(bench.gpu.run_trial)
    outcomes = [one.outcome for one in bench.study().trials()]
    assert len(outcomes) == 7
    searched = [
        one.config for one in outcomes if one.purpose is Purpose.SEARCH
    ]  # the guard takes them up again
    assert len(searched) >= 5
    assert len(set(searched)) == len(searched)


def test_a_resumed_sweep_goes_on_as_the_uninterrupted_one_would(bench: Bench, tmp_path: Path) -> None:
    whole = Bench(url=f"sqlite:///{tmp_path / 'whole.db'}")
    whole.sweep(replace(UNLIMITED, max_trials=6)).run(whole.gpu.run_trial)
    for _ in range(3):
        bench.sweep(replace(UNLIMITED, max_trials=2)).run(bench.gpu.run_trial)
    assert bench.gpu.seen == whole.gpu.seen


def test_every_trial_is_saved_before_the_next_one_starts(bench: Bench) -> None:
    counts = []

    def run_trial(config: TrialConfig, purpose: Purpose):
        counts.append(len(bench.study().trials()))
        return bench.gpu.run_trial(config)

    bench.sweep(replace(UNLIMITED, max_trials=4)).run(run_trial)
    assert counts == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [one for one in FailureKind if one is not FailureKind.BUSY])
def test_no_failure_ends_the_sweep(bench: Bench, kind: FailureKind) -> None:
    bench.gpu.failures = {0: kind, 3: kind}
    bench.sweep(replace(UNLIMITED, max_trials=6)).run(bench.gpu.run_trial)
    outcomes = [one.outcome for one in bench.study().trials()]
    assert [isinstance(one, Failure) for one in outcomes].count(True) >= 2
    assert sum(isinstance(one, Measurement) for one in outcomes) >= 3


@dataclass
class FailingFile(FakeGpu):
    """The model file raises ``errors`` by turns, from the trial after ``good_count`` on."""

    good_count: int = 0
    errors: tuple[str, ...] = ("model.py, line 7: ValueError: batch 41 of 40",)

    def run_trial(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Outcome:
        outcome = super().run_trial(config, purpose)
        index = len(self.seen) - 1 - self.good_count
        if index < 0:
            return outcome
        reason = self.errors[index % len(self.errors)]
        return make_failure(config, kind=FailureKind.USER_CODE, reason=reason)


@pytest.mark.parametrize("good_count", [0, 3])
def test_the_same_error_of_the_model_file_twice_in_a_row_ends_the_sweep(
    bench: Bench, good_count: int
) -> None:
    errors = ("model.py, line 7: ValueError: batch 41 of 40", "model.py, line 7: ValueError: batch 43 of 40")
    bench.gpu = FailingFile(good_count=good_count, errors=errors)
    with pytest.raises(PlannerError, match=r"^model\.py, line 7: ValueError: batch 43 of 40; two trials in"):
        bench.sweep().run(bench.gpu.run_trial)
    assert len(bench.study().trials()) == good_count + 2
    assert "batch 43 of 40" in str(bench.study().stopped_because)


def test_different_errors_of_the_model_file_do_not_end_the_sweep(bench: Bench) -> None:
    errors = ("model.py, line 7: ValueError: no such file", "model.py, line 9: ValueError: no such file")
    bench.gpu = FailingFile(errors=errors)
    bench.sweep(replace(UNLIMITED, max_trials=5)).run(bench.gpu.run_trial)
    assert len(bench.study().trials()) == 5


def test_devices_that_stay_in_use_end_the_sweep_and_nothing_counts_as_tried(bench: Bench) -> None:
    bench.gpu.failures = {1: FailureKind.BUSY}
    with pytest.raises(PlannerError, match="injected; sweep again later, or with a longer --wait"):
        bench.sweep().run(bench.gpu.run_trial)
    assert len(bench.study().trials()) == 1
    bench.sweep(replace(UNLIMITED, max_trials=1)).run(bench.gpu.run_trial)
    assert bench.gpu.seen[1] == bench.gpu.seen[2]


def test_a_lost_worker_is_given_one_more_try(bench: Bench) -> None:
    bench.gpu.failures = dict.fromkeys(range(100), FailureKind.WORKER_LOST)
    bench.sweep(replace(UNLIMITED, max_trials=60)).run(bench.gpu.run_trial)
    assert max(bench.gpu.seen.count(one) for one in bench.gpu.seen) == 2


def test_workers_that_cannot_communicate_cost_two_trials_and_smaller_ones_go_on(bench: Bench) -> None:
    bench.target = replace(TARGET, deadline_s=3600.0)  # more than one GPU is worth trying

    def run_trial(config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Outcome:
        outcome = bench.gpu.run_trial(config, purpose)
        if config.gpu_count == 1:
            return outcome
        return make_failure(config, kind=FailureKind.COMMUNICATION_FAILED, reason="NCCL error")

    bench.sweep(replace(UNLIMITED, max_trials=60)).run(run_trial)
    wide = [config for config in bench.gpu.seen if config.gpu_count == 2]
    assert len(wide) == len(set(wide)) == 2
    assert sum(config.gpu_count == 1 for config in bench.gpu.seen) >= 3


def test_out_of_memory_is_a_violated_constraint_without_an_invented_value(bench: Bench) -> None:
    bench.gpu.failures = {1: FailureKind.OUT_OF_MEMORY}
    bench.sweep().run(bench.gpu.run_trial)
    plain = optuna.load_study(study_name="study", storage=bench.url)
    pruned = [one for one in plain.trials if one.state.name == "PRUNED"]
    assert pruned
    assert all(one.values is None and one.constraints["memory"] > 0 for one in pruned)
    fitting = [one for one in plain.trials if one.state.name == "COMPLETE"]
    assert all(one.constraints["memory"] <= 0 for one in fitting)


def test_the_limits_end_it_and_say_so(bench: Bench) -> None:
    assert bench.sweep(replace(UNLIMITED, max_trials=2)).run(bench.gpu.run_trial) == "--max-trials 2 reached"
    ticks = iter(range(0, 10_000, 40))
    late = bench.sweep(replace(UNLIMITED, max_s=300), clock=lambda: float(next(ticks)))
    assert late.run(bench.gpu.run_trial) == "--max-minutes 5 reached"
    spent = bench.sweep().spent_usd()
    assert spent
    assert "own budget" in bench.sweep(replace(UNLIMITED, max_usd=spent / 2)).run(bench.gpu.run_trial)


def test_a_trial_that_the_sweeps_budget_cannot_pay_for_is_not_started(bench: Bench) -> None:
    bench.usd_per_hour = 1e6
    bench.sweep(replace(UNLIMITED, max_usd=10)).run(bench.gpu.run_trial)
    assert bench.gpu.seen == []


def test_no_trial_begins_that_is_not_expected_to_end_in_time(bench: Bench) -> None:
    shortest_s = min(one.trial_s for one in bench.sweep().search.state.candidates())
    reason = bench.sweep(replace(UNLIMITED, max_s=shortest_s / 2), clock=lambda: 0.0).run(bench.gpu.run_trial)
    assert bench.gpu.seen == []
    assert reason == (
        f"no trial would end in time: the shortest takes about {shortest_s / 60:.1f} min, "
        f"and --max-minutes leaves {shortest_s / 120:.1f} min"
    )
    assert bench.study().stopped_because == reason


def test_a_trial_in_flight_is_stopped_once_the_minutes_and_a_grace_are_over(bench: Bench) -> None:
    now_s, works = [0.0], []

    def start(work: Callable[[], None]) -> None:
        if len(bench.gpu.seen) == 2:
            works.append(work)  # a trial that never ends
            now_s[0] = 600 + GRACE_S
        else:
            work()

    sweep = bench.sweep(replace(UNLIMITED, max_s=600), start=start, clock=lambda: now_s[0])
    assert sweep.run(bench.gpu.run_trial) == "--max-minutes 10 reached; a trial in flight was stopped"
    assert len(works) == 1
    assert len(bench.study().trials()) == 2


def test_interrupted_it_ends_after_the_trial_in_flight(bench: Bench) -> None:
    stop = Stop()

    def run_trial(config: TrialConfig, purpose: Purpose):
        if len(bench.gpu.seen) == 2:
            stop.ask(signal.SIGINT)
        return bench.gpu.run_trial(config)

    assert bench.sweep(stop=stop).run(run_trial) == "interrupted"
    assert len(bench.study().trials()) == 3
    assert bench.study().stopped_because == "interrupted"


def test_a_trial_that_outlasts_a_supervisors_grace_is_given_up_and_made_again_later(bench: Bench) -> None:
    stop, works = Stop(), []

    def start(work: Callable[[], None]) -> None:
        if len(bench.gpu.seen) == 2:
            works.append(work)
            stop.ask(signal.SIGTERM, grace_s=0.0)
        else:
            work()

    assert bench.sweep(stop=stop, start=start).run(bench.gpu.run_trial) == "interrupted"
    assert len(works) == 1
    assert len(bench.study().trials()) == 2
    bench.sweep(replace(UNLIMITED, max_trials=1)).run(bench.gpu.run_trial)
    assert len(bench.study().trials()) == 3


def test_a_killed_sweep_loses_only_the_trial_in_flight(bench: Bench) -> None:
    class Killed(BaseException):
        pass

    def run_trial(config: TrialConfig, purpose: Purpose):
        if len(bench.gpu.seen) == 2:
            raise Killed
        return bench.gpu.run_trial(config)

    with pytest.raises(Killed):
        bench.sweep().run(run_trial)
    running = optuna.load_study(study_name="study", storage=bench.url).trials[-1]
    assert running.state.name == "RUNNING"
    bench.sweep(replace(UNLIMITED, max_trials=1)).run(bench.gpu.run_trial)
    states = [one.state.name for one in optuna.load_study(study_name="study", storage=bench.url).trials]
    assert states == ["COMPLETE", "COMPLETE", "FAIL", "COMPLETE"]
    assert len(set(bench.gpu.seen)) == 3


def test_hardware_without_a_price_is_searched_by_device_hours_and_costs_nobody_knows(bench: Bench) -> None:
    bench.offers, bench.usd_per_hour = (), None
    sweep = bench.sweep(replace(UNLIMITED, max_trials=4))
    assert sweep.expected().cost_usd is None
    sweep.run(bench.gpu.run_trial)
    last = bench.ended[-1]
    assert last.spent_usd is None
    assert last.best_cost is not None
    config = last.best
    assert config is not None
    hours = (300 + bench.target.step_count * bench.gpu.step_s(config)) * config.gpu_count / 3600
    assert last.best_cost.expected == pytest.approx(hours, rel=0.01)  # and what trials took to start up


def test_a_tiny_target_is_run_and_not_searched_for(bench: Bench) -> None:
    bench.target = make_target(global_batch_size=64, samples=64)
    reason = bench.sweep().run(bench.gpu.run_trial)
    assert reason.startswith("do not search, run this: trials could save $")
    assert len(bench.gpu.seen) == 1


def test_only_one_type_of_a_mixed_cluster_is_opened_and_the_others_are_predicted(bench: Bench) -> None:
    bench.gpus["T4-16GB"] = make_gpu("T4-16GB", bf16_flop_per_s=None, tf32_flop_per_s=None)
    bench.groups = (group(gpu_count=1), group("T4-16GB", 1))
    bench.sweep(replace(UNLIMITED, max_trials=4)).run(bench.gpu.run_trial)
    started = [one.proposal.config for one in bench.events if isinstance(one, TrialStarted)]
    assert [one.gpu for one in started[:2]] == [L4.name, L4.name]
    assert [one.micro_batch_size for one in started[:2]] == [8, 32]
    assert "T4-16GB" not in [one.gpu for one in started]  # no offer carries it: nothing could be saved


def test_the_announcement_stays_within_the_limits(bench: Bench) -> None:
    expected = bench.sweep(Limits(max_trials=3, max_s=20, max_usd=0.001)).expected()
    assert (expected.trial_count, expected.wall_s, expected.cost_usd) == (3, 20, 0.001)


def test_a_database_that_breaks_in_the_middle_keeps_what_was_saved(bench: Bench, tmp_path: Path) -> None:
    def run_trial(config: TrialConfig, purpose: Purpose):
        if len(bench.gpu.seen) == 2:
            (tmp_path / "study.db").rename(tmp_path / "moved.db")
            (tmp_path / "study.db").write_bytes(b"x" * 5000)
        return bench.gpu.run_trial(config)

    with pytest.raises(PlannerError, match="storage sqlite"):
        bench.sweep().run(run_trial)
    kept = open_study(f"sqlite:///{tmp_path / 'moved.db'}", make_workload(), "study")
    assert len(kept.trials()) >= 2


@dataclass
class SlowData(FakeGpu):
    """One process loads a sample in 8 ms, twice as long as it trains."""

    def run_trial(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Outcome:
        outcome = super().run_trial(config, purpose)
        if isinstance(outcome, Failure):
            return outcome
        loading_s = 0.008 * config.micro_batch_size * config.accumulation
        busy_s = self.step_s(config)
        loaders = config.loader_worker_count
        step_s = busy_s + loading_s if loaders is None else max(busy_s, loading_s / loaders)
        phases = Phases(
            data_wait_s=step_s - busy_s, host_to_device_s=0.0, forward_backward_s=busy_s, gradient_sync_s=0.0,
            optimizer_s=0.0, other_s=0.0,
        )  # fmt: skip
        return replace(
            outcome,
            series=(Series(accumulation=config.accumulation, step_times_s=(step_s,) * 12),),
            phases=phases,
        )


def test_loader_workers_are_tried_where_the_step_waits_for_its_data(bench: Bench) -> None:
    bench.gpu = SlowData()
    sweep = bench.sweep()
    sweep.run(bench.gpu.run_trial)
    best, _ = sweep.search.state.best()
    assert best is not None
    assert best.loader_worker_count is not None
    patient = Bench(url=bench.url.replace("study.db", "other.db"))
    patient.sweep().run(patient.gpu.run_trial)
    assert all(one.loader_worker_count is None for one in patient.gpu.seen)  # nothing waits there


def mixed(bench: Bench, t4_usd_per_hour: float = 0.72) -> Bench:
    """Two types; at the same price each may be the cheaper one."""
    bench.gpus["T4-16GB"] = make_gpu("T4-16GB", bf16_flop_per_s=None, tf32_flop_per_s=None)
    bench.groups = (group(), group("T4-16GB", 1))
    bench.offers = (*OFFERS, make_offer("T4-16GB", price_usd_per_hour=t4_usd_per_hour))
    return bench


def test_types_of_devices_run_side_by_side_and_one_type_never_twice(bench: Bench) -> None:
    both, lock = threading.Barrier(2), threading.Lock()
    under_way: list[str] = []

    def run_trial(config: TrialConfig, purpose: Purpose):
        with lock:
            assert config.gpu not in under_way
            under_way.append(config.gpu)
            number = len(bench.gpu.seen)
            outcome = bench.gpu.run_trial(config, purpose)
        if number in {2, 3}:  # after the opening
            both.wait(timeout=60)  # passes only when a trial of the other type is under way too
        with lock:
            under_way.remove(config.gpu)
        return outcome

    mixed(bench).sweep(replace(UNLIMITED, max_trials=6), start=in_thread).run(run_trial)
    assert len(bench.gpu.seen) == 6
    assert {one.gpu for one in bench.gpu.seen} == {L4.name, "T4-16GB"}


def two_nodes(bench: Bench) -> Bench:
    """Two of one GPU each; the run is urgent, so that trials on both at once pay."""
    first = group(gpu_count=1)
    nodes = (first.nodes[0], replace(first.nodes[0], node_id="other"))
    bench.groups = (replace(first, nodes=nodes),)
    bench.target = replace(bench.target, hour_value_usd=1000.0)
    return bench


def has_room_on_two(config: TrialConfig, in_flight: Sequence[TrialConfig]) -> bool:
    return sum(one.node_count for one in (config, *in_flight)) <= 2


def test_nodes_of_one_type_run_side_by_side_and_a_trial_of_both_has_them_to_itself(bench: Bench) -> None:
    both, lock = threading.Barrier(2), threading.Lock()
    under_way: list[TrialConfig] = []
    narrow_count = 0

    def run_trial(config: TrialConfig, purpose: Purpose):
        nonlocal narrow_count
        with lock:
            under_way.append(config)
            assert len(set(under_way)) == len(under_way)
            assert sum(one.node_count for one in under_way) <= 2
            narrow_count += config.node_count == 1 and len(bench.gpu.seen) >= 2
            waits = config.node_count == 1 and purpose is Purpose.SEARCH and narrow_count in {1, 2}
            outcome = bench.gpu.run_trial(config, purpose)
        if waits and len(bench.gpu.seen) > 2:
            both.wait(timeout=60)  # passes only when a trial is under way on the other node too
        with lock:
            under_way.remove(config)
        return outcome

    limits = replace(UNLIMITED, max_trials=9)
    two_nodes(bench).sweep(limits, start=in_thread, has_room=has_room_on_two).run(run_trial)
    assert {one.node_count for one in bench.gpu.seen} == {1, 2}


def test_nothing_overtakes_a_trial_that_waits_for_idle_nodes(bench: Bench) -> None:
    two_nodes(bench).sweep(replace(UNLIMITED, max_trials=2)).run(bench.gpu.run_trial)
    search = bench.sweep().search
    first = search.ask()
    assert first is not None
    search.drop(first)
    config = first.proposal.config
    other = next(one for one in bench.configs() if technique_of(one) != technique_of(config))
    assert search.ask(running=RunningTrials(configs=(other,), has_room=lambda one, _: one != config)) is None
    beside = search.ask(running=RunningTrials(configs=(other,), has_room=lambda one, _: True))
    assert beside is not None
    assert beside.proposal.config == config


def test_what_a_trial_under_way_will_tell_is_not_tried_beside_it(bench: Bench) -> None:
    two_nodes(bench).sweep(replace(UNLIMITED, max_trials=2)).run(bench.gpu.run_trial)
    search = bench.sweep().search
    configs: list[TrialConfig] = []
    for _ in range(2):
        proposal = search.ask(running=RunningTrials(configs=tuple(configs), has_room=lambda one, _: True))
        assert proposal is not None
        configs.append(proposal.proposal.config)
    assert len({technique_of(one) for one in configs}) == len(configs)


def test_what_trials_under_way_are_expected_to_save_is_not_counted_again_beside_them(bench: Bench) -> None:
    two_nodes(bench).sweep(replace(UNLIMITED, max_trials=2)).run(bench.gpu.run_trial)
    search = bench.sweep().search
    confidence, (_, best) = search.state.market.confidence, search.state.best()
    assert best is not None
    first = search.ask()
    assert first is not None
    under_way = first.proposal.config
    beside = search.ask(running=RunningTrials(configs=(under_way,), has_room=lambda one, _: True))
    assert beside is not None
    assert beside.proposal.candidate.run_cost is not None
    alone = most_worth([beside.proposal.candidate], best.expected, confidence)
    assert alone is not None
    assert beside.proposal.expected_saving is not None
    assert 0 < beside.proposal.expected_saving < 0.9 * alone.saving


def test_nothing_is_tried_beside_a_trial_that_is_expected_to_save_more(bench: Bench) -> None:
    mixed(bench, t4_usd_per_hour=0.3).sweep(replace(UNLIMITED, max_trials=2)).run(bench.gpu.run_trial)
    search = bench.sweep().search
    first = search.ask()
    assert first is not None
    assert first.proposal.config.gpu == "T4-16GB"
    assert (
        search.ask(running=RunningTrials(configs=(first.proposal.config,))) is None
    )  # the L4 pays on its own only

    first_config = first.proposal.config
    probe = replace(
        first_config, accumulation=first_config.accumulation + 1
    )  # another batch: it saves nothing
    beside = search.ask(running=RunningTrials(configs=(probe,)))
    assert beside is not None
    assert beside.proposal.config.gpu == L4.name


def test_a_mixed_cluster_is_searched_alike_each_time(bench: Bench, tmp_path: Path) -> None:
    mixed(bench).sweep(replace(UNLIMITED, max_trials=8)).run(bench.gpu.run_trial)
    again = mixed(Bench(url=f"sqlite:///{tmp_path / 'again.db'}"))
    again.sweep(replace(UNLIMITED, max_trials=8)).run(again.gpu.run_trial)
    assert again.gpu.seen == bench.gpu.seen


def test_what_is_held_is_billed_also_between_trials_and_beyond_a_trials_own_devices(bench: Bench) -> None:
    mixed(bench)
    clock_s = [0.0]

    def run_trial(config: TrialConfig, purpose: Purpose):
        clock_s[0] += 100.0
        return bench.gpu.run_trial(config, purpose)

    sweep = bench.sweep(
        replace(UNLIMITED, max_trials=4),
        clock=lambda: clock_s[0],
        held=lambda: {one.gpu: {L4.name: 2, "T4-16GB": 1}[one.gpu] for one in bench.gpu.seen},
    )
    sweep.run(run_trial)
    # 400 s in all: two L4 and one T4, each type from its own first trial on
    order = [one.gpu for one in bench.gpu.seen]
    began_s = {gpu: 100.0 * order.index(gpu) for gpu in set(order)}
    assert len(began_s) == 2
    hours = (2 * (400 - began_s[L4.name]) + 1 * (400 - began_s["T4-16GB"])) / 3600
    assert sweep.spent_usd() == pytest.approx(hours * 0.72)


def test_what_was_held_before_the_first_trial_is_billed_too(bench: Bench) -> None:
    clock_s = [100.0]

    def run_trial(config: TrialConfig, purpose: Purpose):
        clock_s[0] += 50.0
        return bench.gpu.run_trial(config, purpose)

    sweep = bench.sweep(
        replace(UNLIMITED, max_trials=1),
        clock=lambda: clock_s[0],
        held=lambda: {L4.name: 1},
        held_from_s={L4.name: 30.0},
    )
    sweep.run(run_trial)
    assert sweep.spent_usd() == pytest.approx((150 - 30) / 3600 * 0.72)


def test_devices_that_leave_take_what_to_try_with_them_and_new_ones_bring_it(bench: Bench) -> None:
    mixed(bench).groups = (group(),)

    def look_around() -> None:
        if len(bench.gpu.seen) == 2:
            bench.groups = (group("T4-16GB", 1),)
            search.state.move_to(bench.configs(), bench.groups, {"T4-16GB": 0.35})

    sweep = bench.sweep(replace(UNLIMITED, max_trials=5), look_around=look_around)
    search = sweep.search
    sweep.run(bench.gpu.run_trial)
    assert [one.gpu for one in bench.gpu.seen] == [L4.name] * 2 + ["T4-16GB"] * 3


def test_a_trial_that_another_host_runs_is_neither_ended_nor_tried(bench: Bench) -> None:
    bench.sweep(replace(UNLIMITED, max_trials=2)).run(bench.gpu.run_trial)
    theirs = bench.study()
    config = next(one for one in bench.configs() if one not in bench.gpu.seen)
    optuna_trial = theirs.ask(params_of(config), distributions(bench.gpus))
    theirs.start(optuna_trial, config)
    optuna_trial.set_user_attr("holder", "other-host:77")
    theirs.optuna_study.set_user_attr("holder:other-host", {"pid": 77, "seen_at_s": time.time()})
    sweep = bench.sweep()
    assert config not in [one.config for one in sweep.search.state.candidates()]
    assert theirs.optuna_study.trials[-1].state.name == "RUNNING"
    theirs.optuna_study.set_user_attr("holder:other-host", {"pid": 77, "seen_at_s": time.time() - 3600})
    assert config in [one.config for one in bench.sweep().search.state.candidates()]
    assert theirs.optuna_study.trials[-1].state.name == "FAIL"
    with pytest.raises(PlannerError, match="another sweep on the same study ended a trial"):
        theirs.save(optuna_trial, make_failure(config), None, None)


@dataclass
class Rounding(FakeGpu):
    """Every precision is fast; those that are ``bad`` do not descend."""

    bad: tuple[Precision, ...] = ()

    def run_trial(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Outcome:
        outcome = super().run_trial(config, purpose)
        if isinstance(outcome, Failure) or purpose is not Purpose.GUARD:
            return outcome
        slope = 0.0 if config.precision in self.bad else 0.05
        return replace(outcome, losses=tuple(4.0 - slope * step for step in range(42)))


def test_the_winners_loss_is_held_against_that_of_fp32(bench: Bench) -> None:
    bench.gpu = Rounding()
    sweep = bench.sweep()
    sweep.run(bench.gpu.run_trial)
    best, _ = sweep.search.state.best()
    outcomes = [one.outcome for one in bench.study().trials()]
    (found,) = guards(outcomes)
    assert (found.config, found.reference, found.rejection) == (best, reference_of(best), "")
    assert sum(one.purpose is Purpose.GUARD for one in outcomes) == 2


@pytest.mark.parametrize("limits", [{"max_trials": 6}, {"max_s": 300.0}, {"max_usd": 0.065}])
def test_a_sweep_that_ends_early_keeps_room_for_the_guard(bench: Bench, limits: dict[str, float]) -> None:
    bench.gpu, bench.groups, bench.profile = Rounding(), (group(gpu_count=1),), make_profile(block_count=0)
    clock_s = [0.0]

    def run_trial(config: TrialConfig, purpose: Purpose) -> Outcome:
        clock_s[0] += 50.0
        return replace(bench.gpu.run_trial(config, purpose), trial_s=50.0)

    sweep = bench.sweep(replace(UNLIMITED, **limits), clock=lambda: clock_s[0])
    sweep.run(run_trial)
    best, _ = sweep.search.state.best()
    assert best is not None
    assert best.precision != Precision.FP32
    purposes = [one.outcome.purpose for one in bench.study().trials()]
    assert purposes.count(Purpose.GUARD) == 2
    assert 3 <= purposes.count(Purpose.SEARCH) <= 5  # it would have gone on
    assert clock_s[0] <= limits.get("max_s", 1e9)


def test_a_precision_that_does_not_train_is_neither_best_nor_tried_again(bench: Bench) -> None:
    bench.gpu = Rounding(bad=(Precision.BF16, Precision.FP16))
    sweep = bench.sweep()
    sweep.run(bench.gpu.run_trial)
    best, _ = sweep.search.state.best()
    assert best is not None
    assert best.precision in (Precision.FP32, Precision.TF32)
    found = guards([one.outcome for one in bench.study().trials()])
    assert {one.config.precision for one in found if one.rejection} == set(bench.gpu.bad)


@dataclass
class NoisyGpu(FakeGpu):
    """Measures the gradient noise in every trial of one worker, at the weights of ``checkpoint``."""

    checkpoint: str | None = None

    def run_trial(self, config: TrialConfig, purpose: Purpose = Purpose.SEARCH) -> Outcome:
        outcome = super().run_trial(config, purpose)
        if isinstance(outcome, Failure) or config.gpu_count > 1:
            return outcome
        return replace(outcome, noise=make_noise(100.0, checkpoint=self.checkpoint))


def test_a_study_without_the_noise_scale_that_is_asked_for_gets_one_trial_more(bench: Bench) -> None:
    bench.target = make_target(global_batch_size=64, samples=64)  # so small that one trial is all
    bench.sweep().run(bench.gpu.run_trial)
    for checkpoint, count in ((None, 1), (None, 0), ("later.pt", 1), ("later.pt", 0)):
        bench.gpu = NoisyGpu(checkpoint=checkpoint)
        bench.extras = Extras(is_noise_measured=True, noise_checkpoint=checkpoint)
        bench.sweep().run(bench.gpu.run_trial)
        assert len(bench.gpu.seen) == count
        assert all(one.gpu_count == 1 for one in bench.gpu.seen)


def test_a_noise_scale_that_no_trial_can_measure_is_not_asked_for_forever(bench: Bench) -> None:
    bench.target = make_target(global_batch_size=64, samples=64)
    bench.extras = Extras(is_noise_measured=True)
    bench.sweep().run(bench.gpu.run_trial)
    bench.gpu.seen.clear()
    bench.sweep().run(bench.gpu.run_trial)
    assert len(bench.gpu.seen) == 1
