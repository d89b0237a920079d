"""What all tests share: real brokers, warm Spark, how tests are spread over processes, and what a failure prints."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.sandbox.cluster import Cluster
from reconciler.sandbox.named import status
from reconciler.scan.scan import Engine, close
from tests import services
from tests.schedule import GroupScheduling, sort_key

# A shell that starts the tests in the background makes them, and every command that they start, deaf to Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, shared by all tests of the run, in other processes too: use names of your own, and leave all brokers running.

    RECONCILER_TEST_SANDBOX names a sandbox that is up already (`reconciler sandbox up --name …`), for quick repeats.
    """
    name = os.environ.get("RECONCILER_TEST_SANDBOX")
    if name:
        running = status(name)
        assert running is not None, f"RECONCILER_TEST_SANDBOX names {name}, which is not up"
        yield running
        return
    yield from _service("brokers", request.config, tmp_path_factory)


@pytest.fixture(scope="session")
def spark_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The `sc://` address of a Spark Connect server, shared by all tests of the run."""
    yield from _service("spark_connect", request.config, tmp_path_factory)


def _service(name: str, config: pytest.Config, folders: pytest.TempPathFactory) -> Iterator[Any]:
    shared = _worker_input(config).get("services")
    if shared is not None:
        yield services.ask(Path(shared), name)
        return
    with services.SERVICES[name](folders.mktemp(name)) as server:
        yield server


@pytest.fixture(scope="session")
def engine() -> Engine:
    """One warm Spark session for all tests that scan in this process."""
    return Engine(master="local[2]")


@pytest.fixture(scope="session", autouse=True)
def _end_spark() -> Iterator[None]:
    """End this process's Spark session, whichever test started it."""
    yield
    close()


class MainProcess:
    """A plugin of the process that hands tests out to workers: it owns the servers that they share."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="reconciler-tests-", ignore_cleanup_errors=True)
        self._host = services.ServiceHost(Path(self._folder.name))

    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["services"] = self._folder.name

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> GroupScheduling:
        config.option.loadscopereorder = False
        return GroupScheduling(config, log)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._host.close()
        self._folder.cleanup()


def _worker_input(config: pytest.Config) -> dict[str, Any]:
    """What the main process told this worker; empty in a run without workers."""
    found: dict[str, Any] = getattr(config, "workerinput", {})
    return found


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
        for nodeid in dict.fromkeys(report.nodeid for report in reports):
            terminalreporter.write_line(f"{command} -m pytest '{nodeid}'")
