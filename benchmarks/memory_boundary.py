"""The largest micro batch that fits under a memory limit: probes needed, how near the truth, and crashes.

    python -m benchmarks.memory_boundary

On CPU, each model file under a limit of its own. Peaks are measured by real trials; one above the limit
counts as a crash. The truth is then searched by bisection with trials of its own, which the planner does not
see; *wobble* is by how much two trials of the size that was found differ. *Chosen* is the largest power of
two under the boundary; *peak*, as a share of the limit, is that of its confirmation: 50 steps more, on the
longest batch that the data can give. Where that does not fit, half the size is confirmed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from planner.estimate.memory.boundary import (
    PROBES_MAX,
    least_base_bytes,
    next_probe,
    passes_peak_bytes,
    reach,
)
from trials.measurement import Measurement
from trials.measuring.measure import RankContext, measure
from trials.measuring.settings import MeasureSettings, settings_for
from trials.model_file.source import hash_workload
from trials.trial import Parallelism, Precision, Purpose, TrialConfig

HERE = Path(__file__).parent
LIMITS_MIB = (
    (HERE.parent / "examples" / "gpt.py", 256),
    (HERE.parent / "examples" / "convnet.py", 96),
    (HERE.parent / "examples" / "convnet.py", 11),  # where the measurement itself is off by several percent
    (HERE.parent / "examples" / "hugging_face.py", 512),
    (HERE / "workloads" / "lengths.py", 128),
)
FIRST_SIZE = 8
MIB = 1024**2


def trial_of(path: Path, purpose: Purpose = Purpose.PROBE) -> Callable[[int], Measurement]:
    """Runs a trial by micro batch size, a probe or a confirmation."""
    workload = hash_workload(path)
    settings = settings_for(purpose, MeasureSettings(half_width_fraction=1.0, is_split=False))
    short = replace(settings, warmup_min=1, warmup_max=1, timed_min=1, timed_max=1)

    def run(size: int) -> Measurement:
        config = TrialConfig(
            gpu="CPU",
            gpu_count=1,
            micro_batch_size=size,
            accumulation=1,
            precision=Precision.FP32,
            parallelism=Parallelism.SINGLE,
        )
        outcome = measure(workload, config, RankContext(), short)
        assert isinstance(outcome, Measurement), outcome
        return outcome

    return run


def peak_of(path: Path, purpose: Purpose = Purpose.PROBE) -> Callable[[int], int]:
    """Measured peak bytes by micro batch size."""
    run = trial_of(path, purpose)
    return lambda size: run(size).peak_memory_bytes


def find(run: Callable[[int], Measurement], limit_bytes: float) -> tuple[int, list[int], int]:
    """The boundary as the planner finds it, the sizes that it probed, and how many of them overflowed."""
    fitted: dict[int, Measurement] = {}
    probed: list[int] = []
    overflowing: int | None = None
    size: int | None = FIRST_SIZE
    while size is not None and len(probed) < PROBES_MAX:
        probed.append(size)
        one = run(size)
        if one.peak_memory_bytes > limit_bytes:
            overflowing = size if overflowing is None else min(size, overflowing)
        else:
            fitted[size] = one
        points = [(at, passes_peak_bytes(of)) for at, of in fitted.items()]
        known = reach(points, limit_bytes, 1 << 20, overflowing, least_base_bytes(fitted.values()))
        size = next_probe(known, fitted, overflowing)
    return known.safe, probed, len(probed) - len(fitted)


def true_boundary(peak: Callable[[int], int], limit_bytes: float, near: int) -> int:
    """The largest size whose peak is within the limit, by bisection around ``near``."""
    low, high = int(near * 0.9), int(near * 1.1) + 2
    if peak(low) > limit_bytes or peak(high) <= limit_bytes:
        return low if peak(low) > limit_bytes else high  # the error is at least so much
    while high - low > max(1, near // 200):
        middle = (low + high) // 2
        low, high = (middle, high) if peak(middle) <= limit_bytes else (low, middle)
    return low


def confirmed(peak: Callable[[int], int], limit_bytes: float, found: int) -> tuple[int, list[float]]:
    """The largest power of two up to ``found`` whose confirmation fits, and the peaks over the limit."""
    size = 1 << (found.bit_length() - 1)
    shares = [peak(size) / limit_bytes]
    while shares[-1] > 1 and size > 1:
        size //= 2
        shares.append(peak(size) / limit_bytes)
    return size, shares


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", action="append", default=[], help="gpt.py, ...; all of them by default")
    arguments = parser.parse_args()
    print(
        f"{'model file':18}{'limit':>9}{'probed':>22}{'crashes':>9}{'found':>7}{'true':>6}{'error':>7}"
        f"{'wobble':>9}{'chosen':>8}{'peak':>12}"
    )
    for path, mib in LIMITS_MIB:
        if arguments.file and path.name not in arguments.file:
            continue
        peak, limit_bytes = peak_of(path), mib * MIB
        peak(FIRST_SIZE)  # the first trial of a process loads libraries
        found, probed, crash_count = find(trial_of(path), limit_bytes)
        true = true_boundary(peak, limit_bytes, found)
        wobble_mib = abs(peak(found) - peak(found)) / MIB
        chosen, shares = confirmed(peak_of(path, Purpose.CONFIRM), limit_bytes, found)
        print(
            f"{path.name:18}{mib:>5} MiB{', '.join(map(str, probed)):>22}{crash_count:>9}{found:>7}{true:>6}"
            f"{found / true - 1:>7.1%}{wobble_mib:>5.1f} MiB{chosen:>8}"
            f"{', '.join(f'{one:.0%}' for one in shares):>12}",
            flush=True,
        )


if __name__ == "__main__":
    main()
