"""The model file kept with its study: for a colleague, and for the day on which it has changed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.errors import PlannerError
from planner.study.reading import read_study
from planner.study.saved import SavedStudy
from planner.study.sources import SOURCES_BYTES_MAX, Sources, at_hand, notes_on_sources, packed, sources_of
from planner.study.storage import sqlite_url
from planner.study.store import Study, open_study
from planner.study.transfer import bring_home, take_along
from trials.model_file.source import hash_workload

MODEL = "import parts.width\ndef model(): ...\ndef batch(size): ...\n"
TEXTS = {"tiny.py": MODEL, "parts/width.py": "WIDTH = 4\n"}


class Project:
    """A model file with what it imports, and a study of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder / "project", sqlite_url(folder / "study.db")
        (self.folder / "parts").mkdir(parents=True)
        for name, text in TEXTS.items():
            (self.folder / name).write_text(text)
        (self.folder / "notes.txt").write_text("is no source")

    def study(self) -> Study:
        return open_study(self.url, hash_workload(self.folder / "tiny.py"), "tiny")

    def read(self) -> SavedStudy:
        return read_study(self.url, "tiny")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    return Project(tmp_path)


def test_what_was_measured_is_there_when_the_folder_is_gone(project: Project) -> None:
    (project.folder / "requirements.txt").write_text("einops\n")
    project.study()
    shutil.rmtree(project.folder)
    sources = sources_of(project.read())
    assert (dict(sources.texts), sources.requirements) == (TEXTS, "einops\n")
    assert "kept with the study" in sources.note
    with at_hand(project.read()) as workload:
        assert workload.sha256 == project.read().workload.sha256
        assert hash_workload(workload.path).sha256 == workload.sha256
    assert not Path(workload.path).exists()


def test_what_was_measured_is_there_when_the_file_has_changed(project: Project) -> None:
    project.study()
    (project.folder / "parts" / "width.py").write_text("WIDTH = 8\n")
    sources = sources_of(project.read())
    assert dict(sources.texts) == TEXTS
    assert "has changed since it was measured" in sources.note


def test_the_folder_itself_is_used_while_it_is_as_it_was(project: Project) -> None:
    project.study()
    (project.folder / "requirements.txt").write_text("einops\n")  # written later
    sources = sources_of(project.read())
    assert (dict(sources.texts), sources.requirements, sources.note) == (TEXTS, "einops\n", "")
    with at_hand(project.read()) as workload:
        assert workload == project.read().workload


def test_what_is_beyond_the_cap_is_said_and_missed(project: Project) -> None:
    (project.folder / "parts" / "width.py").write_text("#" * SOURCES_BYTES_MAX)
    study = project.study()
    (note,) = notes_on_sources(study)
    assert "parts/width.py (1.0 MB)" in note
    sources_of(study)
    shutil.rmtree(project.folder)
    with pytest.raises(PlannerError, match=r"does not hold parts/width\.py .* run this where"):
        sources_of(project.read())


def test_a_study_without_sources_says_where_they_were(project: Project) -> None:
    project.study().optuna_study.set_user_attr("sources", None)
    shutil.rmtree(project.folder)
    with pytest.raises(PlannerError, match=r"tiny\.py: the file is not there.*holds no sources"):
        sources_of(project.read())


def test_they_come_home_with_a_study_from_elsewhere(project: Project, tmp_path: Path) -> None:
    take_along(project.url, hash_workload(project.folder / "tiny.py"), "tiny", tmp_path / "sent.db")
    shutil.rmtree(project.folder)
    bring_home(tmp_path / "sent.db", project.url)
    assert dict(sources_of(project.read()).texts) == TEXTS


@pytest.mark.parametrize("name", ["../evil.py", "/tmp/evil.py", "a/../../evil.py"])
def test_a_name_that_leads_elsewhere_is_not_written(project: Project, name: str) -> None:
    study = project.study()
    texts = {**TEXTS, name: "x = 1\n"}
    study.optuna_study.set_user_attr("sources", packed(Sources(texts=texts)))
    shutil.rmtree(project.folder)
    with pytest.raises(PlannerError, match="outside"), at_hand(project.read()):
        pass


def test_sources_of_other_contents_are_refused(project: Project) -> None:
    study = project.study()
    study.optuna_study.set_user_attr(
        "sources", packed(Sources(texts={**TEXTS, "tiny.py": MODEL + "x = 1\n"}))
    )
    shutil.rmtree(project.folder)
    with pytest.raises(PlannerError, match="is not what was measured"), at_hand(project.read()):
        pass
