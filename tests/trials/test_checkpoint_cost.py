"""The time of a checkpoint, measured for real on a small model."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.builders import make_config, make_measurement
from tests.trials.files import PLAIN, on_cpu, write
from tests.trials.group import on_two_ranks
from trials.extras import CheckpointCost, CheckpointUnmeasured, Extras
from trials.measurement import Measurement, Outcome
from trials.measuring.checkpoint_cost import measure_checkpoint_cost
from trials.measuring.measure import MeasureSettings, measure, merge
from trials.measuring.state_file import copied, read_state, write_state
from trials.rank_context import RankContext
from trials.trial import Parallelism, TrialConfig, Workload
from trials.workers.extras_due import extras_due


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


SETTINGS = MeasureSettings(warmup_max=3, timed_max=10, half_width_fraction=math.inf)
PARAMETER_BYTES = 4 * 457  # of PLAIN, in fp32


def run_trial(context: RankContext, job: tuple[Workload, TrialConfig, str]) -> Outcome:
    workload, config, directory = job
    extras = Extras(is_checkpoint_timed=True, checkpoint_directory=directory)
    return measure(workload, config, context, SETTINGS, extras)


def test_one_worker_saves_what_all_have_and_each_saves_its_shards(tmp_path: Path) -> None:
    """For real, on two processes: nothing stays in the directory, and the trial goes well."""
    workload, saved = write(tmp_path, PLAIN), tmp_path / "saved"
    alone = run_trial(RankContext(threads=1), (workload, on_cpu(), str(saved)))
    ways = [on_cpu(gpu_count=2, parallelism=one) for one in (Parallelism.DDP, Parallelism.FSDP2)]
    pairs = on_two_ranks(tmp_path, run_trial, [(workload, one, str(saved)) for one in ways])
    sizes = []
    for outcome in (alone, *map(merge, pairs)):
        assert isinstance(outcome, Measurement), outcome
        assert outcome.checkpoint is not None, outcome.warnings
        assert outcome.checkpoint.directory == str(saved)
        assert 0 < outcome.checkpoint.save_s < outcome.extras_s < outcome.trial_s
        sizes.append(outcome.checkpoint.size_bytes)
    assert list(saved.iterdir()) == []
    assert isinstance(pairs[0][1], Measurement)
    assert pairs[0][1].checkpoint is None  # DDP: the second rank has nothing of its own to save
    assert sizes[1] == pytest.approx(sizes[0], rel=0.1)
    assert all(size > 3 * PARAMETER_BYTES for size in sizes)


def test_a_place_without_room_costs_no_trial(tmp_path: Path) -> None:
    outcome = run_trial(RankContext(threads=1), (write(tmp_path, PLAIN), on_cpu(), "/dev/null/nowhere"))
    assert isinstance(outcome, Measurement)
    assert outcome.checkpoint is None
    assert outcome.warnings[-1].startswith(
        "checkpoint not timed: /dev/null/nowhere: no checkpoint can be saved"
    )
    free_bytes = shutil.disk_usage(tmp_path).free
    many = free_bytes // (24 << 20) + 1  # as many writers as would fill the disk
    found = measure_checkpoint_cost(*trained(), tmp_path, writers_per_node=many)
    assert isinstance(found, CheckpointUnmeasured)
    assert "are free, two checkpoints need" in found.reason
    assert list(tmp_path.glob("*.pt")) == []


def test_each_way_to_save_is_timed_once() -> None:
    wanted = Extras(is_checkpoint_timed=True)
    single, ddp = make_config(), make_config(gpu_count=2, parallelism=Parallelism.DDP)
    sharded = make_config(gpu_count=2, parallelism=Parallelism.FSDP2)
    assert extras_due(wanted, single, []) == wanted
    whole = CheckpointCost(
        directory="/tmp", size_bytes=1, save_s=1.0, async_stall_s=1.0, async_durable_s=1.0, load_s=1.0
    )
    seen = [make_measurement(single, checkpoint=whole)]
    assert extras_due(wanted, single, seen).is_nothing
    for other in (ddp, sharded):  # whether one of these is whole, too, its worker knows
        assert extras_due(wanted, other, seen) == replace(wanted, is_whole_checkpoint_known=True)
    assert not extras_due(wanted, sharded, [*seen, make_measurement(sharded)]).is_checkpoint_timed
    assert extras_due(Extras(), sharded, []).is_nothing


def test_a_whole_model_is_not_saved_again_where_one_was(tmp_path: Path) -> None:
    extras = Extras(
        is_checkpoint_timed=True, is_whole_checkpoint_known=True, checkpoint_directory=str(tmp_path)
    )
    outcome = measure(write(tmp_path, PLAIN), on_cpu(), RankContext(threads=1), SETTINGS, extras)
    assert isinstance(outcome, Measurement)
    assert outcome.checkpoint is None
    assert not any("checkpoint" in one for one in outcome.warnings)
