"""Commands and flags as a person types them, over a study on disk or a model file; no Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.__main__ import run
from planner.exits import Exit
from planner.study.storage import default_storage_url
from tests.builders import make_config, make_measurement, make_target, make_telemetry, make_workload
from tests.planner.reports.documents import validated
from tests.stored import store_study
from trials.measurement import Measurement
from trials.model_file.source import hash_workload

MODEL = """
import torch
from torch import nn
def model():
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
def batch(size):
    return torch.randn(size, 64)
def loss(model, batch):
    return model(batch).square().mean()
target = {"samples": 1_000_000, "global_batch_size": 64}
"""
CATALOG = """provider,instance_type,region,pricing,gpu,gpu_count,vcpus,memory_gib,price_usd_per_hour,as_of
aws,g6.xlarge,us-east-1,on-demand,L4-24GB,1,4,16,0.72,2025-06-01
"""
HOUR_S = 3600.0


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a price table, and an empty data directory."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.csv").write_text(CATALOG)
    return tmp_path


def measured(**changes: Any) -> Measurement:
    return make_measurement(make_config(), **changes)


def stored(*outcomes: Measurement, name: str = "gpt") -> None:
    """A study in the default storage: 32 samples a step, an hour of steps of half a second."""
    target = make_target(samples=int(32 * HOUR_S / 0.5))
    store_study(default_storage_url(), name, make_workload(), target, *outcomes)


def winner(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    """The best plan of `planner report gpt`, with its bill by name of the term."""
    assert run(["report", "gpt", "--json", "--catalog", "prices.csv", *flags]) == Exit.PLAN
    plan: dict[str, Any] = validated(capsys.readouterr().out, "report")["winner"]
    return plan


def term_usd(plan: dict[str, Any], name: str) -> float:
    """What a term of the bill is expected to cost; 0 where the bill does not have it."""
    return sum(term["expected_usd"] for term in plan["breakdown"] if term["name"] == name)


def test_studies_are_listed_with_what_they_hold_the_last_used_one_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(measured(), measured(step_time_s=0.6), name="first")
    stored(measured(), name="second")
    stored(name="never")
    assert run(["studies"]) == Exit.PLAN
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["study", "model", "file", "trials", "measured", "last", "trial"]
    assert [row.split()[0] for row in rows] == ["never", "first", "second"]
    assert [row.split()[2:4] for row in rows] == [["0", "0"], ["2", "2"], ["1", "1"]]
    assert rows[0].split()[-1] == "never"


def test_a_storage_without_studies_says_which(capsys: pytest.CaptureFixture[str], desk: Path) -> None:
    stored()
    other = desk / "other.db"
    assert run(["studies", "--storage", f"sqlite:///{other}"]) == Exit.BAD_INPUT
    assert f"{other}: there is no study yet; run `planner sweep model.py` first" in capsys.readouterr().err


def test_a_model_file_is_estimated_from_its_trace_alone(
    capsys: pytest.CaptureFixture[str], desk: Path
) -> None:
    (desk / "mlp.py").write_text(MODEL)
    arguments = ["estimate", "mlp.py", "--gpu", "L4-24GB", "--catalog", "prices.csv"]
    assert run(arguments) == Exit.PLAN
    out, err = capsys.readouterr()
    assert "tracing mlp.py on CPU" in err
    said = " ".join(out.split())
    assert "No trial was run: these are predictions for L4-24GB from the operation trace alone." in said
    assert "g6.xlarge from aws (on-demand)" in out
    rows = [line for line in out.splitlines() if line.rstrip().endswith("predicted")]
    assert rows
    assert all("$" in row and "MiB" in row for row in rows)
    assert not (desk / "data").exists()  # nothing was measured, so no study begins


def test_without_a_gpu_an_estimate_ranks_what_can_be_rented(
    capsys: pytest.CaptureFixture[str], desk: Path
) -> None:
    (desk / "mlp.py").write_text(MODEL)
    other = "aws,g5.xlarge,us-east-1,on-demand,A10G-24GB,1,4,16,1.01,2025-06-01\n"
    (desk / "prices.csv").write_text(CATALOG + other)
    assert run(["estimate", "mlp.py", "--catalog", "prices.csv", "--budget", "$50", "--json"]) == Exit.PLAN
    out, err = capsys.readouterr()
    found = validated(out, "report")
    assert {plan["offer"]["device"] for plan in found["plans"]} == {"L4-24GB", "A10G-24GB"}
    assert {plan["basis"] for plan in found["plans"]} == {"predicted"}
    assert found["target"]["budget_usd"] == 50.0
    assert "by the trace alone" in err
    assert (desk / "planner-report" / "report.html").exists()
    assert not (desk / "data").exists()


def test_an_estimate_of_one_gpu_as_json_has_every_technique_torch_compile_too(
    capsys: pytest.CaptureFixture[str], desk: Path
) -> None:
    (desk / "mlp.py").write_text(MODEL)
    arguments = ["estimate", "mlp.py", "--gpu", "L4-24GB", "--catalog", "prices.csv", "--json"]
    assert run(arguments) == Exit.PLAN
    out, err = capsys.readouterr()
    found = validated(out, "estimate")
    configs = [row["config"] for row in found["rows"]]
    assert {config["is_compiled"] for config in configs} == {True, False}
    assert {config["precision"] for config in configs} == {"fp32", "tf32", "bf16", "fp16"}
    assert any("assume that it works for this model" in note for note in found["notes"])
    assert "g6.xlarge from aws (on-demand)" in err


def test_an_estimate_in_a_pipe_is_not_cut_and_in_a_terminal_fits(
    capsys: pytest.CaptureFixture[str], desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk / "mlp.py").write_text(MODEL)
    arguments = ["estimate", "mlp.py", "--gpu", "L4-24GB", "--catalog", "prices.csv"]
    assert run(arguments) == Exit.PLAN
    piped = capsys.readouterr().out
    assert "…" not in piped
    assert "predicted" in piped
    monkeypatch.setenv("COLUMNS", "80")
    assert run(arguments) == Exit.PLAN
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_a_count_of_gpus_without_their_type_is_refused(
    capsys: pytest.CaptureFixture[str], desk: Path
) -> None:
    (desk / "mlp.py").write_text(MODEL)
    assert run(["estimate", "mlp.py", "--gpus", "3"]) == Exit.BAD_INPUT
    assert "--gpus 3: name the type as well, such as --gpu L4-24GB" in capsys.readouterr().err


def test_an_estimate_of_a_count_that_the_batch_cannot_be_shared_by_is_refused(
    capsys: pytest.CaptureFixture[str], desk: Path
) -> None:
    (desk / "mlp.py").write_text(MODEL)
    assert run(["estimate", "mlp.py", "--gpu", "L4-24GB", "--gpus", "3"]) == Exit.BAD_INPUT
    assert "--gpus 3 does not divide the global batch size 64" in capsys.readouterr().err


def test_minutes_of_evaluation_are_charged_at_the_price_and_add_to_the_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(measured())
    without, half_an_hour = winner(capsys), winner(capsys, "--evaluation-minutes", "30")
    assert term_usd(without, "evaluation") == 0.0
    assert term_usd(half_an_hour, "evaluation") == pytest.approx(0.5 * 0.72)
    longer_s = half_an_hour["duration_s"]["expected"] - without["duration_s"]["expected"]
    assert longer_s == pytest.approx(HOUR_S / 2, abs=60.0)  # and at most a checkpoint more


def test_carbon_dioxide_is_the_measured_energy_times_what_the_grid_emits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stored(measured(telemetry=make_telemetry(power_w=72.0)))
    plan = winner(capsys, "--grid-g-per-kwh", "400")
    assert plan["energy_j"]["expected"] == pytest.approx(72.0 * plan["held_s"]["expected"], rel=0.05)
    assert plan["co2_kg"]["expected"] == pytest.approx(0.4 * plan["energy_j"]["expected"] / 3.6e6)
    assert winner(capsys)["co2_kg"] is None
    run(["report", "gpt", "--catalog", "prices.csv", "--grid-g-per-kwh", "400"])
    assert "kg of CO2" in capsys.readouterr().out


def test_without_measured_power_there_is_no_carbon_dioxide(capsys: pytest.CaptureFixture[str]) -> None:
    stored(measured())
    assert winner(capsys, "--grid-g-per-kwh", "400")["co2_kg"] is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--from-checkpoint", "weights.pt"], "give a range, --global-batch-size 256:4096"),
        (
            ["--from-checkpoint", "weights.pt", "--global-batch-size", "64:256"],
            "--from-checkpoint weights.pt: no such file",
        ),
    ],
    ids=["no range", "no file"],
)
def test_weights_to_start_from_need_a_range_and_a_file(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str], desk: Path
) -> None:
    (desk / "mlp.py").write_text(MODEL)
    assert run(["sweep", "mlp.py", *flags]) == Exit.BAD_INPUT
    assert words in capsys.readouterr().err.replace("\n", " ")


def test_measuring_a_plan_again_says_when_no_cluster_answers(
    capsys: pytest.CaptureFixture[str], desk: Path
) -> None:
    (desk / "mlp.py").write_text(MODEL)
    workload = hash_workload(desk / "mlp.py")
    store_study(default_storage_url(), "mlp", workload, make_target(samples=320_000), measured())
    assert run(["launch-files", "mlp", "--catalog", "prices.csv", "--directory", "launch"]) == Exit.PLAN
    arguments = ["verify", "mlp", "--directory", "launch", "--catalog", "prices.csv", "--measure"]
    assert run([*arguments, "--address", "127.0.0.1:1"]) == Exit.BAD_INPUT
    assert "nothing answers there" in capsys.readouterr().err.replace("\n", " ")
