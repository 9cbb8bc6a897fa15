"""Which extras the next trial measures: what no trial before it of the same shape has. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trials.extras import Extras
from trials.trial import Measurement, Parallelism, Precision, TrialConfig

EXTRAS_LIMIT_S = 120.0  # what a trial may take longer for them before it is taken for hung


def extras_due(wanted: Extras, config: TrialConfig, seen: Sequence[Measurement]) -> Extras:
    """Of ``wanted``, what a trial of ``config`` measures after ``seen`` in the same group.

    A model that every worker has whole is saved by one of them, however many there are; one that is sharded
    is saved by all at once.
    """
    writers = _writers(config)
    is_saved = any(_writers(one.config) == writers for one in seen)
    is_probed = any(_workers(one.config) == _workers(config) for one in seen)
    is_drawn = any(shows_noise(one.config) for one in seen)
    return replace(
        wanted,
        is_checkpoint_timed=wanted.is_checkpoint_timed and not is_saved,
        is_noise_measured=wanted.is_noise_measured and shows_noise(config) and not is_drawn,
        are_links_probed=wanted.are_links_probed and config.gpu_count > 1 and not is_probed,
    )


def _writers(config: TrialConfig) -> tuple[int, int]:
    """Workers that save, and their nodes."""
    return _workers(config) if config.parallelism == Parallelism.FSDP2 else (1, 1)


def shows_noise(config: TrialConfig) -> bool:
    """Gradients of fp16 need the scaler, and those of several workers each other."""
    return config.gpu_count == 1 and config.precision != Precision.FP16


def _workers(config: TrialConfig) -> tuple[int, int]:
    return config.gpu_count, config.node_count
