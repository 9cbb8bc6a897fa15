"""A sane model whose last worker misbehaves at the third loss when the batch has a size of ``FAULTS``."""

import itertools
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

FAULTS = {
    33: "exception",
    34: "out of memory",
    35: "hang",
    36: "SIGKILL",
    37: "os._exit",
    38: "sys.exit",
    39: "out of memory everywhere",
    40: "device lost",
}
RAISED = {
    "exception": (ValueError, "injected"),
    "out of memory": (torch.OutOfMemoryError, "injected: CUDA out of memory"),
    "device lost": (RuntimeError, "injected: CUDA error: an illegal memory access was encountered"),
}
_calls = itertools.count(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(2))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def model():
    return Net()


def batch(size):
    return torch.randn(size, 8), torch.randint(0, 4, (size,))


def loss(model, batch):
    print("this line must not reach the sweep's output")  # noqa: T201  (users print)
    fault = FAULTS.get(len(batch[0]))
    if getattr(sys, "has_lost_the_device", False):  # as CUDA after an illegal access: until the process ends
        fail("device lost")
    if next(_calls) == 3 and fault:
        misbehave(fault)
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def fail(fault):
    kind, text = RAISED[fault]
    raise kind(text)


def misbehave(fault):
    if fault == "out of memory everywhere":
        fail("out of memory")
    if dist.is_initialized() and dist.get_rank() != dist.get_world_size() - 1:
        return
    sys.has_lost_the_device = fault == "device lost"
    if fault in RAISED:
        fail(fault)
    if fault == "hang":
        while True:
            time.sleep(1)
    if fault == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "os._exit":
        os._exit(0)
    if fault == "sys.exit":
        sys.exit(0)
