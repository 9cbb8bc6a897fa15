"""The model file and what it imports, kept with the study as they were measured.

So a plan can be launched and measured again by a colleague who shares the storage, after `--submit`, and when
the file has changed. Data sets are not kept.
"""

from __future__ import annotations

import base64
import contextlib
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from planner.codec import from_json, to_json
from planner.errors import PlannerError
from planner.study.saved import SavedStudy
from trials.api import TrialsError, Workload, hash_workload, local_files

SOURCES_BYTES_MAX = 1_000_000  # of text in one study; compressed, a quarter of it
SOURCES = "sources"
REQUIREMENTS = "requirements.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The text of a model file and of what it imports beside it."""

    texts: dict[str, str]  # by path from the model file's folder, with slashes
    requirements: str | None = None  # requirements.txt, where one lies there
    left_out: tuple[str, ...] = ()  # files beyond the cap, with their sizes
    note: str = ""  # where they are not those of the folder now: why


def read_sources(workload: Workload) -> Sources | None:
    """The sources as they lie in the workload's folder; None where they are not what was measured."""
    file = Path(workload.path)
    try:
        if hash_workload(file).sha256 != workload.sha256:
            return None
        texts = {
            one.relative_to(file.parent).as_posix(): one.read_bytes().decode() for one in local_files(file)
        }
        beside = file.parent / REQUIREMENTS
        requirements = beside.read_bytes().decode() if beside.is_file() else None
    except (TrialsError, OSError, UnicodeDecodeError):
        return None
    return Sources(texts=texts, requirements=requirements)


def packed(sources: Sources) -> str:
    """The sources as a study keeps them: compressed, the smallest files first, as many as fit the cap."""
    kept: dict[str, str] = {}
    left_out: list[str] = []
    room = SOURCES_BYTES_MAX - len(sources.requirements or "")
    for name, text in sorted(sources.texts.items(), key=lambda item: len(item[1])):
        room -= len(text)
        if room < 0:
            left_out.append(f"{name} ({len(text) / 1e6:.1f} MB)")
        else:
            kept[name] = text
    content = to_json(replace(sources, texts=kept, left_out=tuple(left_out)))
    return base64.b64encode(zlib.compress(content.encode())).decode()


def kept_sources(study: SavedStudy) -> Sources | None:
    """What the study holds; None where it was made by an older planner, or from a file out of reach."""
    text = study.attribute(SOURCES)
    if text is None:
        return None
    try:
        content = zlib.decompress(base64.b64decode(text)).decode()
    except (ValueError, zlib.error) as error:
        raise PlannerError(f"study {study.name}: its sources cannot be read ({error})") from error
    return from_json(content, Sources, where=f"sources of study {study.name}")


def notes_on_sources(study: SavedStudy) -> tuple[str, ...]:
    """What of the model file the study does not hold, and what follows, in words."""
    kept = kept_sources(study)
    if kept is None or not kept.left_out:
        return ()
    return (
        f"of the model file the study keeps {SOURCES_BYTES_MAX / 1e6:.0f} MB, so not "
        f"{', '.join(kept.left_out)}: launch files can be written only where it lies",
    )


def sources_of(study: SavedStudy) -> Sources:
    """The sources that were measured: those in the folder if they still are, else those that the study holds.

    Raises PlannerError where neither has them all, with where they were.
    """
    workload = study.workload
    here = read_sources(workload)
    if here is not None:
        return here
    is_there = Path(workload.path).exists()
    why = (
        "the file or one it imports has changed since it was measured"
        if is_there
        else "the file is not there"
    )
    kept = kept_sources(study)
    if kept is None or kept.left_out:
        missing = "holds no sources" if kept is None else f"does not hold {', '.join(kept.left_out)}"
        raise PlannerError(
            f"{workload.path}: {why}, and study {study.name} {missing}; restore it, run this where it lies, "
            "or measure it again with `planner sweep`"
        )
    return replace(kept, note=f"{workload.path}: {why}; taken as measured, from what is kept with the study")


@contextlib.contextmanager
def at_hand(study: SavedStudy) -> Iterator[Workload]:
    """The workload with a path that can be run, while the context lasts. Raises as ``sources_of``."""
    sources = sources_of(study)
    if not sources.note:
        yield study.workload
        return
    with tempfile.TemporaryDirectory(prefix="planner-sources-") as folder:
        yield _restored(study.workload, sources, Path(folder))


def _restored(workload: Workload, sources: Sources, folder: Path) -> Workload:
    for name, text in sources.texts.items():
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts:
            raise PlannerError(f"{workload.path}: a source of the study is named {name}, outside its folder")
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(text.encode())  # line ends as they were: the hash covers them
    found = hash_workload(folder / Path(workload.path).name)
    if found.sha256 != workload.sha256:
        raise PlannerError(
            f"{workload.path}: what the study keeps of it is not what was measured; measure it again with "
            "`planner sweep`"
        )
    return found
