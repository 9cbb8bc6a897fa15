"""A drawing as a value: axes, series of points, limits. `draw` makes SVG of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from planner.estimate.values import Estimate


class Scale(StrEnum):
    """How values are spread over an axis."""

    FROM_ZERO = "linear from zero"
    AROUND = "linear around the values"
    LOG = "logarithmic"
    AS_NEEDED = "linear from zero, or logarithmic where the values span much"


class Ticks(StrEnum):
    """Where the ticks of an axis stand."""

    ROUND = "at round values"
    TIME = "at round times"
    WHOLE = "at whole numbers"
    VALUES = "at the values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A line across the drawing."""

    value: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What is drawn along one direction. Limits far beyond the values are left out."""

    title: str
    show: Callable[[float], str]  # a tick's label
    scale: Scale
    ticks: Ticks = Ticks.ROUND
    unit: float = 1.0  # round numbers of it are the ticks
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A place on the drawing; ``title`` is said when it is pointed at, ``label`` stands beside it."""

    x: float
    y: float
    x_interval: Estimate | None = None  # drawn as a bar
    y_interval: Estimate | None = None
    title: str = ""
    mark: str = ""  # class of the style sheet; without one only the line goes through it
    label: str = ""
    is_best: bool = False
    is_failure: bool = False  # a cross


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSeries:
    """Points of one kind, in order of x where a line goes through them."""

    points: tuple[Point, ...]
    name: str = ""  # stands at its end where it has one
    colour: str = ""  # class of the style sheet
    line: str = ""  # class of the style sheet
    has_band: bool = False  # from the low to the high ends of y


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a mark or a stroke means."""

    text: str
    mark: str = ""  # classes of the style sheet
    stroke: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A whole drawing. ``description`` says the same in words, for those who cannot see it."""

    key: str  # unique on the page
    title: str
    description: str
    x: Axis
    y: Axis
    series: tuple[ChartSeries, ...]
    caption: str = ""
    legend: tuple[Key, ...] = ()
    is_wide: bool = False
