from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.trials.files import PLAIN, write
from trials.errors import TrialsError
from trials.model_file.source import hash_workload, local_files


def test_hash_names_the_content_not_the_place(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = write(tmp_path / "a", PLAIN), write(tmp_path / "b", PLAIN)
    assert one.sha256 == other.sha256
    assert one.path != other.path
    assert write(tmp_path / "b", PLAIN + "\nSIZE = 2\n").sha256 != one.sha256


def test_hash_covers_what_is_imported_from_beside_directly_or_not(tmp_path: Path) -> None:
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers" / "__init__.py").write_text("from .norm import norm\n")
    (tmp_path / "layers" / "norm.py").write_text("def norm(): ...\n")
    (tmp_path / "settings.py").write_text("WIDTH = 1\n")
    (tmp_path / "unrelated.py").write_text("raise SystemExit\n")
    before = write(tmp_path, "import settings\nfrom layers import norm\n" + PLAIN)
    names = [one.relative_to(tmp_path).as_posix() for one in local_files(tmp_path / "model.py")]
    assert names == ["layers/__init__.py", "layers/norm.py", "model.py", "settings.py"]
    (tmp_path / "unrelated.py").write_text("")
    assert hash_workload(tmp_path / "model.py") == before
    (tmp_path / "layers" / "norm.py").write_text("def norm(): return 1\n")
    assert hash_workload(tmp_path / "model.py").sha256 != before.sha256


def test_import_circles_end(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("import two\n")
    (tmp_path / "two.py").write_text("import one\n")
    write(tmp_path, "import one\n" + PLAIN)
    assert len(local_files(tmp_path / "model.py")) == 3


def test_file_is_not_executed(tmp_path: Path) -> None:
    write(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')\n" + PLAIN)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def model(:\n", "line 1: syntax error"),
        ("x = 1\n\ndef batch(size) return 1\n", "line 3: syntax error"),
        ("def batch(size): ...\n", "no model(): define a function model()"),
        ("x = 'a\0b'", "not a Python source file"),
    ],
)
def test_what_is_wrong_without_running_it(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TrialsError) as caught:
        write(tmp_path, text)
    assert str(tmp_path / "model.py") in str(caught.value)
    assert message in str(caught.value)


def test_error_in_a_file_beside_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text("\n\nclass\n")
    with pytest.raises(TrialsError, match=r"layers\.py, line 3: syntax error"):
        write(tmp_path, "import layers\n" + PLAIN)


@pytest.mark.parametrize(
    "text",
    [
        "from build import *\n",
        "from build import model, batch\n",
        "if True:\n    def model(): ...\n    batch = lambda size: size\n",
        "from lightning.pytorch import LightningModule\nclass Net(LightningModule): ...\n",
    ],
)
def test_names_may_come_from_anywhere(tmp_path: Path, text: str) -> None:
    assert write(tmp_path, text).sha256


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(TrialsError, match="no such file"):
        hash_workload(tmp_path / "none.py")
    with pytest.raises(TrialsError, match="not a file"):
        hash_workload(tmp_path)


def test_file_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TrialsError, match="not a Python source file in UTF-8"):
        hash_workload(tmp_path / "model.py")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_unreadable_file(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(PLAIN)
    file.chmod(0)
    with pytest.raises(TrialsError, match="cannot be read"):
        hash_workload(file)
