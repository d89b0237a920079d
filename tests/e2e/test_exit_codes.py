"""Every exit code of the command line, which schedules, workflows and scripts depend on.

A table of commands that need no broker, a scenario on a real cluster, and exit codes without a
reader of the output. 5 and 130 are in test_interrupts.py.
"""

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import CLUSTER_ID
from reconciler.model.names import Address
from reconciler.model.plan import LimitVerdict
from reconciler.plan import plan_file
from tests import kafka_client
from tests.build import cluster_manifest
from tests.command import command, reconciler, reconciler_process, run_process
from tests.e2e.workspace import DAY_MS, OPEN_LIMITS, Workspace, floor, leaders
from tests.strategies.examples import plan, purge, satisfied

FUTURE_MS = 4_102_444_800_000  # 2100
OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
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
    (root / "no-plan.json").write_text("{}")
    (root / "empty").mkdir()
    (root / "newer.json").write_text(text.replace('"format_version": "3.0"', '"format_version": "4.0"'))
    with unused_address() as address:

        def declare(name: str, cluster_id: str) -> str:
            return cluster_manifest(address, limits="", cluster_id=cluster_id, name=name)

        own, other, second = (
            declare("prod-eu", plan_with_actions.cluster_id),
            declare("one", OTHER_CLUSTER),
            declare("two", CLUSTER_ID),
        )
        for folder, documents in (
            ("manifests", (own, leaders("'*'"))),
            ("wrong", (own, leaders("'*'").replace("topics", "topcis"))),
            ("two", (other, second, leaders("'*'", name="leaders, cluster: one"))),
        ):
            (root / folder).mkdir()
            (root / folder / "all.yaml").write_text("---\n".join(documents))
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
        (1, ["validate", "empty"]),
        (1, ["validate", "not-there"]),
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
        (4, ["apply", "no-plan.json"]),
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
    assert code != 64 or result.stdout == ""
    assert code in (0, 2) or re.search("^error", result.stderr, re.MULTILINE), result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["validate", "wrong"], ["wrong/all.yaml:11:8", "did you mean `topics`?"]),
        (["plan", "--no-such-flag"], ["--no-such-flag"]),
        (["apply"], ["plan --out"]),
        (["apply", "no-plan.json"], ["no-plan.json"]),
    ],
    ids=" ".join,
)
def test_an_error_names_what_is_wrong_and_what_to_do(folder: Path, arguments: list[str], words: list[str]) -> None:
    """A place with its line and column, an option, a file, or the next command."""
    stderr = reconciler(folder, *arguments).stderr
    for word in words:
        assert word in stderr


def test_an_unavailable_broker_is_one_error_line_within_the_timeout(folder: Path) -> None:
    """One error line with the address and the timeout, exit 1, no log of the client library."""
    start = time.monotonic()
    result = reconciler_process(folder, "plan", "-q", "--timeout", "4")
    assert (result.returncode, result.stdout) == (1, "")
    [line] = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert re.search(r"127\.0\.0\.1:\d+", line)
    assert time.monotonic() - start < 60


def exit_code_without_reader(folder: Path, *arguments: str, stdout: bool = True) -> int:
    """Return the exit code of a process whose stderr has no reader.

    Its stdout has no reader either, unless `stdout` is False.
    """
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    with open(write_fd, "wb") as pipe:  # noqa: PTH123 - a descriptor
        output = pipe if stdout else subprocess.DEVNULL
        return run_process(folder, *command(*arguments), stdout=output, stderr=pipe).returncode


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
def test_output_that_cannot_be_printed_is_an_error(folder: Path, arguments: list[str]) -> None:
    """Exit code 1, not the interpreter's 120. On a full disk, one line names standard output, and is no bug."""
    assert exit_code_without_reader(folder, *arguments) == 1
    with Path("/dev/full").open("wb") as full_device:
        result = run_process(folder, *command(*arguments), stdout=full_device)
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("error: standard output could not be written")


def test_exit_codes_on_a_cluster(space: Workspace) -> None:
    """Plan, drift, apply and converge exit with 0, 2, 3 and 4, with and without a reader."""
    servers, topic = space.servers, space.create_topic(age_ms=30 * DAY_MS)

    def manifests(*, limits: str = OPEN_LIMITS, more: str = "", last: int = 90) -> None:
        rule = f"keep: {{last: {last}}}, driftAfter: 0s"
        space.write(floor(topic, rule, name="codes", mode="continuous"), limits=limits, more=more)

    def code(*arguments: str) -> int:
        result = reconciler(space.folder, *arguments)
        assert "Traceback" not in result.stderr, result.stderr
        return result.returncode

    def code_without_reader(*arguments: str, stdout: bool = True) -> int:
        return exit_code_without_reader(space.folder, *arguments, stdout=stdout)

    manifests()
    assert code("plan", "--out", "plan.json", "--detailed-exitcode") == 2
    assert code("plan", "--out", "again.json") == 0
    assert code("drift") == 2
    assert code_without_reader("drift", stdout=False) == 2
    manifests(limits="topics: 0")
    assert code("plan", "--out", "refused.json", "--detailed-exitcode") == 3
    assert code("apply", "refused.json") == 3
    text = " ".join(space.apply(code=3).split())  # the present limit refuses the older plan
    assert "topics: topics that lose records: 1, the limit is 0" in text, "it once said: a limit refuses the plan"
    assert "Next: not attempted: do less at once, or let a review add" in text, "it once said: run the command again"
    assert code("converge") == 3
    assert code_without_reader("converge", stdout=False) == 3
    manifests(more=f"protect: {{topics: [{topic}]}}")
    assert code("apply", "plan.json") == 3, "the present protection refuses the older plan"
    manifests()
    assert code("apply", "plan.json", "--expect-digest", f"sha256:{0:064}") == 4, "another plan"
    assert code("apply", "plan.json", "--dry-run") == 0
    assert space.log_start(topic) == 0
    assert code_without_reader("apply", "plan.json") == 0, "the exit code does not depend on a reader"
    assert space.log_start(topic) == 10
    assert code("apply", "plan.json") == 0
    assert code("apply", "again.json") == 0, "another run has applied it"
    assert code("plan", "--detailed-exitcode") == 0
    assert code("drift") == 0
    manifests(last=50)
    assert code("plan", "--out", "older.json", "--detailed-exitcode") == 2
    kafka_client.delete_topics(servers, [topic])
    space.create_topic(name=topic)
    assert code("apply", "older.json") == 4, "the topic has another id"
    assert client.watermarks(servers, topic, 0) == (0, 100)
    with unused_address() as address:
        two_clusters = space.folder / "both"
        two_clusters.mkdir()
        away = cluster_manifest(address, limits="", cluster_id=OTHER_CLUSTER, name="away")
        policies = space.manifest.read_text().replace("name: codes}", "name: codes, cluster: local}")
        (two_clusters / "all.yaml").write_text(f"{away}---\n{policies}")
        assert code("converge", "both", *SHORT_TIMEOUT) == 1
        assert space.log_start(topic) == 50, "an unavailable cluster does not stop the purges of another"
    space.edit(CLUSTER_ID, OTHER_CLUSTER)
    refused = space.run("plan", code=4)
    assert CLUSTER_ID in refused
    assert OTHER_CLUSTER in refused
