"""What a plan has besides its steps, in words: interruptions, restarts, checkpoints, energy."""

from __future__ import annotations

from planner.cost.bill.energy import JOULES_PER_KWH, Energy
from planner.cost.bill.priced import SpotRun
from planner.cost.spot.job import WAIT_FACTOR, WALL_COVERAGE
from planner.cost.spot.policy import MISS_CAVEAT, Policy
from planner.plans.plan import Plan
from planner.plans.recommendation import Recommendation
from planner.reports import formats


def besides_steps(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Facts of a plan by name; each only where there is something to say."""
    return (
        *((("interruptions", _interruptions(plan, plan.spot)),) if plan.spot else ()),
        *(_restarts(plan.spot) if plan.spot and plan.spot.interruption_count else ()),
        ("checkpoints", _checkpoints(plan)),
        *((("energy", _energy(plan.energy)),) if plan.energy else ()),
    )


def unknown_interruptions(plan: Plan) -> str:
    """What can be said of a spot plan whose rate nobody knows; "" of any other."""
    if plan.spot is None or plan.is_cost_known:
        return ""
    text = (
        "Nobody publishes how often this spot instance is interrupted: the cost shown is that of a run "
        "without interruptions"
    )
    rate = plan.spot.break_even_rate_per_s
    if rate:
        text += (
            f", and it stays below the cheapest on-demand plan up to one interruption every "
            f"{formats.duration(1 / rate)}"
        )
    return f"{text}. --interruptions-per-hour states a rate."


def lateness(answer: Recommendation) -> str:
    """The caveat of the chance to miss the deadline, where one is shown; "" elsewhere."""
    best = answer.best
    shown = best is not None and best.spot is not None and best.spot.miss_probability is not None
    compared = answer.policies.compared if answer.policies else ()
    late = any(one.policy is Policy.SPOT and one.miss_probability is not None for one in compared)
    return f"Mind that {MISS_CAVEAT}." if shown or late else ""


def _interruptions(plan: Plan, spot: SpotRun) -> str:
    if spot.interruption_count is None:
        return unknown_interruptions(plan)
    rate = spot.job.interruptions_per_s
    if not rate:
        return "none"
    source = "stated by you" if spot.is_rate_stated else "from the catalog"
    text = (
        f"one every {formats.duration(1 / rate)} of all instances together, {source}: "
        f"{formats.significant(spot.interruption_count, 2)} expected; rent from "
        f"{formats.usd(spot.cost_usd_p10)} (10th percentile) to {formats.usd(spot.cost_usd_p90)} (90th)"
    )
    if spot.miss_probability is not None:
        text += f"; the deadline is missed in {formats.percent(spot.miss_probability)} of runs"
    return text


def _restarts(spot: SpotRun) -> tuple[tuple[str, str], ...]:
    restart = spot.job.restart
    parts = (
        ("provisioning", restart.provisioning_s),
        ("set-up", restart.set_up_s),
        ("loading the checkpoint", restart.load_s),
        ("start-up", restart.start_up_s),
        ("compilation and warm-up", restart.compile_s),
    )
    named = ", ".join(f"{name} {formats.duration(time_s)}" for name, time_s in parts)
    return (
        ("a restart", f"{formats.duration(restart.total_s)}: {named}; billed"),
        (
            "waits",
            f"{formats.duration(spot.job.wait_s)} on average until there is capacity again, not billed; the "
            f"interval of the time takes that to be known to a factor of {WAIT_FACTOR:g}. {WALL_COVERAGE}",
        ),
    )


def _checkpoints(plan: Plan) -> str:
    way = "in the background, " if plan.saving.stall_s < plan.saving.durable_s else ""
    rule = " (Daly 2006)" if plan.spot is not None and plan.spot.job.interruptions_per_s else ""
    return (
        f"every {formats.duration(plan.checkpoint_interval_s)}{rule}, {way}each pauses training for "
        f"{formats.duration(plan.saving.stall_s)}"
    )


def _energy(energy: Energy) -> str:
    kwh = formats.significant(energy.energy_j.expected / JOULES_PER_KWH, 3)
    text = f"{kwh} kWh ({energy.formula}; the host and cooling are not in it)"
    if energy.co2_kg is not None:
        text += f"; {formats.significant(energy.co2_kg.expected, 3)} kg of CO2"
    return text
