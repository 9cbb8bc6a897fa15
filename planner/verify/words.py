"""How a run stands against its plan, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from planner.reports import formats
from planner.verify.evidence import FALSE_ALARM_FRACTION, SLOWED_RATIO, Finding, Verdict
from planner.verify.run_plan import RunPlan

_ADVICE = {
    Finding.SLOWER: "Look at the GPUs' clocks, at other processes on them and at the input pipeline; "
    "`planner report` has the other plans.",
    Finding.SLOWED: "Look at the GPUs' temperature and clocks and at what else runs on the machine.",
    Finding.FASTER: "Nothing is wrong; `planner sweep` on this device type makes the next plan closer.",
}


def sentences(verdict: Verdict, run: RunPlan) -> tuple[str, ...]:
    """What is worth saying, most important first."""
    return tuple(_sentences(verdict, run))


def _sentences(verdict: Verdict, run: RunPlan) -> Iterator[str]:
    yield _speed(verdict, run)
    if verdict.is_price_changed:
        yield (
            f"The price has changed: {formats.usd_per_hour(verdict.price_usd_per_hour)}, planned with "
            f"{formats.usd_per_hour(run.price_usd_per_hour)}."
        )
    if verdict.bill_usd is not None:
        yield _bill(verdict, run)
    if verdict.is_over_budget:
        yield f"That is above the budget of {formats.usd_limit(run.target.budget_usd)}."
    if verdict.is_late:
        yield f"The deadline of {formats.duration(run.target.deadline_s)} will be missed."
    if verdict.finding in _ADVICE:
        yield _ADVICE[verdict.finding]


def _speed(verdict: Verdict, run: RunPlan) -> str:
    stated = formats.interval(run.step_time_s, formats.duration)
    if verdict.finding is Finding.TOO_EARLY:
        return (
            f"Too early to tell: {formats.counted(verdict.look_count, 'look')} so far, after step "
            f"{formats.whole(verdict.step)} of {formats.whole(run.step_count)}; stated is {stated} a step."
        )
    now = f"{formats.duration(verdict.step_time_s)} a step after {formats.duration(verdict.watched_s)}"
    if verdict.finding is Finding.AS_STATED:
        return f"The speed is as stated: {now}, stated {stated}."
    chance = f"A false alarm has a probability of at most {formats.percent(FALSE_ALARM_FRACTION)}."
    if verdict.finding is Finding.SLOWED:
        slower = formats.percent(SLOWED_RATIO - 1)
        return f"The run has become over {slower} slower than at its start: {now}. {chance}"
    return f"The run is {verdict.finding}: {now}, stated {stated}. {chance}"


def _bill(verdict: Verdict, run: RunPlan) -> str:
    assert verdict.bill_usd is not None
    planned = formats.interval(run.total_usd, formats.usd)
    where = "above" if verdict.is_dearer else "below" if verdict.is_cheaper else "against"
    return (
        f"The bill is heading for {formats.usd(verdict.bill_usd.expected)} "
        f"({formats.interval(verdict.bill_usd, formats.usd)}), {where} the stated {planned}; the whole run "
        f"will take {formats.duration(verdict.duration_s.expected if verdict.duration_s else None)}."
    )
