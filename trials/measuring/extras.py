"""What a trial measures after its steps, see `trials.extras`. Every rank calls it; a fault costs no trial."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from trials.errors import PeerFailed
from trials.extras import CheckpointCost, CheckpointUnmeasured, Extras, GradientNoise, LinkProbe
from trials.measuring.checkpoint_cost import local_directory, measure_checkpoint_cost
from trials.measuring.collectives import probe_links
from trials.measuring.noise_scale import measure_noise
from trials.measuring.step import Training
from trials.modes import PARALLELISMS, PRECISIONS
from trials.rank_context import RankContext
from trials.trial import TrialConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrasFound:
    """What this rank has measured, and why something is missing."""

    checkpoint: CheckpointCost | None = None
    links: LinkProbe | None = None
    noise: GradientNoise | None = None
    warnings: tuple[str, ...] = ()
    spent_s: float = 0.0


def measure_extras(
    wanted: Extras, training: Training, config: TrialConfig, context: RankContext
) -> ExtrasFound:
    """Measure what is wanted, with the model as the steps left it."""
    if wanted.is_nothing:
        return ExtrasFound()
    begun_s = time.perf_counter()
    warnings: list[str] = []
    links = _links(wanted, config, context, warnings)
    checkpoint = _checkpoint(wanted, training, config, context)
    if isinstance(checkpoint, CheckpointUnmeasured):
        warnings.append(f"checkpoint not timed: {checkpoint.reason}")
    is_unmeasured = float(isinstance(checkpoint, CheckpointUnmeasured))
    is_whole = context.largest([is_unmeasured])[0] == 0  # the shards of all ranks, or none
    noise = _noise(wanted, training, config, warnings)
    return ExtrasFound(
        checkpoint=checkpoint if isinstance(checkpoint, CheckpointCost) and is_whole else None,
        links=links,
        noise=noise,
        warnings=tuple(warnings),
        spent_s=time.perf_counter() - begun_s,
    )


def _links(
    wanted: Extras, config: TrialConfig, context: RankContext, warnings: list[str]
) -> LinkProbe | None:
    if not wanted.are_links_probed or context.world_size == 1:
        return None
    try:
        return probe_links(context, config.node_count)
    except (torch.OutOfMemoryError, PeerFailed):  # on all ranks together
        warnings.append("links not probed: too little memory is free")
        return None


def _noise(
    wanted: Extras, training: Training, config: TrialConfig, warnings: list[str]
) -> GradientNoise | None:
    """Last: with a checkpoint's parameters the model is no longer the one that was timed."""
    if not wanted.is_noise_measured or config.gpu_count > 1 or PRECISIONS[config.precision].is_loss_scaled:
        return None
    try:
        return measure_noise(training, config.micro_batch_size, wanted.noise_checkpoint)
    except (torch.OutOfMemoryError, ValueError) as error:
        warnings.append(f"gradient noise not measured: {error}")
        return None


def _checkpoint(
    wanted: Extras, training: Training, config: TrialConfig, context: RankContext
) -> CheckpointCost | CheckpointUnmeasured | None:
    """None on a rank that saves nothing: the first one does where all have the whole model."""
    is_sharded = PARALLELISMS[config.parallelism].is_sharded
    if not wanted.is_checkpoint_timed or (
        not is_sharded and (context.rank or wanted.is_whole_checkpoint_known)
    ):
        return None
    directory = wanted.checkpoint_directory
    found = measure_checkpoint_cost(
        training.module,
        training.optimizer,
        local_directory() if directory is None else Path(directory),
        writers_per_node=config.gpu_count // config.node_count if is_sharded else 1,
    )
    return replace(found, is_sharded=is_sharded) if isinstance(found, CheckpointCost) else found
