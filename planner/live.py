"""What a person sees while a sweep runs: a live table in a terminal, plain lines where there is none.

Everything goes to stderr, so that --json leaves stdout to machines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from planner.redaction import redacted
from planner.reports import formats
from planner.reports.labels import configuration
from planner.sweep import Event, Expected, Limits, TrialEnded, TrialStarted
from trials.api import Failure, Measurement, Purpose, TrialConfig

CONSOLE = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A line for a person."""
    CONSOLE.print(redacted(text), markup=False, soft_wrap=True)


def announce(expected: Expected, limits: Limits) -> str:
    """What the sweep will take, before its first trial."""
    cost = (
        "no price is known for these devices, so only the trial and minute limits hold"
        if expected.cost_usd is None
        else f"about {formats.usd(expected.cost_usd)} at catalog prices"
    )
    limit = "" if limits.max_usd is None else f" and {formats.usd(limits.max_usd)}"
    return (
        f"expected: about {expected.trial_count} trials, {formats.duration(expected.wall_s)}, {cost} "
        f"(limits: {limits.max_trials} trials, {formats.duration(limits.max_s)}{limit})"
    )


class LiveView:
    """Shows each event; call it as `planner.sweep.Watch`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._live: Live | None = None
        self._in_flight: dict[int, str] = {}  # by trial number
        self._best = "nothing measured yet"
        self._left = ""

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Keep the live lines on the terminal meanwhile."""
        if not CONSOLE.is_terminal:
            yield
            return
        with Live(self._view(), console=CONSOLE, refresh_per_second=4, transient=True) as self._live:
            yield
        self._live = None

    def __call__(self, event: Event) -> None:
        """Show what has just happened."""
        if isinstance(event, TrialStarted):
            self._started(event)
        else:
            self._ended(event)
        if self._live is not None:
            self._live.update(self._view())

    def _started(self, event: TrialStarted) -> None:
        proposal = event.proposal
        saving = proposal.expected_saving
        why = proposal.reason
        if saving is not None:
            why = f"may save {run_cost(saving, is_priced=event.is_priced)} of the target run"
        text = f"trial {event.number}: {_tried(proposal.config, proposal.purpose)}"
        text = f"{text}, about {formats.duration(event.expected_s)} ({why})"
        self._in_flight[event.number] = text
        if self._live is None:
            say(text)

    def _ended(self, event: TrialEnded) -> None:
        outcome = event.outcome
        say(f"trial {event.number}: {_tried(outcome.config, outcome.purpose)}: {_result(event)}")
        if event.best is not None and event.best_cost is not None:
            cost = run_cost(event.best_cost.expected, is_priced=event.is_priced)
            self._best = f"best so far: {configuration(event.best)}, run {cost}"
        parts = [f"{formats.duration(max(0.0, self._limits.max_s - event.elapsed_s))} left"]
        if event.spent_usd is not None:
            parts.append(f"{formats.usd(event.spent_usd)} spent")
            if self._limits.max_usd is not None:
                parts.append(f"of {formats.usd(self._limits.max_usd)}")
        self._left = ", ".join(parts[:1]) + (", " + " ".join(parts[1:]) if parts[1:] else "")
        self._in_flight.pop(event.number, None)

    def _view(self) -> RenderableType:
        lines: list[RenderableType] = [
            *(Spinner("dots", Text(one)) for one in self._in_flight.values() or ("choosing the next trial",)),
            Text(f"  {self._best}", style="bold"),
        ]
        if self._left:
            lines.append(Text(f"  {self._left}   (Ctrl-C ends after this trial)", style="dim"))
        return Group(*lines)


def _result(event: TrialEnded) -> str:
    outcome = event.outcome
    if isinstance(outcome, Failure):
        return f"{outcome.kind}: {outcome.reason}"
    assert isinstance(outcome, Measurement)
    if outcome.purpose is Purpose.PROBE:
        return formats.size(outcome.peak_memory_bytes)
    cost = "" if event.run_cost is None else run_cost(event.run_cost.expected, is_priced=event.is_priced)
    parts = (
        formats.rate(outcome.throughput_per_s),
        formats.size(outcome.peak_memory_bytes),
        cost and f"run {cost}",
        outcome.disturbance,
    )
    return ", ".join(one for one in parts if one)


def run_cost(amount: float, *, is_priced: bool) -> str:
    """What a run costs: dollars, or device hours where no device at hand has a price."""
    return formats.usd(amount) if is_priced else f"{formats.significant(amount, 3)} device hours"


def _tried(config: TrialConfig, purpose: Purpose) -> str:
    """The configuration, and what the trial is for unless it is one of the search."""
    text = configuration(config)
    return text if purpose is Purpose.SEARCH else f"{purpose} of {text}"
