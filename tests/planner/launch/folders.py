"""A launch folder on disk, for a model file of the examples and a CPU plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from catalogs.gpus import load_gpus
from planner.launch.files import launch_files
from planner.launch.wheel import running_wheel
from planner.verify.run_plan import RunPlan
from tests.builders import make_config, make_offer, make_target
from tests.planner.run_plans import make_run_plan
from trials.model_file.source import hash_workload
from trials.trial import TrialConfig

GPT = Path(__file__).parents[3] / "examples" / "gpt.py"
CPU = "CPU-X86-64"


def cpu_plan(config: TrialConfig, **changes: Any) -> RunPlan:
    """A plan of ``config`` for the example GPT on a machine of two vCPUs."""
    batch_size = config.global_batch_size
    figures: dict[str, Any] = {
        "model_file": GPT.name,
        "sha256": hash_workload(GPT).sha256,
        "config": config,
        "is_cpu": True,
        "target": make_target(samples=1000 * batch_size, global_batch_size=batch_size),
        "offer": make_offer(CPU, provider="aws", instance_type="c7i.large", vcpus=2, region="us-east-1"),
    }
    return make_run_plan(**{**figures, **changes})


def cpu_config(**changes: Any) -> TrialConfig:
    """Two samples per micro batch, two micro batches per step."""
    return make_config(CPU, **{"micro_batch_size": 2, "accumulation": 2, **changes})


def write_folder(run: RunPlan, folder: Path) -> None:
    """The folder as the command writes it."""
    files = launch_files(
        run,
        load_gpus()[run.offer.gpu],
        {GPT.name: GPT.read_text()},
        ["A test."],
        wheel=running_wheel(),
        has_requirements=False,
    )
    for name, text in files.texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / files.wheel.name).write_bytes(files.wheel.contents)
