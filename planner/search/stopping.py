"""Why no further trial is made, in words and dollars."""

from __future__ import annotations

from collections.abc import Sequence

from planner.search.acquisition import Candidate, Worth, most_worth, worth_of_searching

_CENT_USD = 0.01


def why_none(left: Sequence[Candidate], best: float | None, confidence: float, *, is_opening: bool) -> str:
    """Why `acquisition.choose` chose none of ``left``.

    Args:
        left: what could still be tried, whether the sweep's own budget can pay for it or not.
        best: cost of the target run that savings are counted from; None when nothing was measured.
        confidence: of the intervals of ``left``.
        is_opening: one trial was made, and the second of the opening was next.
    """
    if not left:
        return "every configuration has been tried"
    if best is None:
        return "no configuration that is left can be paid for"
    most = worth_of_searching(left, best) if is_opening else None
    if most is not None and not most.pays:
        return (
            f"do not search, run this: trials could save {_usd(most.saving)} at most and one costs "
            f"{_usd(most.price)}"
        )
    return _why(most_worth(left, best, confidence), len(left), best)


def why_no_time(shortest_s: float, left_s: float) -> str:
    """No trial would end in the ``left_s`` seconds that are left; the shortest takes ``shortest_s``."""
    shortest, left = f"{shortest_s / 60:,.1f} min", f"{max(left_s, 0.0) / 60:,.1f} min"
    return f"no trial would end in time: the shortest takes about {shortest}, and --max-minutes leaves {left}"


def _why(worth: Worth | None, count: int, best: float) -> str:
    if worth is None:
        return f"nothing can be said of the {count} untried configurations"
    share = f"{worth.saving / best:.1%} of the target run"
    if worth.candidate.trial_cost_usd is None:
        return f"the best of {count} further trials would save {share} in expectation, which is within noise"
    told = (
        f"the best of {count} further trials would save {_usd(worth.saving)} in expectation "
        f"and costs {_usd(worth.price)}"
    )
    if worth.pays:
        return f"{told}, which is more than the sweep has left"
    return told if worth.saving <= worth.price else f"{told}; {share} is within the noise of measuring it"


def _usd(amount: float) -> str:
    """Cents, or two significant digits below a cent."""
    return f"${amount:,.2f}" if amount >= _CENT_USD else f"${amount:.2g}"
