from __future__ import annotations

import builtins
import gc
import math
import multiprocessing
import os
import resource
import sys
import time
import warnings
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.builders import make_measurement, make_telemetry
from tests.trials.files import PLAIN, on_cpu, write
from trials.measurement import Measurement, Outcome
from trials.measuring.measure import MeasureSettings, measure, merge
from trials.measuring.settings import settings_for
from trials.rank_context import RankContext
from trials.trial import Failure, FailureKind, Parallelism, Precision, Purpose, TrialConfig

QUICK = MeasureSettings(warmup_max=3, timed_max=10, half_width_fraction=math.inf)


def run(folder: Path, text: str = PLAIN, settings: MeasureSettings = QUICK, **changes: object) -> Outcome:
    return measure(write(folder, text), on_cpu(**changes), RankContext(threads=1), settings)


def measured(outcome: Outcome) -> Measurement:
    assert isinstance(outcome, Measurement), outcome
    return outcome


def failed(outcome: Outcome) -> Failure:
    assert isinstance(outcome, Failure)
    return outcome


def test_measurement_of_one_worker(tmp_path: Path) -> None:
    found = measured(run(tmp_path))
    (series,) = found.series
    assert series.accumulation == 1
    assert len(series.step_times_s) == 10
    assert all(0 < one < found.trial_s for one in series.step_times_s)
    assert found.warmup_step_count == 3
    assert len(found.losses) == 13
    assert found.losses[-1] < found.losses[0]
    assert found.is_steady
    assert len(found.peak_allocated_bytes) == 1
    assert found.peak_reserved_bytes is None
    assert found.telemetry is None
    assert found.environment.threads_per_worker == 1
    assert found.environment.torch == torch.__version__
    assert found.trial_s > found.startup_s > 0


def test_phases_sum_to_the_step(tmp_path: Path) -> None:
    found = measured(run(tmp_path))
    phases = found.phases
    assert phases is not None
    parts = (
        phases.data_wait_s,
        phases.host_to_device_s,
        phases.forward_backward_s,
        phases.gradient_sync_s,
        phases.optimizer_s,
        phases.other_s,
    )
    assert math.fsum(parts) == pytest.approx(found.step_time_s)
    assert all(one >= 0 for one in parts)
    assert phases.step_s == pytest.approx(found.step_time_s)
    assert phases.forward_backward_s > phases.host_to_device_s


def test_slow_data_is_seen_as_waiting(tmp_path: Path) -> None:
    text = PLAIN.replace("def dataset", "def unused") + (
        "def batch(size):\n"
        "    for _ in range(20): torch.randn(200, 200) @ torch.randn(200, 200)\n"
        "    return torch.ones(size, 8), torch.ones(size, 1)\n"
    )
    found = measured(run(tmp_path, text))
    assert found.phases is not None
    assert found.phases.data_wait_s > 0.5 * found.step_time_s
    assert any(one.startswith("input-bound") for one in found.warnings)


def test_all_steps_are_timed_until_the_mean_is_known_or_the_cap_is_reached(tmp_path: Path) -> None:
    exact = MeasureSettings(warmup_max=3, timed_max=22, half_width_fraction=1e-9)
    found = measured(run(tmp_path, settings=exact))
    assert len(found.series[0].step_times_s) == 25  # in blocks of five
    assert not found.is_steady
    assert any(one.startswith("unsteady") for one in found.warnings)


def test_time_cap_ends_the_timing_after_ten_steps(tmp_path: Path) -> None:
    short = MeasureSettings(warmup_max=3, half_width_fraction=1e-9, max_s=0.0)
    assert len(measured(run(tmp_path, settings=short)).series[0].step_times_s) == 10


def test_same_seed_gives_the_same_losses(tmp_path: Path) -> None:
    first, again = measured(run(tmp_path)), measured(run(tmp_path))
    assert first.losses == again.losses
    other = measured(run(tmp_path, settings=MeasureSettings(warmup_max=3, timed_max=10, seed=7)))
    assert other.losses[0] != first.losses[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"techniques": ("activation_checkpointing",)},
        {"micro_batch_size": 4, "accumulation": 2},
        {"micro_batch_size": 2, "accumulation": 4, "techniques": ("activation_checkpointing",)},
    ],
)
def test_technique_does_not_change_the_losses(tmp_path: Path, changes: dict[str, object]) -> None:
    plain = measured(run(tmp_path, PLAIN + "clip_norm = 0.1\n"))
    other = measured(run(tmp_path, PLAIN + "clip_norm = 0.1\n", **changes))
    assert other.losses == pytest.approx(plain.losses, rel=1e-4)


@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP16])
def test_reduced_precision_follows_the_losses_of_fp32(tmp_path: Path, precision: Precision) -> None:
    text = PLAIN.replace(
        "mse_loss(model(x), y)", "mse_loss(model(x), y) / 100"
    )  # no overflow, no skipped step
    plain, reduced = measured(run(tmp_path, text)), measured(run(tmp_path, text, precision=precision))
    assert reduced.losses != plain.losses
    assert reduced.losses == pytest.approx(plain.losses, rel=0.05)


def test_large_accumulation_is_interpolated_from_two_small_counts(tmp_path: Path) -> None:
    found = measured(run(tmp_path, micro_batch_size=2, accumulation=16))
    assert [one.accumulation for one in found.series] == [1, 3]
    assert found.is_interpolated
    assert found.step_time_s > max(one.step_s for one in found.series)  # by how much: test_trial.py
    assert found.phases is not None
    full = MeasureSettings(warmup_max=3, timed_max=10, half_width_fraction=math.inf, is_full=True)
    whole = measured(run(tmp_path, settings=full, micro_batch_size=2, accumulation=16))
    assert [one.accumulation for one in whole.series] == [16]


VARYING = """
import torch
from torch import nn
def model():
    return nn.Sequential(nn.Linear(4, 4096), nn.GELU(), nn.Linear(4096, 1))
def dataset():
    return [torch.ones(16 if index < 60 else 256, 4) for index in range(64)]
def collate(samples):
    return nn.utils.rnn.pad_sequence(samples, batch_first=True)
def loss(model, batch):
    return model(batch).square().mean()
"""


def test_a_confirmation_takes_whole_steps_and_meets_the_longest_batch(tmp_path: Path) -> None:
    first = MeasureSettings(warmup_max=3, timed_max=10, half_width_fraction=math.inf, seed=3)
    short = measured(run(tmp_path, VARYING, settings=first, micro_batch_size=2, accumulation=6))
    settings = settings_for(Purpose.CONFIRM, first)
    whole = measured(run(tmp_path, VARYING, settings=settings, micro_batch_size=2, accumulation=6))
    assert [one.accumulation for one in short.series] == [1, 3]
    assert [one.accumulation for one in whole.series] == [6]
    longest_bytes = 2 * 256 * 4096 * 4 * 2  # two activations of a batch of the longest samples
    assert whole.peak_memory_bytes > 0.9 * longest_bytes
    assert len(whole.losses) == len(whole.series[0].step_times_s) + whole.warmup_step_count


LARGE = """
import torch
from torch import nn
def model():
    return nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.GELU(), nn.Linear(1024, 1, bias=False))
def batch(size):
    return torch.ones(size, 1024)
def loss(model, batch):
    return model(batch).square().mean()
def optimizer(parameters):
    return torch.optim.AdamW(parameters, foreach=False)
"""


def test_the_peak_of_the_passes_grows_with_the_batch_and_that_of_the_update_by_its_input(
    tmp_path: Path,
) -> None:
    parameters = (1024**2 + 1024) * 4
    slack = 40_000  # the loss, step counters
    small, once, twice = (
        measured(run(tmp_path, LARGE, micro_batch_size=size, accumulation=count)).peak_parts
        for size, count in ((8, 1), (2048, 1), (2048, 2))
    )
    assert small is not None
    assert once is not None
    assert twice is not None
    assert 3 * parameters <= once.base_bytes <= 3 * parameters + slack  # Adam's two moments
    assert 4 * parameters <= twice.base_bytes <= 4 * parameters + slack  # gradients of the first micro batch
    batch = 2048 * 1024 * 4
    assert once.passes_bytes >= once.base_bytes + 3 * batch  # input, and both sides of the activation
    assert small.passes_bytes < small.base_bytes + 2 * parameters
    assert small.update_bytes >= small.base_bytes + parameters
    inputs = (2048 - 8) * 1024 * 4
    assert once.update_bytes - small.update_bytes == pytest.approx(inputs, rel=0.01)


def test_a_probe_takes_few_steps(tmp_path: Path) -> None:
    found = measured(run(tmp_path, settings=settings_for(Purpose.PROBE, QUICK)))
    assert len(found.series[0].step_times_s) == 3


def test_peak_memory_grows_with_the_batch_and_shrinks_with_checkpointing(tmp_path: Path) -> None:
    text = PLAIN.replace("LayerNorm(8)", "LayerNorm(8), nn.Linear(8, 2048), nn.GELU(), nn.Linear(2048, 8)")
    text = text.replace("reshape(64, 8)", "repeat(32).reshape(2048, 8)").replace("64 * 8", "512")
    small = measured(run(tmp_path, text, micro_batch_size=64)).peak_memory_bytes
    large = measured(run(tmp_path, text, micro_batch_size=1024)).peak_memory_bytes
    lean = measured(
        run(tmp_path, text, micro_batch_size=1024, techniques=("activation_checkpointing",))
    ).peak_memory_bytes
    kept_bytes = 3 * 1024 * 2048 * 4 * 2  # two activations of 2048 in each of three blocks
    assert 0.9 * kept_bytes < large - small < 1.5 * kept_bytes
    assert lean < 0.6 * large


@pytest.mark.parametrize(
    ("text", "changes", "kind", "reason"),
    [
        (PLAIN, {"precision": Precision.TF32}, FailureKind.UNSUPPORTED, "TF32 exists on NVIDIA GPUs only"),
        (PLAIN, {"parallelism": Parallelism.DDP}, FailureKind.UNSUPPORTED, "DDP needs at least two workers"),
        (PLAIN, {"gpu_count": 2}, FailureKind.UNSUPPORTED, "the trial wants 2 workers, this group has 1"),
        (
            PLAIN,
            {"micro_batch_size": 65},
            FailureKind.UNSUPPORTED,
            "the dataset has 64 samples, fewer than one batch of 65",
        ),
        (
            PLAIN.replace("return Net()", "return nn.Linear(8, 1)"),
            {"techniques": ("activation_checkpointing",)},
            FailureKind.UNSUPPORTED,
            "activation checkpointing: no repeated blocks were found",
        ),
        (
            PLAIN.replace("return functional.mse_loss(model(x), y)", "return model(x).mean() / 0"),
            {},
            FailureKind.DIVERGED,
            "the loss became",
        ),
        (
            PLAIN + "def optimizer(parameters): return torch.optim.SGD(parameters, lr=1e30)\n",
            {},
            FailureKind.DIVERGED,
            "at step",
        ),
        (
            PLAIN.replace("x, y = batch", "x, y, z = batch"),
            {},
            FailureKind.USER_CODE,
            "line 31: ValueError: not enough values",
        ),
        (
            PLAIN.replace("x, y = batch", "import sys; sys.exit(4)"),
            {},
            FailureKind.USER_CODE,
            "called sys.exit(4)",
        ),
        (
            PLAIN.replace("return Net()", "raise KeyError('w')"),
            {},
            FailureKind.USER_CODE,
            "model() raised KeyError",
        ),
        (
            PLAIN.replace("x, y = batch", "x, y = batch; torch.empty(2**46)"),
            {},
            FailureKind.OUT_OF_MEMORY,
            "DefaultCPUAllocator",
        ),
        (
            PLAIN.replace("return Net()", "raise torch.OutOfMemoryError('CUDA out of memory')"),
            {},
            FailureKind.OUT_OF_MEMORY,
            "CUDA out of memory",
        ),
    ],
)
def test_failure_is_a_value(
    tmp_path: Path, text: str, changes: dict[str, object], kind: FailureKind, reason: str
) -> None:
    failure = failed(run(tmp_path, text, **changes))
    assert failure.kind is kind
    assert reason in failure.reason
    assert failure.trial_s > 0
    assert "Traceback" in failure.detail


def test_changed_file_is_a_failure(tmp_path: Path) -> None:
    workload = write(tmp_path, PLAIN)
    write(tmp_path, PLAIN + "\n")
    failure = failed(measure(workload, on_cpu(), RankContext(), QUICK))
    assert (failure.kind, "has changed" in failure.reason) == (FailureKind.USER_CODE, True)


RUDE = """
import os, sys, random
import numpy
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(True)
torch.use_deterministic_algorithms(True)
torch.set_num_threads(3)
torch.manual_seed(5)
random.seed(5)
numpy.random.seed(5)
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = False
if hasattr(torch.backends, "fp32_precision"):
    torch.backends.fp32_precision = "tf32"
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    torch.backends.cuda.matmul.fp32_precision = "tf32"
os.environ["RUDE"] = "1"
os.environ.pop("HOME", None)
os.chdir("/")
sys.path.insert(0, "/nowhere")
import warnings
warnings.simplefilter("ignore")
torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
import builtins, gc, io, multiprocessing, time
keep = sum, functional.layer_norm, nn.Linear.forward, torch.Tensor.backward, torch.optim.AdamW
builtins.sum = lambda *arguments, **options: keep[0](*arguments, **options)
functional.layer_norm = lambda *arguments, **options: keep[1](*arguments, **options) * 2
nn.Linear.forward = lambda self, x: keep[2](self, x) * 2
torch.Tensor.backward = lambda self, *arguments, **options: keep[3](self * 2, *arguments, **options)
nn.LayerNorm.__call__ = lambda self, x: x
torch.optim.AdamW = torch.optim.SGD
time.perf_counter = lambda: 1.0
torch.backends.mkldnn.enabled = False
sys.stdout = io.StringIO()
sys.settrace(lambda *_: None)
gc.disable()
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
child.start()
def optimizer(parameters):
    torch.autograd.set_detect_anomaly(True)
    return torch.optim.SGD(parameters, lr=0.1)
"""


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize(
    "end", ["", "def loss(model, batch): torch.set_grad_enabled(False); raise SystemExit\n"]
)
def test_next_trial_is_unharmed_by_what_a_file_leaves_behind(tmp_path: Path, end: str) -> None:
    def state() -> tuple[object, ...]:
        return (
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
            torch.is_anomaly_enabled(),
            torch.get_num_threads(),
            torch.initial_seed(),
            torch.backends.cudnn.benchmark,
            torch.backends.cudnn.allow_tf32,
            getattr(torch.backends, "fp32_precision", None),
            torch.get_float32_matmul_precision(),
            dict(os.environ),
            Path.cwd(),
            tuple(sys.path),
            tuple(warnings.filters),
            frozenset(name for name in sys.modules if name.startswith("_workload")),
            len(torch.nn.modules.module._global_forward_hooks),
            *(
                torch.nn.functional.layer_norm,
                torch.nn.Linear.forward,
                torch.Tensor.backward,
                torch.optim.AdamW,
            ),
            "__call__" in vars(torch.nn.LayerNorm),
            *(time.perf_counter, builtins.sum, sys.stdout, sys.gettrace(), gc.isenabled()),
            torch.backends.mkldnn.enabled,
            len(multiprocessing.active_children()),
        )

    clean = measured(run(tmp_path)).losses
    before = state()
    run(tmp_path, PLAIN + RUDE + end)
    assert state() == before
    assert measured(run(tmp_path)).losses == clean


ALLOWING = {
    "since torch 2.9": """
if hasattr(torch.backends, "fp32_precision"):
    torch.backends.fp32_precision = torch.backends.cudnn.fp32_precision = "tf32"
""",
    "before": """
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
""",
}
ASKING = """
def loss(model, batch):
    x, y = batch
    cudnn = torch.backends.cudnn
    inner = getattr(cudnn.conv, "fp32_precision", "none")
    is_tf32 = cudnn.allow_tf32 or inner == "tf32" or torch.get_float32_matmul_precision() != "highest"
    return functional.mse_loss(model(x), y) if not is_tf32 else x.new_tensor(math.nan)
"""


@pytest.mark.parametrize("how", ALLOWING)
def test_a_file_that_allows_tf32_is_measured_in_fp32_where_the_trial_says_so(
    tmp_path: Path, how: str
) -> None:
    measured(run(tmp_path, PLAIN + "import math\n" + ASKING + ALLOWING[how]))


def test_a_thread_that_the_file_leaves_running_is_named(tmp_path: Path) -> None:
    text = PLAIN + (
        "import threading\n"
        "over = threading.Event()\n"
        "threading.Thread(target=over.wait, args=(20,), name='prefetcher', daemon=True).start()\n"
    )
    (warning,) = (one for one in measured(run(tmp_path, text)).warnings if one.startswith("left running"))
    assert "1 thread(s) (prefetcher)" in warning
    assert not any(one.startswith("left running") for one in measured(run(tmp_path)).warnings)


def test_a_trials_loader_workers_load_and_are_gone_afterwards(tmp_path: Path) -> None:
    text = PLAIN + (
        "def collate(samples):\n"
        "    assert torch.utils.data.get_worker_info().num_workers == 2\n"
        "    return torch.utils.data.default_collate(samples)\n"
    )
    with_two = measured(run(tmp_path, text, micro_batch_size=2, loader_worker_count=2))
    assert multiprocessing.active_children() == []
    assert not any(one.startswith("left running") for one in with_two.warnings)
    assert with_two.losses == measured(run(tmp_path, micro_batch_size=2)).losses  # the same data


def test_tensors_of_a_failed_trial_are_gone(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "x, y = batch", "import builtins; x, y = batch; builtins.kept.append(model); raise ValueError"
    )
    import builtins

    kept: list[torch.nn.Module] = []
    builtins.kept = kept  # type: ignore[attr-defined]
    try:
        failed(run(tmp_path, text))
        seen = weakref.ref(kept.pop())
    finally:
        del builtins.kept  # type: ignore[attr-defined]
    gc.collect()
    assert seen() is None


def test_memory_does_not_grow_over_trials(tmp_path: Path) -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    shorter = MeasureSettings(warmup_min=1, warmup_max=1, timed_max=10, half_width_fraction=math.inf)
    for _ in range(5):
        run(tmp_path, settings=shorter)
    before = resident_bytes()
    for _ in range(10):
        run(tmp_path, settings=shorter)
    assert resident_bytes() - before < 8 * 2**20


def test_loader_workers_may_be_set(tmp_path: Path) -> None:
    settings = MeasureSettings(
        warmup_max=3, timed_max=10, half_width_fraction=math.inf, loader_worker_count=1
    )
    assert measured(run(tmp_path, settings=settings)).losses == measured(run(tmp_path)).losses


def failure(kind: FailureKind, config: TrialConfig) -> Failure:
    return Failure(config=config, kind=kind, reason=kind.value, trial_s=1.0)


def test_merge_takes_the_most_telling_failure(tmp_path: Path) -> None:
    config = on_cpu()
    lost, memory = failure(FailureKind.WORKER_LOST, config), failure(FailureKind.OUT_OF_MEMORY, config)
    merged = failed(merge([lost, memory, measured(run(tmp_path))]))
    assert (merged.kind, merged.reason) == (FailureKind.OUT_OF_MEMORY, "out of memory (rank 1 of 3)")
    assert failed(merge([lost])) == lost


def test_every_kind_of_failure_can_be_merged() -> None:
    for kind in FailureKind:
        assert failed(merge([failure(kind, on_cpu())])).kind is kind


def test_merge_judges_every_ranks_gpu_and_host() -> None:
    telemetry = make_telemetry()
    quiet = make_measurement(telemetry=telemetry, foreign_cpu_fraction=0.0, own_work_s=(0.1,))
    assert measured(merge([quiet, quiet])).disturbance == ""
    hot = replace(quiet, telemetry=replace(telemetry, throttle_reasons=("power cap",), other_process_count=1))
    merged = measured(merge([quiet, hot]))
    assert merged.disturbance == "throttled and disturbed by other processes"
    assert "rank 1 of 2" in merged.warnings[0]
    assert measured(merge([quiet, replace(quiet, foreign_cpu_fraction=0.4)])).foreign_cpu_fraction == 0.4
    slow = measured(merge([quiet, replace(quiet, own_work_s=(0.2,))]))
    assert slow.own_work_s == (0.1, 0.2)
    assert slow.warnings[-1].startswith("straggler: a micro batch takes rank 1 of 2 100% longer")


def test_merge_joins_what_differs_by_rank(tmp_path: Path) -> None:
    one, other = measured(run(tmp_path)), measured(run(tmp_path))
    merged = measured(merge([one, other]))
    assert merged.peak_allocated_bytes == one.peak_allocated_bytes + other.peak_allocated_bytes
    assert merged.peak_reserved_bytes is None
    assert merged.startup_s == max(one.startup_s, other.startup_s)
    assert merged.series == one.series
