"""What of the user's directory is sent to the nodes."""

from pathlib import Path

import pytest

from trials.cluster.shipping import Caps, folder_name, pack
from trials.model_file.source import hash_workload

MODEL = """
import beside
def model(): ...
def batch(size): ...
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "model.py").write_text(MODEL)
    (folder / "beside.py").write_text("x = 1\n")
    (folder / "data").mkdir()
    (folder / "data" / "text.txt").write_text("to be or not to be")
    return folder


def sent(project, into, caps=None):
    workload = hash_workload(project / "model.py")
    shipment = pack(workload, into, caps)
    root = into / folder_name(workload)
    return shipment, {str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()}


def test_the_model_what_it_imports_and_its_data_are_sent(project, tmp_path):
    shipment, files = sent(project, tmp_path / "out")
    assert files == {"model.py", "beside.py", "data/text.txt"}
    assert shipment.notes == ()
    assert Path(shipment.py_modules[0]).name == "trials"


def test_repositories_environments_and_caches_stay(project, tmp_path):
    for name in (".git", ".venv", "venv", "__pycache__", "node_modules"):
        (project / name).mkdir()
        (project / name / "thing").write_text("x")
    _, files = sent(project, tmp_path / "out")
    assert files == {"model.py", "beside.py", "data/text.txt"}


def test_data_that_git_ignores_is_sent(project, tmp_path):
    (project / ".gitignore").write_text("data/\n")
    _, files = sent(project, tmp_path / "out")
    assert files == {"model.py", "beside.py", "data/text.txt"}


def test_a_large_file_stays_and_the_note_says_what_to_do(project, tmp_path):
    (project / "data" / "large.bin").write_bytes(bytes(2_000_000))
    shipment, files = sent(project, tmp_path / "out", Caps(file_bytes=1_000_000))
    assert files == {"model.py", "beside.py", "data/text.txt"}
    (note,) = shipment.notes
    assert note.startswith("data/large.bin (2 MB) was not sent")
    assert "by its absolute path" in note


@pytest.mark.parametrize("caps", [Caps(file_count=2), Caps(total_bytes=20)])
def test_from_a_directory_that_is_too_large_only_the_code_is_sent(project, tmp_path, caps):
    shipment, files = sent(project, tmp_path / "out", caps)
    assert files == {"model.py", "beside.py"}
    assert "only the model file and what it imports were sent" in shipment.notes[0]
