"""The actor that holds a warm group together: Ray Train's run, and the broker beside it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback

from trials.measurement import Outcome
from trials.trial import Failure, FailureKind
from trials.workers.broker import Broker
from trials.workers.crash_record import crash_folder
from trials.workers.group_plan import GroupPlan, resolve, worker_environment
from trials.workers.postmortem import first_line, is_low_memory
from trials.workers.trial_request import TrialReply, TrialRequest

# Read by Ray Train where fit() runs; measured: 14 s instead of 20 s to the first trial of one worker.
TRAIN_ENVIRONMENT = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # the worker itself goes to the user's directory
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION": "0",
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": "120",
}
PROCESS_GROUP_START_S = 120
_NODE_LABEL = "ray.io/node-id"


class LossWatcher(UserCallback):  # type: ignore[misc]  # ray has no types
    """Tells the broker what Ray Train's controller sees of failed ranks."""

    def __init__(self, host: Any) -> None:
        self._host = host

    def after_exception(self, run_context: Any, worker_exceptions: Mapping[int, Exception]) -> None:
        """Called by the controller before it restarts the group."""
        del run_context
        told = {
            rank: str(getattr(error, "health_check_failure", error))
            for rank, error in worker_exceptions.items()
        }
        self._host.lost.remote(told)


class Host(Broker):
    """The actor: a broker that runs ``TorchTrainer.fit`` in a thread beside its own work.

    Ending this actor ends the group: Ray ends the controller and the workers with their owner, and their
    devices are free at once.
    """

    def __init__(self, plan: GroupPlan) -> None:
        super().__init__(self._merge_ranks)
        self._plan = plan
        self._fit: asyncio.Task[str] | None = None

    async def start(self) -> str:
        """Begin the run. Returns when workers are there: ``""``; or when the run ended before: why."""
        me = ray.get_runtime_context().current_actor
        self._fit = asyncio.create_task(asyncio.to_thread(run_fit, self._plan, me))
        return str(await self._or_fit_ends(self.ready()))

    async def run(self, request: TrialRequest) -> TrialReply:
        """Have the workers do a trial; it fails where Ray Train's run ends before it."""
        reply = await self._or_fit_ends(super().run(request))
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
        return self.saved(failure)

    async def stop(self) -> None:
        """Let the workers go home, and return when the run has ended.

        Only then is it safe to end this actor: Ray removes the placement group of a controller that dies, but
        not of one that dies while it shuts down.
        """
        await super().stop()
        if self._fit is not None:
            await self._fit

    def _merge_ranks(self, outcomes: Sequence[Outcome]) -> Outcome:
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
