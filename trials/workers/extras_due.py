"""Which extras the next trial measures: what no trial before it of the same shape has. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trials.extras import Extras
from trials.measurement import Measurement
from trials.trial import TrialConfig

EXTRAS_LIMIT_S = 120.0  # what a trial may take longer for them before it is taken for hung


def extras_due(wanted: Extras, config: TrialConfig, seen: Sequence[Measurement]) -> Extras:
    """Of ``wanted``, what a trial of ``config`` measures after ``seen`` in the same group.

    A model that every worker has whole is saved by one of them, however many there are; one that is sharded
    is saved by all at once. Which it is the worker knows.
    """
    is_saved = any(_writers(one.config) == _writers(config) for one in seen)
    is_probed = any(_workers(one.config) == _workers(config) for one in seen)
    costs = [one.checkpoint for one in seen if one.checkpoint is not None]
    return replace(
        wanted,
        is_checkpoint_timed=wanted.is_checkpoint_timed and not is_saved,
        is_whole_checkpoint_known=any(not one.is_sharded for one in costs),
        is_noise_measured=wanted.is_noise_measured
        and config.gpu_count == 1
        and not any(one.noise is not None for one in seen),
        are_links_probed=wanted.are_links_probed and config.gpu_count > 1 and not is_probed,
    )


def _writers(config: TrialConfig) -> tuple[str, int, int]:
    """The parallelism, by which the model is whole or sharded, and the workers."""
    return (config.parallelism, *_workers(config))


def _workers(config: TrialConfig) -> tuple[int, int]:
    return config.gpu_count, config.node_count
