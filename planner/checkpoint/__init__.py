"""Saves a training run as planned and takes it up again where it was; see `Checkpointer`."""

from planner.checkpoint.checkpointer import TERMINATED, Checkpointer, Stateful

__all__ = ["TERMINATED", "Checkpointer", "Stateful"]
