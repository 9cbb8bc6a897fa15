"""The wheel beside the launch files: of what runs here, and installed without an index."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import planner
from planner.launch.wheel import running_wheel

CONFIGMAP_BYTES_MAX = 1024**2  # of Kubernetes; the files beside it take a few kB


def test_the_same_sources_give_the_same_bytes_that_a_configmap_holds() -> None:
    first, again = running_wheel(), running_wheel()
    assert first == again
    assert first.name.startswith(f"gpu_planner-{planner.__version__}-0")
    assert len(first.contents) * 4 / 3 < 0.9 * CONFIGMAP_BYTES_MAX


def test_it_is_installed_without_an_index_and_its_run_time_side_is_imported(tmp_path: Path) -> None:
    wheel = running_wheel()
    file = tmp_path / wheel.name
    file.write_bytes(wheel.contents)
    assert zipfile.ZipFile(file).testzip() is None
    venv.create(tmp_path / "venv", with_pip=False)
    site = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    site.joinpath("dependencies.pth").write_text("\n".join(dependencies))  # looked at after what is installed
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--quiet", str(file)], check=True)
    code = (
        "import planner.checkpoint, planner.verify, catalogs.offers, importlib.metadata as known\n"
        "print(planner.__file__, known.version('gpu-planner'))\n"
        "assert any(one.startswith('torch') for one in known.requires('gpu-planner'))\n"
    )
    done = subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, env={}
    )
    assert done.returncode == 0, done.stderr
    where, version = done.stdout.split()
    assert where.startswith(str(tmp_path))
    assert version == planner.__version__
