"""Runs a function on two processes joined by gloo, without Ray."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing

from trials.rank_context import RankContext

WORLD_SIZE = 2
TIMEOUT_S = 60.0


def on_two_ranks(
    folder: Path, task: Callable[[RankContext, Any], Any], jobs: Sequence[Any], timeout_s: float = TIMEOUT_S
) -> list[list[Any]]:
    """``task(context, job)`` for each job, every rank's answer; a fresh process group for each job.

    ``timeout_s`` is how long a rank waits for another inside a job.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.start_processes(
        _work, args=(port, str(folder), task, list(jobs), timeout_s), nprocs=WORLD_SIZE, start_method="spawn"
    )
    by_rank = [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD_SIZE)]
    return [list(answers) for answers in zip(*by_rank, strict=True)]


def _work(
    rank: int,
    port: int,
    folder: str,
    task: Callable[[RankContext, Any], Any],
    jobs: list[Any],
    timeout_s: float,
) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=WORLD_SIZE,
        timeout=timedelta(seconds=TIMEOUT_S),
    )
    answers = []
    for job in jobs:
        group = dist.new_group(timeout=timedelta(seconds=timeout_s))
        answers.append(
            task(RankContext(rank=rank, world_size=WORLD_SIZE, process_group=group, threads=1), job)
        )
        dist.barrier()
        dist.destroy_process_group(group)
    torch.save(answers, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
