"""Which signals end a command, and how often each is heard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from planner.interrupts import Interrupted, ending_at_once, heard_by

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """The signals' usual handlers, also where what started the tests ignores some, as nohup does."""
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_a_command_with_128_and_its_number(number: signal.Signals) -> None:
    before = [signal.getsignal(one) for one in ENDING]
    with pytest.raises(Interrupted) as ended, heard_by(ending_at_once()):
        os.kill(os.getpid(), number)
    assert ended.value.exit_code == 128 + number
    assert [signal.getsignal(one) for one in ENDING] == before


def test_what_a_supervisor_repeats_does_not_disturb_the_ending() -> None:
    ended = False
    with heard_by(ending_at_once()):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Interrupted:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            ended = True
    assert ended


def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    code = (
        "import os, signal\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from planner.interrupts import ending_at_once, heard_by\n"
        "with heard_by(ending_at_once()):\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_written_after_the_terminal_has_gone_is_lost_without_an_error() -> None:
    code = (
        "import os, pty, signal, sys\n"
        "from planner.interrupts import Interrupted, ending_at_once, heard_by\n"
        "kept = os.dup(2)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "controller, terminal = pty.openpty()\n"
        "os.dup2(terminal, 1); os.dup2(terminal, 2)\n"
        "try:\n"
        "    with heard_by(ending_at_once()):\n"
        "        os.close(controller)\n"
        "        os.kill(os.getpid(), signal.SIGHUP)\n"
        "except Interrupted as error:\n"
        "    print('written to nowhere', flush=True)\n"
        "    os.write(kept, str(int(error.exit_code)).encode())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "129")
