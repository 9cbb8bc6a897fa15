"""What another way to load would make of a step that waits for its data or its copy, from its phases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from trials.api import Loading, Measurement, Outcome, TrialConfig, WorkloadProfile

LOADER_WORKER_COUNTS = (1, 2, 4, 8)
LOADER_PAYS_FRACTION = 0.05  # of the step, waited for data, from which loader workers are worth a trial
LOADER_LOG_SPREAD = 0.2  # of the speed with them: starts of processes, copies between them, bursts
PREFETCH_COUNT = 8  # batches ahead of each loader process: four times what torch has
_GONE_FRACTION_MAX = 0.9  # of a step, that another way to load may be hoped to save
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


def simpler_loadings(loading: Loading) -> tuple[Loading, ...]:
    """The same with one knob as the model file and torch have it, the last that is tried first."""
    found = (replace(loading, is_pinned=None), replace(loading, prefetch_count=None))
    return tuple(one for one in (*found, replace(loading, worker_count=None)) if one != loading)


def otherwise_loaded(measurement: Measurement, loading: Loading) -> tuple[float, float]:
    """How many times faster the step would be with one knob of loading set, and the spread of its logarithm.

    Batches held ready bridge waits that come in bursts: between none and all of the wait. Whether pinning
    costs more than the copy gains from it nobody can tell beforehand: it is a matter of wait and copy.
    """
    phases, now = measurement.phases, measurement.config.loading
    assert phases is not None
    if loading.worker_count != now.worker_count:
        assert loading.worker_count is not None
        return loader_speed_ratio(measurement, loading.worker_count), LOADER_LOG_SPREAD
    if loading.prefetch_count != now.prefetch_count:
        reach = _log_reach(phases.data_wait_s / phases.step_s)
        return math.exp(reach / 2), reach / 2
    return 1.0, _log_reach((phases.data_wait_s + phases.host_to_device_s) / phases.step_s) / 2


def _log_reach(fraction: float) -> float:
    """Logarithm of the speed where that share of the step were gone."""
    return -math.log1p(-min(fraction, _GONE_FRACTION_MAX))


def loading_variants(outcomes: Iterable[Outcome], profile: WorkloadProfile) -> tuple[TrialConfig, ...]:
    """What was measured waiting for its data or its copy, with one knob of loading turned.

    Only for a dataset with a length: of one that can only be iterated, each loader process reads everything.
    """
    if profile.dataset_size is None:
        return ()
    measured = (one for one in outcomes if isinstance(one, Measurement))
    return tuple(
        dict.fromkeys(one.config.loaded(loading) for one in measured for loading in _next_loadings(one))
    )


def _next_loadings(measurement: Measurement) -> Iterator[Loading]:
    """First loader workers; where the step still waits, more batches ahead; on CUDA, without pinning."""
    phases, loading = measurement.phases, measurement.config.loading
    if phases is None:
        return
    least_s = LOADER_PAYS_FRACTION * phases.step_s
    loaders = best_loaders(measurement)
    if loading.worker_count is None and loaders is not None:
        yield replace(loading, worker_count=loaders.worker_count)
    if loading.worker_count and loading.prefetch_count is None and phases.data_wait_s > least_s:
        yield replace(loading, prefetch_count=PREFETCH_COUNT)
    is_on_cuda = measurement.environment.cuda is not None
    if is_on_cuda and loading.is_pinned is None and phases.data_wait_s + phases.host_to_device_s > least_s:
        yield replace(loading, is_pinned=False)
