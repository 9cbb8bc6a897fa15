"""The ordered list of rules: the first that does not pass is heard, and what waits for all results does."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.search.proposal import Allowance, Proposal
from planner.search.rules import RULES, next_proposal
from planner.search.rules.rule import Rule
from planner.search.running import RunningTrials
from planner.search.situation import Situation
from planner.search.state import SearchState
from tests.planner.test_sweep import Bench


@pytest.fixture
def situation(tmp_path: Path) -> Situation:
    bench = Bench(url=f"sqlite:///{tmp_path / 'study.db'}")
    state = SearchState(bench.study(), bench.configs(), bench.market(), bench.profile)
    return Situation(state=state)


def rule(situation: Situation, reason: str, **changes: object) -> Rule:
    """Proposes the first configuration, for that reason."""
    candidate = situation.state.candidates()[0]
    return Rule(propose=lambda _: Proposal(candidate=candidate, reason=reason), **changes)  # type: ignore[arg-type]


PASSING = Rule(propose=lambda _: None)


def heard(situation: Situation, *rules: Rule) -> str:
    found = next_proposal(situation, rules)
    return "" if found is None else found.reason


def test_the_first_rule_that_does_not_pass_is_heard_and_a_new_one_needs_only_its_place(
    situation: Situation,
) -> None:
    first, second = rule(situation, "first"), rule(situation, "second")
    assert heard(situation, PASSING, first, second) == "first"
    assert heard(situation, PASSING) == ""
    assert heard(situation, rule(situation, "new"), *RULES) == "new"
    assert heard(situation, *RULES).startswith("first trial: the plainest configuration")


def test_what_waits_for_all_results_begins_alone(situation: Situation) -> None:
    alone = rule(situation, "alone", is_alone=True)
    assert heard(situation, PASSING, alone) == "alone"
    situation.running = RunningTrials(configs=(situation.state.configs[1],))
    assert heard(situation, PASSING, alone, rule(situation, "beside")) == ""
    assert heard(situation, rule(situation, "beside"), alone) == "beside"
    situation.running = RunningTrials(configs=(situation.state.configs[1],), are_last=True)
    assert heard(situation, rule(situation, "beside")) == ""


def test_a_rule_that_would_lose_its_last_chance_goes_ahead_of_those_before_it(situation: Situation) -> None:
    other = rule(situation, "other")
    urgent = rule(situation, "urgent", is_alone=True, goes_ahead=lambda _, own, ahead: own != ahead)
    patient = rule(situation, "patient", goes_ahead=lambda *_: False)
    assert heard(situation, other, urgent) == "other"  # nothing limits the sweep: its chance will come
    situation.allowance = Allowance(trial_count=1)
    assert heard(situation, other, urgent) == "urgent"
    assert heard(situation, other, patient) == "other"
    situation.running = RunningTrials(configs=(situation.state.configs[1],))
    assert heard(situation, other, urgent) == ""
