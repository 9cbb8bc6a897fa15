"""The warm groups of one type of device, side by side, each on nodes of its own.

A node has one trial at a time: trials on its other GPUs would share its host, its PCIe lanes and its power,
and each would time the others. A trial of several nodes has all of them to itself. Trials begin in the order
in which they were asked for, so that one that waits for several idle nodes is never overtaken.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from trials.cluster.discovery import free_counts
from trials.cluster.placement import capacity, refusal
from trials.devices import DeviceGroup, Node
from trials.measurement import Measurement, Outcome
from trials.trial import Failure, FailureKind, Purpose, TrialConfig, Workload
from trials.workers.runner_settings import RunnerSettings
from trials.workers.warm_group import STARTS_MAX, WarmGroup


@dataclass(eq=False, slots=True, kw_only=True)
class _PooledGroup:
    """A warm group and its nodes."""

    group: WarmGroup
    node_ids: frozenset[str]
    is_leaving: bool = False  # takes no more trials, but may hold its devices still


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class _Claim:
    """Nodes that a trial has to itself, from before its group starts until it has ended."""

    config: TrialConfig
    node_ids: frozenset[str]


class NodePool:
    """Runs trials of one type of device, called from several threads."""

    def __init__(self, workload: Workload, group: DeviceGroup, settings: RunnerSettings) -> None:
        self._workload = workload
        self._group = group
        self._settings = settings
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # trials that wait for nodes, in order
        self._claims: list[_Claim] = []
        self._pooled: list[_PooledGroup] = []
        self._seen: list[Measurement] = []  # of all groups: limits and extras follow from what the type did
        self._failed_starts: dict[frozenset[str], list[str]] = {}  # in a row, by nodes
        self._nodes_held_before: set[str] = set()

    def run(self, config: TrialConfig, purpose: Purpose) -> Outcome:
        """Run a trial as soon as nodes are idle that take it."""
        claim = self._claim(config)
        if isinstance(claim, Failure):
            return claim
        begun_s = time.monotonic()
        try:
            pooled, stale = self._group_on(claim)
            for leaving in stale:
                self._end(leaving)
            outcome = pooled.group.run(config, purpose)
        finally:
            self._give_back(claim)
        if isinstance(outcome, Failure) and not outcome.trial_s:
            return replace(outcome, trial_s=time.monotonic() - begun_s)
        return outcome

    def start_early(self, config: TrialConfig) -> None:
        """Start the workers of a trial to come, where devices are free at once."""
        with self._changed:
            nodes = self._pick(config, self._taken())
            if nodes is None or not self._are_free(nodes, config):
                return
            claim = _Claim(config=config, node_ids=frozenset(_ids(nodes)))
            self._claims.append(claim)
        try:
            self._group_on(claim)[0].group.start_early(config)
        finally:
            self._give_back(claim)

    def has_room(self, config: TrialConfig, in_flight: Iterable[TrialConfig]) -> bool:
        """Whether a trial would begin at once beside those under way.

        With none under way it has: devices that others use are waited for. Beside trials they are not.
        """
        with self._changed:
            begun = Counter(claim.config for claim in self._claims)
            to_begin = Counter(in_flight) - begun
            if not begun and not to_begin:
                return True
            taken = set(self._taken())
            for awaited in to_begin.elements():
                taken |= _ids(self._pick(awaited, taken) or self._group.nodes)
            nodes = self._pick(config, taken)
            return nodes is not None and self._are_free(nodes, config)

    @property
    def held_count(self) -> int:
        """Devices that are held now: GPUs, or CPU machines."""
        return sum(pooled.group.held_count for pooled in list(self._pooled))

    @property
    def held_from_s(self) -> float | None:
        """Since when, by time.monotonic; None while nothing is held."""
        held = [pooled.group.held_from_s for pooled in list(self._pooled) if pooled.group.held_count]
        return min(held, default=None)

    def move_to(self, group: DeviceGroup | None, settings: RunnerSettings) -> bool:
        """Go on with other nodes, or with none. False while a trial is under way on one that left."""
        there = _ids(group.nodes) if group is not None else set()
        with self._changed:
            if group is not None:
                self._group, self._settings = group, settings
            for starts in self._failed_starts.values():
                starts.clear()
            gone = [pooled for pooled in self._pooled if not pooled.node_ids <= there]
            idle = [
                pooled for pooled in gone if not pooled.node_ids & self._taken() and not pooled.is_leaving
            ]
            for pooled in self._pooled:
                pooled.is_leaving = pooled.is_leaving or pooled in idle
                pooled.group.settings = self._settings
            is_whole = len(idle) == len(gone) and (group is not None or not self._claims)
            self._changed.notify_all()
        for pooled in idle:
            self._end(pooled, is_broken=True)
        return is_whole

    def close(self) -> None:
        """End all workers, also those in a trial."""
        with self._changed:
            groups, taken = list(self._pooled), self._taken()
        with ThreadPoolExecutor(max_workers=max(1, len(groups))) as pool:
            ends = [
                pool.submit(pooled.group.close, is_broken=bool(pooled.node_ids & taken)) for pooled in groups
            ]
            for end in ends:
                end.result()

    def _claim(self, config: TrialConfig) -> _Claim | Failure:
        """Wait for idle nodes and take them."""
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            try:
                self._changed.wait_for(
                    lambda: (
                        self._queue[0] is ticket
                        and (self._refusal(config) is not None or self._pick(config, self._taken()))
                    )
                )
                why = self._refusal(config)
                if why is not None:
                    return Failure(config=config, kind=FailureKind.UNSUPPORTED, reason=why, trial_s=0.0)
                nodes = self._pick(config, self._taken())
                assert nodes is not None
                claim = _Claim(config=config, node_ids=frozenset(_ids(nodes)))
                self._claims.append(claim)
                return claim
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def _give_back(self, claim: _Claim) -> None:
        with self._changed:
            self._claims.remove(claim)
            self._changed.notify_all()

    def _group_on(self, claim: _Claim) -> tuple[_PooledGroup, list[_PooledGroup]]:
        """The group on the claimed nodes, new if need be, and idle ones in its way, which must end first."""
        ids = claim.node_ids
        with self._changed:
            there = [pooled for pooled in self._pooled if pooled.node_ids & ids and not pooled.is_leaving]
            found = next((pooled for pooled in there if pooled.node_ids == ids), None)
            if found is not None:
                return found, []
            for pooled in there:
                pooled.is_leaving = True
            group = WarmGroup(
                self._workload,
                replace(self._group, nodes=tuple(node for node in self._group.nodes if node.node_id in ids)),
                self._settings,
                seen=self._seen,
                failed_starts=self._failed_starts.setdefault(ids, []),
                is_release_awaited=bool(ids & self._nodes_held_before),
            )
            made = _PooledGroup(group=group, node_ids=ids)
            self._pooled.append(made)
            self._nodes_held_before |= ids
            return made, there

    def _end(self, pooled: _PooledGroup, *, is_broken: bool = False) -> None:
        pooled.group.close(is_broken=is_broken)
        with self._changed:
            if pooled in self._pooled:
                self._pooled.remove(pooled)

    def _taken(self) -> Set[str]:
        return {node_id for claim in self._claims for node_id in claim.node_ids}

    def _refusal(self, config: TrialConfig) -> str | None:
        return refusal(self._group, config)

    def _pick(self, config: TrialConfig, taken: Set[str]) -> Sequence[Node] | None:
        """Idle nodes for a trial: those of a warm group of its shape, else such as are in nobody's way."""
        idle = [one for one in self._sound_nodes(config) if one.node_id not in taken]
        warm = [
            pooled
            for pooled in self._pooled
            if not pooled.is_leaving
            and len(pooled.node_ids) == config.node_count
            and pooled.group.takes(config)
            if pooled.node_ids <= _ids(idle)
        ]
        if warm:
            best = min(warm, key=lambda pooled: pooled.group.held_count)
            return [node for node in idle if node.node_id in best.node_ids]
        per_node = config.gpu_count // config.node_count
        large = [node for node in idle if capacity(node, self._group) >= per_node]
        if len(large) < config.node_count:
            return None
        held_ids = {node_id for pooled in self._pooled for node_id in pooled.node_ids}
        free = free_counts(large, is_cpu=self._group.is_cpu) if len(large) > config.node_count else {}

        def effort(node: Node) -> tuple[bool, bool, int, int]:
            is_ours, count = node.node_id in held_ids, free.get(node.node_id, 0)
            return not is_ours and count < per_node, is_ours, capacity(node, self._group), -count

        return sorted(large, key=effort)[: config.node_count]

    def _sound_nodes(self, config: TrialConfig) -> Sequence[Node]:
        """The nodes whose workers start, as far as is known; all, where the trial needs more than those."""
        given_up = {
            node_id
            for ids, starts in self._failed_starts.items()
            if len(ids) == 1 and len(starts) >= STARTS_MAX
            for node_id in ids
        }
        sound = tuple(node for node in self._group.nodes if node.node_id not in given_up)
        is_enough = refusal(replace(self._group, nodes=sound), config) is None
        return sound if is_enough else self._group.nodes

    def _are_free(self, nodes: Sequence[Node], config: TrialConfig) -> bool:
        """Whether nobody else holds what the trial needs there; what our groups hold is given back."""
        held_ids = {node_id for pooled in self._pooled for node_id in pooled.node_ids}
        others = [node for node in nodes if node.node_id not in held_ids]
        free: Mapping[str, int] = free_counts(others, is_cpu=self._group.is_cpu) if others else {}
        return all(free.get(one.node_id, 0) >= config.gpu_count // config.node_count for one in others)


def _ids(nodes: Iterable[Node]) -> set[str]:
    return {node.node_id for node in nodes}
