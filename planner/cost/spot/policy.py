"""Ways of renting the same instances, and which of them suits a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from planner.estimate.values import Estimate

PLAY_ERROR_FRACTION = 0.01
"""Standard error of the fall-back's mean cost, which is played, about; of policies nearer to each other the
simplest is taken."""

ACCEPTED_MISS_FRACTION = 0.05
"""Chance of missing the deadline that the choice takes, where the user does not say."""

MISS_CAVEAT = (
    "the chance of missing the deadline on spot alone rests on waits for capacity, which no provider "
    "publishes; in the one public record 63% of the runs were late that a chance of 28% was stated for"
)
"""For the report, wherever that chance is shown (`python -m benchmarks.spot.replay`, deadline 10 h, waits of
30 min)."""


class Policy(StrEnum):
    """Ways of renting the same instances."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    SPOT_WITH_FALLBACK = "spot, falling back to on-demand when the deadline nears"


class Reason(StrEnum):
    """Why a policy was chosen, in words for the report."""

    ONLY_ONE = "nothing else can be compared"
    CHEAPEST = "the cheapest on average, and no deadline is set"
    CHEAPEST_IN_TIME = "the cheapest on average of those that keep the deadline"
    LEAST_LATE = "none keeps the deadline surely enough; this one misses it least often"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """One policy: means at the expected work.

    Dollars have the 10th and 90th percentile as low and high, wall time the 5th and 95th.
    """

    policy: Policy
    cost_usd: Estimate  # rent only
    wall_s: Estimate
    miss_probability: float | None  # None without a deadline
    on_demand_fraction: float  # of the hours held
    checkpoint_interval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """What was chosen and why, with everything that was compared, cheapest first."""

    chosen: PolicyOutcome
    reason: Reason
    compared: tuple[PolicyOutcome, ...]
    accepted_miss_fraction: float
    discount_fraction: float | None = None  # of spot against on-demand; None where one of them is not offered
    break_even_discount_fraction: float | None = None  # from which on spot is cheaper on average


def choose_policy(
    compared: Sequence[PolicyOutcome], accepted_miss_fraction: float = ACCEPTED_MISS_FRACTION
) -> PolicyChoice | None:
    """The cheapest that keeps the deadline surely enough, else the surest; None when there is none at all.

    Of those as cheap as far as can be told the simplest.
    """
    if not compared:
        return None
    in_order = tuple(sorted(compared, key=lambda outcome: outcome.cost_usd.expected))
    in_time = [outcome for outcome in in_order if (outcome.miss_probability or 0.0) <= accepted_miss_fraction]
    if in_time:
        most_usd = in_time[0].cost_usd.expected * (1 + PLAY_ERROR_FRACTION)
        near = [outcome for outcome in in_time if outcome.cost_usd.expected <= most_usd]
        chosen = min(near, key=lambda outcome: list(Policy).index(outcome.policy))
        has_deadline = chosen.miss_probability is not None
        reason = Reason.CHEAPEST_IN_TIME if has_deadline else Reason.CHEAPEST
    else:
        chosen = min(
            in_order, key=lambda outcome: (outcome.miss_probability or 0.0, outcome.cost_usd.expected)
        )
        reason = Reason.LEAST_LATE
    return PolicyChoice(
        chosen=chosen,
        reason=Reason.ONLY_ONE if len(in_order) == 1 else reason,
        compared=in_order,
        accepted_miss_fraction=accepted_miss_fraction,
    )
