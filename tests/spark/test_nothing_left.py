"""A failed scan leaves one line with the reason, no process and no file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.ports import free_addresses
from tests.build import policy, write_manifests
from tests.spark.processes import run_reconciler

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(servers: str, unique: str, tmp_path: Path) -> Run:
    """`run(*arguments)` runs `reconciler` with manifests that need the scan of a topic."""
    client.create_topics(servers, [Topic(unique)])
    client.produce(servers, unique, {0: [Record(b"x")] * 3})
    write_floor(tmp_path, servers, unique)
    return partial(run_reconciler, tmp_path, unique)


def write_floor(folder: Path, servers: str, topic: str, keep: str = "newerThan: 7d") -> None:
    """Write manifests with a policy that needs the scan."""
    write_manifests(
        folder, servers, policy("RetentionFloor", "floor", f"topics: [{topic}], keep: {{{keep}}}"), limits=""
    )


@pytest.mark.parametrize("moment", ["connecting", "waiting for Spark", "reading"])
def test_ctrl_c_leaves_no_process(run: Run, moment: str) -> None:
    """An interrupt during the start, the wait and the read exits with 130 and ends the JVM and the workers."""
    code, stderr = run("plan", interrupt_at=moment)
    assert code == 130, stderr


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        ((), {}, 1),
        (("--engine", "spark"), {"RECONCILER_ENGINE": "inline"}, 1),
        (("--engine", "auto"), {}, 0),
        ((), {"RECONCILER_ENGINE": "inline"}, 0),
    ],
    ids=["by default", "the option comes before the variable", "--engine auto", "RECONCILER_ENGINE=inline"],
)
def test_a_plan_without_java(run: Run, arguments: tuple[str, ...], variables: dict[str, str], expected: int) -> None:
    """Spark prints one line with the ways out, and leaves nothing. `inline` plans, and `auto`, which takes it."""
    code, stderr = run("plan", *arguments, java=False, **variables)
    assert code == expected, stderr
    if code == 0:
        assert " partitions, " in stderr  # the progress of the reading
        assert "Spark" not in stderr
    else:
        (line,) = [line for line in stderr.splitlines() if "Java" in line]
        assert all(words in line for words in ("Java 17 or later is needed", "openjdk-17", "--engine inline"))


def test_apply_rechecks_without_a_jvm(run: Run, servers: str, unique: str, tmp_path: Path) -> None:
    """The recheck reads a few subjects inline, whatever the engine of the plan is: here without Java."""
    write_floor(tmp_path, servers, unique, keep="fromOffset: {0: 2}")
    plan = ("plan", "--out", "plan.json", "--engine", "inline")
    for words, java in ((plan, True), (("apply", "plan.json"), False)):
        code, stderr = run(*words, java=java)
        assert code == 0, stderr
    assert client.watermarks(servers, unique, 0) == (2, 3)


@pytest.mark.parametrize(
    "conf",
    ["spark.driver.extraJavaOptions=-agentpath:/nowhere", "spark.driver.bindAddress=203.0.113.1"],
    ids=["a JVM that dies", "a context that cannot start"],
)
def test_a_session_that_fails_leaves_nothing(run: Run, conf: str) -> None:
    """A JVM that fails to start and a context that fails both end; the log that the error names remains."""
    code, stderr = run("plan", "--spark-conf", conf, names_files=True)
    assert code == 1
    (line,) = [line for line in stderr.splitlines() if "did not start a session: " in line]
    assert Path(line.rpartition(" ")[2]).is_file()


def test_an_unreachable_cluster_leaves_no_session(run: Run, unique: str, tmp_path: Path) -> None:
    """The session starts before the program knows that no broker answers; it ends with the plan."""
    (address,) = free_addresses(1)
    write_floor(tmp_path, f"127.0.0.1:{address.port}", unique)
    code, stderr = run("plan", "--timeout", "2")
    assert code == 1
    assert f"127.0.0.1:{address.port}" in stderr
