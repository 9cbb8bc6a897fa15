"""What each way to train does to a model: one file for each precision, parallelism and technique.

A file declares ``MODES``, and is found by that. What the planner knows of it is in the file of the same name
in `planner.modes`. Imports torch.
"""

from __future__ import annotations

from trials.errors import TrialsError
from trials.modes.parallelism import Parallelism
from trials.modes.precision import Precision
from trials.modes.technique import Technique
from trials.registry import Registry
from trials.trial import TrialConfig

PRECISIONS: Registry[Precision] = Registry(Precision, __name__, TrialsError)
PARALLELISMS: Registry[Parallelism] = Registry(Parallelism, __name__, TrialsError)
TECHNIQUES: Registry[Technique] = Registry(Technique, __name__, TrialsError)


def techniques_of(config: TrialConfig) -> list[Technique]:
    """Those that are on, in the order in which they are applied."""
    return [one for one in TECHNIQUES if one.name in config.techniques]
