from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.trials.files import load_text, write
from trials.errors import TrialsError
from trials.first_step import find_adapter
from trials.measuring.isolate import isolated
from trials.model_file.loader import DatasetSource, one_batch
from trials.profile import Adapter

HEAD = """
import torch
from lightning.pytorch import LightningDataModule, LightningModule
from torch.utils.data import DataLoader, TensorDataset

DATA = TensorDataset(torch.arange(24.0).reshape(12, 2), torch.arange(12.0).reshape(12, 1))
"""
NET = """
class Net(LightningModule):
    def __init__(self, width=2):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = (self.layer(x) - y).square().mean()
        self.log("loss", loss, prog_bar=True)
        self.log_dict({"step": float(self.global_step), "epoch": float(self.trainer.current_epoch)})
        return {"loss": loss}

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 10)]
"""
LOADER = """
    def train_dataloader(self):
        return DataLoader(DATA, batch_size=5, shuffle=True, num_workers=2)
"""


@pytest.fixture(autouse=True)
def clean_imports(tmp_path: Path) -> Iterator[None]:
    """What a test loads leaves no trace in this process."""
    with isolated(write(tmp_path, HEAD + NET + LOADER), threads=None):
        yield


def test_module_with_its_own_loader(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, HEAD + NET + LOADER)
    assert isinstance(loaded.source, DatasetSource)
    assert (loaded.source.size, loaded.source.worker_count, loaded.source.is_shuffled) == (12, 2, True)
    step = loaded.build()
    batch = one_batch(loaded.source, 3)
    assert batch[0].shape == (3, 2)
    step(batch).backward()
    optimizer = loaded.build_optimizer(step)
    optimizer.step()
    assert isinstance(optimizer, torch.optim.SGD)
    assert find_adapter(step.model) is Adapter.LIGHTNING


def test_data_module_with_setup_and_collate(tmp_path: Path) -> None:
    loaded = load_text(
        tmp_path,
        HEAD
        + NET
        + """
class Data(LightningDataModule):
    def setup(self, stage):
        self.data = DATA if stage == "fit" else None
    def train_dataloader(self):
        return DataLoader(self.data, batch_size=4, collate_fn=collate)

def collate(rows):
    return [torch.stack(one) for one in zip(*rows)]
""",
    )
    assert [one.shape for one in one_batch(loaded.source, 6)] == [(6, 2), (6, 1)]
    assert isinstance(loaded.source, DatasetSource)
    assert not loaded.source.is_shuffled


def test_layers_made_in_setup_and_steps_without_an_index(tmp_path: Path) -> None:
    text = (HEAD + NET + LOADER).replace("self.layer = torch.nn.Linear(2, 1)", "").replace(", batch_idx", "")
    text += "    def setup(self, stage):\n        self.layer = torch.nn.Linear(2, 1)\n"
    loaded = load_text(tmp_path, text)
    step = loaded.build()
    assert step(one_batch(loaded.source, 2)).requires_grad
    assert len(list(step.parameters())) == 2


def test_dataset_of_the_file_comes_before_the_loader(tmp_path: Path) -> None:
    text = (
        HEAD + NET + LOADER + "def dataset():\n    return TensorDataset(torch.ones(7, 2), torch.ones(7, 1))\n"
    )
    source = load_text(tmp_path, text).source
    assert isinstance(source, DatasetSource)
    assert source.size == 7


def test_base_class_of_the_file_is_not_a_second_model(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, HEAD + NET + LOADER + "\nclass Wider(Net):\n    pass\n")
    assert type(loaded.build().model).__name__ == "Wider"


def test_model_may_choose_the_module(tmp_path: Path) -> None:
    text = (
        HEAD + NET + LOADER + "\nclass Other(LightningModule): ...\ndef model():\n    return Net(width=3)\n"
    )
    loaded = load_text(tmp_path, text)
    step = loaded.build()
    assert step(one_batch(loaded.source, 2)).requires_grad
    assert isinstance(loaded.build_optimizer(step), torch.optim.SGD)
    assert find_adapter(step.model) is Adapter.LIGHTNING


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + NET, "Net has no train_dataloader and the file no DataModule"),
        (
            HEAD + NET + LOADER + "\nclass Other(LightningModule): ...\n",
            "several LightningModules (Net, Other): define model()",
        ),
        ((HEAD + NET + LOADER).replace("width=2", "width"), "Net cannot be made without arguments"),
        (
            HEAD + NET + "    def train_dataloader(self):\n        return [DataLoader(DATA)]\n",
            "Net.train_dataloader() returned list; a trial needs one DataLoader",
        ),
        (
            HEAD
            + NET
            + "    def train_dataloader(self):\n        return DataLoader(DATA, batch_size=None)\n",
            "the DataLoader of Net makes its batches itself",
        ),
        (
            HEAD
            + NET
            + "    def train_dataloader(self):\n        return self.trainer.datamodule.trainer.fold\n",
            "Net.train_dataloader() raised AttributeError",
        ),
    ],
)
def test_what_is_wrong_when_it_is_loaded(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TrialsError) as caught:
        load_text(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "model.py"))
    assert message in str(caught.value)


def test_manual_optimisation_is_refused_with_the_reason(tmp_path: Path) -> None:
    text = (HEAD + NET + LOADER).replace("self.save_hyperparameters()", "self.automatic_optimization = False")
    loaded = load_text(tmp_path, text)
    with pytest.raises(TrialsError, match="its training_step steps the optimizer itself"):
        loaded.build()


@pytest.mark.parametrize("returned", ["None", "[optimizer, torch.optim.SGD(self.parameters(), lr=1)]"])
def test_not_exactly_one_optimizer_is_refused(tmp_path: Path, returned: str) -> None:
    text = (HEAD + NET + LOADER).replace(
        "return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 10)]", f"return {returned}"
    )
    loaded = load_text(tmp_path, text)
    with pytest.raises(TrialsError, match="a trial trains with exactly one"):
        loaded.build_optimizer(loaded.build())
