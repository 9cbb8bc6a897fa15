"""The repeated blocks of a model: what activation checkpointing and FSDP2 wrap one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from torch import nn

_OWN_CLASS_SHARE = 0.5  # of a container family's parameters, from which blocks of a class of their own win
NO_BLOCKS = (
    "no repeated blocks were found in the model (a ModuleList or Sequential of at least two modules of one"
    " class that have children)"
)


def find_blocks(model: nn.Module) -> tuple[nn.Module, ...]:
    """The largest family of repeated blocks, in the model's order; empty where there is none.

    Candidates are the children of every ModuleList and Sequential that have children and parameters of their
    own and can be called. Those of one class belong together (a ResNet's blocks over its stages, the layers
    of an encoder and a decoder); plain Sequentials only within one parent. The family with the most
    parameters wins, its outermost members only; a ResNet's blocks before the Sequentials that hold them.
    """
    named: dict[object, list[nn.Module]] = defaultdict(list)
    plain: dict[object, list[nn.Module]] = defaultdict(list)
    for parent in model.modules():
        if not isinstance(parent, nn.ModuleList | nn.Sequential):
            continue
        for child in filter(_is_block, parent.children()):
            if type(child) is nn.Sequential:
                plain[parent].append(child)
            else:
                named[type(child)].append(child)
    of_classes, of_sequentials = _largest(named.values()), _largest(plain.values())
    enough = _OWN_CLASS_SHARE * _parameter_count(of_sequentials)
    return tuple(of_classes if of_classes and _parameter_count(of_classes) >= enough else of_sequentials)


def _is_block(module: nn.Module) -> bool:
    is_callable = not isinstance(module, nn.ModuleList | nn.ModuleDict)
    has_parts = next(module.children(), None) is not None
    return is_callable and has_parts and next(module.parameters(), None) is not None


def _largest(families: Iterable[list[nn.Module]]) -> list[nn.Module]:
    repeated = [family for family in map(_outermost, families) if len(family) > 1]
    return max(repeated, key=_parameter_count, default=[])


def _outermost(family: list[nn.Module]) -> list[nn.Module]:
    unique = list(dict.fromkeys(family))
    inner = {id(below) for one in unique for below in one.modules() if below is not one}
    return [one for one in unique if id(one) not in inner]


def _parameter_count(family: Iterable[nn.Module]) -> int:
    return sum(parameter.numel() for one in family for parameter in one.parameters())
