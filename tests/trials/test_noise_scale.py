"""The gradient noise scale, on a problem where it is known in closed form."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from planner.estimate.noise_scale import noise_scale
from tests.builders import make_config, make_measurement, make_noise
from tests.trials.files import PLAIN, on_cpu, write
from trials.extras import Extras
from trials.measurement import Measurement
from trials.measuring.measure import MeasureSettings, measure
from trials.rank_context import RankContext
from trials.workers.extras_due import extras_due

SIZE, NOISE_SCALE = 400, 50.0
# Samples are normal about 1, the loss is half the squared distance to them: the gradient of a sample is the
# weight less the sample, its covariance the identity, the noise scale SIZE over the squared distance to 1.
KNOWN = f"""
import torch
from torch import nn
class Point(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full(({SIZE},), START))
    def forward(self, x):
        return 0.5 * (self.weight - x).square().sum(1).mean()
def model(): return Point()
def batch(size): return 1.0 + torch.randn(size, {SIZE})
def loss(model, batch): return model(batch)
def optimizer(parameters): return torch.optim.SGD(parameters, lr=1e-12)
"""
START = 1.0 + NOISE_SCALE**-0.5
SETTINGS = MeasureSettings(warmup_max=3, timed_max=10, half_width_fraction=math.inf)


def run(folder: Path, start: float, checkpoint: Path | None = None) -> Measurement:
    extras = Extras(is_noise_measured=True, noise_checkpoint=None if checkpoint is None else str(checkpoint))
    workload = write(folder, KNOWN.replace("START", str(start)))
    outcome = measure(workload, on_cpu(), RankContext(threads=1), SETTINGS, extras)
    assert isinstance(outcome, Measurement), outcome
    return outcome


def test_a_known_noise_scale_is_found_within_a_tenth(tmp_path: Path) -> None:
    found = run(tmp_path, START)
    assert found.noise is not None, found.warnings
    assert (found.noise.small_batch_size, found.noise.big_batch_size) == (8, 64)
    scale = noise_scale(found.noise)
    assert scale is not None
    assert scale.expected == pytest.approx(NOISE_SCALE, rel=0.1)
    assert scale.high is not None
    assert scale.low < scale.expected < scale.high < 1.2 * NOISE_SCALE


def test_gradients_are_taken_at_the_parameters_of_a_checkpoint(tmp_path: Path) -> None:
    """From a start so far off that there is hardly any noise."""
    path = tmp_path / "state.pt"
    torch.save({"parts": {"model": {"weight": torch.full((SIZE,), START)}}, "step": 7}, path)
    found = run(tmp_path, 10.0, path)
    assert found.noise is not None, found.warnings
    scale = noise_scale(found.noise)
    assert scale is not None
    assert scale.expected == pytest.approx(NOISE_SCALE, rel=0.1)


def test_a_checkpoint_of_another_model_costs_no_trial(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save({"model": {"weight": torch.zeros(3)}}, path)
    found = run(tmp_path, START, path)
    assert found.noise is None
    assert f"gradient noise not measured: {path}: not a state of this model" in found.warnings[-1]
    assert "cannot be read" in run(tmp_path, START, tmp_path / "nothing.pt").warnings[-1]


def test_noise_is_drawn_once_by_one_worker() -> None:
    wanted = Extras(is_noise_measured=True)
    assert extras_due(wanted, make_config(gpu_count=2), []).is_nothing
    assert extras_due(wanted, make_config(), []) == wanted
    assert extras_due(
        wanted, make_config(), [make_measurement(make_config(), noise=make_noise(8.0))]
    ).is_nothing


def test_noise_is_not_drawn_from_scaled_gradients(tmp_path: Path) -> None:
    workload, extras = write(tmp_path, PLAIN), Extras(is_noise_measured=True)
    outcome = measure(workload, on_cpu(precision="fp16"), RankContext(threads=1), SETTINGS, extras)
    assert isinstance(outcome, Measurement), outcome
    assert outcome.noise is None
