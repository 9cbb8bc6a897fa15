"""Sharded parts (FSDP2) by torch.distributed.checkpoint, for any number of processes to take up again.

A module's state stands under its parameters' names, its optimizer's too, so that a shard is found whatever
the layout. What is not sharded stays with `CheckpointFiles`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from trials.api import sync_folder


class Shards:
    """The modules among the parts, and the optimizers over their parameters."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        from torch import nn, optim
        from torch.distributed.tensor import DTensor

        self._modules = {name: part for name, part in parts.items() if isinstance(part, nn.Module)}
        owners = {
            name: self._owner(part) for name, part in parts.items() if isinstance(part, optim.Optimizer)
        }
        self._optimizers = {name: (parts[name], owner) for name, owner in owners.items() if owner is not None}
        sharded = [
            module
            for module in self._modules.values()
            if any(isinstance(parameter, DTensor) for parameter in module.parameters())
        ]
        self.names = frozenset(  # of the parts that are saved so; empty where nothing is sharded
            name
            for name in (*self._modules, *self._optimizers)
            if any(self._module(name) is module for module in sharded)
        )

    def state(self, names: Collection[str]) -> dict[str, Any]:
        """What this process has of each."""
        from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict

        optimizers = {}
        for name, (optimizer, owner) in self._optimizers.items():
            if name in names:
                is_new = not optimizer.state
                optimizers[name] = get_optimizer_state_dict(owner, optimizer)
                if is_new:  # torch has taken a step with no gradient, to know what state there will be
                    optimizer.state.clear()
        modules = {name: get_model_state_dict(one) for name, one in self._modules.items() if name in names}
        return {**optimizers, **modules}

    def load(self, names: Collection[str], folder: Path, group: Any) -> None:
        """Take up what ``write_shards`` wrote, by however many processes. All must call it."""
        from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_optimizer_state_dict
        from torch.distributed.checkpoint.state_dict_loader import load

        state = self.state(names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a lone process is said to be one
            load(state, checkpoint_id=folder, process_group=group, no_dist=group is None)
        for name, loaded in state.items():
            if name in self._modules:
                set_model_state_dict(self._modules[name], loaded)
            else:
                optimizer, owner = self._optimizers[name]
                set_optimizer_state_dict(owner, optimizer, loaded)

    def _module(self, name: str) -> Any:
        return self._modules[name] if name in self._modules else self._optimizers[name][1]

    def _owner(self, optimizer: Any) -> Any:
        """The module that has all parameters of the optimizer; None where there is no one such."""
        mine = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for module in self._modules.values():
            if mine <= {id(parameter) for parameter in module.parameters()}:
                return module
        return None


def write_shards(state: dict[str, Any], folder: Path, group: Any) -> None:
    """Write what ``Shards.state`` gave and see it to the disk. All processes of ``group`` must call it."""
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    writer = FileSystemWriter(folder, sync_files=True)
    save(state, storage_writer=writer, process_group=group, no_dist=group is None)
    sync_folder(folder)
