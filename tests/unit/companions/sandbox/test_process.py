"""A process is identified by its pid and its start time."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from reconciler.companions.sandbox.process import Process, identify


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as popen:
        try:
            yield popen
        finally:
            popen.kill()


def test_a_process_is_known_by_its_start_time_too(sleeper: subprocess.Popen[bytes]) -> None:
    """A process with the same pid and another start time is neither alive nor signalled."""
    process = identify(sleeper.pid)
    assert process is not None
    assert process.alive()
    stranger = Process(sleeper.pid, process.started + "0")
    assert not stranger.alive()
    assert not stranger.send(signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_signal_reaches_it_and_its_end_is_seen_before_it_is_reaped(sleeper: subprocess.Popen[bytes]) -> None:
    """A zombie counts as ended, so that no test waits for a parent that never reaps."""
    process = identify(sleeper.pid)
    assert process is not None
    assert process.send(signal.SIGKILL)
    assert process.wait_gone(30)
    assert not process.send(signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL


def test_waiting_for_one_that_stays_ends(sleeper: subprocess.Popen[bytes]) -> None:
    """The wait ends at its deadline and returns False."""
    process = identify(sleeper.pid)
    assert process is not None
    assert not process.wait_gone(0)


def test_a_pid_without_a_process_has_no_identity() -> None:
    """The pid of a reaped process and pid 0 identify no process."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert identify(process.pid) is None
    assert not Process(0, "").alive()
    assert not Process(0, "").send(signal.SIGTERM)


def test_identities_are_stable() -> None:
    """Two reads of the same process are equal."""
    assert identify(os.getpid()) == identify(os.getpid())
