"""The longest batch that the data can give, and what a worker remembers of lengths."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import IterableDataset, TensorDataset

from trials.measuring.longest import longest_batch
from trials.model_file.loader import BatchFunction, DatasetSource

TEXTS = [[1] * (1 + index * 7 % 100) for index in range(100)]  # each length from 1 to 100 once


def pad(samples: list[list[int]]) -> torch.Tensor:
    width = max(map(len, samples))
    return torch.tensor([one + [0] * (width - len(one)) for one in samples])


def lengths(source: DatasetSource, size: int, sha256: str) -> list[int]:
    make = longest_batch(source, size, sha256)
    assert make is not None
    assert make() is not make()  # a loader's batches are new ones too
    return [int(row.sum()) for row in make()]


class Counted(list[list[int]]):
    """A dataset that knows how often it was asked; some samples cannot be read."""

    asked = 0

    def __getitem__(self, index: int) -> list[int]:  # type: ignore[override]
        self.asked += 1
        if index % 10 == 3:
            raise OSError("unreadable")
        return super().__getitem__(index)


class Stream(IterableDataset[list[int]]):
    passes = 0

    def __iter__(self) -> Iterator[list[int]]:
        self.passes += 1
        yield from TEXTS


def test_it_holds_the_longest_samples_of_all_the_data() -> None:
    assert lengths(DatasetSource(dataset=TEXTS, collate=pad), 4, "a") == [100, 99, 98, 97]
    few = DatasetSource(dataset=TEXTS[:3], collate=pad)
    assert lengths(few, 4, "a") == [
        15,
        8,
        1,
        15,
    ]  # the few are repeated; another size of dataset is looked at


def test_a_worker_looks_at_the_lengths_once_and_passes_over_what_it_cannot_read() -> None:
    texts = Counted(TEXTS)
    source = DatasetSource(dataset=texts, collate=pad)
    readable = sorted((len(one) for index, one in enumerate(TEXTS) if index % 10 != 3), reverse=True)
    assert lengths(source, 4, "b") == readable[:4]
    looked = texts.asked
    assert lengths(source, 8, "b") == readable[:8]
    assert texts.asked == looked + 8


def test_an_iterable_dataset_is_read_again_only_for_a_larger_batch() -> None:
    stream = Stream()
    source = DatasetSource(dataset=stream, collate=pad)
    assert lengths(source, 4, "c") == [100, 99, 98, 97]
    assert lengths(source, 2, "c") == [100, 99]
    assert stream.passes == 1
    assert lengths(source, 5, "c") == [100, 99, 98, 97, 96]
    assert stream.passes == 2


def test_there_is_none_where_lengths_do_not_vary_or_nobody_can_say() -> None:
    alike = TensorDataset(torch.arange(10))
    assert longest_batch(DatasetSource(dataset=alike), 4, "d") is None
    assert longest_batch(BatchFunction(make=lambda size: size), 4, "d") is None
