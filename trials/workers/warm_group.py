"""One warm group: started on its nodes when a trial needs it, kept, replaced when it must be."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trials.cluster.discovery import free_counts, wait_for_devices
from trials.cluster.placement import backend, capacity, refusal, worker_resources
from trials.devices import DeviceGroup, Node
from trials.extras import Extras
from trials.measurement import Measurement, Outcome
from trials.trial import Failure, FailureKind, Purpose, TrialConfig, Workload
from trials.workers.broker import ANSWER_MARGIN_S
from trials.workers.crash_record import crash_folder
from trials.workers.extras_due import EXTRAS_LIMIT_S, extras_due
from trials.workers.group_plan import GroupPlan, Share
from trials.workers.host import TRAIN_ENVIRONMENT, Host
from trials.workers.limits import confirming_limit_s
from trials.workers.orphans import free_orphans
from trials.workers.postmortem import first_line, is_low_memory
from trials.workers.runner_settings import RunnerSettings
from trials.workers.trial_request import TrialReply, TrialRequest

_STOP_LIMIT_S = 20.0
_RELEASE_LIMIT_S = 20.0  # for devices of a group that was ended to be free again
STARTS_MAX = 2  # of a group in a row without success


class WarmGroup:
    """Runs trials on its nodes, one after the other."""

    def __init__(
        self,
        workload: Workload,
        group: DeviceGroup,
        settings: RunnerSettings,
        *,
        seen: list[Measurement],
        failed_starts: list[str],
        is_release_awaited: bool,
    ) -> None:
        """Nothing starts yet.

        Args:
            workload: the model file, as hashed on this machine.
            group: the nodes that it has to itself.
            settings: see there.
            seen: measurements of the type of device, to which its own are added.
            failed_starts: why its starts failed so far, in a row; to be cleared for another try.
            is_release_awaited: whether its devices may be about to be given back by an earlier group.
        """
        self.settings = settings
        self._workload = workload
        self._group = group
        self._plan: GroupPlan | None = None  # of workers that are ready
        self._held: GroupPlan | None = None  # of workers that are there or about to be
        self._host: Any = None
        self._token = ""
        self._seen = seen
        self._trial_id = 0
        self._failed_starts = failed_starts
        self._is_release_awaited = is_release_awaited
        self.held_from_s = 0.0  # by time.monotonic, while anything is held

    def start_early(self, config: TrialConfig) -> None:
        """Start workers before the first trial asks for them, where devices are free at once.

        What goes wrong is left for that trial to meet.
        """
        count = self._count_per_node(config)
        if wait_for_devices(self._group, count, node_count=config.node_count, timeout_s=0.0):
            self._replace(config)
            self._failed_starts.clear()

    def run(self, config: TrialConfig, purpose: Purpose) -> Outcome:
        """Run a trial in a group that takes it."""
        why = refusal(self._group, config)
        if why is not None:
            return _failure(config, FailureKind.UNSUPPORTED, why)
        if not self.takes(config):
            problem = self._replace(config)
            if problem is not None:
                return problem
        assert self._plan is not None
        self._trial_id += 1
        wanted = Extras() if purpose is Purpose.PROBE else self.settings.extras
        extras = extras_due(wanted, config, self._seen)
        extras_limit_s = 0.0 if extras.is_nothing else EXTRAS_LIMIT_S
        request = TrialRequest(
            trial_id=self._trial_id,
            config=config,
            ranks=self._plan.ranks_of(config),
            limit_s=(confirming_limit_s if purpose.is_last else self.settings.limit_s)(config, self._seen)
            + extras_limit_s,
            restart_limit_s=self.settings.start_limit_s,
            extras=extras,
            purpose=purpose,
        )
        reply = self._ask(request)
        is_lost = isinstance(reply.outcome, Failure) and reply.outcome.is_device_lost
        if reply.is_broken or is_lost:
            self.close(is_broken=True)
        if isinstance(reply.outcome, Measurement):
            self._seen.append(reply.outcome)
        return reply.outcome

    @property
    def held_count(self) -> int:
        """Devices that it holds now: GPUs, or CPU machines; from the first attempt to start until its end."""
        plan = self._held
        if plan is None:
            return 0
        return len(plan.shares) if plan.is_cpu else plan.worker_count

    def takes(self, config: TrialConfig) -> bool:
        """Whether its workers are ready for a trial as they are."""
        return self._plan is not None and self._plan.takes(config)

    def close(self, *, is_broken: bool = False) -> None:
        """End the group; its devices are free afterwards."""
        host, self._host, self._plan, self._held = self._host, None, None, None
        if host is None or not ray.is_initialized():
            return
        token, self._token = self._token, ""
        try:
            if not is_broken:
                ray.get(host.stop.remote(), timeout=_STOP_LIMIT_S)
        except ray.exceptions.RayError:
            pass  # it did not go by itself, or is gone
        finally:
            ray.kill(host)
            if is_broken:
                free_orphans()
            shutil.rmtree(
                crash_folder(token), ignore_errors=True
            )  # this node's; other nodes' are a few lines

    def _ask(self, request: TrialRequest) -> TrialReply:
        limit_s = (
            request.limit_s + ANSWER_MARGIN_S + 3 * request.restart_limit_s
        )  # the broker keeps closer ones
        try:
            reply: TrialReply = ray.get(self._host.run.remote(request), timeout=limit_s)
        except ray.exceptions.GetTimeoutError:
            failure = _failure(request.config, FailureKind.TIMED_OUT, f"no answer within {limit_s:.0f} s")
        except BaseException as error:
            if not isinstance(error, ray.exceptions.RayError):  # an interrupt: the workers are in a trial
                self.close(is_broken=True)
                raise
            text = str(error)
            kind = FailureKind.OUT_OF_MEMORY if is_low_memory(text) else FailureKind.WORKER_LOST
            reason = f"the process that leads the workers ended: {first_line(text)}"
            failure = _failure(request.config, kind, reason, detail=text)
        else:
            return reply
        return TrialReply(outcome=failure, is_broken=True)

    def _replace(self, config: TrialConfig) -> Failure | None:
        """Start the group that the trial needs, instead of what there is."""
        if len(self._failed_starts) >= STARTS_MAX:
            reason = (
                f"{self._group.gpu} was given up after {STARTS_MAX} failed starts: {self._failed_starts[-1]}"
            )
            return _failure(config, FailureKind.WORKER_LOST, reason)
        self.close()
        plan = self._plan_for(config)
        if isinstance(plan, Failure):
            return plan
        try:
            problem = self._start(plan)
        except BaseException:  # an interrupt leaves nothing behind
            self.close(is_broken=True)
            raise
        if problem:
            self._failed_starts.append(first_line(problem))
            self.close(is_broken=True)
            reason = f"the workers did not start: {first_line(problem)}"
            return _failure(config, FailureKind.WORKER_LOST, reason, detail=problem)
        self._failed_starts.clear()
        self._plan = plan
        return None

    def _plan_for(self, config: TrialConfig) -> GroupPlan | Failure:
        group, settings = self._group, self.settings
        per_node = self._count_per_node(config)
        had_any = self._is_release_awaited or self._trial_id > 0
        is_free = had_any and wait_for_devices(
            group, per_node, node_count=config.node_count, timeout_s=_RELEASE_LIMIT_S
        )
        if not is_free and not wait_for_devices(
            group, per_node, node_count=config.node_count, timeout_s=settings.wait_s, on_wait=settings.on_wait
        ):
            if len(free_counts(group.nodes, is_cpu=group.is_cpu)) < config.node_count:
                return _failure(config, FailureKind.WORKER_LOST, "a node of its workers left the cluster")
            reason = f"{config.gpu_count} x {config.gpu} did not become free within {settings.wait_s:.0f} s"
            return _failure(config, FailureKind.BUSY, reason)
        free = free_counts(group.nodes, is_cpu=group.is_cpu)
        nodes = sorted(
            (one for one in group.nodes if one.node_id in free), key=lambda one: -free[one.node_id]
        )
        return self._plan_on(nodes[: config.node_count], config, free)

    def _count_per_node(self, config: TrialConfig) -> int:
        """Devices that must be free on a node."""
        if self._group.is_cpu:  # its workers share all cores
            return min(node.cpu_count for node in self._group.nodes)
        return config.gpu_count // config.node_count

    def _plan_on(self, nodes: Sequence[Node], config: TrialConfig, free: Mapping[str, int]) -> GroupPlan:
        """A group on these nodes that takes the trial, and larger ones to come where there is room."""
        group, settings = self._group, self.settings
        room = min(
            capacity(node, group) if group.is_cpu else min(capacity(node, group), free[node.node_id])
            for node in nodes
        )
        wish = settings.worker_counts.get(config.gpu, 0) // config.node_count
        held = max(config.gpu_count // config.node_count, min(wish, room))
        kinds = {node.accelerator_type for node in nodes}
        return GroupPlan(
            token=uuid.uuid4().hex[:12],
            workload=self._workload,
            is_cpu=group.is_cpu,
            backend=backend(nodes, is_cpu=group.is_cpu),
            device_name=group.device_name,
            shares=tuple(Share(node_id=node.node_id, worker_count=held) for node in nodes),
            resources=worker_resources(nodes, held, is_cpu=group.is_cpu),
            accelerator_type=kinds.pop() if len(kinds) == 1 else None,
            cores_per_node=max(1, min(node.cpu_count for node in nodes)),
            schedule_limit_s=settings.schedule_limit_s,
            measure=settings.measure,
            merge=settings.merge,
            measure_settings=settings.measure_settings,
            identify=settings.identify,
        )

    def _start(self, plan: GroupPlan) -> str:
        """Start the group: ``""``, or why it did not."""
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        actor = ray.remote(
            num_cpus=0,
            max_restarts=0,
            scheduling_strategy=here,
            runtime_env={"env_vars": TRAIN_ENVIRONMENT},
        )(Host)
        self.held_from_s = time.monotonic()
        self._host, self._token, self._held = actor.remote(plan), plan.token, plan
        try:
            return str(ray.get(self._host.start.remote(), timeout=self.settings.start_limit_s))
        except ray.exceptions.GetTimeoutError:
            return f"no worker was ready within {self.settings.start_limit_s:.0f} s"
        except ray.exceptions.RayError as error:
            return str(error)


def _failure(config: TrialConfig, kind: FailureKind, reason: str, detail: str = "") -> Failure:
    return Failure(config=config, kind=kind, reason=reason, trial_s=0.0, detail=detail)
