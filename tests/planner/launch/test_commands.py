"""`planner launch-files` and `planner verify` over a study on disk."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from catalogs.offers import Pricing as Offered
from planner.__main__ import run as planner
from planner.cli_values import OfferFlags, OutputFlags
from planner.codec import from_json, to_json
from planner.commands import launch_files, verify
from planner.commands.remeasure import looks_of
from planner.commands.verify import VerifyFlags
from planner.errors import PlannerError
from planner.exits import Exit
from planner.reports.formats import duration, usd
from planner.target import BatchRange, Target, TargetFlags
from planner.verify.evidence import Look
from planner.verify.run_plan import RunPlan, load_run_plan
from tests.builders import (
    make_config,
    make_environment,
    make_measurement,
    make_noise,
    make_target,
)
from tests.planner.reports.documents import validated
from tests.stored import store_study
from trials.extras import GradientNoise
from trials.measurement import Series
from trials.model_file.source import hash_workload

MODEL = """
import torch
from parts import WIDTH

def model():
    return torch.nn.Linear(WIDTH, 1)

def batch(size):
    return torch.randn(size, WIDTH), torch.randn(size, 1)

def loss(model, batch):
    return torch.nn.functional.mse_loss(model(batch[0]), batch[1])
"""
CATALOG = """provider,instance_type,region,pricing,gpu,gpu_count,vcpus,memory_gib,price_usd_per_hour,as_of,\
billing_increment_s
aws,g6.xlarge,us-east-1,on-demand,L4-24GB,1,4,16,{price},2025-06-01,1
aws,g6.xlarge,us-east-1,spot,L4-24GB,1,4,16,0.30,2025-06-01,1
"""
CONFIG = make_config(micro_batch_size=8, accumulation=4)


@dataclass(frozen=True)
class Desk:
    """A user's folder with a study in it."""

    folder: Path

    def pricing(self, price: float = 0.72) -> OfferFlags:
        catalog = self.folder / "catalog.csv"
        catalog.write_text(CATALOG.format(price=price))
        return OfferFlags(catalog=catalog, is_spot=False)

    def output(self, *, is_json: bool = False) -> OutputFlags:
        return OutputFlags(
            storage=f"sqlite:///{self.folder / 'study.db'}", out=self.folder / "report", is_json=is_json
        )

    def launch(self, rank: int = 1) -> Path:
        folder = self.folder / "launch"
        output = replace(self.output(), out=folder)
        assert launch_files.run("linear", rank, TargetFlags(), self.pricing(), output) is Exit.PLAN
        return folder

    def verify(self, price: float = 0.72, *, is_json: bool = False, **changes: Any) -> Exit:
        flags = VerifyFlags(directory=self.folder / "launch", wait_s=0.0)
        return verify.run(
            "linear", replace(flags, **changes), self.pricing(price), self.output(is_json=is_json)
        )

    def log(self, run: RunPlan, step_s: float, look_count: int) -> None:
        """Ten steps a look, from the start of the run."""
        looks = [
            Look(
                begun_at_s=1e9,
                at_s=1e9 + number * 10 * step_s,
                step=number * 10,
                step_count=10,
                step_time_s=step_s,
            )
            for number in range(1, look_count + 1)
        ]
        output = self.folder / "launch" / "output"
        output.mkdir(exist_ok=True)
        text = "".join(to_json(one) + "\n" for one in looks)
        (output / "log.jsonl").write_text(text + to_json(looks[-1])[:20])  # its last line in the making


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return make_desk(tmp_path, make_target(samples=320_000))


def make_desk(tmp_path: Path, target: Target, noise: GradientNoise | None = None) -> Desk:
    (tmp_path / "linear.py").write_text(MODEL)
    (tmp_path / "parts.py").write_text("WIDTH = 4\n")
    workload = hash_workload(tmp_path / "linear.py")
    environment = make_environment(torch="2.13.0+cu130", ray="2.60.0", python="3.12.4")
    measurement = make_measurement(CONFIG, step_time_s=0.5, environment=environment, noise=noise)
    store_study(f"sqlite:///{tmp_path / 'study.db'}", "linear-study", workload, target, measurement)
    return Desk(tmp_path)


def test_ranks_are_those_of_a_report_with_the_same_value_of_an_hour(desk: Desk) -> None:
    cheapest = load_run_plan(desk.launch() / "plan.json")
    folder = desk.folder / "fast"
    flags, output = TargetFlags(hour_value_usd=1000.0), replace(desk.output(), out=folder)
    assert launch_files.run("linear", 1, flags, desk.pricing(), output) is Exit.PLAN
    fastest = load_run_plan(folder / "plan.json")
    assert fastest.rank == cheapest.rank == 1
    assert fastest.duration_s.expected < cheapest.duration_s.expected


def test_a_chosen_batch_size_comes_with_its_learning_rate(tmp_path: Path) -> None:
    target = make_target(samples=320_000, batch_range=BatchRange(low=8, high=32))
    folder = make_desk(tmp_path, target, make_noise(16.0)).launch()
    run = load_run_plan(folder / "plan.json")
    assert run.config.global_batch_size == run.target.global_batch_size == 8
    assert run.step_count == 20_000  # half the samples: (16 + 8) / (16 + 32)
    for name in ("LAUNCH.md", "train.py"):
        text = (folder / name).read_text()
        assert "A batch of 8 instead of 32: the same loss takes 0.5 times the samples" in text
        assert "Multiply SGD's learning rate by 0.5" in text
    compile((folder / "train.py").read_text(), "train.py", "exec")


def test_a_plan_becomes_a_folder(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    folder = desk.launch()
    run = load_run_plan(folder / "plan.json")
    assert (run.study, run.rank, run.step_count) == ("linear-study", 1, 10_000)
    assert run.sha256 == hash_workload(folder / "model" / "linear.py").sha256
    assert (run.torch_version, run.ray_version, run.python_version) == ("2.13.0", "2.60.0", "3.12.4")
    assert run.bill_usd(run.duration_s.expected, run.price_usd_per_hour) == pytest.approx(
        run.total_usd.expected
    )
    assert run.fixed_usd == pytest.approx(0.01, rel=1e-3)  # the sweep, and next to nothing of storage
    task = yaml.safe_load((folder / "skypilot.yaml").read_text())
    assert task["resources"] == {
        "infra": "aws/us-east-1",
        "instance_type": "g6.xlarge",
        "accelerators": {"L4": 1},
        "use_spot": False,
    }
    assert "--python 3.12" in task["setup"]
    assert (folder / "train.sh").stat().st_mode & 0o111
    assert "# Rent " in (folder / "skypilot.yaml").read_text()
    said = capsys.readouterr()
    assert said.out.splitlines()[-1].startswith(
        f"written: {folder}/ (LAUNCH.md, model/linear.py, model/parts.py"
    )
    assert "mind: data files that the model file reads are not copied here" in said.err
    (wheel,) = folder.glob("*.whl")
    assert f"./{wheel.name}" in (folder / "train.dstack.yml").read_text()


def test_spot_that_should_fall_back_saves_at_the_interval_of_falling_back(desk: Desk) -> None:
    """An interruption every two hours: a near deadline is kept by saving more often, a far one by itself."""
    table = desk.folder / "spot.csv"
    header, on_demand, spot = CATALOG.format(price=0.72).strip().splitlines()
    table.write_text(f"{header},interruption_rate_per_hour\n{on_demand},\n{spot},0.5\n")
    pricing = replace(desk.pricing(), catalog=table, is_spot=None)
    intervals_s = []
    for deadline_h, is_falling_back in ((0.6, True), (40.0, False)):
        output = replace(desk.output(), out=desk.folder / f"by-{deadline_h}")
        flags = TargetFlags(deadline_s=deadline_h * 3600)
        assert launch_files.run("linear", 1, flags, pricing, output) is Exit.PLAN
        run = load_run_plan(output.out / "plan.json")
        assert run.offer.pricing is Offered.SPOT
        says = (output.out / "LAUNCH.md").read_text()
        assert ("falls back to on-demand when the deadline nears" in says) is is_falling_back
        assert f"SAVE_EVERY_S = {run.checkpoint_interval_s}" in (output.out / "train.py").read_text()
        intervals_s.append(run.checkpoint_interval_s)
    assert intervals_s[0] < intervals_s[1]


def test_what_an_earlier_plan_left_is_not_launched_by_mistake(desk: Desk) -> None:
    folder = desk.launch()
    (folder / "train.dstack.yml").write_text("of another plan")
    desk.launch()
    assert "of another plan" not in (folder / "train.dstack.yml").read_text()


def test_requirements_beside_the_model_file_go_along(desk: Desk) -> None:
    (desk.folder / "requirements.txt").write_text("einops\n")
    folder = desk.launch()
    assert (folder / "requirements.txt").read_text() == "einops\n"
    assert "uv pip install -r requirements.txt" in (folder / "skypilot.yaml").read_text()


def test_a_rank_that_is_not_there_is_named(desk: Desk) -> None:
    with pytest.raises(PlannerError, match=r"--plan 99: the study has plans 1 to \d; `planner report linear"):
        desk.launch(99)


def test_what_was_measured_is_launched_when_the_model_file_has_changed_or_gone(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (desk.launch() / "model" / "parts.py").read_text()
    for change in (lambda file: file.write_text("WIDTH = 8\n"), Path.unlink):
        change(desk.folder / "parts.py")
        assert (desk.launch() / "model" / "parts.py").read_text() == before
        assert "has changed since it was measured; taken as measured" in capsys.readouterr().err


def test_a_run_as_stated(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    run = load_run_plan(desk.launch() / "plan.json")
    desk.log(run, run.step_time_s.expected, 30)
    capsys.readouterr()
    assert desk.verify() is Exit.PLAN
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"plan {run.rank} of study linear-study"
    assert lines[1].startswith(f"The speed is as stated: {duration(run.step_time_s.expected)} a step after ")
    bill = usd(run.total_usd.expected)
    assert lines[2].startswith(f"The bill is heading for {bill} ({bill}), against the stated $")
    assert lines[3] == "The price is as planned: $0.720/h."


def test_the_line_that_verifies_finds_the_storage_from_the_folder(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk.folder)
    output = OutputFlags(storage="sqlite:///study.db", out=Path("launch"), is_json=False)
    assert launch_files.run("linear", 1, TargetFlags(), desk.pricing(), output) is Exit.PLAN
    run = load_run_plan(desk.folder / "launch" / "plan.json")
    desk.log(run, run.step_time_s.expected, 30)
    monkeypatch.chdir(desk.folder / "launch")
    (line,) = [one for one in Path("LAUNCH.md").read_text().splitlines() if "planner verify" in one]
    assert planner(shlex.split(line)[1:]) == Exit.PLAN
    assert "The speed is as stated" in capsys.readouterr().out


def test_a_run_by_a_fifth_slower_and_a_dearer_price(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    run = load_run_plan(desk.launch() / "plan.json")
    step_s = 1.2 * run.step_time_s.high
    desk.log(run, step_s, 30)
    capsys.readouterr()
    assert desk.verify(0.9, is_json=True) is Exit.OFF_PLAN
    said = capsys.readouterr()
    verdict = validated(said.out, "verify")
    assert (verdict["finding"], verdict["is_dearer"]) == ("slower than stated", True)
    assert verdict["bill_usd"]["expected"] == pytest.approx(
        0.01 + (300 + 10_000 * step_s) / 3600 * 0.9, abs=0.001
    )
    assert "The price has changed: $0.900/h, planned with $0.720/h." in said.err


def test_what_cannot_be_verified_says_why(desk: Desk) -> None:
    with pytest.raises(PlannerError, match="`planner launch-files STUDY` writes it"):
        desk.verify()
    folder = desk.launch()
    with pytest.raises(PlannerError, match="name the run's log by --log, or measure again with --measure"):
        desk.verify()
    (folder / "log.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(PlannerError, match=r"log\.jsonl, line 1: cannot read Look"):
        desk.verify(log=folder / "log.jsonl")
    plan = from_json((folder / "plan.json").read_text(), RunPlan, where="plan")
    (folder / "plan.json").write_text(to_json(replace(plan, study="other")))
    with pytest.raises(PlannerError, match="is a plan of study other, not of linear-study"):
        desk.verify()


def test_a_measurement_becomes_looks_of_full_steps() -> None:
    config = make_config(accumulation=9)
    series = (
        Series(accumulation=1, step_times_s=(1.0,) * 10),
        Series(accumulation=3, step_times_s=(1.9, 2.1, 2.0)),
    )
    looks = list(looks_of(make_measurement(config, series=series)))
    assert [one.step_time_s for one in looks] == pytest.approx([4.75, 5.25, 5.0])  # 6 more at 0.5 s
    assert [one.at_s for one in looks] == pytest.approx([4.75, 10.0, 15.0])
    assert [one.step for one in looks] == [1, 2, 3]
