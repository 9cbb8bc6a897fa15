"""Rows of a CSV table, read field by field; a bad value names its file, line, field and what is expected.

The csv module on purpose: importing pandas costs more than reading every table of this package.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TypeVar

from catalogs.errors import CatalogError

Choice = TypeVar("Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvRow:
    """One line of a table, by column name; the methods convert and validate one field each."""

    file: str
    line: int
    values: dict[str, str]

    def fail(self, field: str, expected: str) -> CatalogError:
        """The error to raise for ``field``: file, line, field, value and what is expected instead."""
        return CatalogError(
            f"{self.file}, line {self.line}, field {field}: {self.values.get(field, '')!r} is not {expected}"
        )

    def optional_text(self, field: str) -> str | None:
        """The text without surrounding space; None if the column is absent or the cell is empty."""
        return self.values.get(field, "").strip() or None

    def text(self, field: str) -> str:
        """The text without surrounding space; raises CatalogError where the cell is empty."""
        value = self.optional_text(field)
        if value is None:
            raise self.fail(field, "a text: it must not be empty")
        return value

    def optional_number(self, field: str) -> float | None:
        """A positive finite number, or None if the cell is empty."""
        if (value := self.optional_text(field)) is None:
            return None
        try:
            number = float(value)
        except ValueError:
            raise self.fail(field, "a number such as 2.49 (no currency sign, no thousands comma)") from None
        if not math.isfinite(number) or number <= 0:
            raise self.fail(field, "a positive number (leave the cell empty where it is unknown)")
        return number

    def number(self, field: str) -> float:
        """A positive finite number, which must be there."""
        value = self.optional_number(field)
        if value is None:
            raise self.fail(field, "a number: it must not be empty")
        return value

    def optional_count(self, field: str) -> int | None:
        """A positive whole number, or None if the cell is empty."""
        number = self.optional_number(field)
        if number is not None and number != int(number):
            raise self.fail(field, "a whole number")
        return None if number is None else int(number)

    def count(self, field: str) -> int:
        """A positive whole number, which must be there."""
        value = self.optional_count(field)
        if value is None:
            raise self.fail(field, "a whole number: it must not be empty")
        return value

    def scaled(self, field: str, factor: float) -> float | None:
        """A positive number times ``factor`` (from the column's unit to the base unit), or None."""
        number = self.optional_number(field)
        return None if number is None else number * factor

    def optional_choice(self, field: str, choices: type[Choice]) -> Choice | None:
        """A member of ``choices`` by its value, or None if the cell is empty."""
        if (value := self.optional_text(field)) is None:
            return None
        try:
            return choices(value.lower())
        except ValueError:
            raise self.fail(field, "one of " + ", ".join(choice.value for choice in choices)) from None

    def choice(self, field: str, choices: type[Choice]) -> Choice:
        """A member of ``choices`` by its value, which must be there."""
        value = self.optional_choice(field, choices)
        if value is None:
            raise self.fail(field, "one of " + ", ".join(choice.value for choice in choices))
        return value

    def optional_day(self, field: str) -> date | None:
        """A date, or None if the cell is empty."""
        if (value := self.optional_text(field)) is None:
            return None
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise self.fail(field, "a date such as 2026-11-21") from None

    def day(self, field: str) -> date:
        """A date written as 2026-11-21; raises CatalogError where it is not, or the cell is empty."""
        value = self.optional_day(field)
        if value is None:
            raise self.fail(field, "a date such as 2026-11-21: it must not be empty")
        return value


def read_rows(
    lines: Iterable[str], file: str, mandatory: Iterable[str], known: Iterable[str]
) -> Iterator[CsvRow]:
    """Yields the rows of a CSV with a header; ``file`` is what errors call it.

    Raises CatalogError for a missing or an unknown column (a misspelt optional column would otherwise be
    taken for an absent one), for a line with more or fewer cells than the header, and for an empty table.
    """
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, file, tuple(mandatory), tuple(known))
        is_empty = True
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise CatalogError(
                    f"{file}, line {reader.line_num}: {len(cells)} cells where the header has {len(header)};"
                    " quote a cell that contains a comma"
                )
            is_empty = False
            yield CsvRow(file=file, line=reader.line_num, values=dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise CatalogError(f"{file}, line {reader.line_num}: not a CSV: {error}") from error
    if is_empty:
        raise CatalogError(f"{file}: no row after the header")


def _check_header(header: list[str], file: str, mandatory: tuple[str, ...], known: tuple[str, ...]) -> None:
    if missing := [name for name in mandatory if name not in header]:
        raise CatalogError(
            f"{file}, line 1: column {', '.join(missing)} is missing; mandatory are {', '.join(mandatory)}"
        )
    if unknown := [name for name in header if name not in known]:
        raise CatalogError(
            f"{file}, line 1: column {', '.join(map(repr, unknown))} is unknown; known are {', '.join(known)}"
        )
    if len(set(header)) != len(header):
        raise CatalogError(f"{file}, line 1: a column appears twice")
