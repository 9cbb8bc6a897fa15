"""The training loop that a person would write, in blocks of steps; `agreement` holds trials against it.

    python -P benchmarks/plain_loop.py EXAMPLE SIZE THREADS SOCKET

Imports nothing of planner. Who connects to the socket sends a number of steps and gets the wall and CPU
seconds that they took.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from types import ModuleType
from typing import Any


def batches(example: ModuleType, size: int) -> Iterator[Any]:
    """Without end."""
    import torch

    if hasattr(example, "dataset"):
        loader = torch.utils.data.DataLoader(example.dataset(), batch_size=size, shuffle=True, drop_last=True)
        while True:
            yield from loader
    while True:
        yield example.batch(size)


def train(example: ModuleType, size: int, turns: Connection[Any, Any]) -> None:
    """A fresh model, trained in turns until the other side has had enough."""
    import torch

    torch.manual_seed(0)
    model = example.model().train()
    parameters = list(model.parameters())
    optimizer = getattr(example, "optimizer", torch.optim.AdamW)(parameters)
    source = batches(example, size)
    while True:
        try:
            count = turns.recv()
        except EOFError:
            return
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        for _ in range(count):
            batch = next(source)
            loss = example.loss(model, batch) if hasattr(example, "loss") else model(**batch).loss
            loss.backward()
            if hasattr(example, "clip_norm"):
                torch.nn.utils.clip_grad_norm_(parameters, example.clip_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        turns.send((time.perf_counter() - wall_s, time.thread_time() - cpu_s))


def main(path: str, size: int, thread_count: int, socket: str) -> None:
    """Load the example and wait for turns."""
    with suppress(AttributeError, PermissionError):  # before torch is imported: its threads inherit it
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    import torch

    torch.set_num_threads(thread_count)
    spec = importlib.util.spec_from_file_location("example", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with Listener(socket) as door:
        print("ready", flush=True)
        while True:
            with door.accept() as turns:
                train(example, size, turns)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
