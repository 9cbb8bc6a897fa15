"""The product: its `Search` over its own study, sampler, estimator and acquisition, fed with recorded trials.

Two things are replaced. A sweep plans one run of one global batch size; a recorded batch size is its own
global batch, so the cost of the run counts each configuration's own steps. And a trial is billed for its own
devices only, as it is for the other methods, not for those that its warm group holds beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

import optuna

from benchmarks.estimate.recorded import measurement_of
from benchmarks.search.grid import Bench
from catalogs.gpus import Gpu
from planner.plans.plan import hardware_of
from planner.search.limits import TargetRun
from planner.search.market import Market
from planner.search.running import RunningTrials
from planner.search.search import AskedTrial, Search
from planner.search.state import SearchState
from planner.study.store import Study
from trials.devices import DeviceGroup, Node, Versions
from trials.measurement import Measurement
from trials.trial import Purpose, TrialConfig

VERSIONS = Versions(python="recorded", ray="recorded", torch="recorded")


class Replayed(SearchState):
    """`SearchState` with each configuration's own target run."""

    def __init__(self, study: Study, bench: Bench, gpus: Mapping[str, Gpu]) -> None:
        self._bench, self._gpus = bench, gpus
        self.index_of = {one.config: index for index, one in enumerate(bench.grid.points)}
        market = Market(
            target=bench.target(0),
            offers=bench.prices.offers,
            gpus=gpus,
            groups=tuple(_group(name, bench, gpus) for name in sorted(bench.grid.instance_sizes)),
            usd_per_hour={one: bench.prices.usd_per_gpu_hour(one) for one in bench.grid.instance_sizes},
        )
        super().__init__(study, tuple(self.index_of), market, bench.grid.profile)

    def run(self, config: TrialConfig) -> TargetRun | None:
        """The run to the same end with this configuration's batch size; None for what was not recorded."""
        if config not in self.index_of:
            return None
        offer = self._bench.prices.carrier(config)
        hardware = hardware_of(offer, self._gpus[offer.gpu], config.node_count)
        step = self.estimator.step_time_s(config, hardware)
        if step is None:
            return None
        target = self._bench.target(self.index_of[config])
        return TargetRun(cost=self._bench.prices.run_usd(config, target, step))

    def trains_target(self, config: TrialConfig) -> bool:  # noqa: ARG002 - `SearchState`'s signature
        """Whatever its batch size."""
        return True

    def trial_cost_usd(self, config: TrialConfig, held_s: float) -> float | None:
        """Of the trial's own devices."""
        return self._bench.trial_usd(config, held_s)


@dataclass(frozen=True, slots=True, order=True)
class _Running:
    """A trial that has begun, ordered by its end."""

    end_s: float
    index: int  # of the point
    asked: AskedTrial = field(compare=False)


def search(bench: Bench, gpus: Mapping[str, Gpu], at_once: int = 1) -> None:
    """Until the product says that no trial is worth its price.

    The guard's two trials, which come then, are left out: the recordings hold no loss curves.

    Args:
        bench: the grid; a trial is billed as it ends.
        gpus: the chips.
        at_once: trials side by side, of whatever devices.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = Study(optuna.create_study(), "memory")
    state = Replayed(study, bench, gpus)
    ours = Search(state, study)
    running: list[_Running] = []
    now_s = 0.0
    while True:
        configs = tuple(one.asked.proposal.config for one in running)
        begun = RunningTrials(configs=configs, has_room=lambda _, others: len(others) < at_once)
        asked = ours.ask(running=begun) if len(running) < at_once else None
        if asked is not None and asked.proposal.purpose is Purpose.SEARCH:
            index = state.index_of[asked.proposal.config]
            heappush(running, _Running(now_s + bench.trial_s(index), index, asked))
            continue
        if not running:
            break
        ended = heappop(running)
        now_s = ended.end_s
        outcome = run_trial(bench, ended.index)
        ours.tell(ended.asked, outcome, bench.trial_usd(outcome.config, bench.trial_s(ended.index)))
    bench.stop()


def run_trial(bench: Bench, index: int) -> Measurement:
    """The seam to the machine, answered from the recording."""
    bench.trial(index)
    return measurement_of(bench.grid.points[index].config, bench.step_s(index))


def _group(gpu: str, bench: Bench, gpus: Mapping[str, Gpu]) -> DeviceGroup:
    node = Node(
        node_id=gpu,
        hostname=gpu,
        device_name=gpu,
        device_memory_bytes=gpus[gpu].memory_bytes,
        gpu_count=max(bench.grid.instance_sizes[gpu]),
        cpu_count=1,
        accelerator_type=None,
        is_mig=False,
        versions=VERSIONS,
    )
    return DeviceGroup(gpu=gpu, is_cpu=False, device_name=gpu, nodes=(node,))
