"""When the model file itself is at fault: two trials in a row that end in the same error of its code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trials.api import Failure, FailureKind, Outcome

_NUMBER = re.compile(r"(?<!line )\b\d+(\.\d+)?")  # sizes and counts differ between trials; the line does not


def repeated_model_error(outcomes: Sequence[Outcome]) -> Failure | None:
    """The last failure, where it and the one before it are the same error of the model file; else None.

    Args:
        outcomes: of all trials so far, the first one first.
    """
    match outcomes[-2:]:
        case [Failure(kind=FailureKind.USER_CODE) as before, Failure(kind=FailureKind.USER_CODE) as last]:
            return last if _same_place(before.reason) == _same_place(last.reason) else None
    return None


def _same_place(reason: str) -> str:
    return _NUMBER.sub("#", reason)
