"""How long workers take for what they exchange, with nothing hidden."""

from __future__ import annotations

from dataclasses import dataclass

from planner.estimate.scaling.collectives import Fabric, collective_s
from planner.modes.terms import Group, Rounds, Traffic


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds of communication."""

    step_s: float = 0.0  # with the last micro batch of a step
    micro_batch_s: float = 0.0  # with every one


def waits_of(traffic: Traffic, group: Group, fabric: Fabric) -> Waits:
    """Of ``group`` over ``fabric``."""
    return Waits(
        step_s=_rounds_s(traffic.per_step, group, fabric),
        micro_batch_s=_rounds_s(traffic.per_micro_batch, group, fabric),
    )


def _rounds_s(rounds: Rounds, group: Group, fabric: Fabric) -> float:
    return rounds.count * sum(
        one.count * collective_s(one.collective, one.message_bytes, one.group or group, fabric)
        for one in rounds.exchanges
    )
