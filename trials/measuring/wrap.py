"""Puts a Step under a memory technique, a compiler and a parallelism."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from trials.errors import Unsupported
from trials.measuring.place import Place
from trials.measuring.precision import precision_refusal
from trials.model_file.blocks import find_blocks
from trials.model_file.contract import Step
from trials.trial import Parallelism, TrialConfig

_MESH_NUMBERS = itertools.count()
NO_BLOCKS = (
    "no repeated blocks were found in the model (a ModuleList or Sequential of at least two modules of one"
    " class that have children)"
)


def refusal(config: TrialConfig, place: Place) -> str | None:
    """Why this place cannot run ``config`` at all; None where it can."""
    if config.gpu_count != place.world_size:
        return f"the trial wants {config.gpu_count} workers, this group has {place.world_size}"
    if config.parallelism == Parallelism.SINGLE and place.world_size > 1:
        return f"one process cannot use {place.world_size} workers; choose DDP or FSDP2"
    if config.parallelism != Parallelism.SINGLE and place.world_size == 1:
        return f"{config.parallelism.upper()} needs at least two workers"
    if config.is_compiled and (why := compile_refusal(place.torch_device)):
        return why
    return precision_refusal(config.precision, place.torch_device)


def compile_refusal(device: torch.device) -> str | None:
    """Why torch.compile cannot run on ``device`` here; None where it can."""
    if device.type == "cpu" and not any(map(shutil.which, ("g++", "clang++"))):
        return "torch.compile on CPU needs a C++ compiler (g++), and this machine has none"
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (7, 0):
        return "torch.compile needs a GPU of compute capability 7.0"
    return None


def checkpoint_blocks(step: Step) -> None:
    """Recompute each block's activations in the backward pass (non-reentrant) instead of keeping them."""
    blocks = find_blocks(step.model)
    if not blocks:
        raise Unsupported(f"activation checkpointing: {NO_BLOCKS}")
    for module in step.model.modules():
        config: Any = getattr(module, "config", None)  # Hugging Face's; a T5 decoder has one of its own
        if getattr(config, "use_cache", False):
            config.use_cache = False  # recomputing would fill a key-value cache twice
    for block in blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def wrap(step: Step, config: TrialConfig, place: Place, probe: Callable[[Step], Any]) -> nn.Module:
    """The step as it trains: on its device, checkpointed, compiled, parallel.

    ``probe`` gives the loss of a small batch.
    """
    if config.is_checkpointed:
        checkpoint_blocks(step)
    if config.parallelism == Parallelism.FSDP2:
        return _shard(step, config, place)
    place.together(lambda: step.to(place.torch_device))
    module: nn.Module = step
    if config.parallelism == Parallelism.DDP:
        has_unused = has_unused_parameters(step, place, probe)
        module = DistributedDataParallel(
            step, process_group=place.process_group, find_unused_parameters=has_unused
        )
    if config.is_compiled:  # around DDP: it splits the graph at its buckets, so that gradients travel early
        module.compile()
    return module


def _shard(step: Step, config: TrialConfig, place: Place) -> nn.Module:
    """Full sharding, block by block and the rest at the root; moves to the device shard by shard."""
    blocks = find_blocks(step.model)
    if not blocks:
        raise Unsupported(f"FSDP2: {NO_BLOCKS}")
    assert place.process_group is not None
    # DTensor caches its plans by mesh, and meshes are equal by ranks and names: without a name of its own,
    # this mesh would be served plans that use the process group of an earlier trial.
    mesh = DeviceMesh.from_group(
        place.process_group, place.torch_device.type, mesh_dim_names=(f"trial_{next(_MESH_NUMBERS)}",)
    )
    for block in blocks:
        if config.is_compiled:
            block.forward = torch.compile(block.forward)
        fully_shard(block, mesh=mesh)
    fully_shard(step, mesh=mesh)
    step.to(place.torch_device)  # what is neither parameter nor buffer, such as Lightning's own device
    return step


def has_unused_parameters(step: Step, place: Place, probe: Callable[[Step], Any]) -> bool:
    """Whether any rank's backward pass leaves a trainable parameter without gradient.

    DDP would wait for it for ever, or must be told to look (find_unused_parameters), which costs time: so it
    is found out by one small step.
    """
    place.together(lambda: probe(step).backward())
    has_unused = any(one.requires_grad and one.grad is None for one in step.parameters())
    step.zero_grad(set_to_none=True)
    return place.largest([float(has_unused)])[0] > 0
