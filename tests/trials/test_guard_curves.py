"""The guard on real models: five sane ones pass in bf16 and fp16, arithmetic not up to a model does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from planner.choice.guard import judge
from tests.trials.files import PLAIN, on_cpu, write
from trials.measuring.measure import measure
from trials.measuring.place import Place
from trials.measuring.settings import settings_for
from trials.trial import Failure, FailureKind, Measurement, Outcome, Precision, Purpose

EXAMPLES = Path(__file__).parents[2] / "examples"
SETTINGS = settings_for(Purpose.GUARD)
HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional\n"
LEARNABLE = """
def batch(size):
    x = torch.randn(size, 16)
    return x, x[:, :4].argmax(1)
def loss(model, batch): return functional.cross_entropy(model(batch[0]), batch[1])
def optimizer(parameters): return torch.optim.AdamW(parameters, lr=1e-2)
"""
MLP = HEAD + LEARNABLE + "def model(): return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))\n"
DROPOUT = MLP.replace("nn.ReLU(),", "nn.ReLU(), nn.Dropout(0.2),")
RANDOM_LABELS = MLP.replace("x[:, :4].argmax(1)", "torch.randint(0, 4, (size,))")
OVERFLOWING = MLP.replace("model(batch[0]),", "model(batch[0]) * 1e6,")


def curve(folder: Path, text: str, precision: Precision) -> Outcome:
    return measure(write(folder, text), on_cpu(precision=precision), Place(threads=1), SETTINGS)


def losses(outcome: Outcome) -> tuple[float, ...]:
    assert isinstance(outcome, Measurement), outcome
    return outcome.losses


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP16])
@pytest.mark.parametrize(
    "text",
    [MLP, DROPOUT, RANDOM_LABELS, PLAIN, (EXAMPLES / "convnet.py").read_text()],
    ids=["classifier", "with dropout", "labels that cannot be learnt", "regression", "convnet"],
)
def test_sane_models_are_not_rejected(tmp_path: Path, text: str, precision: Precision) -> None:
    reference = losses(curve(tmp_path, text, Precision.FP32))
    assert len(reference) == 42  # whatever the steps took
    assert judge(losses(curve(tmp_path, text, precision)), reference) == ""


def test_a_loss_that_overflows_is_a_divergence(tmp_path: Path) -> None:
    outcome = curve(tmp_path, OVERFLOWING, Precision.FP16)
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.DIVERGED


def descended(dtype: torch.dtype | None, scale: float) -> list[float]:
    """A plain loop whose gradients are of the order of ``scale``, without loss scaling."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5 / scale)
    found = []
    for _ in range(42):
        x = torch.randn(64, 16)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            loss = torch.nn.functional.cross_entropy(model(x), x[:, :4].argmax(1)) * scale
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item() / scale)
    return found


def test_fp16_without_scaling_is_rejected_where_gradients_are_tiny() -> None:
    reference = descended(None, 1e-7)
    assert judge(descended(torch.float16, 1e-7), reference) != ""
    assert judge(descended(torch.bfloat16, 1e-7), reference) == ""  # bf16 has fp32's exponents
    assert judge(descended(torch.float16, 1.0), descended(None, 1.0)) == ""
