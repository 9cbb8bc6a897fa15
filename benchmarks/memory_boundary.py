"""The largest micro batch that fits under a memory limit: probes needed, how near the truth, and crashes.

    python -m benchmarks.memory_boundary

On CPU, each example file under a limit of ``--mib``. Peaks are measured by real trials; one above the limit
counts as a crash. The truth is then searched by bisection with trials of its own, which the planner does not
see.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from planner.estimate.boundary import PROBES_MAX, next_probe, reach
from trials.measuring.measure import Place, measure
from trials.measuring.settings import MeasureSettings, settings_for
from trials.model_file.source import hash_workload
from trials.trial import Measurement, Parallelism, Precision, Purpose, TrialConfig

EXAMPLES = Path(__file__).parent.parent / "examples"
FIRST_SIZE = 8
MIB = 1024**2


def peak_of(path: Path) -> Callable[[int], int]:
    """Measured peak bytes by micro batch size, as a probe measures it."""
    workload = hash_workload(path)
    settings = settings_for(Purpose.PROBE, MeasureSettings(half_width_fraction=1.0))
    short = replace(settings, warmup_min=1, warmup_max=1, timed_min=1, timed_max=1)

    def peak(size: int) -> int:
        config = TrialConfig(
            gpu="CPU",
            gpu_count=1,
            micro_batch_size=size,
            accumulation=1,
            precision=Precision.FP32,
            parallelism=Parallelism.SINGLE,
        )
        outcome = measure(workload, config, Place(), short)
        assert isinstance(outcome, Measurement), outcome
        return outcome.peak_memory_bytes

    return peak


def find(peak: Callable[[int], int], limit_bytes: float) -> tuple[int, list[int], int]:
    """The boundary as the planner finds it, the sizes that it probed, and how many of them overflowed."""
    peaks: dict[int, int] = {}
    probed: list[int] = []
    overflowing: int | None = None
    size: int | None = FIRST_SIZE
    while size is not None and len(probed) < PROBES_MAX:
        probed.append(size)
        bytes_needed = peak(size)
        if bytes_needed > limit_bytes:
            overflowing = size if overflowing is None else min(size, overflowing)
        else:
            peaks[size] = bytes_needed
        known = reach(peaks.items(), limit_bytes, 1 << 20, overflowing)
        size = next_probe(known, peaks, overflowing)
    return known.safe, probed, len(probed) - len(peaks)


def true_boundary(peak: Callable[[int], int], limit_bytes: float, near: int) -> int:
    """The largest size whose peak is within the limit, by bisection around ``near``."""
    low, high = int(near * 0.9), int(near * 1.1) + 2
    while high - low > max(1, near // 200):
        middle = (low + high) // 2
        low, high = (middle, high) if peak(middle) <= limit_bytes else (low, middle)
    return low


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--example", action="append", default=[])
    arguments = parser.parse_args()
    names = arguments.example or ["gpt.py", "convnet.py", "hugging_face.py"]
    print(
        f"{'example':22}{'limit':>10}{'probed':>24}{'trials':>8}{'found':>8}{'true':>8}{'error':>8}{'crashes':>9}"
    )
    for name in names:
        peak = peak_of(EXAMPLES / name)
        peak(FIRST_SIZE)  # the first trial of a process loads libraries
        for mib in arguments.mib:
            found, probed, crash_count = find(peak, mib * MIB)
            true = true_boundary(peak, mib * MIB, found)
            shown = ", ".join(map(str, probed))
            print(
                f"{name:22}{mib:>6} MiB{shown:>24}{len(probed):>8}{found:>8}{true:>8}"
                f"{found / true - 1:>8.1%}{crash_count:>9}",
                flush=True,
            )


if __name__ == "__main__":
    main()
