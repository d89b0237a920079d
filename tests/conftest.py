"""What all tests share: real brokers, warm Spark, how tests are spread over processes, and what a failure prints."""

import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.sandbox.registry import status
from reconciler.scan.scan import SparkTarget, close
from tests.repeats import LONG
from tests.schedule import GroupScheduling, sort_key
from tests.spark import shared_server

# A shell that starts the tests in the background makes them, and every command that they start, deaf to Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A run that is terminated ends its servers as after Ctrl-C.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three brokers for all tests of this process: use names of your own, and leave all brokers running and no group that blocks others.

    Each worker has brokers of its own. Two tests at the same time on the same brokers would disturb each other: a group that goes
    while another test plans is one that the plan knows nothing about, and blocks.

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
def spark_server_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the Spark Connect server of this run has its log."""
    shared = _worker_input(request.config).get("spark_server")
    if shared is not None:
        yield Path(shared)
        return
    folder = tmp_path_factory.mktemp("connect")
    server = shared_server.SharedServer(folder)
    try:
        yield folder
    finally:
        server.close()


@pytest.fixture(scope="session")
def spark_server(spark_server_folder: Path) -> str:
    """The `sc://` address of a Spark Connect server, one for all processes of the run. It is started for the first test that asks."""
    return shared_server.ask(spark_server_folder)


@pytest.fixture(scope="session")
def engine() -> SparkTarget:
    """One warm Spark session for all tests that scan in this process."""
    return SparkTarget(master="local[2]")


@pytest.fixture(scope="session", autouse=True)
def _end_jvms() -> Iterator[None]:
    """End what tests of this process started and keep warm: its Spark session, and Kafka's tools."""
    yield
    close()
    if "tests.toolbox" in sys.modules:
        sys.modules["tests.toolbox"].close_toolboxes()


class MainProcess:
    """A plugin of the process that hands tests out to workers."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="reconciler-tests-", ignore_cleanup_errors=True)
        self._spark_server = shared_server.SharedServer(Path(self._folder.name))

    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["spark_server"] = self._folder.name

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> GroupScheduling:
        config.option.loadscopereorder = False
        return GroupScheduling(config, log)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._spark_server.close()
        self._folder.cleanup()


def _worker_input(config: pytest.Config) -> dict[str, Any]:
    """The values that the main process passed to this worker; empty in a run without workers."""
    values: dict[str, Any] = getattr(config, "workerinput", {})
    return values


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(MainProcess(), "reconciler-main-process")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: sort_key(item.nodeid))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how to run one test that failed again."""
    reports = [report for outcome in ("failed", "error") for report in terminalreporter.stats.get(outcome, [])]
    if reports:
        python = Path(sys.executable)
        command = python.relative_to(Path.cwd()) if python.is_relative_to(Path.cwd()) else python
        terminalreporter.section("run one of them again")
        repetitions = "RECONCILER_TEST_LONG=1 " if LONG else ""
        for nodeid in dict.fromkeys(report.nodeid for report in reports):
            terminalreporter.write_line(f"{repetitions}{command} -m pytest {shlex.quote(nodeid)}")
