"""What a process writes down before it can no longer speak, read back as its successor does."""

import subprocess
import sys

from trials.workers.crash_record import CrashRecorder, read_crash_records

RUN = """
import os, signal, time
from pathlib import Path
from trials.workers.crash_record import CrashRecorder
recorder = CrashRecorder(Path("{folder}"), 1)
recorder.begin(7, {limit_s})
{story}
"""


def live(story, folder, limit_s=60.0):
    code = RUN.format(folder=folder, limit_s=limit_s, story=story)
    return subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode


def test_the_limit_ends_the_process_and_leaves_its_stacks(tmp_path):
    code = live("def slow_model():\n    time.sleep(60)\nslow_model()", tmp_path, limit_s=0.2)
    (record,) = read_crash_records(tmp_path)
    assert code == 1
    assert (record.rank, record.trial_id, record.is_finished) == (1, 7, False)
    assert "slow_model" in record.stacks


def test_the_limit_holds_for_a_rank_that_waits_for_others_after_its_part(tmp_path):
    live("recorder.finish_part()\ntime.sleep(60)", tmp_path, limit_s=0.2)
    (record,) = read_crash_records(tmp_path)
    assert record.is_finished
    assert "Timeout" in record.stacks


def test_a_killed_process_leaves_a_box_without_end(tmp_path):
    code = live("os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    (record,) = read_crash_records(tmp_path)
    assert code == -9
    assert (record.is_finished, record.stacks, record.kernel_kill_count) == (False, "", 0)


def test_a_trial_that_ends_in_time_is_not_ended(tmp_path):
    assert live("recorder.end()\ntime.sleep(0.4)", tmp_path, limit_s=0.2) == 0


def test_nothing_is_left_when_the_worker_goes_home(tmp_path):
    recorder = CrashRecorder(tmp_path / "run", 0)
    recorder.begin(1, 60.0)
    recorder.finish_part()
    recorder.end()
    recorder.remove()
    assert read_crash_records(tmp_path / "run") == ()
    assert list(tmp_path.iterdir()) == []
