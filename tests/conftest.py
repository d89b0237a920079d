"""Shared fixtures of all tests: real brokers, warm Spark, and the summary of failures.

It also distributes tests over worker processes.
"""

import gc
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster, start, stopping
from reconciler.companions.sandbox.registry import status
from reconciler.kafka.connect import Connection
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC
from reconciler.scan.engine_choice import Engine
from reconciler.scan.spark_process import close
from reconciler.text import redact
from tests.fakes.listener import Listener
from tests.repeats import LONG
from tests.schedule import GroupScheduling, sort_key, uses_three_brokers

# Idle brokers that ask each other twice a second for records of hundreds of topics take a fifth of a core,
# and each idle thread wakes three times a second.
PROPERTIES = {
    "default.replication.factor": "1",
    "replica.fetch.wait.max.ms": "2000",
    "num.network.threads": "1",
    "num.io.threads": "2",
}

# What collection makes stays until the end: no search for garbage meanwhile.
gc.disable()
# Compiled modules are kept, whatever the shell says: tests start a thousand processes of this program.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# jsonschema compiles 39 grammars when it finds this package, a second and a half in each process. They
# check the format `iri`, which no schema of the tests has.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
# By default an example fails after 200 ms, which a busy machine needs for any of them.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
# A shell that starts the tests in the background makes the tests, and all commands that they
# start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A run that is terminated ends its servers as after Ctrl-C.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A server of an attacker."""
    with closing(Listener()) as listening:
        yield listening


@pytest.fixture
def connection(cluster: SandboxCluster) -> Connection:
    return Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=20.0)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> SandboxCluster:
    """The brokers that all tests of this process share: three for the files of THREE_BROKERS, one for others.

    A topic has one replica by default. Use unique names, leave all brokers running, and leave no group that blocks other tests. Each
    worker has its own brokers, because two tests at the same time would disturb each other: if a
    group disappears while another test plans, that plan is blocked.

    RECONCILER_TEST_SANDBOX names a running sandbox, for quick repetitions. Manifests of the tests
    name its id: `reconciler sandbox up --name NAME --cluster-id c2FuZGJveC1zYW5kYm94MQ`.
    """
    if name := os.environ.get("RECONCILER_TEST_SANDBOX"):
        running = status(name)
        assert running is not None, f"RECONCILER_TEST_SANDBOX names {name}, which is not up"
        assert running.cluster_id == CLUSTER_ID, f"start {name} with --cluster-id {CLUSTER_ID}"
        return running
    brokers: SandboxCluster = request.getfixturevalue(
        "_three_brokers" if uses_three_brokers(request.node.nodeid) else "_one_broker"
    )
    return brokers


@pytest.fixture(scope="session")
def _three_brokers() -> Iterator[SandboxCluster]:
    with stopping(start(3, name="tests", properties=PROPERTIES)) as cluster:
        _create_consumer_offsets(cluster)
        yield cluster


@pytest.fixture(scope="session")
def _one_broker() -> Iterator[SandboxCluster]:
    with stopping(start(1, name="one-broker", properties=PROPERTIES)) as cluster:
        _create_consumer_offsets(cluster)
        yield cluster


def _create_consumer_offsets(cluster: SandboxCluster) -> None:
    """Let the brokers create `__consumer_offsets`, as they do when a client first asks for a coordinator."""
    admin = client.admin_client(cluster.bootstrap_servers)  # a reference: the futures of a collected client fail

    def is_created() -> bool:
        admin.describe_consumer_groups(["none"], request_timeout=5)["none"].exception(30)
        return bool(client.partition_states(cluster.bootstrap_servers, CONSUMER_OFFSETS_TOPIC))

    client.wait_until(is_created, 120, CONSUMER_OFFSETS_TOPIC)


@pytest.fixture(autouse=True)
def _references_of_one_test() -> Iterator[None]:
    """A process remembers what its connections refer to, such as addresses of brokers; tests share one."""
    before = dict(redact._references)
    yield
    redact._references.clear()
    redact._references.update(before)
    redact._pattern.cache_clear()


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine of one warm process of Spark for all tests of this process."""
    return Engine(master="local[2]")


@pytest.fixture(scope="session", autouse=True)
def _end_jvms() -> Iterator[None]:
    """End Spark and Kafka's tools that the tests of this process started."""
    yield
    close()
    if "tests.toolbox" in sys.modules:
        sys.modules["tests.toolbox"].close_toolboxes()


class MainProcess:
    """A plugin of the process that distributes tests to workers."""

    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> GroupScheduling:
        config.option.loadscopereorder = False
        return GroupScheduling(config, log)


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(MainProcess(), "reconciler-main-process")
        gc.enable()  # this process collects no tests


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Mark the tests of `cluster`, and sort all. Some unit tests have a fake of that name."""
    for item in items:
        if "cluster" in item.fixturenames and not item.nodeid.startswith("tests/unit/"):
            item.add_marker("brokers")
    items.sort(key=lambda item: sort_key(item.nodeid))


def pytest_collection_finish() -> None:
    """Leave the modules and items of all tests to no garbage collection: that took an eighth of the CPU time of tests."""
    gc.freeze()
    gc.enable()


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
