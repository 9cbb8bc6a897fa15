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

from planner.reports import formats
from planner.reports.labels import configuration
from planner.sweep import Event, Expected, Limits, TrialEnded, TrialStarted
from trials.trial import Failure, Measurement

CONSOLE = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A line for a person."""
    CONSOLE.print(text, markup=False, soft_wrap=True)


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


class Watch:
    """Shows each event; call it as `planner.sweep.Watch`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._live: Live | None = None
        self._in_flight = "starting workers"
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
        choice = event.choice
        saving = choice.expected_saving
        why = choice.reason if saving is None else f"may save {formats.usd(saving)} of the target run"
        expected = formats.duration(event.expected_s)
        self._in_flight = f"trial {event.number}: {configuration(choice.config)}, about {expected} ({why})"
        if self._live is None:
            say(self._in_flight)

    def _ended(self, event: TrialEnded) -> None:
        say(f"trial {event.number}: {configuration(event.outcome.config)}: {_result(event)}")
        if event.best is not None and event.best_cost is not None:
            self._best = (
                f"best so far: {configuration(event.best)}, run {formats.usd(event.best_cost.expected)}"
            )
        parts = [f"{formats.duration(max(0.0, self._limits.max_s - event.elapsed_s))} left"]
        if event.spent_usd is not None:
            parts.append(f"{formats.usd(event.spent_usd)} spent")
            if self._limits.max_usd is not None:
                parts.append(f"of {formats.usd(self._limits.max_usd)}")
        self._left = ", ".join(parts[:1]) + (", " + " ".join(parts[1:]) if parts[1:] else "")
        self._in_flight = "choosing the next trial"

    def _view(self) -> RenderableType:
        lines: list[RenderableType] = [
            Spinner("dots", Text(self._in_flight)),
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
    cost = "" if event.run_cost is None else f", run {formats.usd(event.run_cost.expected)}"
    return (
        f"{formats.rate(outcome.throughput_per_s)}, {formats.size(outcome.peak_memory_bytes)}{cost}"
        f"{'' if outcome.is_steady else ', unsteady'}"
    )
