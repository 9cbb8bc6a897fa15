from __future__ import annotations

from torch import nn

from trials.model_file.blocks import find_blocks


class Block(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)


class Bigger(Block):
    def __init__(self) -> None:
        super().__init__(width=64)


def test_layers_of_a_module_list_in_order() -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList(Block() for _ in range(3)), "head": nn.Linear(4, 4)})
    assert find_blocks(model) == tuple(model["layers"])  # type: ignore[arg-type]


def test_blocks_of_one_class_over_several_sequentials() -> None:
    model = nn.Sequential(nn.Sequential(Block(), Block()), nn.Sequential(Block(8), Block(8)), nn.Linear(4, 4))
    assert find_blocks(model) == (*model[0], *model[1])


def test_family_with_most_parameters_wins() -> None:
    model = nn.ModuleList(
        [nn.ModuleList(Block() for _ in range(9)), nn.ModuleList(Bigger() for _ in range(2))]
    )
    assert {type(one) for one in find_blocks(model)} == {Bigger}


def test_blocks_inside_blocks_are_left_to_the_outer_ones() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleList(Block() for _ in range(4))
            self.router = nn.Linear(4, 4)

    model = nn.ModuleList(Outer() for _ in range(2))
    assert find_blocks(model) == tuple(model)


def test_nested_plain_sequentials_of_one_list() -> None:
    model = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3))
    assert find_blocks(model) == tuple(model)


def test_plain_layers_and_single_blocks_are_none() -> None:
    assert find_blocks(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))) == ()
    assert find_blocks(nn.ModuleList([Block()])) == ()
    assert find_blocks(nn.Linear(4, 4)) == ()
