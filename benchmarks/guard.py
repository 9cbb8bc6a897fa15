"""The numeric guard on real models: sane ones pass, arithmetic that is not up to a model is rejected. On CPU.

    python -m benchmarks.guard

Each curve is a guard's trial: 42 steps from the same weights over the same samples. *Spare* is how far the
loss might still rise before it is rejected, as a share of what is allowed; below zero it is.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from planner.plans.numerics_check import allowance, judge
from trials.measurement import Measurement, Outcome
from trials.measuring.measure import measure
from trials.measuring.settings import settings_for
from trials.model_file.source import hash_workload
from trials.rank_context import RankContext
from trials.trial import Parallelism, Precision, Purpose, TrialConfig

EXAMPLES = Path(__file__).parent.parent / "examples"
STEP_COUNT = 42
CLASSIFIER = """
import torch
from torch import nn
from torch.nn import functional

def batch(size):
    x = torch.randn(size, 16)
    return x, x[:, :4].argmax(1)
def model(): return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
def loss(model, batch): return functional.cross_entropy(model(batch[0]), batch[1])
def optimizer(parameters): return torch.optim.AdamW(parameters, lr=1e-2)
"""
REGRESSION = """
import torch
from torch import nn
from torch.nn import functional

def dataset():
    x = torch.randn(1024, 8)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).tanh())
def model(): return nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
def loss(model, batch): return functional.mse_loss(model(batch[0]), batch[1])
def optimizer(parameters): return torch.optim.AdamW(parameters, lr=1e-2)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model file, the arithmetic that it is tried in, and whether it is to be rejected."""

    name: str
    text: str
    precisions: tuple[Precision, ...] = (Precision.BF16, Precision.FP16)
    is_bad: bool = False


SANE = (
    Case(name="classifier", text=CLASSIFIER),
    Case(name="with dropout", text=CLASSIFIER.replace("nn.ReLU(),", "nn.ReLU(), nn.Dropout(0.2),")),
    Case(
        name="labels that cannot be learnt",
        text=CLASSIFIER.replace("x[:, :4].argmax(1)", "torch.randint(0, 4, (size,))"),
    ),
    Case(name="regression", text=REGRESSION),
    Case(name="examples/convnet.py", text=(EXAMPLES / "convnet.py").read_text()),
)
BAD = (
    Case(
        name="a loss that overflows",
        text=CLASSIFIER.replace("model(batch[0]),", "model(batch[0]) * 1e6,"),
        precisions=(Precision.FP16,),
        is_bad=True,
    ),
    Case(
        name="gradients below what scaling lifts",
        text=CLASSIFIER.replace("batch[1])", "batch[1]) * 1e-12").replace(
            "AdamW(parameters, lr=1e-2", "SGD(parameters, lr=5e11"
        ),
        precisions=(Precision.FP16,),
        is_bad=True,
    ),
)


def curve(folder: Path, case: Case, precision: Precision) -> Outcome:
    """A guard's trial of the case."""
    path = folder / "model.py"
    path.write_text(case.text)
    config = TrialConfig(
        gpu="CPU",
        gpu_count=1,
        micro_batch_size=8,
        accumulation=1,
        precision=precision,
        parallelism=Parallelism.SINGLE,
    )
    return measure(hash_workload(path), config, RankContext(threads=1), settings_for(Purpose.GUARD))


def unscaled(dtype: torch.dtype | None, scale: float) -> list[float]:
    """Losses of a plain loop whose gradients are of the order of ``scale``, without the scaling of trials."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5 / scale)
    found = []
    for _ in range(STEP_COUNT):
        x = torch.randn(64, 16)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            loss = functional.cross_entropy(model(x), x[:, :4].argmax(1)) * scale
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item() / scale)
    return found


def comparisons(folder: Path) -> Iterator[tuple[str, str, bool, Sequence[float], Sequence[float] | str]]:
    """Name, arithmetic, whether it is bad, fp32's losses, and the losses or why there are none."""
    for case in (*SANE, *BAD):
        reference = curve(folder, case, Precision.FP32)
        assert isinstance(reference, Measurement), reference
        for precision in case.precisions:
            outcome = curve(folder, case, precision)
            losses = outcome.losses if isinstance(outcome, Measurement) else outcome.reason
            yield case.name, precision, case.is_bad, reference.losses, losses
    for scale, dtype, is_bad in ((1e-7, torch.float16, True), (1e-7, torch.bfloat16, False)):
        name = f"gradients of {scale:g}, not scaled"
        yield name, str(dtype)[6:], is_bad, unscaled(None, scale), unscaled(dtype, scale)


def main() -> None:
    """Print the table; fail where a case is judged wrong."""
    torch.set_num_threads(1)
    are_right = []
    print(f"{'case':36}{'arithmetic':>12}{'first':>10}{'fp32 ends':>11}{'ends':>9}{'spare':>8}  verdict")
    with tempfile.TemporaryDirectory() as folder:
        for name, arithmetic, is_bad, reference, losses in comparisons(Path(folder)):
            has_curve = not isinstance(losses, str)
            rejection = judge(losses, reference) if has_curve else losses
            are_right.append(bool(rejection) is is_bad)
            print(row(name, arithmetic, reference, losses if has_curve else ()), end="  ")
            print("rejected" if rejection else "trains", "" if are_right[-1] else " (WRONG)", flush=True)
    sys.exit(not all(are_right))


def row(name: str, arithmetic: str, reference: Sequence[float], losses: Sequence[float]) -> str:
    """Mean losses of the last third of the steps, and what was left until rejection."""
    text = f"{name:36}{arithmetic:>12}{reference[0]:>10.3g}"
    if not losses:
        return f"{text}{'':>11}{'not finite':>17}"
    gap, allowed, level = allowance(losses, reference)
    return f"{text}{level:>11.3g}{level + gap:>9.3g}{1 - gap / allowed:>8.0%}"


if __name__ == "__main__":
    main()
