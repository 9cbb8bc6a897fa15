"""DDP and FSDP2 for real: two processes on gloo must learn exactly what one process learns."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.trials.files import PLAIN, on_cpu, write
from tests.trials.group import on_two_ranks
from trials.measurement import Measurement, Outcome
from trials.measuring.clock import Clock
from trials.measuring.measure import MeasureSettings, measure, merge
from trials.measuring.step import Training
from trials.model_file.workload import load
from trials.modes import TECHNIQUES
from trials.rank_context import RankContext
from trials.trial import Failure, FailureKind, Parallelism, Precision, TrialConfig, Workload

SETTINGS = MeasureSettings(warmup_max=3, timed_max=10, half_width_fraction=math.inf)
CLIPPED = PLAIN + "clip_norm = 0.1\n"
UNUSED = PLAIN.replace("self.last =", "self.unused = nn.Linear(8, 8)\n        self.last =")
DIVERGING = PLAIN + "def optimizer(parameters): return torch.optim.SGD(parameters, lr=1e30)\n"
ON_ONE_RANK = """
import torch.distributed as dist
calls = 0
def loss(model, batch):
    global calls
    calls += 1
    if dist.get_rank() == 1 and calls == {call}:
        {fault}
    x, y = batch
    return functional.mse_loss(model(x), y)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    workload: Workload
    config: TrialConfig


def run_job(context: RankContext, job: Job) -> Outcome:
    return measure(job.workload, job.config, context, SETTINGS)


def on_two(**changes: Any) -> TrialConfig:
    values = {"gpu_count": 2, "micro_batch_size": 8, "parallelism": Parallelism.DDP}
    return on_cpu(**(values | changes))


def run_jobs(folder: Path, jobs: list[Job], timeout_s: float = 60.0) -> list[Outcome]:
    return [merge(outcomes) for outcomes in on_two_ranks(folder, run_job, jobs, timeout_s)]


def losses(outcome: Outcome) -> tuple[float, ...]:
    assert isinstance(outcome, Measurement), outcome
    return outcome.losses


def test_every_way_to_train_gives_the_losses_of_one_process(tmp_path: Path) -> None:
    """And each follows others in the same two warm processes, with a process group of its own."""
    workload = write(tmp_path, CLIPPED)
    plain = losses(measure(workload, on_cpu(micro_batch_size=16), RankContext(threads=1), SETTINGS))
    ways: list[dict[str, Any]] = [
        {},
        {"parallelism": Parallelism.FSDP2},
        {"parallelism": Parallelism.FSDP2, "techniques": ("activation_checkpointing",)},
        {"techniques": ("activation_checkpointing",)},
        {"micro_batch_size": 4, "accumulation": 2},
        {
            "micro_batch_size": 2,
            "accumulation": 4,
            "parallelism": Parallelism.FSDP2,
            "techniques": ("activation_checkpointing",),
        },
    ]
    outcomes = run_jobs(tmp_path, [Job(workload=workload, config=on_two(**way)) for way in ways])
    for way, outcome in zip(ways, outcomes, strict=True):
        assert losses(outcome) == pytest.approx(plain, rel=1e-4), way
        assert isinstance(outcome, Measurement)
        assert len(outcome.peak_allocated_bytes) == 2
        phases = outcome.phases
        assert phases is not None
        assert phases.gradient_sync_s is not None  # told from the backward pass, however gradients travel
        assert phases.launch_s is not None or outcome.config.micro_batch_size < 4
        assert phases.step_s == pytest.approx(outcome.step_time_s)


def test_precisions_under_both_parallelisms(tmp_path: Path) -> None:
    workload = write(tmp_path, CLIPPED.replace("mse_loss(model(x), y)", "mse_loss(model(x), y) / 100"))
    precisions = (Precision.BF16, Precision.FP16)
    plain = [
        losses(
            measure(workload, on_cpu(micro_batch_size=16, precision=one), RankContext(threads=1), SETTINGS)
        )
        for one in precisions
    ]
    ways = [(one, way) for one in range(2) for way in (Parallelism.DDP, Parallelism.FSDP2)]
    jobs = [
        Job(workload=workload, config=on_two(precision=precisions[one], parallelism=way)) for one, way in ways
    ]
    for (one, _), outcome in zip(ways, run_jobs(tmp_path, jobs), strict=True):
        assert losses(outcome) == pytest.approx(plain[one], rel=0.02)


def run_and_report(context: RankContext, job: Job) -> list[Outcome]:
    """What a trial reports on its way; the file's last rank fails once its steps are reported."""
    reported: list[Outcome] = []

    def report(measurement: Measurement) -> None:
        reported.append(measurement)
        sys.is_reported = True  # type: ignore[attr-defined]

    outcome = measure(job.workload, job.config, replace(context, report=report), SETTINGS)
    return [*reported, outcome]


def test_a_rank_that_fails_in_the_extra_passes_is_named_and_its_steps_are_reported(tmp_path: Path) -> None:
    text = PLAIN + ON_ONE_RANK.format(call=1, fault="raise ValueError('injected')").replace(
        "calls == 1", "getattr(__import__('sys'), 'is_reported', False)"
    )
    job = Job(workload=write(tmp_path, text), config=on_two(parallelism=Parallelism.FSDP2))
    ((first, second),) = on_two_ranks(tmp_path, run_and_report, [job], timeout_s=5.0)
    assert [type(outcome) for outcome in (*first, *second)] == [Measurement, Failure] * 2
    assert second[-1].kind is FailureKind.USER_CODE
    assert "injected" in second[-1].reason


class Gathered(TorchDispatchMode):
    """Types of what collectives carry: gathered and scattered."""

    def __init__(self) -> None:
        super().__init__()
        self.types: dict[str, set[str]] = {"all_gather": set(), "reduce_scatter": set()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for name, found in self.types.items():
            if name in str(func):
                tensors = [one for one in tree_leaves(args) if isinstance(one, torch.Tensor)]
                found.update(str(one.dtype) for one in tensors if one.is_floating_point())
        return func(*args, **(kwargs or {}))


def carried(context: RankContext, job: Job) -> dict[str, set[str]]:
    training = Training(load(job.workload), job.config, context, 0, 0)
    clock = Clock(context.torch_device)
    with Gathered() as seen:
        training.run_step(2, clock, clock.mark())
    training.close()
    return seen.types


def test_fsdp2_gathers_in_the_precision_of_the_passes_and_reduces_in_fp32(tmp_path: Path) -> None:
    workload = write(tmp_path, PLAIN)
    precisions = ("fp32", "bf16", "fp16")
    jobs = [
        Job(workload=workload, config=on_two(precision=one, parallelism="fsdp2", accumulation=2))
        for one in precisions
    ]
    found = [one for one, _ in on_two_ranks(tmp_path, carried, jobs)]
    assert [one["all_gather"] for one in found] == [
        {"torch.float32"}, {"torch.bfloat16"}, {"torch.float16"},
    ]  # fmt: skip
    assert [one["reduce_scatter"] for one in found] == [{"torch.float32"}] * 3


def test_ddp_takes_a_model_with_unused_parameters(tmp_path: Path) -> None:
    workload = write(tmp_path, UNUSED)
    plain = losses(measure(workload, on_cpu(micro_batch_size=16), RankContext(threads=1), SETTINGS))
    (outcome,) = run_jobs(tmp_path, [Job(workload=workload, config=on_two())])
    assert losses(outcome) == pytest.approx(plain, rel=1e-4)


def test_failures_on_one_rank_are_told_by_that_rank_and_do_not_harm_the_next_trial(tmp_path: Path) -> None:
    def faulty(name: str, text: str) -> Workload:
        return write(tmp_path, text, name)

    good = faulty("good.py", PLAIN)
    building = PLAIN.replace(
        "return Net()", "import torch.distributed as dist\n    assert dist.get_rank() == 0\n    return Net()"
    )
    jobs = [
        Job(workload=good, config=on_two()),
        Job(workload=faulty("diverging.py", DIVERGING), config=on_two()),
        Job(workload=good, config=on_two(precision=Precision.TF32)),
        Job(workload=faulty("building.py", building), config=on_two(parallelism=Parallelism.FSDP2)),
        Job(workload=good, config=on_two(parallelism=Parallelism.FSDP2)),
        Job(workload=good, config=on_two()),
    ]
    first, diverged, unsupported, broken, sharded, again = run_jobs(tmp_path, jobs)
    kinds = [one.kind for one in (diverged, unsupported, broken) if isinstance(one, Failure)]
    assert kinds == [FailureKind.DIVERGED, FailureKind.UNSUPPORTED, FailureKind.USER_CODE]
    assert isinstance(broken, Failure)
    assert "model() raised AssertionError" in broken.reason
    assert "(rank 1 of 2)" in broken.reason
    assert losses(again) == losses(first)
    assert losses(sharded) == pytest.approx(losses(first), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("raise torch.OutOfMemoryError('CUDA out of memory')", FailureKind.OUT_OF_MEMORY),
        ("raise KeyError('label')", FailureKind.USER_CODE),
    ],
)
def test_error_inside_a_step_of_one_rank_wins_over_the_other_rank_that_waits(
    tmp_path: Path, fault: str, kind: FailureKind
) -> None:
    workload = write(tmp_path, PLAIN + ON_ONE_RANK.format(call=4, fault=fault))
    (outcome,) = run_jobs(tmp_path, [Job(workload=workload, config=on_two())], timeout_s=10.0)
    assert isinstance(outcome, Failure)
    assert outcome.kind is kind


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # of the compiler's own imports
@pytest.mark.skipif(
    TECHNIQUES["compile"].refusal(torch.device("cpu")) is not None,
    reason="torch.compile needs a C++ compiler",
)
def test_compiled_training_gives_the_same_losses(tmp_path: Path) -> None:
    workload = write(tmp_path, CLIPPED)
    plain = losses(measure(workload, on_cpu(micro_batch_size=16), RankContext(threads=1), SETTINGS))
    alone = measure(
        workload, on_cpu(micro_batch_size=16, techniques=("compile",)), RankContext(threads=1), SETTINGS
    )
    ways: list[dict[str, Any]] = [
        {},
        {"parallelism": Parallelism.FSDP2},
        {"parallelism": Parallelism.FSDP2, "techniques": ("activation_checkpointing",)},
        {"techniques": ("activation_checkpointing",), "micro_batch_size": 4, "accumulation": 2},
    ]
    jobs = [
        Job(workload=workload, config=on_two(**way | {"techniques": ("compile", *way.get("techniques", ()))}))
        for way in ways
    ]
    for outcome in (alone, *run_jobs(tmp_path, jobs)):
        assert losses(outcome) == pytest.approx(plain, rel=1e-4)
