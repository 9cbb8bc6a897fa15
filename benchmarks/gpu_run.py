"""Everything that needs a GPU, in one command of limited time: tests, recordings, claims, MFU, overhead.

    python -m benchmarks.gpu_run --out OUT                                   # all, in under 10 minutes
    python -m benchmarks.gpu_run --out OUT --steps record --workloads gpt2:355m vit:base
    python -m benchmarks.gpu_run --out OUT --device cpu --tiny               # a try without a GPU

Run it from the root of the checkout. Each step is a process of its own with a time limit, its output goes to
OUT/<step>.log and to the terminal; a step that fails or hangs does not stop the next. In one command every
step is cut short; CONTRIBUTING has four that give each the time it wants. Recordings lie in OUT/recordings:
copy them back there to go on, then move them to benchmarks/recordings. Torch, numpy, pandas, pytest, rich,
typer and nvidia-ml-py are enough; with Ray, Optuna and pydantic, in a folder that PLANNER_EXTRA_PACKAGES
names and `benchmarks.gpu_packages` makes, the sweeps, the replay and the overhead run too.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.record import default_device

ROOT = Path(__file__).parent.parent
WORKLOADS = ("gpt2:124m", "resnet:50", "mlp:small")
TINY_WORKLOADS = ("gpt2:tiny", "mlp:tiny")
NEEDED_BY_SWEEPS = ("ray", "optuna", "pydantic")
_LEAST_S = 5.0  # below it a step is not begun


SHARES = {  # of the time, at most; in the order of what is worth most if it runs out
    "machine": 0.05,
    "record": 0.35,
    "mfu": 0.05,
    "replay": 0.05,
    "tests": 0.4,
    "claims": 0.2,
    "sweeps": 0.4,
    "overhead": 0.3,
}
_OF_ITS_LIMIT = 0.85  # that a step which ends by itself is told to take


def limits_s(chosen: Sequence[str], minutes: float) -> dict[str, float]:
    """Seconds that each step may take; steps that are few share all of the time."""
    scale = max(1.0, 1.0 / sum(SHARES[one] for one in chosen))
    return {one: 60 * minutes * SHARES[one] * scale for one in SHARES if one in chosen}


def arguments_of(step: str, given: argparse.Namespace, limit_s: float) -> list[str]:
    """What follows the interpreter."""
    recordings, minutes = str(given.out / "recordings"), f"{_OF_ITS_LIMIT * limit_s / 60:.2f}"
    record = [*given.workloads, "--device", given.device, "--out", recordings, "--max-minutes", minutes]
    record += ["--global-batch-size", "16", "--trial-seconds", "5"] if given.tiny else []
    claims = ["--device", given.device, "--max-minutes", minutes, "--rounds", "2" if given.tiny else "3"]
    tests = ["-m", "pytest", "-v", "--durations=15", "-p", "no:cacheprovider"]
    if importlib.util.find_spec("pytest_timeout") is None:  # the project's settings name it
        tests += ["--override-ini", "addopts=", "-W", "ignore::pytest.PytestConfigWarning"]
    return {
        "machine": ["-c", _MACHINE],
        "record": ["-m", "benchmarks.record", *record],
        "mfu": ["-c", _MFU, recordings],
        "replay": ["-c", _REPLAY, recordings],
        "tests": [*tests, "tests/gpu", "--ignore", _SWEEPS],
        "claims": ["-m", "benchmarks.claims", *claims],
        "sweeps": [*tests, _SWEEPS],
        "overhead": ["-m", "benchmarks.overhead", "--max-minutes", "1"],
    }[step]


_SWEEPS = "tests/gpu/test_sweep.py"
_MACHINE = """
import subprocess, sys, platform, importlib.util
import torch
print(platform.platform(), sys.version.split()[0], "torch", torch.__version__, "CUDA", torch.version.cuda)
print("missing:", [one for one in ("ray", "optuna", "pydantic") if importlib.util.find_spec(one) is None])
for index in range(torch.cuda.device_count()):
    print(torch.cuda.get_device_name(index), torch.cuda.get_device_properties(index).total_memory)
if torch.cuda.is_available():
    subprocess.run(["nvidia-smi"], check=False)
"""
_GIVEN = """
import sys
from pathlib import Path
sys.argv[1:] = sorted(map(str, Path(sys.argv[1]).glob("*.json")))
if not sys.argv[1:]:
    sys.exit("there is no recording")
"""
_MFU = _GIVEN + "from benchmarks.mfu import main\nmain()\n"
_REPLAY = _GIVEN + "from benchmarks.replay import main\nmain()\n"


def main() -> None:
    """Run the steps; the exit code is the number that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "gpu-run")))
    parser.add_argument("--device", default=default_device())
    parser.add_argument("--max-minutes", type=float, default=9.5)
    parser.add_argument("--steps", nargs="+", choices=list(SHARES), help="only these, sharing the time")
    parser.add_argument("--workloads", nargs="+")
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes, to try the script itself")
    given = parser.parse_args()
    given.out = given.out.resolve()
    given.out.mkdir(parents=True, exist_ok=True)
    given.workloads = given.workloads or list(TINY_WORKLOADS if given.tiny else WORKLOADS)
    ends_s = time.monotonic() + 60 * given.max_minutes
    failed = 0
    for step, limit_s in limits_s(given.steps or list(SHARES), given.max_minutes).items():
        outcome = run(step, min(limit_s, ends_s - time.monotonic()), given)
        print(f"== {step}: {outcome}", flush=True)
        failed += not outcome.startswith(("done", "skipped"))
    sys.exit(failed)


def run(step: str, limit_s: float, given: argparse.Namespace) -> str:
    """How the step ended, in words; its output goes to its log, whose end is shown."""
    environment = _environment(given)
    missing = [one for one in NEEDED_BY_SWEEPS if not _can_import(one, environment)]
    if step in {"overhead", "replay", "sweeps"} and missing:
        return f"skipped: not installed here: {', '.join(missing)}"
    if limit_s < _LEAST_S:
        return "skipped: the time is over"
    log = given.out / f"{step}.log"
    begun_s = time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, *arguments_of(step, given, limit_s)],
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):  # and what it started: compilers, loaders, a cluster
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    print(log.read_text(errors="replace")[-6000:])
    took = f"{time.monotonic() - begun_s:.0f} s"
    if code is None:
        return f"ended at its limit of {limit_s:.0f} s"
    return f"done in {took}" if code == 0 else f"exit code {code} after {took}"


def _environment(given: argparse.Namespace) -> dict[str, str]:
    parts = (str(ROOT), os.environ.get("PYTHONPATH"), os.environ.get("PLANNER_EXTRA_PACKAGES"))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, parts)),
        "RAY_AUTH_MODE": "disabled",
    }
    if given.device == "cpu":
        environment["PLANNER_GPU_TESTS_ON_CPU"] = "1"
    return environment


def _can_import(package: str, environment: dict[str, str]) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


if __name__ == "__main__":
    main()
