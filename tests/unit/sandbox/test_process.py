"""A process is its pid and its start time."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from reconciler.sandbox.process import Process, identify


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_process_is_known_by_its_start_time_too(sleeper: subprocess.Popen[bytes]) -> None:
    """A recycled pid belongs to a stranger: neither alive nor signalled."""
    known = identify(sleeper.pid)
    assert known is not None
    assert known.alive()
    stranger = Process(sleeper.pid, known.started + "0")
    assert not stranger.alive()
    assert not stranger.send(signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_signal_reaches_it_and_its_end_is_seen_before_it_is_reaped(sleeper: subprocess.Popen[bytes]) -> None:
    """A zombie counts as gone: nobody may wait for a parent that never reaps."""
    known = identify(sleeper.pid)
    assert known is not None
    assert known.send(signal.SIGKILL)
    assert known.wait_gone(30)
    assert not known.send(signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL


def test_waiting_for_one_that_stays_ends(sleeper: subprocess.Popen[bytes]) -> None:
    """A deadline is kept, and answers False."""
    known = identify(sleeper.pid)
    assert known is not None
    assert not known.wait_gone(0)


def test_nobody_has_no_identity() -> None:
    """The pid of a process that was reaped names nobody, and pid 0 never anybody."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    assert identify(gone.pid) is None
    assert not Process(0, "").alive()
    assert not Process(0, "").send(signal.SIGTERM)


def test_identities_are_stable() -> None:
    """Two looks at one process agree, or every second look would find a stranger."""
    assert identify(os.getpid()) == identify(os.getpid())
