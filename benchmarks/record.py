"""Records a grid of trials on the device at hand, through the same code as a sweep, into one JSON file.

    python -m benchmarks.record gpt2:124m resnet:50 --max-minutes 9      # on a GPU
    python -m benchmarks.record mlp:tiny --device cpu                    # a try without one

The grid is the search space of `planner sweep` for the workload's global batch size: micro batches, the
precisions of the chip, checkpointing, torch.compile; `benchmarks.grid` says in which order. The file is saved
after every trial; the same command goes on where the last one ended and repeats nothing. A trial during which
the process died is tried once more, then recorded as a lost worker. Needs torch, numpy and nvidia-ml-py only.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import platform
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.grid import next_config, seen_of
from benchmarks.recording import SCHEMA_VERSION, Recording, load, save
from catalogs.gpus import DeviceKind, Gpu, cpu_class, load_gpus, match_device
from planner.estimate.setting import technique_of
from planner.estimate.time.peak_fraction import peak_fraction
from planner.plans.space import Knobs, configs_for
from planner.target import TargetFlags, resolve_target
from trials.machine.identity import device_name
from trials.measurement import Measurement, Outcome
from trials.measuring.environment import read_environment
from trials.measuring.measure import MeasureSettings, RankContext, measure
from trials.model_file.source import hash_workload
from trials.profile import WorkloadProfile
from trials.trial import Failure, FailureKind, Workload

FOLDER = Path(__file__).parent
SIZE_MAX_BYTES = 2_000_000  # of a file that is to be committed
SETTINGS = MeasureSettings(warmup_min=2, warmup_max=6, timed_min=6, timed_max=30, max_s=2.0)
_GRACE_S = 45.0  # beyond the time limit until a trial that hangs is ended, with the stacks


def main() -> None:
    """Record the workloads that the command line names, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="+", help="NAME:SIZE of benchmarks/workloads, such as gpt2:124m")
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--out", type=Path, default=FOLDER / "recordings")
    parser.add_argument("--max-minutes", type=float, default=9.0)
    parser.add_argument(
        "--max-trials", type=int, default=1000, help="of each workload, earlier ones included"
    )
    parser.add_argument("--trial-seconds", type=float, default=30.0, help="longer trials are left out")
    parser.add_argument("--global-batch-size", type=int, help="instead of the workload's own")
    parser.add_argument("--no-compile", action="store_true")
    given = parser.parse_args()
    ends_s = time.monotonic() + 60 * given.max_minutes
    for index, one in enumerate(given.workloads):
        share_s = (ends_s - time.monotonic()) / (len(given.workloads) - index)
        name, _, size = one.partition(":")
        record(name, size, given, time.monotonic() + share_s)


def record(name: str, size: str, given: argparse.Namespace, ends_s: float) -> None:
    """One workload, until its grid or its time is over."""
    os.environ["WORKLOAD_SIZE"] = size
    workload = hash_workload(FOLDER / "workloads" / f"{name}.py")
    gpus, context = load_gpus(), context_of(given.device)
    recording, path = _opened(name, size, workload, given, context, gpus)
    gpu = gpus.get(recording.gpu)
    if gpu is None:
        sys.exit(f"{recording.gpu} is not in catalogs/gpus.csv; add a row with its figures, then record")
    is_compiled = not given.no_compile and gpu.kind is DeviceKind.GPU
    grid = configs_for(
        recording.target, gpu, 1, 1, recording.profile, Knobs(techniques={"compile": is_compiled})
    )
    print(f"{path.name}: {len(recording.outcomes)} of up to {len(grid)} trials recorded before", flush=True)
    recording = _settled(recording, path)
    while time.monotonic() < ends_s and len(recording.outcomes) < given.max_trials:
        config = next_config(grid, recording.outcomes, given.trial_seconds)
        if config is None:
            print("nothing is left to record within --trial-seconds")
            break
        save(replace(recording, in_flight=config), path)
        faulthandler.dump_traceback_later(ends_s - time.monotonic() + _GRACE_S, exit=True)
        outcome = measure(workload, config, context, SETTINGS)
        faulthandler.cancel_dump_traceback_later()
        recording = recording.plus(outcome)
        save(recording, path)
        print(shown(outcome, recording.profile, gpus), flush=True)
        if isinstance(outcome, Failure) and outcome.is_device_lost:
            sys.exit(f"CUDA is broken in this process; run the command again to go on\n{outcome.detail}")
    _summarise(recording, path)


def default_device() -> str:
    """The first GPU, or the CPU without one."""
    import torch

    return "cuda:0" if torch.cuda.is_available() else "cpu"


def context_of(device: str) -> RankContext:
    """One worker alone on a device; on CPU with all the cores, or as many as OMP_NUM_THREADS says."""
    threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
    return RankContext(device=device, threads=threads if device == "cpu" else None)


def gpu_name(context: RankContext, gpus: dict[str, Gpu]) -> str:
    """The device's catalog name; what the driver calls it where the catalog has no such row."""
    if context.device == "cpu":
        return cpu_class(platform.machine(), gpus).name
    name = device_name(context.device)
    found = match_device(name, read_environment(context, 1).device_memory_bytes, gpus)
    return name if found is None else found.name


def profile_of(workload: Workload) -> WorkloadProfile:
    """What `planner check` finds, traced at two sizes."""
    from trials.first_step import take_first_step
    from trials.model_file.workload import load as load_model
    from trials.trace.tracing import trace_workload

    loaded = load_model(workload)
    profile, traced = take_first_step(loaded), trace_workload(loaded)
    return replace(profile, traces=traced.traces, trace_note=traced.note)


def shown(outcome: Outcome, profile: WorkloadProfile, gpus: dict[str, Gpu]) -> str:
    """One trial in a line."""
    config = outcome.config
    knobs = f"{config.micro_batch_size:>5} x {config.accumulation:<4} {config.precision:5}"
    knobs += " checkpointed" if ("activation_checkpointing" in config.techniques) else " " * 13
    knobs += " compiled" if ("compile" in config.techniques) else " " * 9
    if isinstance(outcome, Failure):
        return f"{knobs} {outcome.kind}: {outcome.reason[:120]}"
    share = peak_fraction(outcome, profile.traces, gpus)
    mfu = "" if share is None else f"  MFU {share:6.1%}"
    peak = outcome.peak_memory_bytes / 1024**3
    speed = f"{outcome.throughput_per_s:10.1f} samples/s ±{outcome.half_width_fraction:5.1%}"
    return f"{knobs} {speed} {peak:7.2f} GiB{mfu}  {outcome.trial_s:5.1f} s"


def _opened(
    name: str,
    size: str,
    workload: Workload,
    given: argparse.Namespace,
    context: RankContext,
    gpus: dict[str, Gpu],
) -> tuple[Recording, Path]:
    """What was recorded before, or a new recording with the profile of the workload."""
    gpu = gpu_name(context, gpus)
    path = given.out / f"{gpu}--{name}-{size}.json".replace(" ", "-")
    if path.exists():
        found = load(path)
        if found.sha256 != workload.sha256:
            sys.exit(f"{path}: recorded of another version of {name}.py; move it away to record anew")
        return found, path
    profile = profile_of(workload)
    flags = TargetFlags(global_batch_size=given.global_batch_size)
    recording = Recording(
        schema_version=SCHEMA_VERSION,
        workload=name,
        size=size,
        sha256=workload.sha256,
        gpu=gpu,
        recorded_on=datetime.now(UTC).date().isoformat(),
        target=resolve_target(flags, profile, workload.path),
        profile=profile,
    )
    return recording, path


def _settled(recording: Recording, path: Path) -> Recording:
    """A trial that was cut off gets a second chance, and no third."""
    config = recording.in_flight
    if config is None:
        return recording
    marker = path.with_suffix(".cut-off")
    if marker.exists() and marker.read_text() == repr(config):
        marker.unlink()
        reason = "the process ended twice during this trial"
        return recording.plus(
            Failure(config=config, kind=FailureKind.WORKER_LOST, reason=reason, trial_s=0.0)
        )
    marker.write_text(repr(config))
    return replace(recording, in_flight=None)


def _summarise(recording: Recording, path: Path) -> None:
    """The best of each precision, where memory ends, and whether the file can be committed."""
    measured = [one for one in recording.outcomes if isinstance(one, Measurement)]
    gpus = load_gpus()
    for precision in dict.fromkeys(one.config.precision for one in measured):
        best = max(
            (one for one in measured if one.config.precision == precision),
            key=lambda one: one.throughput_per_s,
        )
        print(f"fastest in {precision}: {shown(best, recording.profile, gpus).strip()}")
        gap = seen_of(recording.outcomes)[technique_of(best.config)].gap
        if gap is not None:
            print(f"    memory ends between micro batches of {gap[0]} and {gap[1]}")
    size = path.stat().st_size if path.exists() else 0
    print(f"{path}: {len(recording.outcomes)} trials, {size / 1e6:.2f} MB", flush=True)
    if size > SIZE_MAX_BYTES:
        print(f"{path}: over {SIZE_MAX_BYTES / 1e6:.0f} MB, too large to commit")


if __name__ == "__main__":
    main()
