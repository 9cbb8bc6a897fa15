"""What the exit codes of every command mean."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes."""

    PLAN = 0  # there is a plan, or the command did what it says
    OUR_FAULT = 1
    BAD_INPUT = 2
    NOTHING_FITS = 3
    OFF_PLAN = 4  # a real run is slower or dearer than stated
    HUNG_UP = 129  # these three: 128 and the number of the signal that ended it
    INTERRUPTED = 130
    TERMINATED = 143
