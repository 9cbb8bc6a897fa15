"""The repeated blocks of a model: what activation checkpointing and FSDP2 wrap one by one."""

from __future__ import annotations

from collections import defaultdict

from torch import nn

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def find_blocks(model: nn.Module) -> tuple[nn.Module, ...]:
    """The largest family of repeated blocks, in the model's order; empty where there is none.

    Candidates are the children of every ModuleList and Sequential that have children and parameters of their
    own. Those of one class belong together (a ResNet's blocks over its stages, the layers of an encoder and a
    decoder); containers without a class of their own only within one parent. The family with the most
    parameters wins, its outermost members only.
    """
    families: dict[object, list[nn.Module]] = defaultdict(list)
    for parent in model.modules():
        if not isinstance(parent, nn.ModuleList | nn.Sequential):
            continue
        for child in parent.children():
            if _is_block(child):
                is_plain = type(child) in _CONTAINERS
                families[(type(child), id(parent) if is_plain else None)].append(child)
    repeated = [family for family in map(_outermost, families.values()) if len(family) > 1]
    return tuple(max(repeated, key=_parameter_count, default=[]))


def _is_block(module: nn.Module) -> bool:
    return next(module.children(), None) is not None and next(module.parameters(), None) is not None


def _outermost(family: list[nn.Module]) -> list[nn.Module]:
    unique = list(dict.fromkeys(family))
    inner = {id(below) for one in unique for below in one.modules() if below is not one}
    return [one for one in unique if id(one) not in inner]


def _parameter_count(family: list[nn.Module]) -> int:
    return sum(parameter.numel() for one in family for parameter in one.parameters())
