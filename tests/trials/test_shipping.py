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


def test_hidden_files_stay_with_a_note_since_secrets_lie_there(project, tmp_path):
    (project / ".env").write_text("TOKEN=secret")
    (project / ".aws").mkdir()
    (project / ".aws" / "credentials").write_text("secret")
    (project / "data" / ".env").write_text("TOKEN=secret")
    shipment, files = sent(project, tmp_path / "out")
    assert files == {"model.py", "beside.py", "data/text.txt"}
    (note,) = shipment.notes
    assert note.startswith(".aws/, .env, data/.env were not sent to the nodes")
    assert "a line such as !.aws/ in .rayignore" in note


def test_what_ignore_files_name_stays(project, tmp_path):
    (project / ".gitignore").write_text("*.ckpt\n/data/raw/\n!keep.ckpt\n")
    (project / ".rayignore").write_text("notes.md\n")
    (project / "data" / ".gitignore").write_text("*.bin\n")
    (project / "data" / "raw").mkdir()
    for name in ("a.ckpt", "keep.ckpt", "notes.md", "data/x.bin", "data/raw/y.txt", "y.bin"):
        (project / name).write_text("x")
    shipment, files = sent(project, tmp_path / "out")
    assert files == {"model.py", "beside.py", "data/text.txt", "keep.ckpt", "y.bin"}
    assert shipment.notes[0].startswith("a.ckpt, notes.md, data/raw/ and 1 more were not sent")


def test_a_repository_s_ignore_file_holds_in_its_folders(project, tmp_path):
    (project.parent / ".git").mkdir()
    (project.parent / ".gitignore").write_text("text.txt\n")
    _, files = sent(project, tmp_path / "out")
    assert files == {"model.py", "beside.py"}


def test_rayignore_has_the_last_word(project, tmp_path):
    (project / ".gitignore").write_text("data/\n!.env\n")
    (project / ".rayignore").write_text("!data/\n!.vocabulary\n")
    for name in (".env", ".vocabulary"):
        (project / name).write_text("x")
    _, files = sent(project, tmp_path / "out")
    assert files == {"model.py", "beside.py", "data/text.txt", ".vocabulary"}


def test_what_the_model_imports_is_sent_whatever_is_ignored(project, tmp_path):
    (project / ".gitignore").write_text("*\n")
    _, files = sent(project, tmp_path / "out")
    assert files == {"model.py", "beside.py"}


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
