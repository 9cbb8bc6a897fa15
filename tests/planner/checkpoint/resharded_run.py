"""One run under FSDP2, DDP or alone, taken up by other numbers of processes; prints the losses of each piece.

``python -m tests.planner.checkpoint.resharded_run DIRECTORY KIND:COUNT:STEPS...``: every process sees the
same samples, so that the losses do not depend on how many there are.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from planner.checkpoint import Checkpointer


def build(kind: str) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    if kind == "fsdp2":
        fully_shard(model[0])
        return fully_shard(model)
    return DistributedDataParallel(model) if kind == "ddp" else model


def train(directory: Path, kind: str, steps: int, rank: int, count: int, store: str) -> None:
    torch.set_num_threads(1)
    if kind != "single":
        dist.init_process_group("gloo", store=dist.FileStore(store, count), rank=rank, world_size=count)
    model = build(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, foreach=False)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.8)
    inputs = torch.linspace(-1, 1, 60).reshape(10, 6)
    losses = []
    with Checkpointer(
        directory, interval_s=1e9, say=lambda _: None, model=model, optimizer=optimizer, scheduler=scheduler
    ) as checkpoint:
        for _ in checkpoint.steps(steps):
            loss = (model(inputs) - inputs.sum(1, keepdim=True).sin()).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            losses.append(loss.item())
    if rank == 0:
        sys.stdout.write(json.dumps(losses) + "\n")
        sys.stdout.flush()
    if kind != "single":
        dist.destroy_process_group()


def main(directory: Path, pieces: list[str]) -> None:
    context = multiprocessing.get_context("fork")
    for number, piece in enumerate(pieces):
        kind, count, steps = piece.split(":")
        store = str(directory.with_name(f"store-{directory.name}-{number}"))
        processes = [
            context.Process(target=train, args=(directory, kind, int(steps), rank, int(count), store))
            for rank in range(int(count))
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
