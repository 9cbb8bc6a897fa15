"""`planner sweep` on a GPU, for the GPT example and a convnet, through Ray Train and a study."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.devices import WORKLOADS, catalog_name, devices, size_for

ROOT = Path(__file__).parents[2]
MISSING = [one for one in ("ray", "optuna", "pydantic") if importlib.util.find_spec(one) is None]

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed here: {', '.join(MISSING)}"),
]


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize(
    "model", [ROOT / "examples" / "gpt.py", WORKLOADS / "resnet.py"], ids=["gpt", "convnet"]
)
def test_a_sweep_measures_this_device_and_recommends(device, model, tmp_path) -> None:
    command = [
        sys.executable,
        "-m",
        "planner",
        "sweep",
        str(model),
        "--budget",
        "1000000",
        "--sweep-budget",
        "5",
    ]
    command += ["--storage", f"sqlite:///{tmp_path / 'study.db'}", "--out", str(tmp_path / "report")]
    minutes, trials = ("4", "4") if device == "cpu" else ("1", "12")  # the trials end it, unless it hangs
    command += ["--max-minutes", minutes, "--max-trials", trials]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "WORKLOAD_SIZE": size_for(device, "50"),
        "RAY_AUTH_MODE": "disabled",
    }
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode in {0, 3}, done.stderr[-3000:]  # a plan, or nothing within the budget
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    measured = [one for one in report["trials"] if one["measurement"] is not None]
    assert len(measured) >= 2, done.stderr[-3000:]
    assert {one["configuration"]["device"] for one in measured} == {catalog_name(device)}
    assert all(0 < one["peak_fraction"] < 1 for one in measured)
    if device != "cpu":
        assert report["is_gpu_measured"]
        assert all(one["measurement"]["telemetry"] is not None for one in measured)
        precisions = {one["configuration"]["precision"] for one in measured}
        assert precisions & {"bf16", "fp16", "tf32"}
