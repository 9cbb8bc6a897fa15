from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import active_children
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

from trials.errors import TrialsError, Unsupported
from trials.model_file.loader import (
    Batches,
    BatchFunction,
    DatasetSource,
    move_to,
    one_batch,
    tensors_of,
)


def numbers(count: int) -> DatasetSource:
    return DatasetSource(dataset=TensorDataset(torch.arange(count)))


def take(batches: Batches, count: int) -> list[list[int]]:
    return [next(batches)[0].tolist() for _ in range(count)]


def test_batch_function_is_called_for_every_batch() -> None:
    asked: list[int] = []

    def make(size: int) -> int:
        asked.append(size)
        return len(asked)

    batches = Batches(BatchFunction(make=make), 4)
    assert [next(batches), next(batches)] == [1, 2]
    assert asked == [4, 4]


def test_epochs_follow_each_other_in_new_order_without_the_incomplete_batch() -> None:
    taken = take(Batches(numbers(10), 4), 4)
    first, second = taken[0] + taken[1], taken[2] + taken[3]
    assert len(set(first)) == len(set(second)) == 8
    assert first != second


def test_ranks_share_the_batches_of_one_process() -> None:
    alone = Batches(numbers(16), 4)
    pair = [Batches(numbers(16), 2, rank=rank, world_size=2) for rank in range(2)]
    for _ in range(4):
        whole = set(next(alone)[0].tolist())
        assert {number for one in pair for number in next(one)[0].tolist()} == whole


def test_order_may_be_kept() -> None:
    source = DatasetSource(dataset=TensorDataset(torch.arange(6)), is_shuffled=False)
    assert take(Batches(source, 3), 3) == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(5)


@pytest.mark.parametrize("samples", [Stream(), range(5), set(range(5))])
def test_iterables_and_sequences(samples: Any) -> None:
    batches = Batches(DatasetSource(dataset=samples, is_shuffled=False), 2)
    assert [next(batches).tolist() for _ in range(3)] == [[0, 1], [2, 3], [0, 1]]


def test_stream_without_a_full_batch_is_a_reason() -> None:
    with pytest.raises(Unsupported, match="no full batch of 8"):
        next(Batches(DatasetSource(dataset=Stream()), 8))


def test_own_collate_makes_the_batch() -> None:
    source = DatasetSource(dataset=[1, 2, 3, 4], collate=sum, is_shuffled=False)
    assert one_batch(DatasetSource(dataset=[5, 5], collate=sum), 2) == 10
    assert next(Batches(source, 2)) == 3


def test_loader_processes_end_when_closed() -> None:
    before = active_children()
    batches = Batches(numbers(8), 2, worker_count=1)
    assert len(next(batches)[0]) == 2
    (process,) = [one for one in active_children() if one not in before]
    batches.close()
    process.join(timeout=10)
    assert not process.is_alive()


def test_batches_are_held_ready_by_loader_processes_only() -> None:
    alone, ahead = (Batches(numbers(8), 2, worker_count=count, prefetch_count=5) for count in (0, 1))
    assert alone.loader is not None
    assert ahead.loader is not None
    assert (alone.loader.prefetch_factor, ahead.loader.prefetch_factor) == (None, 5)
    assert len(next(alone)[0]) == 2


def test_too_small_a_dataset_is_a_reason_not_a_crash() -> None:
    with pytest.raises(Unsupported, match="10 samples, fewer than one batch of 8 on each of 2 workers"):
        Batches(numbers(10), 8, world_size=2)
    with pytest.raises(TrialsError, match="empty"):
        Batches(DatasetSource(dataset=[]), 1)


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@dataclass
class Record:
    pixels: torch.Tensor
    name: str


class Own:
    def __init__(self) -> None:
        self.device: torch.device | None = None

    def to(self, device: torch.device) -> Own:
        self.device = device
        return self


def test_batches_of_any_shape_move() -> None:
    meta = torch.device("meta")
    x = torch.zeros(2)
    own = move_to(Own(), meta)
    assert own.device == meta
    moved = move_to({"a": [x, (x, 1)], "b": Pair(x, x), "c": Record(x, "n"), "d": None}, meta)
    assert {tensor.device for _, tensor in tensors_of(moved)} == {meta}
    assert isinstance(moved["b"], Pair)
    assert moved["c"].name == "n"
    assert moved["a"][1][1] == 1


def test_tensors_are_named() -> None:
    x = torch.zeros(2)
    assert [name for name, _ in tensors_of({"ids": x, "more": [x, x]})] == ["ids", "more.0", "more.1"]
    assert [name for name, _ in tensors_of(Record(x, "n"))] == ["pixels"]
    assert [name for name, _ in tensors_of(x)] == [""]
