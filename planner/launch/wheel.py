"""The running planner as a wheel, so that a run is started by what planned it and not by what an index has.

Pure Python, so a wheel is a zip of the three packages with a little metadata; the bytes follow from the
contents alone. Format: packaging.python.org, "Binary distribution format".
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import planner
from planner.errors import PlannerError

NAME = "gpu-planner"
PATTERN = "gpu_planner-*.whl"
_PACKAGES = ("catalogs", "planner", "trials")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say
_MODE = 0o644 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel as a file."""

    name: str
    contents: bytes


def running_wheel() -> Wheel:
    """The packages as they are imported here, installed or from a source tree; no network is needed.

    Raises:
        PlannerError: when planner runs from what is no installation, so that nobody knows what it needs.
    """
    files = dict(_sources())
    build = "0" + hashlib.sha256(b"".join(_lines(files))).hexdigest()[:8]  # caches go by the name
    info = f"gpu_planner-{planner.__version__}.dist-info"
    files |= {f"{info}/{name}": text.encode() for name, text in _metadata(build).items()}
    record = b"".join(_lines(files)) + f"{info}/RECORD,,\n".encode()
    return Wheel(
        name=f"gpu_planner-{planner.__version__}-{build}-py3-none-any.whl",
        contents=_zipped({**files, f"{info}/RECORD": record}),
    )


def _sources() -> Iterator[tuple[str, bytes]]:
    """Every file of the packages, by its path in the wheel, in order."""
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes()


def _metadata(build: str) -> dict[str, str]:
    try:
        installed = importlib.metadata.distribution(NAME)
    except importlib.metadata.PackageNotFoundError as error:
        raise PlannerError(
            f"{NAME} is not installed in this environment, so a wheel of it cannot be made for the launch "
            "files; run `pip install .` (or `pip install -e .`) in its folder"
        ) from error
    found = {name: installed.read_text(name) for name in ("METADATA", "entry_points.txt")}
    texts = {name: text for name, text in found.items() if text}
    texts["WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: planner {planner.__version__}\nRoot-Is-Purelib: true\n"
        f"Tag: py3-none-any\nBuild: {build}\n"
    )
    return texts


def _lines(files: Mapping[str, bytes]) -> Iterator[bytes]:
    """Of RECORD: path, hash and size."""
    for path, contents in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
        yield f"{path},sha256={digest},{len(contents)}\n".encode()


def _zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, contents in files.items():
            entry = zipfile.ZipInfo(path, date_time=_EPOCH)
            entry.external_attr = _MODE
            archive.writestr(entry, contents, zipfile.ZIP_DEFLATED, compresslevel=9)
    return buffer.getvalue()
