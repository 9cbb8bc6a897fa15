"""Files that are whole or as they were."""

import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from trials.whole_file import whole_file, write_whole

ROOT = Path(__file__).parents[2]
HEAD = "import os, signal, sys\nfrom trials.whole_file import *\npath = Path(sys.argv[1])\n"


def run(script: str, path: Path) -> int:
    return subprocess.run([sys.executable, "-c", HEAD + script, str(path)], cwd=ROOT, check=False).returncode


def test_a_reader_never_sees_half_a_file_however_many_write(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    texts = ["a" * 300_000, "b" * 100_000]
    write_whole(path, texts[0])

    def write(text: str) -> None:
        for _ in range(20):
            write_whole(path, text)

    writers = [Thread(target=write, args=(text,)) for text in texts]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert path.read_text() in texts
    for writer in writers:
        writer.join()
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_while_writing_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    write_whole(path, "old")
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"half of it", 1])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_an_os_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "folder", tmp_path / "file" / "x", tmp_path / "none" / "x"):
        with pytest.raises(OSError, match=r"(?i)directory"):
            write_whole(place, "text")
    assert {one.name for one in tmp_path.iterdir()} == {"file", "folder"}


def test_it_is_readable_by_whom_the_user_lets(tmp_path: Path) -> None:
    assert run("os.umask(0o027); write_whole(path, 'x')", tmp_path / "x") == 0
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_a_kill_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_whole(path, "old")
    killed = "with whole_file(path) as file:\n file.write(b'half'); os.kill(os.getpid(), signal.SIGKILL)"
    assert run(killed, path) == -signal.SIGKILL
    assert path.read_text() == "old"
