"""Does the real run go as planned: one object in the user's loop, or a look at its start."""

from planner.verify.watch import Watch

__all__ = ["Watch"]
