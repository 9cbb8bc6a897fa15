"""Each output says the same, safely, and files are written whole or not at all."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from planner.errors import PlannerError
from planner.estimate.time.bottleneck import bottleneck_of
from planner.plans.numerics_check import guards
from planner.plans.space import Exclusion
from planner.reports import to_html, to_markdown, to_terminal, write_reports
from planner.reports.models import SCHEMA_VERSION
from planner.reports.report import Curve, CurvePoint, Report
from tests.builders import (
    GIB,
    FakeEstimator,
    make_config,
    make_estimate,
    make_failure,
    make_measurement,
    make_profile,
    make_target,
    make_workload,
)
from tests.planner.reports.documents import document_of
from tests.planner.reports.studies import BF16, L4, TRAINS, make_cpu_report, make_report
from trials.measurement import Phases
from trials.trial import Purpose

NOTHING_FITS = make_report(target=make_target(samples=36_000 * 32, budget_usd=1.0, deadline_s=3600.0))
NO_PLAN = make_report(outcomes=(), estimator=FakeEstimator(peak_bytes=lambda _: 100.0 * GIB))
EVERY = pytest.mark.parametrize(
    "report",
    [make_report(), make_cpu_report(), NOTHING_FITS, NO_PLAN],
    ids=["a plan", "only a CPU measured", "nothing fits", "no plan"],
)


def printed(report: Report, width: int | None = 100) -> str:
    return to_terminal.render(report, width).replace("\N{MULTIPLICATION SIGN}", "x")


# Terminal


@EVERY
@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_terminal_keeps_to_its_width_and_cuts_nothing(report: Report, width: int) -> None:
    text = printed(report, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "\N{HORIZONTAL ELLIPSIS}" not in text


def test_a_narrow_terminal_leaves_columns_out_and_a_pipe_has_them_all() -> None:
    head = {width: heads(printed(make_report(), width)) for width in (80, 100, None)}
    assert head[80] == "rank devices offer time cost basis limits"
    assert head[100] == "rank devices offer time cost 90% basis limits"
    assert head[None] == (
        "rank devices offer instance price time cost 90% basis limits configuration batch memory free"
    )
    row = next(line for line in printed(make_report(), None).splitlines() if "n2-standard-8" in line)
    assert "8 vCPUs (CPU-X86)" in row  # in one line
    assert "over deadline" in row


def heads(text: str) -> str:
    return " ".join(next(line for line in text.splitlines() if line.startswith("rank")).split())


def test_the_terminal_answers_before_it_explains() -> None:
    lines = [line.rstrip() for line in printed(make_report(guards=(TRAINS,))).splitlines() if line.strip()]
    assert lines[:6] == [
        "Rent 1 x L4 24 GB at Google Cloud, United States",
        "1 x g2-standard-8 (1 x L4-24GB), us-central1, on-demand, $0.720/h",
        "Best balance and cheapest: 1 x L4 24 GB at Google Cloud, United States",
        "rent       1 x g2-standard-8 (1 x L4-24GB), us-central1, on-demand, $0.720/h",
        "cost       $3.60 (90%: $3.53 to $3.67)",
        "time       5 h (90%: 4.9 to 5.1 h)",
    ]


def test_the_terminal_says_first_that_no_gpu_was_measured() -> None:
    assert printed(make_cpu_report()).lstrip().startswith("! No GPU was measured: every GPU figure is")


def test_the_terminal_has_escape_codes_only_when_asked() -> None:
    assert "\x1b" not in to_terminal.render(make_report())
    assert "\x1b[1mRent" in to_terminal.render(make_report(), is_coloured=True)


def test_the_terminal_lists_plans_and_trials() -> None:
    text = printed(make_report())
    assert re.search(
        r"1 +1 x L4-24GB +gcp us-central1 +5 h +\$3\.60 +\$3\.53\N{EN DASH}3\.67 +measured +fits", text
    )
    assert re.search(r"1 +1 x L4-24GB +8 x 4 +bf16 +500 ms +.1% +65\.5 k tokens/s +6\.0 GiB +measured", text)
    assert re.search(r"2 +1 x L4-24GB +32 x 1 +fp32 +out of memory:", text)
    assert "fsdp2  no repeated blocks were found in this model" in text


def test_the_terminal_shows_markup_as_text() -> None:
    report = make_report(exclusions=(Exclusion(knob="[bold]model[/bold]", reason="[red]none[/red]"),))
    assert "[bold]model[/bold]  [red]none[/red]" in printed(report)


# JSON


@EVERY
def test_the_json_is_valid_and_has_a_schema_version(report: Report) -> None:
    document = document_of(report)
    assert document["schema_version"] == SCHEMA_VERSION
    assert set(document) == set(document_of(make_report()))


def test_the_json_carries_the_winner_in_base_units() -> None:
    document = document_of(make_report())
    winner = document["winner"]
    assert document["status"] == "plan"
    assert winner["offer"]["instance_type"] == "g2-standard-8"
    assert winner["cost_usd"] == {
        "low": pytest.approx(3.528),
        "expected": pytest.approx(3.6),
        "high": pytest.approx(3.672),
        "basis": "measured",
    }
    assert winner["duration_s"]["expected"] == pytest.approx(18_000)
    assert winner["configuration"]["precision"] == "bf16"
    assert winner["peak_memory_bytes"]["expected"] == 2 * GIB
    terms = [term["expected_usd"] for term in winner["breakdown"]]
    assert sum(terms) == pytest.approx(winner["total_with_sweep_usd"]["expected"])
    assert document["plans"][0]["rank"] == 1
    assert len(document["plans"]) == 3


def test_the_json_keeps_raw_step_times_and_failures() -> None:
    trials = document_of(make_report())["trials"]
    assert trials[1]["measurement"]["series"] == [{"accumulation": 4, "step_times_s": [0.5] * 12}]
    assert trials[1]["cost_usd"] == pytest.approx(0.004)
    assert trials[2]["measurement"] is None
    assert trials[2]["failure"] == {
        "kind": "out of memory",
        "reason": "CUDA out of memory: tried to allocate 2.00 GiB",
    }


def test_the_json_says_nothing_fits_and_what_would() -> None:
    document = document_of(NOTHING_FITS)
    assert document["status"] == "nothing fits"
    assert document["winner"] is None
    assert document["nearest"]["rank"] == 1
    assert document["shortfall"]["samples_that_fit"] == 225_856
    assert document_of(NO_PLAN)["status"] == "no plan"


UNITS = re.compile(r"(_usd|_s|_bytes|_hz|_w|_j|_c|_per_s|_per_hour|_fraction|_ratio|_count|_batch_size)$")
COUNTS = {
    "rank", "accumulation", "samples", "tokens_per_sample", "dataset_size", "vcpus", "schema_version",
    "samples_that_fit", "number", "threads_per_worker",
    "settles_rank", "rival_rank", "best_rank", "runner_up_rank", "passed_over_rank", "step_count",
    "low", "expected", "high",  # their estimate's key has the unit
}  # fmt: skip


def numbers(value: Any, key: str = "") -> Iterator[str]:
    """Keys of all numbers of a document."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from numbers(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from numbers(one, key)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield key


@EVERY
def test_every_number_of_the_json_has_its_unit_in_its_key(report: Report) -> None:
    unnamed = {key for key in numbers(document_of(report)) if not UNITS.search(key)}
    assert unnamed - COUNTS - {"step_times_s", "losses", "reference_losses", "frontier_ranks"} == set()


# What the step is bound by


def make_bound_report() -> Report:
    phases = Phases(
        data_wait_s=0.4, host_to_device_s=0.0, forward_backward_s=0.09, gradient_sync_s=0.0,
        optimizer_s=0.01, other_s=0.0, launch_s=0.01,
    )  # fmt: skip
    measured = make_measurement(BF16, step_time_s=0.5, phases=phases)
    return make_report(binding=bottleneck_of(measured, make_profile(), L4))


def test_every_output_says_what_binds_the_step() -> None:
    report = make_bound_report()
    for render in (to_terminal.render, to_markdown.render, to_html.render):
        text = " ".join(render(report).replace("\N{NO-BREAK SPACE}", " ").split())
        assert "80% data wait, 0% host to device, 18% forward and backward, 2% optimizer, 0% idle" in text
        assert "Input-bound (the devices wait for data, 80% of the step)" in text
        assert "4 loader workers would give 5 times the speed" in text
        assert "a device 2 times as fast would give 1.1 times the speed" in text
        assert "bound by" not in " ".join(render(make_report()).split())  # nothing was split
    document = document_of(report)
    assert document["binding"]["bound"] == "input-bound"
    assert document["binding"]["phases"]["data_wait_s"] == 0.4
    assert document["binding"]["loaders"] == {"loader_worker_count": 4, "speed_ratio": pytest.approx(5.0)}
    assert {key for key in numbers(document["binding"]) if not UNITS.search(key)} <= COUNTS


# Markdown


def test_the_markdown_holds_the_answer_and_the_tables() -> None:
    text = to_markdown.render(make_report()).replace("\N{MULTIPLICATION SIGN}", "x")
    assert text.startswith("# Rent 1 x L4 24 GB at Google Cloud, United States\n")
    assert "| 1 | 1 x L4-24GB | gcp us-central1 | g2-standard-8 | $0.720/h | 5 h | $3.60 |" in text
    assert "| **total** | **$3.61** | **$3.54 to $3.68** |  |" in text
    assert (
        "| 2 | 1 x L4-24GB | 32 x 1 | fp32 |  |  |  |  | $0.002 | 10 s | out of memory: CUDA out of memory"
        in text
    )


def test_the_markdown_starts_with_the_missing_gpu() -> None:
    assert to_markdown.render(make_cpu_report()).startswith("> **Note:** No GPU was measured")


def test_the_markdown_escapes_what_would_be_markup() -> None:
    report = make_report(
        exclusions=(Exclusion(knob="a|b", reason="<img src=x> *not* _this_\nnor that"),),
    )
    named = make_report(workload=make_workload(path="/m/~~a~~&lt;$x$.py"))
    assert "Workload /m/\\~\\~a\\~\\~\\&lt;\\$x\\$.py" in to_markdown.render(named)
    assert "| a\\|b | \\<img src=x\\> \\*not\\* \\_this\\_ nor that" in to_markdown.render(report)


# HTML


class Page(HTMLParser):
    """What a test asks of a page."""

    void = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        joined = " ".join(" ".join(self.words).split())
        return joined.replace("\N{MULTIPLICATION SIGN}", "x").replace("\N{NO-BREAK SPACE}", " ")

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@EVERY
def test_the_page_is_well_formed_and_needs_nothing_from_outside(report: Report) -> None:
    text = to_html.render(report)
    page = Page(text)
    assert page.open == []
    for _, attributes in page.tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert name not in attributes
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'") in [
        item for one in page.all("meta") for item in one.items()
    ]


def test_the_page_answers_with_cards_of_cost_time_basis_and_risk() -> None:
    text = Page(to_html.render(make_report())).text
    assert (
        "Rent 1 x L4 24 GB at Google Cloud, United States 1 x g2-standard-8 (1 x L4-24GB), us-central1, "
        "on-demand, $0.720/h" in text
    )
    assert "Best balance and cheapest 1 x L4 24 GB at Google Cloud, United States" in text
    assert "Fastest within the budget 1 x A100 80 GB at Google Cloud, United States" in text
    assert "Cost $3.60 expected 90%: $3.53 to $3.67" in text
    assert "Time 5 h expected 90%: 4.9 to 5.1 h" in text
    assert "Speed measured in this configuration on this device type and count" in text
    assert "Main risk: at the slow end of what was measured it takes 5.1 h and costs $3.67" in text
    assert "total $3.61 $3.54 to $3.68" in text


def test_the_page_says_first_that_no_gpu_was_measured() -> None:
    text = Page(to_html.render(make_cpu_report())).text
    assert text.index("No GPU was measured") < text.index("Main risk")


def test_the_page_says_when_nothing_fits_and_what_would() -> None:
    text = Page(to_html.render(NOTHING_FITS)).text
    assert "Nothing fits a budget of $1 and a deadline of 1 h" in text
    assert "raise the budget to $3.69 and extend the deadline to 5.1 h" in text
    assert "The nearest plan is 1 x L4 24 GB at Google Cloud" in text


def test_every_image_and_table_of_the_page_can_be_read_without_seeing_it() -> None:
    page = Page(to_html.render(make_report()))
    plots = [one for one in page.all("svg") if one.get("class") == "plot"]
    ids = {one.get("id") for _, one in page.tags}
    assert len(plots) == 3
    assert all(set((one["aria-labelledby"] or "").split()) <= ids for one in plots)
    assert all("scope" in one for one in page.all("th"))
    assert len(page.all("table")) == 3
    assert page.all("html") == [{"lang": "en"}]


def test_the_page_draws_measured_points_failures_and_the_estimated_band() -> None:
    points = tuple(
        CurvePoint(
            config=make_config(micro_batch_size=size, accumulation=32 // size),
            throughput_per_s=make_estimate(30.0 + size, 0.1),
            peak_memory_bytes=make_estimate(size * GIB, 0.1),
        )
        for size in (4, 8, 16)
    )
    report = make_report(
        outcomes=(
            make_measurement(make_config(), step_time_s=1.0),
            make_measurement(make_config(micro_batch_size=4, accumulation=8), step_time_s=1.1),
            make_measurement(BF16),
            make_failure(make_config(micro_batch_size=32, accumulation=1)),
        ),
        curves=(Curve(points=points),),
    )
    classes = [one.get("class") for _, one in Page(to_html.render(report)).tags]
    assert classes.count("trial-point series-0") == 2 * 2  # on the throughput and on the memory plot
    assert classes.count("trial-point series-1") == 2
    assert classes.count("overflow") == 1
    assert classes.count("band series-0") == 2
    assert classes.count("curve series-0") == 2


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'"


def test_hostile_text_stays_text_on_the_page() -> None:
    report = make_report(
        study=HOSTILE,
        workload=make_workload(path=f"/models/{HOSTILE}.py"),
        exclusions=(Exclusion(knob=HOSTILE, reason=HOSTILE),),
        notes=(HOSTILE,),
        outcomes=(make_measurement(BF16, warnings=(HOSTILE,)), make_failure(reason=HOSTILE)),
    )
    page = Page(to_html.render(report))
    assert "<code>&lt;b&gt;" in to_html.render(make_report(notes=("`<b>x</b>`",)))
    assert len(page.all("script")) == 1
    assert page.all("img") == []
    assert page.text.count("alert(1)") > 5
    assert HOSTILE in document_of(report)["workload"]["path"]


# Files


def test_files_are_written_and_replaced(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    first = write_reports(make_report(), out)
    assert [one.name for one in first] == ["report.html", "report.json", "report.md"]
    write_reports(NOTHING_FITS, out)
    assert json.loads((out / "report.json").read_text(encoding="utf-8"))["status"] == "nothing fits"
    assert sorted(one.name for one in out.iterdir()) == sorted(one.name for one in first)


def test_a_folder_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    taken = tmp_path / "planner-report"
    taken.write_text("mine")
    with pytest.raises(PlannerError, match=r"cannot write the report to .*planner-report.*--out"):
        write_reports(make_report(), taken)
    assert taken.read_text() == "mine"


def test_a_write_that_fails_halfway_is_a_clear_error_and_keeps_the_former_report(tmp_path: Path) -> None:
    write_reports(make_report(), tmp_path)
    former = (tmp_path / "report.html").read_text(encoding="utf-8")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))  # no file may grow beyond it, as on a full disk
    try:
        with pytest.raises(
            PlannerError, match=r"cannot write the report to .*: File too large; free some space"
        ):
            write_reports(NOTHING_FITS, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == former
    assert sorted(one.name for one in tmp_path.iterdir()) == ["report.html", "report.json", "report.md"]


# Does it train as fp32 does


def make_guard_report(losses: tuple[float, ...]) -> Report:
    curves = ((make_config(), tuple(4.0 - 0.05 * step for step in range(42))), (BF16, losses))
    outcomes = [make_measurement(one, losses=found, purpose=Purpose.GUARD) for one, found in curves]
    return make_report(guards=guards(outcomes))


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (
            3.99,
            "Rejected: bf16 does not train as fp32 does; "
            "after 42 steps the loss is 3.99, with fp32 it is 2.275.",
        ),
        (0.0, "bf16 trains as fp32 does: 42 steps over the same samples end at a loss of 0 and 1.95."),
    ],
)
def test_every_output_says_whether_the_arithmetic_trains(loss: float, words: str) -> None:
    report = make_guard_report((loss,) * 42)
    for render in (to_terminal.render, to_markdown.render, to_html.render):
        assert words in " ".join(render(report).replace("\N{NO-BREAK SPACE}", " ").split())
    assert 'aria-labelledby="losses-1-title losses-1-desc"' in to_html.render(report)
    (guard,) = document_of(report)["guards"]
    assert guard["losses"] == [loss] * 42
    assert guard["rejection"] == (words.partition("; ")[2].removesuffix(".") or None)
