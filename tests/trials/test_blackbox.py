"""What a process writes down before it can no longer speak, read back as its successor does."""

import subprocess
import sys

from trials.warm.blackbox import Recorder, read_boxes

RUN = """
import os, signal, time
from pathlib import Path
from trials.warm.blackbox import Recorder
recorder = Recorder(Path("{folder}"), 1)
recorder.begin(7, {limit_s})
{story}
"""


def live(story, folder, limit_s=60.0):
    code = RUN.format(folder=folder, limit_s=limit_s, story=story)
    return subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode


def test_the_limit_ends_the_process_and_leaves_its_stacks(tmp_path):
    code = live("def slow_model():\n    time.sleep(60)\nslow_model()", tmp_path, limit_s=0.2)
    (box,) = read_boxes(tmp_path)
    assert code == 1
    assert (box.rank, box.trial_id, box.is_finished) == (1, 7, False)
    assert "slow_model" in box.stacks


def test_the_limit_holds_for_a_rank_that_waits_for_others_after_its_part(tmp_path):
    live("recorder.finish_part()\ntime.sleep(60)", tmp_path, limit_s=0.2)
    (box,) = read_boxes(tmp_path)
    assert box.is_finished
    assert "Timeout" in box.stacks


def test_a_killed_process_leaves_a_box_without_end(tmp_path):
    code = live("os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    (box,) = read_boxes(tmp_path)
    assert code == -9
    assert (box.is_finished, box.stacks, box.kernel_kill_count) == (False, "", 0)


def test_a_trial_that_ends_in_time_is_not_ended(tmp_path):
    assert live("recorder.end()\ntime.sleep(0.4)", tmp_path, limit_s=0.2) == 0


def test_nothing_is_left_when_the_worker_goes_home(tmp_path):
    recorder = Recorder(tmp_path / "run", 0)
    recorder.begin(1, 60.0)
    recorder.finish_part()
    recorder.end()
    recorder.remove()
    assert read_boxes(tmp_path / "run") == ()
    assert list(tmp_path.iterdir()) == []
