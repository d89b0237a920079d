"""Every exit code of the command line, which schedules, workflows and scripts depend on.

A table of commands that need no broker, a scenario on a real cluster, and exit codes without a
reader of the output. 5 and 130 are in test_interrupts.py.
"""

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from reconciler.model.names import Address
from reconciler.model.plan import LimitVerdict
from reconciler.plan import plan_file
from tests import kafka_client
from tests.command import command, environment, reconciler
from tests.strategies.examples import plan, purge, satisfied

FUTURE_MS = 4_102_444_800_000  # 2100
DAY_MS = 86_400_000
HEAD = """\
apiVersion: reconciler/v1
kind: Cluster
metadata: {name: %s}
spec: {clusterId: %s, bootstrapServers: %s%s}
---
"""
LEADERS = "apiVersion: reconciler/v1\nkind: LeaderPolicy\nmetadata: {name: leaders}\nspec: {topics: ['*']}\n"
REFUSED = LimitVerdict(
    id="topics", limit=1, observed=2, passed=False, message="topics: 2", worst=Address("RetentionFloor", "orders-gdpr")
)


@contextmanager
def unused_address() -> Iterator[str]:
    """Yield an address without a listener for the duration of the block."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with saved plans of every state, and manifests of an unavailable cluster."""
    root = tmp_path_factory.mktemp("codes")
    plan_with_actions = plan(purge(), expires_at_ms=FUTURE_MS)
    plan_file.write(plan_with_actions, root / "acts.json")
    plan_file.write(plan(satisfied("RetentionFloor/a/b[0]")), root / "settled.json")
    plan_file.write(plan(purge(), expires_at_ms=FUTURE_MS, limits=(REFUSED,)), root / "refused.json")
    plan_file.write(plan(purge(), observed_at_ms=1, expires_at_ms=2), root / "expired.json")
    plan_file.write(plan(purge(), expires_at_ms=FUTURE_MS, cluster_id="AAAAAAAAAAAAAAAAAAAAAA"), root / "other.json")
    text = (root / "acts.json").read_text()
    (root / "edited.json").write_text(text.replace("98213", "98214"))
    (root / "cut.json").write_text(text[:-200])
    (root / "newer.json").write_text(text.replace('"format_version": "3.0"', '"format_version": "4.0"'))
    with unused_address() as address:
        (root / "manifests").mkdir()
        head = HEAD % ("prod-eu", plan_with_actions.cluster_id, json.dumps([address]), "")
        (root / "manifests" / "all.yaml").write_text(head + LEADERS)
        (root / "wrong").mkdir()
        (root / "wrong" / "all.yaml").write_text(head + LEADERS.replace("topics", "topcis"))
        (root / "two").mkdir()
        (root / "two" / "all.yaml").write_text(
            HEAD % ("one", "AAAAAAAAAAAAAAAAAAAAAA", json.dumps([address]), "")
            + HEAD % ("two", CLUSTER_ID, json.dumps([address]), "")
            + LEADERS.replace("{name: leaders}", "{name: leaders, cluster: one}")
        )
        yield root


SHORT_TIMEOUT = ("--timeout", "3")


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, ["--version"]),
        (0, ["validate"]),
        (0, ["show", "acts.json"]),
        (0, ["show", "settled.json", "--detailed-exitcode"]),
        (0, ["plan", "diff", "acts.json", "settled.json"]),
        (0, ["explain", "B204"]),
        (0, ["explain", "RetentionFloor/orders-gdpr/orders[3]", "acts.json"]),
        (1, ["validate", "wrong"]),
        (1, ["plan", "wrong"]),
        (1, ["apply", "acts.json", "wrong"]),
        (1, ["plan", *SHORT_TIMEOUT]),
        (1, ["drift", *SHORT_TIMEOUT]),
        (1, ["converge", *SHORT_TIMEOUT]),
        (1, ["apply", "acts.json", *SHORT_TIMEOUT]),
        (2, ["show", "acts.json", "--detailed-exitcode"]),
        (3, ["show", "refused.json"]),
        (3, ["show", "refused.json", "--detailed-exitcode"]),
        (3, ["apply", "refused.json"]),
        (4, ["show", "edited.json"]),
        (4, ["show", "cut.json"]),
        (4, ["show", "newer.json"]),
        (4, ["show", "nowhere.json"]),
        (4, ["plan", "diff", "acts.json", "edited.json"]),
        (4, ["plan", "--within", "edited.json"]),
        (4, ["explain", "RetentionFloor/orders-gdpr/orders[3]", "cut.json"]),
        (4, ["apply", "expired.json"]),
        (4, ["apply", "edited.json"]),
        (4, ["apply", "other.json"]),
        (4, ["apply", "acts.json", "--expect-digest", "sha256:" + "0" * 64]),
        (4, ["apply", "acts.json", "--expect-digest", ""]),
        (64, ["apply", "acts.json", "-o", "sarif"]),
        (64, ["apply", "acts.json", "--output-file", "results.json"]),
        (64, ["apply", "acts.json", "--output-file", "md=acts.json/results.md"]),
        (64, ["apply", "acts.json", "--results", "acts.json/results.json"]),
        (64, ["apply", "acts.json", "--results", "manifests"]),
        (64, ["watch", "--every", "10"]),
        (64, ["plan", "--expires-after", "9999999d"]),
        (64, ["no-such-command"]),
        (64, ["plan", "--no-such-flag"]),
        (64, ["plan", "--expires-after", "soon"]),
        (64, ["plan", "two", "--out", "x.json", *SHORT_TIMEOUT]),
        (64, ["plan", "--cluster", "nowhere"]),
        (64, ["apply"]),
        (64, ["show"]),
        (64, ["show", "acts.json", "-o", "sarif"]),
        (64, ["explain", "B999"]),
        (64, ["explain", "no address", "acts.json"]),
        (64, ["explain", "RetentionFloor/orders-gdpr/orders[4]", "acts.json"]),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else " ".join(value),
)
def test_exit_codes_without_a_broker(folder: Path, code: int, arguments: list[str]) -> None:
    """Each command has its exit code; an error is one line without a traceback."""
    result = reconciler(folder, *arguments)
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert "this is a bug" not in result.stderr
    assert code in (0, 2) or re.search("^error", result.stderr, re.MULTILINE), result.stderr


def exit_code_without_reader(folder: Path, *arguments: str, stdout: bool = True, **variables: str) -> int:
    """Return the exit code of a process whose stderr has no reader.

    Its stdout has no reader either, unless `stdout` is False.
    """
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    try:
        return subprocess.run(
            command(*arguments),
            cwd=folder,
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=write_fd if stdout else subprocess.DEVNULL,
            stderr=write_fd,
            timeout=300,
            check=False,
        ).returncode
    finally:
        os.close(write_fd)


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, ["validate"]),
        (1, ["validate", "wrong"]),
        (1, ["drift", *SHORT_TIMEOUT]),
        (1, ["converge", *SHORT_TIMEOUT]),
        (2, ["show", "acts.json", "--detailed-exitcode"]),
        (3, ["show", "refused.json"]),
        (3, ["apply", "refused.json"]),
        (4, ["apply", "expired.json", "-v"]),
        (64, ["plan", "--no-such-flag"]),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else " ".join(value),
)
def test_a_closed_stderr_does_not_change_the_code(folder: Path, code: int, arguments: list[str]) -> None:
    """Unwritable text once failed again in the flush at exit, and the code was 120."""
    assert exit_code_without_reader(folder, *arguments, stdout=False) == code


@pytest.mark.parametrize("arguments", [["show", "refused.json"], ["validate"], ["--version"], ["--help"]], ids=" ".join)
def test_a_closed_stdout_is_an_error(folder: Path, arguments: list[str]) -> None:
    """Output that cannot be printed is exit code 1, not the interpreter's 120."""
    assert exit_code_without_reader(folder, *arguments) == 1


@pytest.mark.parametrize("arguments", [["show", "refused.json"], ["validate"], ["--version"], ["--help"]], ids=" ".join)
def test_a_full_disk_is_an_error_of_one_line(folder: Path, arguments: list[str]) -> None:
    """The error names standard output, and is neither a bug nor the interpreter's 120."""
    with Path("/dev/full").open("wb") as full_device:
        result = subprocess.run(
            command(*arguments),
            cwd=folder,
            env=environment(),
            stdout=full_device,
            stderr=subprocess.PIPE,
            timeout=300,
            check=False,
        )
    assert result.returncode == 1
    [line] = result.stderr.decode().splitlines()
    assert line.startswith("error: standard output could not be written")


@pytest.mark.brokers
def test_exit_codes_on_a_cluster(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Plan, drift, apply and converge exit with 0, 2, 3 and 4, with and without a reader."""
    mark = uuid4().hex[:8]
    topic = f"codes-{mark}"
    servers = cluster.bootstrap_servers
    client.create_topics(servers, [Topic(topic)])
    client.produce(servers, topic, {0: [Record(b"x", timestamp_ms=int(time.time() * 1000) - 30 * DAY_MS)] * 100})
    file = tmp_path / "manifests" / "all.yaml"
    file.parent.mkdir()

    def manifests(
        *, limits: str = "recordsPercentPerTopic: 100, recordsPercent: 100", protect: str = "", last: int = 90
    ) -> None:
        spec = f", limits: {{{limits}}}{protect}"
        file.write_text(
            HEAD % ("local", CLUSTER_ID, json.dumps(servers.split(",")), spec)
            + "apiVersion: reconciler/v1\nkind: RetentionFloor\nmetadata: {name: codes}\nmode: continuous\n"
            + f"spec: {{topics: [{topic}], keep: {{last: {last}}}, driftAfter: 0s}}\n"
        )

    def code(*arguments: str) -> int:
        result = reconciler(tmp_path, *arguments)
        assert "Traceback" not in result.stderr, result.stderr
        return result.returncode

    def code_without_reader(*arguments: str, stdout: bool = True) -> int:
        return exit_code_without_reader(tmp_path, *arguments, stdout=stdout)

    manifests()
    assert code("plan", "--out", "plan.json", "--detailed-exitcode") == 2
    assert code("plan", "--out", "again.json") == 0
    assert code("drift") == 2
    assert code_without_reader("drift", stdout=False) == 2
    manifests(limits="topics: 0")
    assert code("plan", "--out", "refused.json", "--detailed-exitcode") == 3
    assert code("apply", "refused.json") == 3
    limited = reconciler(tmp_path, "apply", "plan.json")
    assert limited.returncode == 3, "the present limit refuses the older plan"
    text = " ".join(limited.stdout.split())
    assert "topics: topics that lose records: 1, the limit is 0" in text, "it once said: a limit refuses the plan"
    assert "Next: not attempted: do less at once, or let a review add" in text, "it once said: run the command again"
    assert code("converge") == 3
    assert code_without_reader("converge", stdout=False) == 3
    manifests(protect=f", protect: {{topics: [{topic}]}}")
    assert code("apply", "plan.json") == 3, "the present protection refuses the older plan"
    manifests()
    assert code("apply", "plan.json", "--dry-run") == 0
    assert code_without_reader("apply", "plan.json") == 0, "the exit code does not depend on a reader"
    assert client.watermarks(servers, topic, 0)[0] == 10
    assert code("apply", "plan.json") == 0
    assert code("apply", "again.json") == 0, "another run has applied it"
    assert code("plan", "--detailed-exitcode") == 0
    assert code("drift") == 0
    manifests(last=50)
    assert code("plan", "--out", "older.json", "--detailed-exitcode") == 2
    kafka_client.delete_topics(servers, [topic])
    client.create_topics(servers, [Topic(topic)])
    client.produce(servers, topic, {0: [Record(b"x")] * 100})
    assert code("apply", "older.json") == 4, "the topic has another id"
    assert client.watermarks(servers, topic, 0) == (0, 100)
    with unused_address() as address:
        two_clusters = tmp_path / "both"
        two_clusters.mkdir()
        policies = file.read_text().replace("name: codes}", "name: codes, cluster: local}")
        (two_clusters / "all.yaml").write_text(
            HEAD % ("away", "AAAAAAAAAAAAAAAAAAAAAA", json.dumps([address]), "") + policies
        )
        assert code("converge", "both", *SHORT_TIMEOUT) == 1
        assert client.watermarks(servers, topic, 0)[0] == 50, (
            "an unavailable cluster does not stop the purges of another"
        )
    file.write_text(file.read_text().replace(CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAAAA"))
    assert code("plan") == 4
