"""One real cluster for all tests that ask for it, and the rule that sandboxes are the only brokers a test may touch."""

import os
import signal
from collections.abc import Iterator

import pytest

from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.sandbox.named import status
from reconciler.scan.scan import Engine, close

# A shell that starts the tests in the background makes them, and every command that they start, deaf to Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three brokers, shared: use names of your own, and leave all brokers running.

    RECONCILER_TEST_SANDBOX names a sandbox that is up already (`reconciler sandbox up --name …`), for quick repeats.
    """
    name = os.environ.get("RECONCILER_TEST_SANDBOX")
    if name:
        running = status(name)
        assert running is not None, f"RECONCILER_TEST_SANDBOX names {name}, which is not up"
        yield running
        return
    started = start(3, name="tests")
    try:
        yield started
    finally:
        stop(started)


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """One warm Spark session for all tests that scan in this process."""
    yield Engine(master="local[2]")
    close()
