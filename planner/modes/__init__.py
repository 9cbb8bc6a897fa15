"""What the planner knows of each way to train: one file for each precision, parallelism and technique.

A file declares ``MODES``, and is found by that; what it does to a model is in the file of the same name in
`trials.modes`. Configurations hold the names.
"""

from __future__ import annotations

from planner.errors import PlannerError
from planner.modes.parallelism import Parallelism
from planner.modes.precision import Precision
from planner.modes.technique import Technique
from trials.api import Registry

PRECISIONS: Registry[Precision] = Registry(Precision, __name__, PlannerError)
TECHNIQUES: Registry[Technique] = Registry(Technique, __name__, PlannerError)
PARALLELISMS: Registry[Parallelism] = Registry(Parallelism, __name__, PlannerError)
