import gc

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from trials.trace.alive import AliveBytes, storage_bytes

FLOAT = 4


def test_tensors_count_while_they_live():
    with AliveBytes() as alive:
        first = torch.ones(100)
        second = first * 2
        assert alive.current_bytes == 200 * FLOAT
        del second
        assert alive.current_bytes == 100 * FLOAT
        assert alive.peak_bytes == 200 * FLOAT
        alive.restart_peak()
        assert alive.peak_bytes == 100 * FLOAT
        del first
    assert alive.current_bytes == 0


def test_views_share_their_storage():
    with AliveBytes() as alive:
        tensor = torch.ones(100)
        view = tensor.view(10, 10)[2:]
        del tensor
        assert alive.current_bytes == 100 * FLOAT
        assert view.numel() == 80


def test_tensors_from_before_are_counted_once():
    tensor = torch.ones(100)
    with AliveBytes() as alive:
        alive.add([tensor, tensor[1:]])
        tensor.add_(1)
        assert alive.current_bytes == 100 * FLOAT


def test_storage_bytes_counts_tied_tensors_once():
    tensor = torch.ones(100)
    assert storage_bytes([tensor, tensor.t(), None, torch.ones(10)]) == 110 * FLOAT


def train(model, optimizer, images, labels):
    functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    optimizer.zero_grad()


def build():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 10),
    )
    batch = (torch.randn(4, 3, 8, 8), torch.zeros(4, dtype=torch.int64))
    return model, torch.optim.AdamW(model.parameters()), batch


def test_the_peak_is_that_of_torchs_own_tracker():
    tracking = pytest.importorskip("torch.distributed._tools.mem_tracker")
    with FakeTensorMode():
        model, optimizer, batch = build()
        tracker = tracking.MemTracker()
        tracker.track_external(model, optimizer, *batch)
        with tracker:
            train(model, optimizer, *batch)
            tracker.reset_mod_stats()
            train(model, optimizer, *batch)
        theirs = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    gc.collect()
    with FakeTensorMode():
        model, optimizer, batch = build()
        with AliveBytes() as alive:
            alive.add([*model.parameters(), *model.buffers(), *batch])
            train(model, optimizer, *batch)
            train(model, optimizer, *batch)
    assert alive.peak_bytes == theirs
