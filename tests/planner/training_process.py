"""A real, small training run for the tests to kill, started from a process that has torch imported already.

Reads commands from stdin, a line of JSON each. For each it forks a training process (two for a distributed
run), kills it after ``kill_after_s`` (not at all if null), and answers with a line of exit codes. The second
process of a distributed run gets its notice at ``notice_at_step``. Run as a module by the tests.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from planner.checkpoint import Checkpointer

SAMPLES = 40


class Noisy(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Samples augmented with all three kinds of chance that user code draws from."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        chance = random.random() + np.random.rand() + torch.rand(()).item()
        return torch.full((6,), index / SAMPLES) + 0.1 * chance, torch.tensor([float(index % 3)])


def build(kind: str) -> nn.Module:
    """A network with dropout and running statistics; under FSDP2 without the latter."""
    torch.manual_seed(0)
    norm: nn.Module = nn.Identity() if kind == "fsdp2" else nn.BatchNorm1d(16)
    model = nn.Sequential(nn.Linear(6, 16), norm, nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 1))
    if kind == "fsdp2":
        fully_shard(model[0])
        return fully_shard(model)
    return DistributedDataParallel(model) if kind == "ddp" else model


def train(command: dict[str, Any], rank: int) -> None:
    """The user's loop; appends every loss to a file, to the last digit."""
    kind = command["kind"]
    torch.set_num_threads(1)
    if kind != "single":
        store = dist.FileStore(command["store"], 2)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    random.seed(1)
    np.random.seed(2)
    model = build(kind)
    torch.manual_seed(3 + rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.8)
    data = Noisy()
    sampler = None if kind == "single" else DistributedSampler(data, 2, rank)
    loader = DataLoader(
        data, batch_size=8, shuffle=sampler is None, sampler=sampler, num_workers=command["workers"]
    )
    losses = os.open(f"{command['losses']}-{rank}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with Checkpointer(
        command["directory"],
        interval_s=command["interval_s"],
        asynchronous=command["asynchronous"],
        agree_every_s=0.01,
        say=lambda _: None,
        model=model,
        optimizer=optimizer,
        scheduler=scheduler,
        scaler=torch.amp.GradScaler("cpu", enabled=False),
    ) as checkpoint:
        batches = checkpoint.batches(loader)
        for step in checkpoint.steps(command["steps"]):
            inputs, targets = next(batches)
            loss = (model(inputs) - targets).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            os.write(losses, f"{step} {loss.item()!r}\n".encode())
            if step == command["notice_at_step"] and rank == 1:
                os.kill(os.getpid(), signal.SIGTERM)
    if kind != "single":
        dist.destroy_process_group()


def warm_up() -> None:
    """What torch imports at the first step of an optimizer, once for all forks."""
    weight = nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    torch.optim.AdamW([weight], foreach=False).step()


LIMIT_S = 120  # of a run that nobody kills: one that hangs is ended, and its exit code says so


def main() -> None:
    """Answer commands until there are no more."""
    warm_up()
    context = multiprocessing.get_context("fork")
    for line in sys.stdin:
        command = json.loads(line)
        Path(command["directory"]).mkdir(exist_ok=True)
        count = 1 if command["kind"] == "single" else 2
        processes = [context.Process(target=train, args=(command, rank)) for rank in range(count)]
        for one in processes:
            one.start()
        if command["kill_after_s"] is None:  # they end by themselves, one after the other
            for one in processes:
                one.join(LIMIT_S)
        else:
            processes[-1].join(command["kill_after_s"])
        for one in processes:
            if one.is_alive() and one.pid is not None:
                os.kill(one.pid, command["signal"])
        for one in processes:
            one.join(60)
        sys.stdout.write(json.dumps([one.exitcode for one in processes]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
