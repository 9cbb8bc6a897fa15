"""What loader processes would make of a step that waits for its data, from the phases of one without them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from trials.profile import WorkloadProfile
from trials.trial import Measurement, Outcome, TrialConfig

LOADER_WORKER_COUNTS = (1, 2, 4, 8)
LOADER_PAYS_FRACTION = 0.05  # of the step, waited for data, from which loader workers are worth a trial
LOADER_LOG_SPREAD = 0.2  # of the speed with them: starts of processes, copies between them, bursts
_ENOUGH_FRACTION = 0.97  # of the best speed: the fewest loader workers that reach it are named


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaders:
    """What loader processes would make of the data wait."""

    worker_count: int  # for each training worker
    speed_ratio: float


def best_loaders(measurement: Measurement) -> Loaders | None:
    """The fewest loader workers that give nearly the most; None where waiting for data is no matter."""
    phases = measurement.phases
    if phases is None or phases.data_wait_s <= LOADER_PAYS_FRACTION * phases.step_s:
        return None
    ratios = {count: loader_speed_ratio(measurement, count) for count in LOADER_WORKER_COUNTS}
    best = max(ratios.values())
    if best <= 1 + LOADER_PAYS_FRACTION / 2:
        return None
    count, ratio = next(pair for pair in ratios.items() if pair[1] >= _ENOUGH_FRACTION * best)
    return Loaders(worker_count=count, speed_ratio=ratio)


def loader_speed_ratio(measurement: Measurement, worker_count: int) -> float:
    """How many times faster the step would be with ``worker_count`` loader processes for each worker.

    They load ahead while the step computes, so the longer of the two sets the pace. Loading takes a core:
    more processes than the host has cores do not help, and on CPU they take cores from the step itself.
    """
    phases = measurement.phases
    assert phases is not None
    config, host = measurement.config, measurement.environment
    rest_s = phases.step_s - phases.data_wait_s
    now = config.loader_worker_count or 0
    loading_s = phases.step_s * now if now else phases.data_wait_s  # of one process, for a step's batches
    workers_per_node = max(1, config.gpu_count // config.node_count)
    cores = host.host_cpu_count / workers_per_node
    pace_s = max(rest_s, loading_s / min(worker_count, max(cores, 1.0)))
    if host.threads_per_worker is not None:
        pace_s = max(pace_s, (rest_s * min(host.threads_per_worker, cores) + loading_s) / max(cores, 1.0))
    return phases.step_s / pace_s


def loader_variants(outcomes: Iterable[Outcome], profile: WorkloadProfile) -> tuple[TrialConfig, ...]:
    """What was measured waiting for its data, with loader workers that are expected to pay.

    Only for a dataset with a length: of one that can only be iterated, each loader process reads everything.
    """
    if profile.dataset_size is None:
        return ()
    found = []
    for one in outcomes:
        if isinstance(one, Measurement) and one.config.loader_worker_count is None:
            loaders = best_loaders(one)
            if loaders is not None:
                found.append(replace(one.config, loader_worker_count=loaders.worker_count))
    return tuple(dict.fromkeys(found))
