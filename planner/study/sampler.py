"""The sampler of the study: an Optuna BaseSampler that hands over what the search has chosen.

So the study stays a normal one, readable by Optuna's dashboard and by any other sampler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial


class PlannedSampler(BaseSampler):  # type: ignore[misc]  # optuna is not followed by mypy
    """Every parameter is given: the search decides, since its candidates are few, valid and priced."""

    def __init__(self) -> None:
        self._params: Mapping[str, Any] = {}
        self._space: Mapping[str, BaseDistribution] = {}

    def plan(self, params: Mapping[str, Any], space: Mapping[str, BaseDistribution]) -> None:
        """What the next ask() will get."""
        self._params, self._space = params, space

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The planned dimensions."""
        return dict(self._space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The planned values."""
        return dict(self._params)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Never needed: a parameter outside the plan is our bug."""
        raise LookupError(f"no value was planned for {param_name}")
