"""No secret of a URL in any text that leaves the program."""

from pathlib import Path

import pytest

from planner.__main__ import run
from planner.errors import PlannerError
from planner.exits import Exit
from planner.redaction import redacted, redacted_url
from planner.study.listing import summaries
from planner.study.reading import read_study
from planner.study.storage import open_storage

SECRET_URLS = {
    "plain": "postgresql://user:pass4word@host:5432/db",
    "with a driver": "postgresql+psycopg://user:pass4word@host/db",
    "without a user": "redis://:pass4word@host:6379/0",
    "without a scheme": "user:pass4word@host/db",
    "with one slash": "postgresql:/user:pass4word@host/db",
    "not escaped": "postgresql://user:a@pass4word:b/c d@host/db",
    "escaped": "postgresql://user:pass4word%40x@host/db",
    "in the query": "postgresql://host/db?user=me&password=pass4word",
    "of a key": "postgresql://host/db?sslpassword=pass4word&sslmode=require",
}


@pytest.mark.parametrize("url", SECRET_URLS.values(), ids=SECRET_URLS.keys())
def test_no_password_is_shown(url: str) -> None:
    assert "pass4word" not in redacted_url(url)
    assert "***" in redacted_url(url)
    assert "pass4word" not in redacted(f"cannot use '{url}'; see it", url)


def test_what_is_no_secret_stays() -> None:
    assert redacted_url("postgresql://user:pass4word@host:5432/db") == "postgresql://user:***@host:5432/db"
    for url in (
        "sqlite:////home/me:too@work/study.db",
        "postgresql://user@host/db?sslmode=require",
        "nonsense",
    ):
        assert redacted_url(url) == url
    told = "http://127.0.0.1:8265: nothing answers there; mail ray@example.org"
    assert redacted(told) == told


def test_a_password_is_hidden_wherever_a_driver_names_it() -> None:
    url = "postgresql://user:p%40ss@host/db"
    assert redacted('bad value "p@ss" (was p%40ss) in passage', url) == 'bad value "***" (was ***) in passage'
    assert (
        redacted("could not use redis://:pass4word@host:6379/0 now")
        == "could not use redis://:***@host:6379/0 now"
    )


@pytest.mark.parametrize("url", SECRET_URLS.values(), ids=SECRET_URLS.keys())
@pytest.mark.parametrize(
    "use", [summaries, lambda url: read_study(url, "x"), lambda url: open_storage(url, is_created=True)]
)
def test_no_error_of_a_storage_names_its_password(url: str, use, capfd: pytest.CaptureFixture[str]) -> None:
    unreachable = (
        url.replace("@host", "@127.0.0.1:1")
        .replace("//host", "//127.0.0.1:1")
        .replace(":1:5432", ":1")
        .replace(":1:6379", ":1")
    )
    with pytest.raises(PlannerError) as caught:
        use(unreachable)
    output = capfd.readouterr()
    for text in (str(caught.value), output.out, output.err):
        assert "pass4word" not in text


def test_no_command_says_the_password_of_its_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url = "postgresql://user:pass4word@127.0.0.1:1/db"
    (tmp_path / "tiny.py").write_text("def model(): ...\ndef batch(size): ...\n")
    for command in (
        ["studies"],
        ["report", "x"],
        ["why", "x", "L4"],
        ["launch-files", "x"],
        ["sweep", "tiny.py"],
    ):
        assert run([*command, "--storage", url]) == Exit.BAD_INPUT
        said = capfd.readouterr()
        assert "postgresql://user:***@127.0.0.1:1/db" in said.err
        assert "pass4word" not in said.out + said.err
