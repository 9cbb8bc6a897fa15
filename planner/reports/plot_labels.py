"""Where names stand beside points without covering each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LABELS_MAX = 6
HEIGHT = 16.0
CHARACTER_WIDTH, BEST_CHARACTER_WIDTH = 7.7, 8.6  # of the widest usual font at the style sheet's sizes
GAP, POINT = 14.0, 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle in pixels, y downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Whether the two share any area."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def is_inside(self, other: Box) -> bool:
        """Whether all of it lies in ``other``."""
        across = self.left >= other.left and self.right <= other.right
        return across and self.top >= other.top and self.bottom <= other.bottom


def place_labels(
    points: Sequence[tuple[float, float]], widths: Sequence[float], room: Box
) -> tuple[Box | None, ...]:
    """A box so wide for each point near it, the first points first; None where there is no room."""
    taken = [Box(left=x - POINT, top=y - POINT, right=x + POINT, bottom=y + POINT) for x, y in points]
    placed: list[Box | None] = []
    for (x, y), width in zip(points, widths, strict=True):
        spot = None
        if sum(one is not None for one in placed) < LABELS_MAX:
            spots = _spots(x, y, width)
            free = (one for one in spots if one.is_inside(room) and not any(map(one.overlaps, taken)))
            spot = next(free, None)
        if spot is not None:
            taken.append(spot)
        placed.append(spot)
    return tuple(placed)


def _spots(x: float, y: float, width: float) -> tuple[Box, ...]:
    corners = (
        (x + GAP, y - HEIGHT - 4),
        (x + GAP, y + 4),
        (x + GAP, y - HEIGHT / 2),
        (x - GAP - width, y + 4),
        (x - GAP - width, y - HEIGHT - 4),
        (x - width / 2, y - HEIGHT - GAP),
        (x - width / 2, y + GAP),
    )
    return tuple(Box(left=left, top=top, right=left + width, bottom=top + HEIGHT) for left, top in corners)
