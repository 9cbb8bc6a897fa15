"""A trial's configuration in the dimensions of the Optuna study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from catalogs.gpus import Gpu
from planner.modes import PARALLELISMS, PRECISIONS, TECHNIQUES
from trials.api import TrialConfig


def distributions(gpus: Mapping[str, Gpu]) -> dict[str, BaseDistribution]:
    """The study's dimensions: all catalog names, so that nodes of other types may join later."""
    return {
        "gpu": CategoricalDistribution(sorted(gpus)),
        "gpu_count": IntDistribution(1, 4096, log=True),
        "node_count": IntDistribution(1, 512, log=True),
        "micro_batch_size": IntDistribution(1, 1 << 20, log=True),
        "precision": CategoricalDistribution(list(PRECISIONS.names)),
        "parallelism": CategoricalDistribution(list(PARALLELISMS.names)),
        **{one: CategoricalDistribution([False, True]) for one in TECHNIQUES.names},
        "loader_worker_count": IntDistribution(0, 64),  # 0: as the model file has it
        "loader_prefetch_count": IntDistribution(0, 64),  # 0: as torch has it
        "is_pinned": CategoricalDistribution([False, True]),  # True: for CUDA
    }


def params_of(config: TrialConfig) -> dict[str, Any]:
    """A configuration in the study's dimensions."""
    return {
        "gpu": config.gpu,
        "gpu_count": config.gpu_count,
        "node_count": config.node_count,
        "micro_batch_size": config.micro_batch_size,
        "precision": config.precision,
        "parallelism": config.parallelism,
        **{one: one in config.techniques for one in TECHNIQUES.names},
        "loader_worker_count": config.loader_worker_count or 0,
        "loader_prefetch_count": config.loader_prefetch_count or 0,
        "is_pinned": config.is_pinned is not False,
    }
