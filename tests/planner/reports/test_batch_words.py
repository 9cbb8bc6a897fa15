"""The choice of the global batch size in every output."""

from __future__ import annotations

import html
import re

import pytest

from planner.reports import to_html, to_markdown, to_terminal
from planner.reports.report import Report
from tests.planner.plans.batch_sizes import chosen
from tests.planner.reports.documents import document_of
from tests.planner.reports.studies import make_report


def report_of(scale: float | None, checkpoint: str | None = None) -> Report:
    batch = chosen(scale, spread=0.1, checkpoint=checkpoint)
    return make_report(recommendation=batch.chosen.answer, batch=batch)


def flat(text: str) -> str:
    return " ".join(html.unescape(text).replace("\N{NO-BREAK SPACE}", " ").split())


@pytest.mark.parametrize("output", [to_terminal, to_html, to_markdown], ids=["terminal", "html", "markdown"])
def test_the_scale_the_choice_and_its_learning_rate_are_said(output) -> None:
    text = flat(output.render(report_of(64.0)))
    assert "Which global batch size, at the same loss" in text
    assert "The gradient noise scale is 64 samples (90%: 64 to 64; 20 draws of 64 samples after a" in text
    assert "A batch of 64 instead of 32: the same loss takes 1.33 times the samples" in text
    # (1 + 64 / 32) / (1 + 64 / 64), and its square root
    assert "Multiply SGD's learning rate by 1.5" in text
    assert "Adam's by 1.2\N{EN DASH}1.5" in text
    assert "The noise scale grows as the loss falls" in text
    assert re.search(r"(`|<code>)planner sweep --from-checkpoint FILE(`|</code>)", text.replace("\\", ""))


def test_a_terminal_of_a_hundred_columns_has_a_row_for_each_size() -> None:
    lines = to_terminal.render(report_of(64.0), 100).splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("64 chosen ") for line in lines)
    assert any(line.startswith("32 yours ") for line in lines)


def test_machines_get_the_same_in_numbers() -> None:
    found = document_of(report_of(64.0, "/runs/step-100.pt"))
    batch = found["batch_choice"]
    assert (batch["reference"], batch["chosen"], batch["from_checkpoint"]) == (32, 64, "/runs/step-100.pt")
    assert batch["noise_scale_samples"]["expected"] == pytest.approx(64.0)
    assert [one["global_batch_size"] for one in batch["sizes"]] == [32, 64, 128, 256]
    second = batch["sizes"][1]
    assert second["samples_factor"]["expected"] == pytest.approx(4 / 3)
    assert second["learning_rate_factor_sgd"] == pytest.approx(1.5)
    assert second["learning_rate_factors_adam"] == pytest.approx([1.5**0.5, 1.5])
    assert found["target"]["global_batch_size"] == 64
    assert second["samples"] == found["target"]["samples"]
    assert document_of(make_report())["batch_choice"] is None


def test_a_scale_from_a_checkpoint_names_it_and_asks_for_no_other() -> None:
    text = flat(to_markdown.render(report_of(64.0, "weights.pt")))
    assert "at the weights of weights.pt" in text
    assert "from-checkpoint" not in text


@pytest.mark.parametrize("output", [to_terminal, to_html, to_markdown], ids=["terminal", "html", "markdown"])
def test_a_scale_that_is_not_known_is_a_warning_and_no_table(output) -> None:
    text = flat(output.render(report_of(None)))
    assert "The global batch size stays 32, of 32 to 256: what another would cost is not known" in text
    assert "Which global batch size" not in text


def test_the_users_size_that_stays_is_said_to_be_the_cheapest() -> None:
    assert "The batch of 32 stays: no other size is cheaper" in flat(to_markdown.render(report_of(1.0)))
