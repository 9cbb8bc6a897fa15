"""The time of a checkpoint, measured for real on a small model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from trials.measuring.checkpoint_cost import CheckpointCost, CheckpointUnmeasured, measure_checkpoint_cost
from trials.measuring.state_file import copied, read_state, write_state


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model of a million parameters whose optimizer has state."""
    model = nn.Sequential(nn.Linear(500, 1000), nn.Linear(1000, 500))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 500)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_a_full_checkpoint_is_timed_and_leaves_nothing(tmp_path: Path) -> None:
    model, optimizer = trained()
    before = copied(model.state_dict()), copied(optimizer.state_dict()), torch.get_rng_state()
    found = measure_checkpoint_cost(model, optimizer, tmp_path / "new")
    assert isinstance(found, CheckpointCost)
    assert found.directory == str(tmp_path / "new")
    parameters = sum(one.numel() for one in model.parameters())
    # parameters and AdamW's two moments in fp32, and little else
    assert found.size_bytes == pytest.approx(3 * 4 * parameters, rel=0.02)
    assert min(found.save_s, found.async_stall_s, found.async_durable_s, found.load_s) > 0
    assert found.async_stall_s < found.async_durable_s
    assert list((tmp_path / "new").iterdir()) == []
    after = model.state_dict(), optimizer.state_dict(), torch.get_rng_state()
    torch.testing.assert_close(after[0], before[0], rtol=0, atol=0)
    assert torch.equal(after[2], before[2])
    for index, state in after[1]["state"].items():
        assert torch.equal(state["exp_avg"], before[1]["state"][index]["exp_avg"])


def test_a_place_that_takes_no_checkpoint_is_a_value_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = measure_checkpoint_cost(*trained(), tmp_path / "file")
    assert isinstance(found, CheckpointUnmeasured)
    assert f"{tmp_path / 'file'}: no checkpoint can be saved there" in found.reason


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    size_bytes = write_state({"step": 1}, path)
    assert size_bytes == path.stat().st_size
    with pytest.raises(AttributeError):
        write_state({"step": lambda: 0}, path)
    assert read_state(path) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_copy_does_not_follow_the_training() -> None:
    weight = torch.zeros(2)
    state = copied({"nested": [weight, (weight, 3)], "name": "x"})
    weight += 1
    assert state == {"nested": [pytest.approx([0, 0]), (pytest.approx([0, 0]), 3)], "name": "x"}
