"""What a process writes down before it can no longer speak, read back as its successor does."""

import subprocess
import sys

import pytest

from trials.blackbox import Recorder, read_boxes

RUN = """
import os, signal, time
from trials.blackbox import Recorder
recorder = Recorder("{token}", 1)
recorder.begin(7, {limit_s})
{story}
"""


@pytest.fixture
def token(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return "abc"


def live(story, token, limit_s=60.0):
    code = RUN.format(token=token, limit_s=limit_s, story=story)
    return subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode


def test_the_limit_ends_the_process_and_leaves_its_stacks(token):
    code = live("def slow_model():\n    time.sleep(60)\nslow_model()", token, limit_s=0.2)
    (box,) = read_boxes(token)
    assert code == 1
    assert (box.rank, box.trial_id, box.is_finished) == (1, 7, False)
    assert "slow_model" in box.stacks


def test_the_limit_holds_for_a_rank_that_waits_for_others_after_its_part(token):
    live("recorder.finish_part()\ntime.sleep(60)", token, limit_s=0.2)
    (box,) = read_boxes(token)
    assert box.is_finished
    assert "Timeout" in box.stacks


def test_a_killed_process_leaves_a_box_without_end(token):
    code = live("os.kill(os.getpid(), signal.SIGKILL)", token)
    (box,) = read_boxes(token)
    assert code == -9
    assert (box.is_finished, box.stacks, box.kernel_kill_count) == (False, "", 0)


def test_a_trial_that_ends_in_time_is_not_ended(token):
    assert live("recorder.end()\ntime.sleep(0.4)", token, limit_s=0.2) == 0


def test_nothing_is_left_when_the_worker_goes_home(token, tmp_path):
    recorder = Recorder(token, 0)
    recorder.begin(1, 60.0)
    recorder.finish_part()
    recorder.end()
    recorder.remove()
    assert read_boxes(token) == ()
    assert list(tmp_path.iterdir()) == []
