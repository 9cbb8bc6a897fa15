"""One optimizer step of the real run, under a precision, a parallelism and a memory technique.

Fetch, move and pass each micro batch, synchronise gradients once, clip if the file sets it, step the
optimizer, free the gradients.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor, nn

from trials.measuring.clock import Clock, Mark
from trials.measuring.longest import longest_batch
from trials.measuring.wrap import wrap
from trials.model_file.contract import LoadedWorkload, Step
from trials.model_file.loader import Batches, move_to, one_batch
from trials.modes import PARALLELISMS, PRECISIONS, techniques_of
from trials.rank_context import RankContext
from trials.trial import TrialConfig

_PROBE_SIZE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMarks:
    """Moments of one step: its start, then (fetched, moved, backward done) per micro batch, then its end."""

    start: Mark
    micro: tuple[tuple[Mark, Mark, Mark], ...]
    end: Mark


class Moment(StrEnum):
    """Of a step, for who watches its memory."""

    MICRO_BATCH = "planner: a micro batch begins"
    UPDATE = "planner: the optimizer begins"


class Training:
    """The model, optimizer and data of one rank, ready to run optimizer steps. ``close`` frees its data."""

    def __init__(
        self,
        loaded: LoadedWorkload,
        config: TrialConfig,
        context: RankContext,
        seed: int,
        worker_count: int | None,
    ) -> None:
        self.config = config
        self._device = context.torch_device
        self._source = loaded.source
        self._sha256 = loaded.workload.sha256
        self._context = context
        self._precision = PRECISIONS[config.precision]
        self._parallelism = PARALLELISMS[config.parallelism]
        self._clip_norm = loaded.clip_norm
        self._scaler = self._precision.grad_scaler(self._device)
        share, share_count = self._parallelism.share(context)
        self.batches = context.together(
            lambda: Batches(
                loaded.source,
                config.micro_batch_size,
                rank=share,
                world_size=share_count,
                seed=seed,
                worker_count=worker_count,
                prefetch_count=config.loader_prefetch_count,
                is_pinned=config.is_pinned is not False and self._device.type == "cuda",
            )
        )
        self._stream: Iterator[object] = self.batches
        self._tell: Callable[[Moment], None] | None = None
        torch.manual_seed(seed)  # every rank builds the same weights
        step = context.together(loaded.build)

        def probe(one: Step) -> Tensor:
            batch = one_batch(loaded.source, min(_PROBE_SIZE, config.micro_batch_size))
            return self._loss(one, move_to(batch, self._device))

        self.step = step
        self.module: nn.Module = wrap(step, config, context, probe)
        self.optimizer = context.together(
            lambda: self._parallelism.build_optimizer(loaded.build_optimizer, step, self.module)
        )
        for technique in techniques_of(config):
            self.optimizer = technique.on_optimizer(self.optimizer)
        self._parameters = [one for one in self.module.parameters() if one.requires_grad]
        torch.manual_seed(seed + 1 + context.rank)  # dropout and synthetic batches differ between ranks

    def run_step(self, accumulation: int, clock: Clock, start: Mark) -> tuple[Tensor, StepMarks]:
        """One optimizer step of ``accumulation`` micro batches: its loss (on the device) and moments."""
        micro: list[tuple[Mark, Mark, Mark]] = []
        total = torch.zeros((), device=self._device)
        kept: list[object] = []  # the last batch lives through the update, as in a plain loop

        def run() -> None:
            kept.clear()
            if self._tell is not None:
                self._tell(Moment.MICRO_BATCH)
            batch = next(self._stream)
            fetched = clock.mark()
            batch = move_to(batch, self._device)
            moved = clock.mark()
            loss = self._loss(self.module, batch) / accumulation
            self._scaler.scale(loss).backward()
            total.add_(loss.detach())
            micro.append((fetched, moved, clock.mark()))
            kept.append(batch)

        self._parallelism.run_micro_batches(self.module, accumulation, run)
        if self._tell is not None:
            self._tell(Moment.UPDATE)
        self._update()
        return total, StepMarks(start=start, micro=tuple(micro), end=clock.mark())

    @contextmanager
    def told(self, tell: Callable[[Moment], None]) -> Iterator[None]:
        """Within, ``tell`` hears of the moments of every step."""
        self._tell = tell
        try:
            yield
        finally:
            self._tell = None

    def backward(self) -> None:
        """Add the gradients of the next micro batch, as they are: not scaled, not clipped, no update."""
        batch = move_to(next(self.batches), self._device)
        self._loss(self.module, batch).backward()

    def use_longest_batch(self) -> bool:
        """From now on every micro batch is the longest that the data can give, where lengths vary.

        Every rank calls it; whether they vary is the same for all.
        """
        make = self._context.together(
            lambda: longest_batch(self._source, self.config.micro_batch_size, self._sha256)
        )
        if make is not None:
            self._stream = (make() for _ in itertools.count())
        return self._context.largest([float(make is not None)])[0] > 0

    def _loss(self, module: nn.Module, batch: object) -> Tensor:
        with self._precision.autocast(self._device):
            loss: Tensor = module(batch)
        return loss

    def _update(self) -> None:
        if self._clip_norm is not None:
            self._scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
        self._scaler.step(self.optimizer)
        self._scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def time_passes(self, size: int | None, count: int, clock: Clock) -> list[float]:
        """Seconds of ``count`` forward and backward passes of one batch, without communication.

        Of the trial's own micro batch where ``size`` is None. The training is of no use afterwards.
        """
        batch = move_to(next(self.batches) if size is None else one_batch(self._source, size), self._device)
        times = []
        for _ in range(count):
            clock.settle()
            start = clock.mark()
            with self._parallelism.silenced(self.module):
                self._loss(self.module, batch).backward()
            end = clock.mark()
            clock.settle()
            times.append(clock.seconds(start, end))
            self.optimizer.zero_grad(set_to_none=True)
        return times

    def copies_bytes(self) -> int:
        """Bytes held between two steps beside parameters, buffers and the optimizer's state."""
        return self._parallelism.copies_bytes(self.module)

    def can_be_silent(self) -> bool:
        """Whether passes without communication can be timed; every rank calls it."""
        if any(one.is_fixed_shape for one in techniques_of(self.config)):
            return False
        return self._parallelism.can_be_silent(self.module, self._context)

    def close(self) -> None:
        """End the processes that load its data."""
        self.batches.close()
