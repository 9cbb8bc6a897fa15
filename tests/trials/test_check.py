from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trials.files import PLAIN, load_text, write
from trials.check import check
from trials.errors import TrialsError
from trials.first_step import take_first_step
from trials.measuring.isolate import isolated
from trials.profile import Adapter, TargetHint

NOISY = """
import atexit, sys, threading, time
print("from the model file")
sys.stderr.write("and its stderr")
threading.Thread(target=time.sleep, args=(600,)).start()
atexit.register(lambda: print("at exit"))
target = {"epochs": 2, "global_batch_size": 16}
"""


@pytest.fixture
def clean_imports(tmp_path: Path) -> Iterator[None]:
    """What a test loads leaves no trace in this process."""
    with isolated(write(tmp_path, PLAIN), threads=1):
        yield


def test_profile_of_a_plain_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    profile = check(write(tmp_path, NOISY + PLAIN))
    assert profile.adapter is Adapter.PLAIN
    assert profile.parameter_count == profile.trainable_parameter_count == 3 * (16 + 72) + 9
    assert profile.sample_shape == "0 float32[8], 1 float32[1]"
    assert profile.dataset_size == 64
    assert profile.hint == TargetHint(epochs=2, global_batch_size=16)
    assert profile.block_count == 3
    assert profile.loss > 0
    assert {trace.micro_batch_size for trace in profile.traces} >= {2}
    assert profile.trace_note == ""
    assert capfd.readouterr() == ("", "")


def test_driver_does_not_import_torch(tmp_path: Path) -> None:
    code = "import sys, trials.check, trials.model_file.source; print({'torch', 'ray'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\nos._exit(7)\n", "ended with exit code 7, and it said nothing"),
        (
            "import os\nprint('so long')\nos.kill(os.getpid(), 11)\n",
            "ended with signal SIGSEGV; the last it said:\n  so long",
        ),
        ("import sys\nsys.exit('no data')\n", "importing the file called sys.exit('no data')"),
    ],
)
def test_death_of_the_checking_process_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TrialsError) as caught:
        check(write(tmp_path, text + PLAIN))
    assert str(tmp_path / "model.py") in str(caught.value)
    assert message in str(caught.value)


def test_endless_file_is_ended_at_the_limit(tmp_path: Path) -> None:
    with pytest.raises(TrialsError, match="one step at batch size 2 on CPU took longer than 8 s"):
        check(write(tmp_path, "while True: pass\n" + PLAIN), limit_s=8)


CHECK = "import sys; from trials.check import check; from trials.model_file.source import hash_workload"


def test_a_check_whose_planner_was_killed_ends(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    text = f"import os, pathlib\npathlib.Path({str(begun)!r}).write_text(str(os.getpid()))\n"
    path = write(tmp_path, text + "while True: pass\n" + PLAIN).path
    planner = subprocess.Popen([sys.executable, "-c", f"{CHECK}; check(hash_workload(sys.argv[1]))", path])
    while not begun.exists() or not begun.read_text():
        assert planner.poll() is None
    planner.kill()
    planner.wait()
    while _is_running(begun.read_text()):
        pass  # for ever is what the time limit of tests calls a failure


def _is_running(process_id: str) -> bool:
    try:
        return (Path("/proc") / process_id / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_crash_of_the_tracer_loses_nothing(tmp_path: Path) -> None:
    """The file ends the process as soon as its model runs on fake tensors."""
    text = PLAIN.replace(
        "    x, y = batch\n",
        "    x, y = batch\n    import os; type(x).__name__ == 'FakeTensor' and os._exit(9)\n",
    )
    profile = check(write(tmp_path, text))
    assert profile.traces == ()
    assert profile.trace_note == "the tracer ended the process"
    assert profile.loss > 0


@pytest.mark.usefixtures("clean_imports")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            PLAIN.replace("functional.mse_loss(model(x), y)", "model(x)"),
            "the forward pass with its loss: the loss has shape [2, 1], not a scalar",
        ),
        (PLAIN.replace("functional.mse_loss(model(x), y)", "5.0"), "the loss is a float, not a tensor"),
        (
            PLAIN.replace("functional.mse_loss(model(x), y)", "model(x).mean() * float('nan')"),
            "the loss is nan at the very first step",
        ),
        (
            PLAIN.replace("functional.mse_loss(model(x), y)", "model(x).mean().detach()"),
            "the backward pass raised RuntimeError: element 0",
        ),
        (
            PLAIN.replace("x, y = batch", "x = batch"),
            "line 11: the forward pass with its loss raised TypeError",
        ),
        (PLAIN.replace("reshape(64, 8)", "reshape(64, 4, 2)"), "raised RuntimeError: "),
        (
            PLAIN.replace("return Net()", "raise FileNotFoundError('weights.pt')"),
            "line 24: model() raised FileNotFoundError: weights.pt",
        ),
        (
            PLAIN + "dataset = None\ndef batch(size): return torch.ones(16, 8), torch.ones(16, 1)\n",
            "batch is of the wrong size: of 2 samples it holds 0 float32[16, 8], 1 float32[16, 1]; of 3",
        ),
        (
            PLAIN + "dataset = None\ndef batch(size): return torch.ones(2, 8), torch.ones(2, 1)\n",
            "batch is of the wrong size",
        ),
        (PLAIN + "dataset = None\ndef batch(size): return 1 / 0\n", "batch(2) raised ZeroDivisionError"),
        (PLAIN + "def collate(rows): return rows[0]\n", "a batch of dataset() is of the wrong size"),
        (
            PLAIN + "def dataset(): return [(torch.ones(8), torch.ones(1))]\n",
            "the dataset has 1 samples, fewer than one batch of 2",
        ),
        (
            PLAIN + "def dataset(): return Rows()\nclass Rows(list):\n    def __len__(self): return 8\n",
            "reading 2 samples of dataset() raised IndexError",
        ),
        (
            PLAIN + "def optimizer(parameters): return torch.optim.SGD(parameters, lr=-1)\n",
            "optimizer(parameters) raised ValueError: Invalid learning rate: -1",
        ),
    ],
)
def test_what_is_wrong_at_the_first_step(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TrialsError) as caught:
        take_first_step(load_text(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "model.py"))
    assert message in str(caught.value)


@pytest.mark.usefixtures("clean_imports")
def test_batch_dimension_may_be_any(tmp_path: Path) -> None:
    text = PLAIN + "dataset = None\ndef batch(size): return torch.ones(5, size, 8), torch.ones(5, size, 1)\n"
    assert take_first_step(load_text(tmp_path, text)).sample_shape == "0 float32[5, 8], 1 float32[5, 1]"


@pytest.mark.usefixtures("clean_imports")
def test_knobs_that_the_model_cannot_take_are_noted(tmp_path: Path) -> None:
    profile = take_first_step(load_text(tmp_path, PLAIN.replace("return Net()", "return nn.Linear(8, 1)")))
    assert profile.block_count == 0
    (note,) = profile.notes
    assert note.startswith("activation checkpointing and FSDP2 are not tried: no repeated blocks were found")


@pytest.mark.usefixtures("clean_imports")
def test_batch_without_tensors_is_noted(tmp_path: Path) -> None:
    text = PLAIN + (
        "class Own:\n    def to(self, device): return self\n"
        "dataset = None\ndef batch(size): return Own()\n"
        "def loss(model, batch): return model(torch.ones(2, 8)).mean()\n"
    )
    profile = take_first_step(load_text(tmp_path, text))
    assert profile.sample_shape == "Own"
    assert "a batch is a Own without visible tensors, so its size was not checked" in profile.notes
