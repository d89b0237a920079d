"""Shared fixtures of all tests: real brokers, warm Spark, and the summary of failures.

It also distributes tests over worker processes.
"""

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
from reconciler.text import redact
from tests.repeats import LONG
from tests.schedule import GroupScheduling, sort_key
from tests.spark import shared_server

# A shell that starts the tests in the background makes the tests, and all commands that they
# start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A run that is terminated ends its servers as after Ctrl-C.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three brokers for all tests of this process.

    Use unique names, leave all brokers running, and leave no group that blocks other tests. Each
    worker has its own brokers, because two tests at the same time would disturb each other: if a
    group disappears while another test plans, that plan is blocked.

    RECONCILER_TEST_SANDBOX names a running sandbox (`reconciler sandbox up --name …`), for quick
    repetitions.
    """
    name = os.environ.get("RECONCILER_TEST_SANDBOX")
    if name:
        running = status(name)
        assert running is not None, f"RECONCILER_TEST_SANDBOX names {name}, which is not up"
        yield running
        return
    cluster = start(3, name="tests")
    try:
        yield cluster
    finally:
        stop(cluster)


@pytest.fixture(autouse=True)
def _references_of_one_test() -> Iterator[None]:
    """A process remembers what its connections refer to, such as addresses of brokers; tests share one."""
    before = dict(redact._references)
    yield
    redact._references.clear()
    redact._references.update(before)
    redact._pattern.cache_clear()


@pytest.fixture(scope="session")
def spark_server_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder with the log of this run's Spark Connect server."""
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
    """The `sc://` address of a Spark Connect server that all processes of the run share.

    The first test that uses it starts it.
    """
    return shared_server.ask(spark_server_folder)


@pytest.fixture(scope="session")
def engine() -> SparkTarget:
    """One warm Spark session for all tests of this process."""
    return SparkTarget(master="local[2]")


@pytest.fixture(scope="session", autouse=True)
def _end_jvms() -> Iterator[None]:
    """End the Spark session and Kafka's tools that the tests of this process started."""
    yield
    close()
    if "tests.toolbox" in sys.modules:
        sys.modules["tests.toolbox"].close_toolboxes()


class MainProcess:
    """A plugin of the process that distributes tests to workers."""

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
    """Show the command that repeats one failed test."""
    reports = [report for outcome in ("failed", "error") for report in terminalreporter.stats.get(outcome, [])]
    if reports:
        python = Path(sys.executable)
        command = python.relative_to(Path.cwd()) if python.is_relative_to(Path.cwd()) else python
        terminalreporter.section("run one of them again")
        repetitions = "RECONCILER_TEST_LONG=1 " if LONG else ""
        for nodeid in dict.fromkeys(report.nodeid for report in reports):
            terminalreporter.write_line(f"{repetitions}{command} -m pytest {shlex.quote(nodeid)}")
