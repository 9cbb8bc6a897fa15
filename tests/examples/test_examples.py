"""The examples meet the contract, train, and turn their size knob; each is measured like a user's file."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from trials.check import check
from trials.first_step import take_first_step
from trials.measurement import Measurement
from trials.measuring.isolate import isolated
from trials.measuring.measure import MeasureSettings, measure
from trials.model_file.source import hash_workload
from trials.model_file.workload import load
from trials.profile import Adapter
from trials.rank_context import RankContext
from trials.trial import Parallelism, Precision, TrialConfig

EXAMPLES = Path(__file__).parents[2] / "examples"
ADAPTERS = {
    "gpt": Adapter.PLAIN,
    "gpt2_124m": Adapter.PLAIN,
    "convnet": Adapter.PLAIN,
    "hugging_face": Adapter.HUGGING_FACE,
    "lightning_module": Adapter.LIGHTNING,
}
TRAINED = [
    name for name in ADAPTERS if name != "gpt2_124m"
]  # which is planned by its trace: half a minute a step
SETTINGS = MeasureSettings(warmup_max=3, timed_max=10, half_width_fraction=math.inf)


def test_every_example_is_tested() -> None:
    assert {one.stem for one in EXAMPLES.glob("*.py")} == set(ADAPTERS)


@pytest.mark.parametrize(("name", "adapter"), ADAPTERS.items())
def test_example_passes_the_check_and_says_what_it_plans(name: str, adapter: Adapter) -> None:
    profile = check(hash_workload(EXAMPLES / f"{name}.py"))
    assert profile.adapter is adapter
    assert profile.block_count >= 3
    assert profile.hint.global_batch_size is not None
    amounts = (profile.hint.samples, profile.hint.epochs, profile.hint.tokens)
    assert sum(one is not None for one in amounts) == 1
    assert profile.hint.epochs is None or profile.dataset_size is not None
    assert profile.hint.tokens is None or profile.tokens_per_sample is not None
    assert profile.trace_note == ""
    assert profile.traces


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("techniques", [(), ("activation_checkpointing",)])
def test_example_trains(name: str, techniques: tuple[str, ...]) -> None:
    config = TrialConfig(
        gpu="CPU",
        gpu_count=1,
        micro_batch_size=8,
        accumulation=1,
        precision=Precision.FP32,
        parallelism=Parallelism.SINGLE,
        techniques=techniques,
    )
    outcome = measure(hash_workload(EXAMPLES / f"{name}.py"), config, RankContext(threads=1), SETTINGS)
    assert isinstance(outcome, Measurement), outcome
    assert outcome.losses[-1] < outcome.losses[0]


@pytest.mark.parametrize("name", TRAINED)
def test_size_is_one_line_to_change(name: str, tmp_path: Path) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert re.findall(r"^SIZE = \"tiny\"", text, re.MULTILINE)
    counts = []
    for size in ("tiny", "small"):
        file = tmp_path / f"{size}.py"
        file.write_text(text.replace('SIZE = "tiny"', f'SIZE = "{size}"'))
        workload = hash_workload(file)
        with isolated(workload, threads=1):
            counts.append(take_first_step(load(workload)).parameter_count)
    assert counts[1] > 2 * counts[0]
