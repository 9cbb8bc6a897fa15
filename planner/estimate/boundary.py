"""The largest micro batch that fits, found from below by a few probes.

Peak memory is ``base + slope * micro batch size``, both at least zero, but for what an allocator rounds. So

* one measured size ``n`` with peak ``p`` shows that ``n * limit / p`` fits: at worst all of it grows;
* two give the line, with a slope known to about the rounding divided by their distance. What fits by the
  upper end of that slope is the next probe: it lies farther out, so the slope is known better after it.

No probe is expected to run out of memory, and the third or fourth lies at the boundary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
    points: Iterable[tuple[int, int]], limit_bytes: float, size_max: int, overflowing: int | None = None
) -> Reach:
    """Where the boundary lies after ``points``, at least one (micro batch size, peak bytes).

    Args:
        points: measured, of one setting.
        limit_bytes: what a worker may use.
        size_max: the largest size of interest.
        overflowing: the least size that ran out of memory, if one did.
    """
    peaks: dict[int, int] = {}
    for size, peak in points:
        peaks[size] = max(peaks.get(size, 0), peak)
    sizes = sorted(peaks)
    last, top = sizes[-1], float(peaks[sizes[-1]])
    cap = size_max if overflowing is None else min(size_max, overflowing - 1)
    rounding = _ROUNDING_FRACTION * limit_bytes
    room = max(0.0, limit_bytes - rounding / 3 - top)
    if len(sizes) == 1:
        safe = last * max(1.0, (limit_bytes - rounding) / top)
        expected = float(size_max)  # perhaps none of the peak grows
    else:
        first = sizes[0]
        steepest = top / last  # all of the peak grows with the size
        slope = min(steepest, max(0.0, top - peaks[first]) / (last - first))
        upper = min(steepest, slope + rounding / (last - first))
        safe = last + room / upper
        expected = last + room / slope if slope > 0 else float(size_max)
    within = max(last, min(cap, int(_GROWTH_MAX * last)))
    return Reach(safe=int(min(safe, within)), expected=int(min(max(expected, safe), max(last, cap))))


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
