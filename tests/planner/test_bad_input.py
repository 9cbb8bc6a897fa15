"""Every kind of bad input: exit code 2, one clear message on stderr, no traceback, nothing on stdout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.__main__ import run
from planner.exits import Exit

MODEL = """
import torch
from torch import nn
def model():
    return nn.Linear(4, 1)
def batch(size):
    return torch.randn(size, 4)
def loss(model, batch):
    return model(batch).square().mean()
target = {"samples": 1000, "global_batch_size": 8}
"""


def without(name: str) -> str:
    start = MODEL.index(f"def {name}(")
    end = MODEL.find("\ndef ", start)
    return MODEL[:start] + (MODEL[end:] if end > 0 else "")


def with_body(name: str, body: str) -> str:
    start = MODEL.index(f"def {name}(")
    body_start = MODEL.index(":\n", start) + 2
    body_end = MODEL.index("\n", body_start)
    return MODEL[:body_start] + f"    {body}" + MODEL[body_end:]


FILES = {  # text of the model file -> what the message must say
    "syntax error": ("def model(:\n", ("line 1", "syntax error")),
    "import error inside": (MODEL + "import no_such_module_anywhere\n", ("no_such_module_anywhere", "line ")),
    "no model()": (without("model"), ("no model()", "define a function model()")),
    "no batch()": (without("batch"), ("batch(size)", "dataset()")),
    "model() raises": (
        with_body("model", "raise RuntimeError('no weights')"),
        ("model()", "no weights", "line "),
    ),
    "loss not a scalar": (with_body("loss", "return model(batch)"), ("scalar", "mean()")),
    "loss not a tensor": (with_body("loss", "return 'high'"), ("loss", "tensor")),
    "loss NaN at once": (with_body("loss", "return model(batch).mean() * float('nan')"), ("loss", "nan")),
    "batch() of the wrong size": (
        with_body("batch", "return torch.randn(7, 4)"),
        ("wrong size", "2 samples", "[7, 4]"),
    ),
    "sys.exit in the file": (MODEL + "import sys; sys.exit(7)\n", ("sys.exit(7)",)),
    "not text": ("\x00\x01", ("not a Python source file", "null bytes")),
}


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], *words: str) -> str:
    code = run(arguments)
    out, err = capsys.readouterr()
    assert code == Exit.BAD_INPUT, err
    assert out == ""
    assert "Traceback" not in err
    assert "planner: " in err
    for word in words:
        assert word in err, err
    return err


def model_file(tmp_path: Path, text: str = MODEL) -> str:
    path = tmp_path / "model.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("case", FILES)
def test_a_model_file_that_breaks_the_contract(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, words = FILES[case]
    refused(["check", model_file(tmp_path, text)], capsys, str(tmp_path / "model.py"), *words)


def test_a_missing_model_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["sweep", str(tmp_path / "none.py"), "--budget", "5"], capsys, "none.py", "no such file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_model_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model_file(tmp_path)
    Path(path).chmod(0)
    refused(["sweep", path, "--budget", "5"], capsys, "cannot be read")


FLAGS = {
    "negative budget": (["--budget", "-3"], ("--budget -3", "positive")),
    "zero budget": (["--budget", "0"], ("--budget 0", "positive")),
    "absurd budget": (["--budget", "1e12"], ("--budget 1e12", "over a billion")),
    "budget that is no number": (["--budget", "lots"], ("--budget", "number")),
    "budget that is not a number": (["--budget", "nan"], ("--budget nan", "positive")),
    "samples in an unknown unit": (["--samples", "300Q"], ("--samples 300Q", "300B")),
    "negative hour value": (["--hour-value", "-1"], ("--hour-value -1", "positive")),
    "hour value that is no number": (["--hour-value", "much"], ("--hour-value", "number")),
    "impossible deadline": (["--deadline", "0h"], ("--deadline 0h", "more than zero")),
    "deadline without a unit": (["--deadline", "36"], ("--deadline 36", "36h")),
    "no minutes": (["--max-minutes", "0"], ("--max-minutes 0", "more than zero")),
    "endless minutes": (["--max-minutes", "inf"], ("--max-minutes inf",)),
    "tokens that are not a number": (["--tokens", "nan"], ("--tokens nan", "positive")),
    "an absurd batch": (["--global-batch-size", "1000000000000"], ("global batch size", "over 1048576")),
    "no trials": (["--max-trials", "0"], ("max-trials",)),
    "negative sweep budget": (["--sweep-budget", "-1"], ("--sweep-budget -1",)),
    "unknown GPU": (["--gpu", "H1000"], ("H1000", "H100")),
    "ambiguous GPU": (["--gpu", "H100"], ("H100-SXM5-80GB", "H100-PCIE-80GB")),
    "unknown provider": (["--provider", "acme"], ("--provider acme", "aws")),
    "unknown region": (["--region", "mars-1"], ("--region mars-1",)),
    "price without an amount": (["--price", "L4-24GB"], ("--price L4-24GB", "=2.10")),
    "negative price": (["--price", "L4-24GB=-1"], ("--price L4-24GB=-1",)),
    "price of an unknown GPU": (["--price", "H1000=2.10"], ("H1000", "H100")),
    "price of different chips": (["--price", "RTX 6000=2.10"], ("QUADRO-RTX-6000-24GB", "in full")),
    "price of a family that nobody offers": (["--price", "RTX 3080=0.20"], ("RTX-3080-10GB", "in full")),
    "confidence of one": (["--confidence", "1"], ("--confidence 1",)),
    "storage in a file that is no directory": (
        ["--storage", "sqlite:////dev/null/x.db"],
        ("--storage", "writable"),
    ),
    "storage that is no URL": (["--storage", "nonsense"], ("nonsense", "sqlite:///")),
    "ray client": (["--address", "ray://head:10001"], ("ray://", "--submit")),
    "address that nobody answers": (["--address", "127.0.0.1:1"], ("127.0.0.1:1", "RAY_AUTH_MODE")),
    "submit to nobody": (["--submit", "--address", "http://127.0.0.1:1"], ("127.0.0.1:1", "dashboard")),
    "two lengths": (["--samples", "5", "--epochs", "1"], ("--samples", "--epochs", "one of them")),
    "negative samples": (["--samples", "-5"], ("at least 1",)),
    "epochs without a data set": (["--epochs", "3"], ("epochs", "--samples")),
    "a batch that no worker count divides": (["--global-batch-size", "0"], ("at least 1",)),
}


@pytest.mark.parametrize("case", FLAGS)
def test_a_flag_that_cannot_be(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags, words = FLAGS[case]
    refused(["sweep", model_file(tmp_path), *flags], capsys, *words)


def test_a_missing_target_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model_file(tmp_path, MODEL.replace("target =", "_unused ="))
    refused(["sweep", path], capsys, "--global-batch-size")
    refused(["sweep", path, "--global-batch-size", "8"], capsys, "--samples, --epochs or --tokens")


def test_a_malformed_catalog_row_names_file_line_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = tmp_path / "mine.csv"
    catalog.write_text("provider,instance_type,gpu,gpu_count,price_usd_per_hour\nme,box,L4-24GB,1,cheap\n")
    refused(
        ["catalog", "--catalog", str(catalog)], capsys, "mine.csv", "line 2", "price_usd_per_hour", "cheap"
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--skypilot", "nowhere"], ("--skypilot nowhere", "neither a folder nor")),
        (["--gpuhunt", "nowhere"], ("--gpuhunt nowhere", "neither a folder nor")),
        (["--skypilot", "."], ("no catalog there",)),
        (["--provider", "acme"], ("--provider acme", "aws")),
    ],
)
def test_a_refresh_from_nowhere(
    flags: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    refused(["catalog", "refresh", *flags], capsys, *words)


def test_a_study_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["report", "gpt"], capsys, "planner sweep")


def test_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    refused(["swep"], capsys, "swep")
