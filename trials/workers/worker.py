"""The loop inside a warm Ray Train worker: ask, measure, answer, repeat.

Two process groups. The control group (gloo, patient) carries requests and answers between the ranks. Each
trial gets a data group of its own (nccl on CUDA, gloo on CPU) over the ranks that take part, so that nothing
of a failed collective outlives its trial.

What can go wrong with a rank, and how it ends within bounded time:

- it raises: it reports its failure and drops its data group, so that gloo tells the others at once; those it
  does not reach (nccl) end themselves after a grace and the group restarts
- it hangs, or a collective waits for ever: the crash record ends every rank at the trial's limit, with stacks
- it is killed or leaves by ``os._exit``: the control group breaks, Ray Train restarts the group, and the
  successor brings the record to the broker
"""

from __future__ import annotations

import gc
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from trials.cluster.shipping import folder_name
from trials.measurement import Measurement, Outcome
from trials.measuring.failures import explain
from trials.measuring.settings import settings_for
from trials.rank_context import RankContext
from trials.trial import Failure, FailureKind, Purpose, Workload
from trials.workers.crash_record import CrashRecorder, crash_folder, read_crash_records
from trials.workers.group_plan import GroupPlan, resolve
from trials.workers.trial_request import TrialRequest

_CONTROL_LIMIT = timedelta(days=7)  # idle workers wait for the next request
FOLLOW_AFTER_S = 10.0  # what a restart costs: waiting longer for a rank that failed does not pay


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """One rank of a warm group: its device, its process groups, its files, and whom it reports to."""

    plan: GroupPlan
    host: Any  # handle of the actor
    rank: int
    device: str
    control: Any  # process group of all ranks
    device_names: tuple[str, ...]  # by rank
    workload: Workload  # as it lies on this node
    recorder: CrashRecorder
    measure: Callable[..., Outcome]
    merge: Callable[..., Outcome]


def run_worker(config: dict[str, Any]) -> None:
    """Ray Train's train function, on every rank."""
    context = _prepare(config["plan"], config["host"])
    epoch = _say_hello(context)
    gc.collect()
    gc.freeze()  # what is loaded now stays; later collections need not look at it
    while True:
        slot: list[TrialRequest | None] = [None]
        if context.rank == 0:
            slot = [ray.get(context.host.next_request.remote(epoch))]
        dist.broadcast_object_list(slot, src=0, group=context.control)
        request = slot[0]
        if request is None:
            break
        _do(context, request)
    context.recorder.remove()


def local_workload(workload: Workload) -> Workload:
    """The workload as it lies on this node: in the copy that was sent here, else at its own path."""
    spec = importlib.util.find_spec(folder_name(workload))
    if spec is None or not spec.submodule_search_locations:
        return workload
    folder = Path(next(iter(spec.submodule_search_locations)))
    return replace(workload, path=str(folder / Path(workload.path).name))


def _prepare(plan: GroupPlan, host: Any) -> WorkerContext:
    rank = ray.train.get_context().get_world_rank()
    device = "cpu"
    if not plan.is_cpu and torch.cuda.is_available():
        device = str(ray.train.torch.get_device())
        torch.cuda.set_device(device)
    control = dist.new_group(backend="gloo", timeout=_CONTROL_LIMIT)
    names: list[str] = [""] * plan.worker_count
    dist.all_gather_object(names, resolve(plan.identify)(device), group=control)
    workload = local_workload(plan.workload)
    os.chdir(Path(workload.path).parent)  # relative paths in the user's file
    return WorkerContext(
        plan=plan,
        host=host,
        rank=rank,
        device=device,
        control=control,
        device_names=tuple(names),
        workload=workload,
        recorder=CrashRecorder(crash_folder(plan.token), rank),
        measure=resolve(plan.measure),
        merge=resolve(plan.merge),
    )


def _say_hello(context: WorkerContext) -> int:
    """Bring what predecessors left on the nodes to the broker."""
    found: list[Any] = [None] * context.plan.worker_count
    own = [one for one in read_crash_records(crash_folder(context.plan.token)) if one.rank == context.rank]
    dist.all_gather_object(found, own, group=context.control)
    if context.rank:
        return 0
    return int(ray.get(context.host.hello.remote([one for records in found for one in records])))


def _do(context: WorkerContext, request: TrialRequest) -> None:
    """One trial, on every rank; those that take no part wait."""
    context.recorder.begin(request.trial_id, request.limit_s)
    ranks = request.ranks
    # the record ends a rank at the limit, so the collectives need none of their own
    data = dist.new_group(ranks, timeout=timedelta(seconds=2 * request.limit_s)) if len(ranks) > 1 else None
    dist.barrier(group=context.control)
    if context.rank == 0:
        ray.get(context.host.begun.remote(request.trial_id))
    outcome: Outcome | None = None
    if context.rank in ranks:
        with _watched(context, request):
            outcome = _attempt(context, request, data)
            context.recorder.finish_part()
            if isinstance(outcome, Failure):
                ray.get(context.host.failed.remote(request.trial_id, context.rank, outcome))
    _leave(data, has_failed=isinstance(outcome, Failure))
    del data
    outcomes: list[Any] = [None] * context.plan.worker_count
    dist.all_gather_object(outcomes, outcome, group=context.control)
    context.recorder.end()
    if context.rank == 0:
        merged = context.merge([one for one in outcomes if one is not None])
        ray.get(context.host.done.remote(request.trial_id, merged))


def _attempt(context: WorkerContext, request: TrialRequest, data: Any) -> Outcome:
    config, ranks = request.config, request.ranks

    def report(measurement: Measurement) -> None:
        ray.get(context.host.measured.remote(request.trial_id, context.rank, measurement))

    wrong = {context.device_names[rank] for rank in ranks} - {context.plan.device_name}
    if wrong:  # every rank knows it, so none waits for another
        reason = (
            f"the trial is for {context.plan.device_name}, but the worker runs on {', '.join(sorted(wrong))}"
        )
        return Failure(config=config, kind=FailureKind.WRONG_DEVICE, reason=reason, trial_s=0.0)
    rank_context = RankContext(
        rank=ranks.index(context.rank),
        world_size=len(ranks),
        device=context.device,
        process_group=data,
        threads=context.plan.threads_of(config),
        ray_version=ray.__version__,
        report=report,
    )
    settings = context.plan.measure_settings
    if request.purpose is not Purpose.SEARCH:
        settings = settings_for(request.purpose, settings)
    try:
        return context.measure(context.workload, config, rank_context, settings, request.extras)
    except BaseException as error:  # noqa: BLE001  (even sys.exit of the user's file must not end the group)
        return explain(error, config, context.workload.path, trial_s=0.0)


@contextmanager
def _watched(context: WorkerContext, request: TrialRequest) -> Iterator[None]:
    """End this process when another rank has failed and this one still waits for it after a grace."""
    if len(request.ranks) == 1:
        yield
        return
    is_over = threading.Event()

    def watch() -> None:
        first = ray.get(context.host.first_failed.remote(request.trial_id))
        if first is not None and not is_over.wait(FOLLOW_AFTER_S):
            ray.get(context.host.follow.remote(request.trial_id, context.rank))
            os._exit(1)

    threading.Thread(target=watch, daemon=True, name="trial-watch").start()
    try:
        yield
    finally:
        is_over.set()


def _leave(data: Any, *, has_failed: bool) -> None:
    """Drop the trial's process group; after a failure without waiting for what is still under way in it."""
    if data is None or data is dist.GroupMember.NON_GROUP_MEMBER:
        return
    if has_failed:
        gc.collect()  # a model left in a cycle would keep gloo's connections open, and the others waiting
    forget_in_meshes(data)
    if has_failed and dist.get_backend(data) != "gloo":
        dist.distributed_c10d._abort_process_group(data)  # destroy waits for kernels that never end
    else:
        dist.destroy_process_group(data)


def forget_in_meshes(group: Any) -> None:
    """Take a process group out of every device mesh: DTensor's caches keep FSDP2's mesh, and it the group."""
    for found in gc.get_objects():
        if issubclass(type(found), DeviceMesh):  # isinstance asks a proxy for its object, which may be gone
            registry = getattr(found, "_pg_registry", {})
            for name in [name for name, known in registry.items() if known is group]:
                del registry[name]
