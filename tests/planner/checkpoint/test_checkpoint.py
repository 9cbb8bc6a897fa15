"""What the Checkpointer saves when, and what it says when something is in the way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from planner.checkpoint import TERMINATED, Checkpointer
from planner.errors import PlannerError

BOTH_WAYS = pytest.mark.parametrize("way", [{}, {"asynchronous": True}], ids=["synchronous", "asynchronous"])


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Counter:
    """The smallest thing with a state."""

    def __init__(self) -> None:
        self.value = 0

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.value = state["value"]


@pytest.fixture
def said() -> list[str]:
    return []


def files(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


def count_to(directory: Path, total: int, said: list[str], **changes: Any) -> list[int]:
    """Counts steps up to ``total``; returns those that were done."""
    counter = Counter()
    done = []
    with Checkpointer(
        directory, **{"interval_s": 1e9, "say": said.append, "counter": counter, **changes}
    ) as checkpoint:
        for step in checkpoint.steps(total):
            assert counter.value == step
            counter.value += 1
            done.append(step)
    return done


def test_a_users_loop_imports_nothing_heavy_with_it() -> None:
    heavy = {"torch", "numpy", "ray", "optuna", "pandas", "planner.cost.hours"}
    code = f"import sys, planner.checkpoint; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


FORKS = """
import os, signal, sys
from planner.checkpoint.notice import Notice
notice = Notice()
notice.listen()
for _ in range(100):
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    os.kill(child, signal.SIGTERM)  # often before the child's interpreter is set up
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM
assert not notice.is_given
os.kill(os.getpid(), signal.SIGTERM)
assert notice.is_given
notice.stop()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""


def test_children_die_of_sigterm_however_early_it_comes() -> None:
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=60)


def test_it_goes_on_after_the_last_saved_step(tmp_path: Path, said: list[str]) -> None:
    assert count_to(tmp_path, 3, said) == [0, 1, 2]
    assert said == []
    assert count_to(tmp_path, 5, said) == [3, 4]
    assert said == [f"taken up after step 3 from {tmp_path}"]
    assert count_to(tmp_path, 5, said) == []


def test_it_saves_by_the_clock_between_steps(tmp_path: Path, said: list[str]) -> None:
    clock = Clock()
    saved = []
    with Checkpointer(tmp_path, interval_s=10, keep=99, say=said.append, clock=clock) as checkpoint:
        for step in checkpoint.steps(8):
            saved.append(len(files(tmp_path)))
            clock.now_s += 4 if step != 4 else 20
    # at 12 s, 20 s later than that, and at the end
    assert saved == [0, 0, 0, 1, 1, 2, 2, 2]
    assert files(tmp_path)[:2] == ["step-00000003.rank-0-of-1.pt", "step-00000005.rank-0-of-1.pt"]
    assert files(tmp_path)[-1] == "step-00000008.rank-0-of-1.pt"


def test_a_loop_of_another_form_ticks(tmp_path: Path, said: list[str]) -> None:
    counter = Counter()
    clock = Clock()
    with Checkpointer(tmp_path, interval_s=1, say=said.append, clock=clock, counter=counter) as checkpoint:
        while checkpoint.step < 4:
            counter.value += 1
            clock.now_s += 1
            checkpoint.tick()
    with Checkpointer(tmp_path, interval_s=1, say=said.append, counter=counter) as checkpoint:
        assert (checkpoint.step, counter.value) == (4, 4)


@BOTH_WAYS
def test_only_the_newest_are_kept(tmp_path: Path, said: list[str], way: dict[str, bool]) -> None:
    count_to(tmp_path, 9, said, keep=3, interval_s=1e-9, **way)
    assert [int(name[5:13]) for name in files(tmp_path)] == [7, 8, 9]


def test_sigterm_saves_after_the_step_and_ends_with_143(tmp_path: Path, said: list[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    counter = Counter()
    checkpoint = Checkpointer(tmp_path, interval_s=1e9, say=said.append, counter=counter)

    def loop() -> None:
        with checkpoint:
            for step in checkpoint.steps(10):
                if step == 3:
                    os.kill(os.getpid(), signal.SIGTERM)
                counter.value += 1

    with pytest.raises(SystemExit) as stopped:
        loop()
    assert stopped.value.code == TERMINATED
    assert signal.getsignal(signal.SIGTERM) is before
    assert said == ["SIGTERM: saved after step 4; start again to go on from there"]
    assert count_to(tmp_path, 10, said) == list(range(4, 10))


def test_sigterm_in_the_last_step_lets_the_program_end(tmp_path: Path, said: list[str]) -> None:
    with Checkpointer(tmp_path, interval_s=1e9, say=said.append) as checkpoint:
        for _ in checkpoint.steps(1):
            os.kill(os.getpid(), signal.SIGTERM)
    assert files(tmp_path) == ["step-00000001.rank-0-of-1.pt"]


def test_an_error_in_the_loop_saves_nothing_new(tmp_path: Path, said: list[str]) -> None:
    def loop() -> None:
        with Checkpointer(tmp_path, interval_s=1e9, say=said.append) as checkpoint:
            for step in checkpoint.steps(3):
                assert 1 // (1 - step) == 1

    with pytest.raises(ZeroDivisionError):
        loop()
    assert files(tmp_path) == []


def test_a_damaged_file_gives_way_to_the_one_before(tmp_path: Path, said: list[str]) -> None:
    count_to(tmp_path, 4, said, interval_s=1e-9)
    newest = tmp_path / "step-00000004.rank-0-of-1.pt"
    newest.write_bytes(newest.read_bytes()[:100])
    assert count_to(tmp_path, 6, said) == [3, 4, 5]
    assert "checkpoint of step 4 cannot be read" in said[0]


def test_what_a_killed_save_left_is_removed(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / ".step-00000007.rank-0-of-1.pt.tmp").write_bytes(b"half")
    assert count_to(tmp_path, 1, said) == [0]
    assert files(tmp_path) == ["step-00000001.rank-0-of-1.pt"]


@BOTH_WAYS
def test_a_disk_that_fails_is_said_and_training_goes_on(
    tmp_path: Path, said: list[str], way: dict[str, bool]
) -> None:
    directory = tmp_path / "lost"
    counter = Counter()
    with Checkpointer(directory, interval_s=1e-9, say=said.append, **way, counter=counter) as checkpoint:
        for step in checkpoint.steps(3):
            if step == 0:
                directory.rmdir()
            if step == 2:
                directory.mkdir()
            counter.value += 1
    assert 1 <= len(said) <= 2  # an asynchronous second save may still have met the directory
    assert all(one.startswith("checkpoint NOT saved: ") for one in said)
    assert count_to(directory, 4, said) == [3]


@BOTH_WAYS
def test_what_cannot_be_pickled_is_an_error(tmp_path: Path, said: list[str], way: dict[str, bool]) -> None:
    class Unpicklable(Counter):
        def state_dict(self) -> Any:
            return lambda: 0

    checkpoint = Checkpointer(tmp_path, interval_s=1e-9, say=said.append, **way, bad=Unpicklable())
    with pytest.raises((AttributeError, TypeError)), checkpoint:
        list(checkpoint.steps(2))


def test_other_parts_than_were_saved_are_refused(tmp_path: Path, said: list[str]) -> None:
    count_to(tmp_path, 1, said)
    with pytest.raises(PlannerError, match="differ in counter, model"):
        Checkpointer(tmp_path, interval_s=1, model=nn.Linear(1, 1)).__enter__()


def test_checkpoints_that_only_more_processes_can_read_are_refused(tmp_path: Path) -> None:
    for rank in range(8):
        (tmp_path / f"step-00000001.rank-{rank}-of-8.pt").touch()
    with pytest.raises(PlannerError, match="of 8 processes, which this run of 1 cannot take up"):
        Checkpointer(tmp_path, interval_s=1).__enter__()


def test_a_loader_without_state_is_pointed_to_batches(tmp_path: Path) -> None:
    loader = DataLoader(TensorDataset(torch.zeros(2)))
    with pytest.raises(PlannerError, match=r"DataLoader has no state_dict; .*checkpoint\.batches"):
        Checkpointer(tmp_path, interval_s=1, loader=loader)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"interval_s": 0.0}, {"interval_s": 1.0, "keep": 0}])
def test_impossible_settings_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(PlannerError, match="more than zero"):
        Checkpointer(tmp_path, **wrong)


def test_a_place_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(PlannerError, match="checkpoints cannot be kept there"):
        Checkpointer(tmp_path / "taken", interval_s=1).__enter__()


def loaders() -> Iterator[tuple[str, Any]]:
    data = TensorDataset(torch.arange(10.0))
    yield "shuffled", lambda: DataLoader(data, batch_size=3, shuffle=True)
    yield "in order", lambda: DataLoader(data, batch_size=3, drop_last=True)
    yield (
        "own generator",
        lambda: DataLoader(data, batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(4)),
    )
    yield (
        "sampler with a generator",
        lambda: DataLoader(
            data, batch_size=3, sampler=RandomSampler(data, generator=torch.Generator().manual_seed(4))
        ),
    )


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in loaders()])
@pytest.mark.parametrize("stop_at", [1, 4, 6])
def test_batches_go_on_at_the_saved_place(tmp_path: Path, said: list[str], make: Any, stop_at: int) -> None:
    def seen(directory: Path, *totals: int) -> list[list[float]]:
        found = []
        random.seed(0)
        torch.manual_seed(0)
        for total in totals:
            with Checkpointer(directory, interval_s=1e9, say=said.append) as checkpoint:
                batches = checkpoint.batches(make())
                found.extend(
                    [*next(batches)[0].tolist(), torch.rand(()).item()] for _ in checkpoint.steps(total)
                )
            torch.rand(3)  # what happens between two programs does not matter
        return found

    assert seen(tmp_path / "pieces", stop_at, 11) == seen(tmp_path / "whole", 11)


class StatefulLoader:
    """Ten batches an epoch in an order of chance; keeps its own place, as torchdata's StatefulDataLoader."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.place = 0
        self.fetched = 0

    def __iter__(self) -> Iterator[int]:
        if self.place in {0, 10}:
            self.order, self.place = torch.randperm(10).tolist(), 0
        while self.place < 10:
            self.place += 1
            self.fetched += 1
            yield self.order[self.place - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"order": list(self.order), "place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order, self.place = state["order"], state["place"]


@pytest.mark.parametrize("stop_at", [1, 7, 10, 13])
def test_a_loader_with_a_state_of_its_own_fetches_no_batch_again(
    tmp_path: Path, said: list[str], stop_at: int
) -> None:
    def seen(directory: Path, *totals: int) -> list[tuple[int, float]]:
        found: list[tuple[int, float]] = []
        torch.manual_seed(0)
        for total in totals:
            loader, before = StatefulLoader(), len(found)
            with Checkpointer(directory, interval_s=1e9, say=said.append) as checkpoint:
                batches = checkpoint.batches(loader)
                found.extend((next(batches), torch.rand(()).item()) for _ in checkpoint.steps(total))
            assert loader.fetched == len(found) - before
        return found

    assert seen(tmp_path / "pieces", stop_at, 25) == seen(tmp_path / "whole", 25)


def test_another_loader_is_noticed(tmp_path: Path, said: list[str]) -> None:
    for size in (8, 2):
        with Checkpointer(tmp_path, interval_s=1e9, say=said.append) as checkpoint:
            batches = checkpoint.batches(DataLoader(TensorDataset(torch.zeros(size))))
            if size == 8:
                for _ in checkpoint.steps(5):
                    next(batches)
            else:
                with pytest.raises(PlannerError, match="has 2 batches, but 5 of its epoch were used"):
                    next(batches)
