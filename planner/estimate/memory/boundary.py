"""The largest micro batch that fits, found from below by a few probes.

A step peaks in its passes or in the optimizer's update. Only the passes grow with the micro batch size ``n``:
their peak ``p`` is the largest of a few lines, one for each moment that may be the fullest (the beginning of
the backward pass; its end, when few activations are left but all gradients are there). None of these lines
begins below what is held when a micro batch begins, ``b``. So

* beyond a measured size none rises faster than ``(p - b) / n``: what that slope leaves room for is safe, and
  is the next probe. Where the line begins at ``b`` it is the boundary itself;
* two sizes show how fast the peak does rise, and so whether anything is to be gained by another probe.

No probe is expected to run out of memory, and the second or third lies at the boundary. Where ``b`` is not
known it is where the line through two sizes begins, less what an allocator rounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trials.api import Measurement, PeakParts

PROBES_MAX = 4  # trials of one setting, those that count for the search included
CLOSE_FRACTION = 0.015  # of the boundary: nearer than this, no other probe is worth its price
_ROUNDING_FRACTION = 0.003  # of the limit: twice a block of 20 MiB on 16 GiB
_GROWTH_MAX = 256.0  # of the size in one go: farther out, another regime of the allocator may begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What is known of the boundary: ``safe`` fits, ``expected`` probably does, one more probably not."""

    safe: int
    expected: int

    @property
    def is_close(self) -> bool:
        """Whether what fits for sure is as good as what probably fits; of few samples, the very size."""
        return self.safe >= self.expected - int(CLOSE_FRACTION * self.expected)


def reach(
    points: Iterable[tuple[int, int]],
    limit_bytes: float,
    size_max: int,
    overflowing: int | None = None,
    base_bytes: float | None = None,
) -> Reach:
    """Where the boundary lies after ``points``, at least one (micro batch size, peak bytes of the passes).

    Args:
        points: measured, of one setting.
        limit_bytes: what a worker may use.
        size_max: the largest size of interest.
        overflowing: the least size that ran out of memory, if one did.
        base_bytes: held when a micro batch begins; None where nobody measured it.
    """
    peaks: dict[int, int] = {}
    for size, peak in points:
        peaks[size] = max(peaks.get(size, 0), peak)
    sizes = sorted(peaks)
    last, top = sizes[-1], float(peaks[sizes[-1]])
    cap = size_max if overflowing is None else min(size_max, overflowing - 1)
    rounding = _ROUNDING_FRACTION * limit_bytes
    room = max(0.0, limit_bytes - rounding / 3 - top)
    slope = max(0.0, (top - peaks[sizes[-2]]) / (last - sizes[-2])) if len(sizes) > 1 else 0.0
    whole = (top + rounding) / last  # all of the peak grows
    if base_bytes is not None:
        steepest = (top - base_bytes + rounding / 3) / last
    else:
        steepest = min(whole, slope + rounding / (last - sizes[-2])) if len(sizes) > 1 else whole
    safe = last + room / steepest
    expected = last + room / slope if slope > 0 else float(size_max)
    within = max(last, min(cap, int(_GROWTH_MAX * last)))
    return Reach(safe=int(min(safe, within)), expected=int(min(max(expected, safe), max(last, cap))))


def passes_peak_bytes(one: Measurement) -> int:
    """What grows with the micro batch; the whole peak where the parts were not measured."""
    parts = one.peak_parts_as_reserved
    return one.peak_memory_bytes if parts is None else parts.passes_bytes


def parts_of_all(measurements: Iterable[Measurement]) -> list[PeakParts] | None:
    """The peaks' parts, as reserved; None where one trial does not know them."""
    parts = [one.peak_parts_as_reserved for one in measurements]
    known = [one for one in parts if one is not None]
    return known if len(known) == len(parts) else None


def least_base_bytes(measurements: Iterable[Measurement]) -> int | None:
    """Held by every one when a micro batch begins; None where one does not say."""
    parts = parts_of_all(measurements)
    return min(one.base_bytes for one in parts) if parts else None


def next_probe(known: Reach, sizes: Iterable[int], overflowing: int | None = None) -> int | None:
    """The size to measure next after ``sizes`` that fitted; None when the boundary is known."""
    fitted = set(sizes)
    last = max(fitted)
    if overflowing is not None and known.safe >= overflowing - 1:  # the line was wrong: halve what is left
        middle = (last + overflowing) // 2
        return middle if middle > last else None
    if known.is_close:
        return None
    if len(fitted) == 1 and known.safe < 1.25 * last:  # hardly any room above: the slope is seen below
        return last // 2 or None
    return known.safe if known.safe > last else None
