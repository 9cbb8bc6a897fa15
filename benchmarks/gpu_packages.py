"""The packages that a rented machine lacks, as one small archive: Ray, Optuna and what they need.

    python -m benchmarks.gpu_packages --out packages.tar.xz            # for Python 3.12 on x86-64

Such a machine often has torch, pandas, pyarrow, requests and no network. There:

    mkdir packages && tar xf packages.tar.xz -C packages
    PLANNER_EXTRA_PACKAGES=$PWD/packages python -m benchmarks.gpu_run --out OUT

Of Ray what no trial touches is left out: Java, RLlib, LLM serving, the dashboard's pages, C++ headers.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAMES = (
    *("ray", "jsonschema", "jsonschema-specifications", "referencing", "rpds-py", "tensorboardX"),
    *("optuna", "alembic", "colorlog", "sqlalchemy", "Mako"),
    *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "platformdirs", "pathspec"),
)
LEFT_OUT = (
    *("ray/jars", "ray/rllib", "ray/llm", "ray/serve", "ray/cpp", "ray/dashboard/client", "ray/include"),
    *("bin", "tests"),
)
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
)


def install(folder: Path, python: str, more: list[str]) -> None:
    """The wheels of ``NAMES``, in the versions that are tested, unpacked for another Python."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--no-compile", "--target", str(folder), "--python-version", python, "--implementation", "cp"]
    for one in PLATFORMS:
        command += ["--platform", one]
    subprocess.run([*command, "--constraint", str(ROOT / "constraints.txt"), *NAMES, *more], check=True)


def trim(folder: Path) -> None:
    """Remove what no trial touches."""
    for one in LEFT_OUT:
        shutil.rmtree(folder / one, ignore_errors=True)


def main() -> None:
    """Install, trim, pack and say how large it became."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("packages.tar.xz"))
    parser.add_argument("--python", default="3.12", help="of the machine with the GPU")
    parser.add_argument("--more", nargs="*", default=[], help="names of packages that it lacks besides")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        install(folder, given.python, given.more)
        trim(folder)
        unpacked = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
        with tarfile.open(given.out, "w:xz", preset=2) as archive:
            for one in sorted(folder.iterdir()):
                archive.add(one, one.name)
    packed = given.out.stat().st_size
    print(f"{given.out}: {packed / 2**20:.1f} MiB, unpacked {unpacked / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
