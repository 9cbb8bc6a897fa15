"""FSDP2 (``fully_shard``): parameters, gradients and optimizer state divided among the workers.

Parameters are gathered in the precision of the passes and gradients reduced in fp32, as production runs have
it; shards and optimizer state stay fp32.
"""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.nn.modules.batchnorm import _BatchNorm

from trials.errors import Unsupported
from trials.model_file.blocks import NO_BLOCKS, find_blocks
from trials.modes.parallelism import Parallelism, Plan
from trials.rank_context import RankContext

_MESH_NUMBERS = itertools.count()


class Fsdp2(Parallelism):
    """Full sharding, block by block and the rest at the root."""

    name = "fsdp2"
    is_sharded = True
    is_always_synchronised = True

    def wrap(self, plan: Plan) -> nn.Module:
        """Moves to the device shard by shard."""
        step, context = plan.step, plan.context
        blocks = find_blocks(step.model)
        if not blocks:
            raise Unsupported(f"FSDP2: {NO_BLOCKS}")
        assert context.process_group is not None
        # DTensor caches its plans by mesh, and meshes are equal by ranks and names: without a name of its
        # own, this mesh would be served plans that use the process group of an earlier trial.
        mesh = DeviceMesh.from_group(
            context.process_group, context.torch_device.type, mesh_dim_names=(f"trial_{next(_MESH_NUMBERS)}",)
        )
        dtype = plan.precision.dtype
        if dtype is not None:
            for module in step.modules():
                if isinstance(module, _BatchNorm):  # its statistics are fp32, and so must its weights be
                    fully_shard(module, mesh=mesh)
        for block in blocks:
            for technique in plan.techniques:
                technique.on_block(block)
            fully_shard(block, mesh=mesh, mp_policy=policy(dtype))
        # the root's inputs are the user's batch, whose targets must not be rounded
        fully_shard(step, mesh=mesh, mp_policy=policy(dtype, casts_inputs=False))
        step.to(context.torch_device)  # what is neither parameter nor buffer, such as Lightning's own device
        return step

    def synchronised(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        assert isinstance(module, FSDPModule)
        module.set_requires_gradient_sync(is_last)
        return nullcontext()

    def silenced(self, module: nn.Module) -> AbstractContextManager[None]:
        """Gradients stay, and shards that were gathered (by the first pass) too."""
        assert isinstance(module, FSDPModule)
        module.set_requires_gradient_sync(False)
        module.set_reshard_after_backward(False)
        module.set_reshard_after_forward(False)
        return nullcontext()

    def can_be_silent(self, module: nn.Module, context: RankContext) -> bool:
        """Gathered shards need their memory."""
        if not hasattr(module, "set_reshard_after_forward"):  # torch before 2.8
            return False
        if context.torch_device.type != "cuda":
            return True
        whole_bytes = sum(one.numel() * one.element_size() for one in module.parameters())
        free_bytes, _ = torch.cuda.mem_get_info(context.torch_device)
        (least,) = context.largest([-float(free_bytes)])
        return 2 * whole_bytes < -least  # parameters and gradients


def policy(dtype: torch.dtype | None, *, casts_inputs: bool = True) -> MixedPrecisionPolicy:
    """Gathers in ``dtype`` and reduces in fp32; everything in the parameters' own where it is None."""
    if dtype is None:
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(
        param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=casts_inputs
    )


MODES = (Fsdp2(),)
