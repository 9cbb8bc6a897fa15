"""One warm group of workers: its shape, and the actor that holds Ray Train's run and the broker together."""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback

from trials.trial import Failure, FailureKind, Measurement, Outcome, TrialConfig, Workload
from trials.workers.broker import Broker, TrialReply, TrialRequest
from trials.workers.crash_record import CrashRecord, crash_folder
from trials.workers.postmortem import is_low_memory

MeasureFunction = Callable[..., Outcome]  # (workload, config, place, settings, extras)
MergeFunction = Callable[[Sequence[Outcome]], Outcome]
IdentifyFunction = Callable[[str], str]  # device ("cpu", "cuda:0") -> its name

# Read by Ray Train where fit() runs; measured: 14 s instead of 20 s to the first trial of one worker.
TRAIN_ENVIRONMENT = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # the worker itself goes to the user's directory
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION": "0",
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": "120",
}
# Read by torch in the workers. With Ray Train's choice for the first, 1, NCCL's watchdog ends every rank
# whose peer has left, before the peer's reason is known; _abort_process_group asks for 0. A CUDA error is
# raised in the rank's own next call, which reports it: the watchdog need not end the process for it.
_NCCL_ENVIRONMENT = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0"}
PROCESS_GROUP_START_S = 120
_NODE_LABEL = "ray.io/node-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Workers on one node."""

    node_id: str
    worker_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """Everything a group needs to start; crosses to its processes."""

    token: str  # names this run's files on the nodes
    workload: Workload
    is_cpu: bool
    backend: str  # of torch.distributed
    device_name: str  # what every worker must report
    shares: tuple[Share, ...]  # equal counts
    resources: Mapping[str, float]  # of each worker
    accelerator_type: str | None
    cores_per_node: int
    schedule_limit_s: float
    measure: str | MeasureFunction
    merge: str | MergeFunction
    measure_settings: object | None
    identify: str | IdentifyFunction

    @property
    def worker_count(self) -> int:
        """Workers in all."""
        return sum(share.worker_count for share in self.shares)

    def takes(self, config: TrialConfig) -> bool:
        """Whether a trial fits into this group."""
        per_node, rest = divmod(config.gpu_count, config.node_count)
        return rest == 0 and config.node_count <= len(self.shares) and per_node <= self.shares[0].worker_count

    def ranks_of(self, config: TrialConfig) -> tuple[int, ...]:
        """The ranks that do the trial: the first ones of each node (Ray Train ranks node by node)."""
        per_node = config.gpu_count // config.node_count
        held = self.shares[0].worker_count
        return tuple(node * held + local for node in range(config.node_count) for local in range(per_node))

    def threads_of(self, config: TrialConfig) -> int:
        """Cores of each worker of the trial: those on a node share them."""
        return max(1, self.cores_per_node // (config.gpu_count // config.node_count))


def resolve(name: str | Callable[..., Any]) -> Callable[..., Any]:
    """The function that ``"module:function"`` names, or the function itself."""
    if callable(name):
        return name
    module, _, attribute = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found


class LossWatcher(UserCallback):  # type: ignore[misc]  # ray has no types
    """Tells the broker what Ray Train's controller sees of failed ranks."""

    def __init__(self, host: Any) -> None:
        self._host = host

    def after_exception(self, run_context: Any, worker_exceptions: Mapping[int, Exception]) -> None:
        """Called by the controller before it restarts the group."""
        del run_context
        told = {
            rank: str(getattr(one, "health_check_failure", one)) for rank, one in worker_exceptions.items()
        }
        self._host.lost.remote(told)


class Host:
    """The actor: runs ``TorchTrainer.fit`` in a thread and serves the broker meanwhile.

    Ending this actor ends the group: Ray ends the controller and the workers with their owner, and their
    devices are free at once.
    """

    def __init__(self, plan: GroupPlan) -> None:
        self._plan = plan
        self._broker = Broker(self._merge)
        self._fit: asyncio.Task[str] | None = None

    async def start(self) -> str:
        """Begin the run. Returns when workers are there: ``""``; or when the run ended before: why."""
        me = ray.get_runtime_context().current_actor
        self._fit = asyncio.create_task(asyncio.to_thread(run_fit, self._plan, me))
        return str(await self._or_fit_ends(self._broker.ready()))

    async def run(self, request: TrialRequest) -> TrialReply:
        """Do a trial."""
        reply = await self._or_fit_ends(self._broker.run(request))
        if isinstance(reply, TrialReply):
            return reply
        is_memory = is_low_memory(reply)  # Ray may end the controller before the workers that use the memory
        failure = Failure(
            config=request.config,
            kind=FailureKind.OUT_OF_MEMORY if is_memory else FailureKind.WORKER_LOST,
            reason=f"the group of workers ended: {first_line(reply)}",
            trial_s=0.0,
            detail=reply,
        )
        return self._broker.saved(failure)

    async def stop(self) -> None:
        """Let the workers go home, and return when the run has ended.

        Only then is it safe to end this actor: Ray removes the placement group of a controller that dies, but
        not of one that dies while it shuts down.
        """
        await self._broker.stop()
        if self._fit is not None:
            await self._fit

    async def lost(self, reasons: Mapping[int, str]) -> None:
        """See the broker."""
        await self._broker.lost(reasons)

    async def hello(self, records: Sequence[CrashRecord]) -> int:
        """See the broker."""
        return await self._broker.hello(records)

    async def next_request(self, epoch: int) -> TrialRequest | None:
        """See the broker."""
        return await self._broker.next_request(epoch)

    async def begun(self, trial_id: int) -> None:
        """See the broker."""
        await self._broker.begun(trial_id)

    async def done(self, trial_id: int, outcome: Outcome) -> None:
        """See the broker."""
        await self._broker.done(trial_id, outcome)

    async def failed(self, trial_id: int, rank: int, failure: Failure) -> None:
        """See the broker."""
        await self._broker.failed(trial_id, rank, failure)

    async def measured(self, trial_id: int, rank: int, measurement: Measurement) -> None:
        """See the broker."""
        await self._broker.measured(trial_id, rank, measurement)

    async def first_failed(self, trial_id: int) -> int | None:
        """See the broker."""
        return await self._broker.first_failed(trial_id)

    async def follow(self, trial_id: int, rank: int) -> None:
        """See the broker."""
        await self._broker.follow(trial_id, rank)

    def _merge(self, outcomes: Sequence[Outcome]) -> Outcome:
        merged: Outcome = resolve(self._plan.merge)(outcomes)  # imports torch, and is seldom needed here
        return merged

    async def _or_fit_ends(self, wanted: Any) -> Any:
        """What ``wanted`` returns, or the text with which the run ended before."""
        assert self._fit is not None, "start() comes first"
        task = asyncio.ensure_future(wanted)
        await asyncio.wait({task, self._fit}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        return self._fit.result() or "its workers went home"


def worker_environment(plan: GroupPlan) -> dict[str, str]:
    """Environment variables of each worker's process, beside those of its node."""
    return {**_NCCL_ENVIRONMENT, "OMP_NUM_THREADS": str(plan.cores_per_node)}


def run_fit(plan: GroupPlan, host: Any) -> str:
    """Start the workers and return when they have all ended: ``""``, or what went wrong."""
    from ray.train.torch import TorchConfig, TorchTrainer  # imports torch: in the actor only

    from trials.workers.worker import run_worker

    os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = str(plan.schedule_limit_s)
    selectors = [{_NODE_LABEL: share.node_id} for share in plan.shares for _ in range(share.worker_count)]
    storage = crash_folder(plan.token) / "train"  # removed with the records, by whoever ends this process
    storage.mkdir(parents=True)
    try:
        trainer = TorchTrainer(
            run_worker,
            train_loop_config={"plan": plan, "host": host},
            torch_config=TorchConfig(backend=plan.backend, timeout_s=PROCESS_GROUP_START_S),
            scaling_config=ScalingConfig(
                num_workers=plan.worker_count,
                use_gpu=not plan.is_cpu,
                resources_per_worker=dict(plan.resources),
                accelerator_type=plan.accelerator_type,
                label_selector=selectors,
            ),
            run_config=RunConfig(
                name=f"planner-{plan.token}",
                storage_path=str(storage),
                # A crash costs its own trial only, so workers may be replaced as often as there are trials;
                # whoever starts or awaits the group keeps the time.
                failure_config=FailureConfig(max_failures=-1, controller_failure_limit=1),
                callbacks=[LossWatcher(host)],
                worker_runtime_env={"env_vars": worker_environment(plan)},
            ),
        )
        trainer.fit()
    except Exception as error:  # noqa: BLE001  (whatever Ray raises is the reason told)
        cause = getattr(error, "controller_failure", error)
        return str(cause).strip() or type(cause).__name__
    finally:
        shutil.rmtree(crash_folder(plan.token), ignore_errors=True)
    return ""


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
