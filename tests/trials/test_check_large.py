"""Files whose step is too large for this machine, or asks for CUDA: traced, and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trials.files import write
from trials.check import RealStep, check
from trials.profile import WorkloadProfile

LARGE = """
import torch
from torch import nn

WIDTH = 40_000  # a layer of 1.6 billion parameters: 6.4 GB in fp32, 26 GB with gradients and Adam

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH)) for _ in range(8))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

def model():
    return Net()

def batch(size):
    return torch.ones(size, WIDTH)

def loss(model, x):
    return model(x).float().mean()
"""
ASKED_LINE = LARGE.splitlines().index("    return Net()") + 1
PARAMETERS = 8 * (40_000**2 + 40_000)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Traces of a test are its own."""
    monkeypatch.setenv("PLANNER_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "traces"


def checked(folder: Path, returned: str) -> WorkloadProfile:
    return check(write(folder, LARGE.replace("return Net()", f"return {returned}")))


def test_a_model_larger_than_the_machine_is_traced_without_memory(tmp_path: Path) -> None:
    profile = checked(tmp_path, "Net()")
    assert profile.loss is None
    assert profile.parameter_count == PARAMETERS
    assert profile.block_count == 8
    assert len(profile.traces) == 8
    assert profile.traces[0].parameter_bytes == 4 * PARAMETERS
    (note,) = profile.notes
    assert note.startswith("no real step was run: one step of 2 samples needs about 238.4 GiB, and")


def test_a_real_step_that_is_asked_for_is_still_not_begun_without_memory(tmp_path: Path) -> None:
    profile = check(write(tmp_path, LARGE), how=RealStep.ALWAYS)
    assert profile.loss is None


@pytest.mark.parametrize(
    ("returned", "bytes_each", "asks_for_cuda"),
    [
        ("Net().to(torch.bfloat16)", 2, False),
        ("Net().half()", 2, False),
        ("Net().cuda()", 4, True),
        ("Net().to('cuda', torch.bfloat16)", 2, True),
        ("Net().to(torch.empty(1, device='cuda:0').device)", 4, True),
    ],
)
def test_a_model_that_is_converted_or_asks_for_cuda_is_traced(
    tmp_path: Path, returned: str, bytes_each: int, *, asks_for_cuda: bool
) -> None:
    text = LARGE.replace("torch.ones(size, WIDTH)", "torch.ones(size, WIDTH).to(torch.get_default_dtype())")
    text = text.replace("return Net()", f"return {returned}").replace(
        "x = block(x)", "x = block(x.to(block[0].weight.dtype))"
    )
    profile = check(write(tmp_path, text))
    assert profile.traces[0].parameter_bytes == bytes_each * PARAMETERS
    cuda_notes = [note for note in profile.notes if "asks for CUDA" in note]
    assert bool(cuda_notes) is asks_for_cuda
    assert all(note.startswith(f"line {ASKED_LINE} of the file") for note in cuda_notes)


def test_a_branch_on_whether_cuda_is_there_is_named(tmp_path: Path) -> None:
    profile = checked(tmp_path, "Net().to('cuda' if torch.cuda.is_available() else 'cpu')")
    assert any(
        note == f"line {ASKED_LINE} of the file asks whether CUDA is there: what it does without was traced"
        for note in profile.notes
    )


def test_shared_parameters_stay_shared_when_a_model_is_converted(tmp_path: Path) -> None:
    shared = LARGE.replace(
        "return Net()", "net = Net(); net.blocks[1][0].weight = net.blocks[0][0].weight; return net.half()"
    )
    shared = shared.replace("x = block(x)", "x = block(x.half())")
    profile = check(write(tmp_path, shared))
    assert profile.parameter_count == PARAMETERS - 40_000**2


def test_traces_are_kept_and_a_changed_file_is_another(tmp_path: Path, own_cache: Path) -> None:
    first = checked(tmp_path, "Net()")
    (file,) = own_cache.glob("*.json")
    written = file.stat().st_mtime_ns
    assert checked(tmp_path, "Net()").traces == first.traces
    assert file.stat().st_mtime_ns == written
    checked(tmp_path, "Net().half().float()")
    assert len(list(own_cache.glob("*.json"))) == 2


@pytest.mark.parametrize("damage", ["cut", "other version", "empty", "bytes"])
def test_a_broken_cache_is_made_anew(tmp_path: Path, own_cache: Path, damage: str) -> None:
    first = checked(tmp_path, "Net()")
    (file,) = own_cache.glob("*.json")
    content = file.read_text()
    broken = {
        "cut": content[: len(content) // 2].encode(),
        "other version": content.replace('"micro_batch_size"', '"batch"').encode(),
        "empty": b"",
        "bytes": b"\xff\xfe\x00",
    }[damage]
    file.write_bytes(broken)
    assert checked(tmp_path, "Net()").traces == first.traces
    assert file.read_text() == content
