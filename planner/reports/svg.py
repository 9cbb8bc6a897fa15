"""SVG elements as escaped markup. Colours and fonts are classes of the page's style sheet."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """One element. ``class_`` is class, an underscore in a name is a hyphen; strings are escaped."""
    shown = "".join(
        f' {escape(key.rstrip("_").replace("_", "-"))}="{escape(_number(value))}"'
        for key, value in attributes.items()
    )
    # every part is escaped above and here, so joined as text: a plot has thousands of elements
    return Markup(f"<{name}{shown}>{''.join(escape(one) for one in children)}</{name}>")  # noqa: S704


def text(x: float, y: float, content: str, class_: str, anchor: str = "start") -> Markup:
    """A line of text."""
    return element("text", content, x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def polyline(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    return element("polyline", points=_points(points), class_=class_, fill="none")


def polygon(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """A filled shape."""
    return element("polygon", points=_points(points), class_=class_)


def circle(x: float, y: float, radius: float, class_: str, title: str) -> Markup:
    """A point that says what it is when pointed at."""
    return element("circle", element("title", title), cx=x, cy=y, r=radius, class_=class_)


def cross(x: float, y: float, half: float, class_: str, title: str) -> Markup:
    """A point for what failed."""
    path = (
        f"M{x - half:.1f} {y - half:.1f}L{x + half:.1f} {y + half:.1f}"
        f"M{x - half:.1f} {y + half:.1f}L{x + half:.1f} {y - half:.1f}"
    )
    return element("path", element("title", title), d=path, class_=class_)


def figure(
    width: int, height: int, title: str, description: str, parts: Iterable[Markup], key: str
) -> Markup:
    """A whole image with its title and description for those who cannot see it."""
    return element(
        "svg",
        element("title", title, id=f"{key}-title"),
        element("desc", description, id=f"{key}-desc"),
        *parts,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        class_="plot",
    )


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".rstrip("0").rstrip(".")
