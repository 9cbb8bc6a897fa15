"""What a package's files declare, found by name: a new file is found without a line elsewhere."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar


class Named(Protocol):
    """What can be registered."""

    @property
    def name(self) -> str:
        """Unique among its kind; it stands in configurations."""

    @property
    def order(self) -> tuple[int, ...]:
        """By which they are listed."""


Item = TypeVar("Item", bound=Named)


class Registry(Generic[Item]):
    """Every ``kind`` in the ``MODES`` of the modules of ``package``, in order.

    The modules are imported at the first question, so that importing the registry costs nothing.
    """

    def __init__(self, kind: type[Any], package: str, error: type[Exception]) -> None:
        self._kind = kind
        self._package = package
        self._error = error
        self._items: dict[str, Item] = {}

    def __getitem__(self, name: str) -> Item:
        """The item called ``name``. Raises the package's error, which names what there is."""
        items = self._found()
        if name not in items:
            there = ", ".join(items)
            raise self._error(f"there is no {self._kind.__name__.lower()} {name!r} here; there are {there}")
        return items[name]

    def __iter__(self) -> Iterator[Item]:
        return iter(self._found().values())

    @property
    def names(self) -> tuple[str, ...]:
        """Of all, in order."""
        return tuple(self._found())

    @contextmanager
    def holding(self, item: Item) -> Iterator[None]:
        """Within, ``item`` is one of them, as if a file declared it."""
        before = self._found()
        self._items = _in_order([*before.values(), item])
        try:
            yield
        finally:
            self._items = before

    def _found(self) -> dict[str, Item]:
        if not self._items:
            package = import_module(self._package)
            names = [f"{self._package}.{one.name}" for one in pkgutil.iter_modules(package.__path__)]
            declared = (getattr(import_module(name), "MODES", ()) for name in names)
            self._items = _in_order([one for some in declared for one in some if isinstance(one, self._kind)])
        return self._items


def _in_order(items: list[Item]) -> dict[str, Item]:
    return {one.name: one for one in sorted(items, key=lambda one: (one.order, one.name))}
