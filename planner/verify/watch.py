"""Holds the real run to its plan, from within. One line in a training loop:

    watch = planner.verify.Watch("plan.json")
    for batch in loader:
        ...
        watch.tick()  # once per optimizer step, on one rank

It says on stderr, within the first minutes, whether the speed is as stated or has left its interval, and what
the bill is heading for; and later, should that change. What is judged, and how surely: evidence.py.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from planner.codec import to_json
from planner.verify.evidence import LOOK_S, Evidence, Finding, Look, Verdict
from planner.verify.run_plan import RunPlan, load_run_plan
from planner.verify.words import sentences

BILL_LOOKS = 12  # between two looks at the bill: a minute

__all__ = ["LOOK_S", "Finding", "Look", "Verdict", "Watch"]


class Watch:
    """Watches a run from within: tell it of steps, and it says on stderr what is worth saying.

    Args:
        plan: plan.json as `planner launch-files` wrote it, or what is in it.
        log: a file that every look is added to, a line of JSON each; `planner verify` reads it.
        step: optimizer steps that earlier attempts have done.
        price_usd_per_hour: for all instances, where it is known to have changed.
        say: where sentences go.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        plan: RunPlan | Path | str,
        *,
        log: Path | str | None = None,
        step: int = 0,
        price_usd_per_hour: float | None = None,
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        run = plan if isinstance(plan, RunPlan) else load_run_plan(Path(plan))
        self.price_usd_per_hour = price_usd_per_hour
        self._evidence = Evidence(run)
        self._log = None if log is None else Path(log)
        self._say = say or _to_stderr
        self._clock = clock
        self._begun_at_s = clock()
        self._step = step
        self._said = Finding.TOO_EARLY
        self._is_bill_said = False
        self._ticked_at_s: float | None = None
        self._ticks = 0

    @property
    def verdict(self) -> Verdict:
        """How the run stands now."""
        return self._evidence.verdict(self.price_usd_per_hour)

    def tick(self) -> None:
        """An optimizer step has ended. Where steps are asynchronous, on a GPU, this is right on average."""
        now_s = self._clock()
        if self._ticked_at_s is None:
            self._ticked_at_s = now_s
            self._step += 1
            return
        self._ticks += 1
        elapsed_s = now_s - self._ticked_at_s
        if elapsed_s >= LOOK_S:
            self._look(self._ticks, elapsed_s / self._ticks, None)
            self._ticked_at_s, self._ticks = now_s, 0

    def add(self, step_times_s: Sequence[float], loss: float | None = None) -> None:
        """Steps whose times were measured, since the last call: about five seconds of them, or one."""
        if step_times_s:
            self._look(len(step_times_s), statistics.median(step_times_s), loss)

    def _look(self, step_count: int, step_time_s: float, loss: float | None) -> None:
        self._step += step_count
        look = Look(
            begun_at_s=self._begun_at_s,
            at_s=self._clock(),
            step=self._step,
            step_count=step_count,
            step_time_s=step_time_s,
            loss=loss,
        )
        self._evidence.add(look)
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(to_json(look) + "\n")
        self._speak()

    def _speak(self) -> None:
        """When the finding is another one, or the bill has left its interval: each is said once."""
        evidence = self._evidence
        is_minute = evidence.look_count % BILL_LOOKS == 0 and evidence.finding is not Finding.TOO_EARLY
        if evidence.finding is self._said and (self._is_bill_said or not is_minute):
            return
        verdict = self.verdict
        if evidence.finding is self._said and not verdict.is_bill_off:
            return
        self._said = evidence.finding
        self._is_bill_said = verdict.is_bill_off
        self._say("\n".join(sentences(verdict, evidence.run)))


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"planner: {text}\n")
