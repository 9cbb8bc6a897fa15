from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.trials.files import PLAIN, load_text, write
from trials.errors import TrialsError
from trials.first_step import find_adapter
from trials.measuring.isolate import isolated
from trials.model_file.contract import as_scalar
from trials.model_file.loader import BatchFunction, DatasetSource, one_batch
from trials.model_file.workload import load
from trials.profile import Adapter, TargetHint

MODEL = "from torch import nn\nimport torch\ndef model():\n    return nn.Linear(2, 1)\n"


@pytest.fixture(autouse=True)
def clean_imports(tmp_path: Path) -> object:
    """What a test loads leaves no trace in this process."""
    with isolated(write(tmp_path, PLAIN), threads=None):
        yield
    (tmp_path / "model.py").unlink()


def test_plain_file(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, PLAIN)
    step = loaded.build()
    loss = step(one_batch(loaded.source, 4))
    assert loss.shape == ()
    assert isinstance(loaded.source, DatasetSource)
    assert loaded.source.size == 64
    assert loaded.hint == TargetHint()
    assert isinstance(loaded.build_optimizer(step), torch.optim.AdamW)
    assert find_adapter(step.model) is Adapter.PLAIN


def test_everything_a_file_may_say(tmp_path: Path) -> None:
    loaded = load_text(
        tmp_path,
        MODEL
        + """
def batch(size): return torch.ones(size, 2)
def loss(model, batch): return model(batch).mean()
def optimizer(parameters): return torch.optim.SGD(parameters, lr=0.5)
target = {"epochs": 3, "global_batch_size": 64}
tokens_per_sample = 128
clip_norm = 1.0
""",
    )
    assert isinstance(loaded.source, BatchFunction)
    assert loaded.hint == TargetHint(epochs=3, global_batch_size=64)
    assert (loaded.tokens_per_sample, loaded.clip_norm) == (128, 1.0)
    assert loaded.build_optimizer(loaded.build()).defaults["lr"] == 0.5


def test_target_may_be_an_object(tmp_path: Path) -> None:
    text = PLAIN + "class target:\n    samples = 1000\n    global_batch_size = 8\n"
    assert load_text(tmp_path, text).hint == TargetHint(samples=1000, global_batch_size=8)


@pytest.mark.parametrize(
    ("forward", "batch"),
    [
        ("def forward(self, x): return self.layer(x).mean()", "torch.ones(size, 2)"),
        (
            "def forward(self, x, y): return {'loss': (self.layer(x) - y).mean()}",
            "(torch.ones(size, 2), torch.ones(size, 1))",
        ),
        (
            "def forward(self, x, y): return (self.layer(x) - y).mean(), x",
            "{'x': torch.ones(size, 2), 'y': torch.ones(size, 1)}",
        ),
    ],
)
def test_model_may_return_its_loss(tmp_path: Path, forward: str, batch: str) -> None:
    loaded = load_text(
        tmp_path,
        f"""
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    {forward}
def model(): return Net()
def batch(size): return {batch}
""",
    )
    assert loaded.build()(one_batch(loaded.source, 3)).shape == ()


def test_frozen_parameters_are_not_optimised(tmp_path: Path) -> None:
    loaded = load_text(
        tmp_path, PLAIN.replace("return Net()", "net = Net(); net.last.requires_grad_(False); return net")
    )
    optimizer = loaded.build_optimizer(loaded.build())
    assert sum(one.numel() for group in optimizer.param_groups for one in group["params"]) == 3 * (72 + 16)


def test_file_imports_from_beside_it_but_not_in_place_of_us(tmp_path: Path) -> None:
    (tmp_path / "width.py").write_text("WIDTH = 2\n")
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / "trial.py").write_text("raise SystemExit\n")
    load_text(tmp_path, "from width import WIDTH\nimport trials.trial\n" + PLAIN)
    assert sys.path[-1] == str(tmp_path)
    assert not list(tmp_path.glob("__pycache__"))


def test_changed_file_is_not_run(tmp_path: Path) -> None:
    workload = write(tmp_path, PLAIN)
    write(tmp_path, PLAIN + "\n")
    with pytest.raises(TrialsError, match="has changed since the sweep began"):
        load(workload)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import no_such_package\n" + PLAIN,
            "line 1: importing the file raised ModuleNotFoundError: No module named 'no_such_package'",
        ),
        ("import sys\nsys.exit(3)\n" + PLAIN, "importing the file called sys.exit(3)"),
        (PLAIN + "\nmodel = None\n", "no model()"),
        (PLAIN + "\nmodel = 3\n", "model is a int; it must be a function model(...)"),
        (MODEL + "dataset = batch = None\n", "neither batch(size) nor dataset()"),
        (MODEL + "def batch(): ...\n", "batch() cannot be called as batch(size)"),
        (MODEL + "def dataset(): return 5\n", "dataset() returned int"),
        (MODEL + "def dataset(): return []\n", "dataset() is empty"),
        (
            MODEL + "def dataset(): return 1 / 0\n",
            "line 5: dataset() raised ZeroDivisionError: division by zero",
        ),
        (
            PLAIN + "target = {'sample': 3}\n",
            "target has unknown entries sample; it may have samples, epochs, tokens",
        ),
        (PLAIN + "target = {'samples': -3}\n", "target['samples'] is -3; it must be a positive number"),
        (PLAIN + "tokens_per_sample = 'many'\n", "tokens_per_sample is 'many'"),
        (PLAIN + "clip_norm = True\n", "clip_norm is True"),
    ],
)
def test_what_is_wrong_when_it_is_loaded(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TrialsError) as caught:
        load_text(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "model.py"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def model(): raise ValueError('width')\n", "line 1: model() raised ValueError: width"),
        ("def model(): return 5\n", "model() returned int; it must return a torch.nn.Module"),
        ("import sys\ndef model(): sys.exit('bye')\n", "model() called sys.exit('bye')"),
        ("from torch import nn\ndef model(): return nn.ReLU()\n", "a module without trainable parameters"),
    ],
)
def test_what_is_wrong_when_the_model_is_built(tmp_path: Path, text: str, message: str) -> None:
    loaded = load_text(tmp_path, text + "def batch(size): ...\n")
    with pytest.raises(TrialsError) as caught:
        loaded.build()
    assert str(tmp_path / "model.py") in str(caught.value)
    assert message in str(caught.value)


def test_optimizer_must_be_one(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, PLAIN + "def optimizer(parameters): return 3\n")
    with pytest.raises(TrialsError, match="must return a torch"):
        loaded.build_optimizer(loaded.build())


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (None, "the loss is None: return it from loss(model, batch), or put `labels`"),
        (0.5, "the loss is a float, not a tensor"),
        (torch.zeros(3), "the loss has shape [3], not a scalar"),
        (torch.tensor(1), "the loss has type torch.int64, which has no gradient"),
    ],
)
def test_loss_must_be_a_scalar_with_a_gradient(output: object, message: str) -> None:
    with pytest.raises(TrialsError) as caught:
        as_scalar(output)
    assert message in str(caught.value)


def test_one_element_is_a_scalar() -> None:
    assert as_scalar(torch.ones(1, 1)).shape == ()


def test_hugging_face_model_brings_its_loss(tmp_path: Path) -> None:
    loaded = load_text(
        tmp_path,
        """
import torch
from transformers import BertConfig, BertForSequenceClassification
def model():
    return BertForSequenceClassification(BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16))
def batch(size):
    return {"input_ids": torch.randint(32, (size, 8)), "labels": torch.randint(2, (size,))}
""",
    )
    step = loaded.build()
    assert step(one_batch(loaded.source, 2)).requires_grad
    assert find_adapter(step.model) is Adapter.HUGGING_FACE
    with pytest.raises(TrialsError, match="put `labels` into the batch"):
        step({"input_ids": torch.zeros(2, 8, dtype=torch.int64)})


def test_step_holds_the_model_so_that_wrappers_see_its_parameters(tmp_path: Path) -> None:
    step = load_text(tmp_path, PLAIN).build()
    assert isinstance(step, nn.Module)
    assert all(name.startswith("model.") for name, _ in step.named_parameters())
    assert step.training
