"""The input pipeline of a trial: micro batches from ``batch(size)`` or from a DataLoader over ``dataset()``.

``batch(size)`` is called for every micro batch, as a loop around it would. A dataset is read in epochs
through a DataLoader with a DistributedSampler, the last incomplete batch dropped, the epoch's restart
included. An iterable dataset gives every rank the same samples unless it shards itself; that costs no speed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from trials.errors import TrialsError, Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFunction:
    """A data source that calls the file's ``batch(size)``; each call makes a batch of ``size`` samples."""

    make: Callable[[int], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource:
    """A map-style or iterable dataset and how its samples become a batch."""

    dataset: Any
    collate: Callable[[list[Any]], Any] | None = None
    is_shuffled: bool = True
    worker_count: int = 0  # loader processes per trial worker

    @property
    def is_iterable(self) -> bool:
        """Whether samples can only be read in order."""
        return isinstance(self.dataset, IterableDataset) or not hasattr(self.dataset, "__getitem__")

    @property
    def size(self) -> int | None:
        """Samples in one epoch; None where the dataset does not say."""
        if self.is_iterable:
            return None
        return len(self.dataset)


DataSource = BatchFunction | DatasetSource

_END = object()


class Batches:
    """Endless micro batches of one rank. Call ``close`` to end its loader processes."""

    def __init__(
        self,
        source: DataSource,
        micro_batch_size: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        worker_count: int | None = None,
        prefetch_count: int | None = None,
        is_pinned: bool = False,
    ) -> None:
        self._make: Callable[[], Any] | None = None
        self._loader: DataLoader[Any] | None = None
        self._iterator: Iterator[Any] | None = None
        self._sampler: DistributedSampler[Any] | None = None
        self._epoch = 0
        self._size = micro_batch_size
        if isinstance(source, BatchFunction):
            make = source.make
            self._make = lambda: make(micro_batch_size)
            return
        _check_size(source, micro_batch_size, world_size)
        dataset = source.dataset if not source.is_iterable else _as_iterable(source.dataset)
        if not source.is_iterable:
            self._sampler = DistributedSampler(
                dataset,
                num_replicas=world_size,
                rank=rank,
                shuffle=source.is_shuffled,
                seed=seed,
                drop_last=True,
            )
        count = source.worker_count if worker_count is None else worker_count
        self._loader = DataLoader(
            dataset,
            batch_size=micro_batch_size,
            sampler=self._sampler,
            num_workers=count,
            collate_fn=source.collate,
            drop_last=True,
            prefetch_factor=prefetch_count if count > 0 else None,
            pin_memory=is_pinned,
            persistent_workers=count > 0,
        )

    @property
    def loader(self) -> DataLoader[Any] | None:
        """What the batches come from; None where the user's function makes them."""
        return self._loader

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:  # the user's batch
        if self._make is not None:
            return self._make()
        if self._iterator is not None:
            batch = next(self._iterator, _END)
            if batch is not _END:
                return batch
            self._epoch += 1
        return self._begin_epoch()

    def _begin_epoch(self) -> Any:
        assert self._loader is not None
        if self._sampler is not None:
            self._sampler.set_epoch(self._epoch)
        self._iterator = iter(self._loader)
        batch = next(self._iterator, _END)
        if batch is not _END:
            return batch
        raise Unsupported(f"the dataset gives no full batch of {self._size} samples per worker")

    def close(self) -> None:
        """End loader processes; the object gives no more batches."""
        self._iterator = None
        if self._loader is not None:
            self._loader._iterator = None  # the persistent workers' only other owner
        self._loader = None


class _Iterated(IterableDataset[Any]):
    """A plain iterable as the DataLoader wants it."""

    def __init__(self, samples: Any) -> None:
        self._samples = samples

    def __iter__(self) -> Iterator[Any]:
        return iter(self._samples)


def _as_iterable(dataset: Any) -> IterableDataset[Any]:
    return dataset if isinstance(dataset, IterableDataset) else _Iterated(dataset)


def _check_size(source: DatasetSource, micro_batch_size: int, world_size: int) -> None:
    size = source.size
    if size == 0:
        raise TrialsError("dataset() is empty; it must hold at least one batch")
    if size is not None and size < micro_batch_size * world_size:
        raise Unsupported(
            f"the dataset has {size} samples, fewer than one batch of {micro_batch_size} on each of"
            f" {world_size} workers"
        )


def one_batch(source: DataSource, size: int) -> Any:
    """One batch of ``size`` samples in this process, for checks and traces."""
    batches = Batches(source, size, worker_count=0)
    try:
        return next(batches)
    finally:
        batches.close()


def tensors_of(batch: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensors of a batch with their names: ``("input_ids", ...)``, ``("0", ...)``."""
    if isinstance(batch, torch.Tensor):
        return [("", batch)]
    if isinstance(batch, Mapping):
        parts = [(str(key), value) for key, value in batch.items()]
    elif isinstance(batch, list | tuple):
        parts = [(str(index), value) for index, value in enumerate(batch)]
    elif dataclasses.is_dataclass(batch):
        parts = [(field.name, getattr(batch, field.name)) for field in dataclasses.fields(batch)]
    else:
        return []
    return [
        (".".join(filter(None, (name, inner))), tensor)
        for name, value in parts
        for inner, tensor in tensors_of(value)
    ]


def move_to(batch: Any, device: torch.device) -> Any:
    """The batch on ``device``, without waiting for the copy; objects with a ``to`` method move themselves."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if hasattr(batch, "to") and callable(batch.to):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {key: move_to(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(move_to(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(move_to(value, device) for value in batch)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        changes = {
            field.name: move_to(getattr(batch, field.name), device) for field in dataclasses.fields(batch)
        }
        return dataclasses.replace(batch, **changes)
    return batch
