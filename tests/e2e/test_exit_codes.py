"""Every exit code of the command line, which schedules, workflows and scripts depend on.

A table of commands that need no broker, a scenario on a real cluster, and exit codes without a
reader of the output. 5 and 130 are in test_interrupts.py.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.model.names import Address
from reconciler.model.plan import LimitVerdict
from reconciler.plan import plan_file
from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import CLUSTER_ID, Cluster
from tests import kafka_client
from tests.command import command, environment, reconciler
from tests.strategies.examples import plan, purge, satisfied

FAR_MS = 4_102_444_800_000  # 2100
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
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with all sorts of saved plans, and manifests of an unavailable cluster."""
    root = tmp_path_factory.mktemp("codes")
    acts = plan(purge(), expires_at_ms=FAR_MS)
    plan_file.write(acts, root / "acts.json")
    plan_file.write(plan(satisfied("RetentionFloor/a/b[0]")), root / "settled.json")
    plan_file.write(plan(purge(), expires_at_ms=FAR_MS, limits=(REFUSED,)), root / "refused.json")
    plan_file.write(plan(purge(), observed_at_ms=1, expires_at_ms=2), root / "expired.json")
    plan_file.write(plan(purge(), expires_at_ms=FAR_MS, cluster_id="AAAAAAAAAAAAAAAAAAAAAA"), root / "other.json")
    text = (root / "acts.json").read_text()
    (root / "edited.json").write_text(text.replace("98213", "98214"))
    (root / "cut.json").write_text(text[:-200])
    (root / "newer.json").write_text(text.replace('"format_version": "2.0"', '"format_version": "3.0"'))
    with unused_address() as away:
        (root / "manifests").mkdir()
        head = HEAD % ("prod-eu", acts.cluster_id, json.dumps([away]), "")
        (root / "manifests" / "all.yaml").write_text(head + LEADERS)
        (root / "wrong").mkdir()
        (root / "wrong" / "all.yaml").write_text(head + LEADERS.replace("topics", "topcis"))
        (root / "two").mkdir()
        (root / "two" / "all.yaml").write_text(
            HEAD % ("one", "AAAAAAAAAAAAAAAAAAAAAA", json.dumps([away]), "")
            + HEAD % ("two", CLUSTER_ID, json.dumps([away]), "")
            + LEADERS.replace("{name: leaders}", "{name: leaders, cluster: one}")
        )
        yield root


AWAY = ("--timeout", "3")


@pytest.mark.parametrize(
    ("code", "words"),
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
        (1, ["plan", *AWAY]),
        (1, ["drift", *AWAY]),
        (1, ["converge", *AWAY]),
        (1, ["apply", "acts.json", *AWAY]),
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
        (64, ["plan", "two", "--out", "x.json", *AWAY]),
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
def test_without_a_broker(folder: Path, code: int, words: list[str]) -> None:
    """The table of README.md; an error is one line without a traceback."""
    answer = reconciler(folder, *words)
    assert answer.returncode == code, answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr
    assert "this is a bug" not in answer.stderr
    assert code in (0, 2) or answer.stderr.startswith(("error", "[")), answer.stderr


def unread(folder: Path, *words: str, stdout: bool = True, **more: str) -> int:
    """Return the exit code of a process whose reader closed stderr, and also stdout unless `stdout` is False."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            command(*words),
            cwd=folder,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=writing if stdout else subprocess.DEVNULL,
            stderr=writing,
            timeout=300,
            check=False,
        ).returncode
    finally:
        os.close(writing)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, ["validate"]),
        (1, ["validate", "wrong"]),
        (1, ["drift", *AWAY]),
        (1, ["converge", *AWAY]),
        (2, ["show", "acts.json", "--detailed-exitcode"]),
        (3, ["show", "refused.json"]),
        (3, ["apply", "refused.json"]),
        (4, ["apply", "expired.json", "-v"]),
        (64, ["plan", "--no-such-flag"]),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else " ".join(value),
)
def test_a_closed_stderr_does_not_change_the_code(folder: Path, code: int, words: list[str]) -> None:
    """Text that could not be written to stderr once failed again in the flush at exit, and the code was 120."""
    assert unread(folder, *words, stdout=False) == code


@pytest.mark.parametrize("words", [["show", "refused.json"], ["validate"], ["--version"], ["--help"]], ids=" ".join)
def test_a_closed_stdout_is_an_error(folder: Path, words: list[str]) -> None:
    """A plan that cannot be printed fails with 1, not with the interpreter's 120. For apply see below."""
    assert unread(folder, *words) == 1


@pytest.mark.parametrize("words", [["show", "refused.json"], ["validate"], ["--version"], ["--help"]], ids=" ".join)
def test_a_full_disk_is_an_error_of_one_line(folder: Path, words: list[str]) -> None:
    """The error names standard output, and is neither a bug nor the interpreter's 120."""
    with Path("/dev/full").open("wb") as full:
        answer = subprocess.run(
            command(*words),
            cwd=folder,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=300,
            check=False,
        )
    assert answer.returncode == 1
    [line] = answer.stderr.decode().splitlines()
    assert line.startswith("error: standard output could not be written")


@pytest.mark.brokers
@pytest.mark.spark
def test_on_a_cluster(cluster: Cluster, spark_server: str, tmp_path: Path) -> None:
    """0, 2, 3 and 4 of plan, drift, apply and converge, each after one small change, with and without a reader."""
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
        more = f", limits: {{{limits}}}{protect}"
        file.write_text(
            HEAD % ("local", CLUSTER_ID, json.dumps(servers.split(",")), more)
            + "apiVersion: reconciler/v1\nkind: RetentionFloor\nmetadata: {name: codes}\nmode: continuous\n"
            + f"spec: {{topics: [{topic}], keep: {{last: {last}}}, driftAfter: 0s}}\n"
        )

    def code(*words: str) -> int:
        answer = reconciler(tmp_path, *words)
        assert "Traceback" not in answer.stderr, answer.stderr
        return answer.returncode

    def code_without_reader(*words: str, stdout: bool = True) -> int:
        return unread(tmp_path, *words, stdout=stdout, SPARK_REMOTE=spark_server)

    manifests()
    assert code("plan", "--out", "plan.json", "--detailed-exitcode") == 2
    assert code("plan", "--out", "again.json") == 0
    assert code("drift") == 2
    assert code_without_reader("drift", stdout=False) == 2
    manifests(limits="topics: 0")
    assert code("plan", "--out", "refused.json", "--detailed-exitcode") == 3
    assert code("apply", "refused.json") == 3
    assert code("apply", "plan.json") == 3, "the present limit refuses the older plan"
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
    assert code("apply", "older.json") == 4, "the topic is another one"
    assert client.watermarks(servers, topic, 0) == (0, 100)
    with unused_address() as away:
        both = tmp_path / "both"
        both.mkdir()
        here = file.read_text().replace("name: codes}", "name: codes, cluster: local}")
        (both / "all.yaml").write_text(HEAD % ("away", "AAAAAAAAAAAAAAAAAAAAAA", json.dumps([away]), "") + here)
        assert code("converge", "both", *AWAY) == 1
        assert client.watermarks(servers, topic, 0)[0] == 50, (
            "an unavailable cluster does not stop the purges of another"
        )
    file.write_text(file.read_text().replace(CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAAAA"))
    assert code("plan") == 4
