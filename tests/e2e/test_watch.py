"""`watch` on real brokers, while its manifests change under it."""

import re
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from tests.build import cluster_manifest
from tests.command import running
from tests.terminal import run_on_terminal, screen
from tests.toolbox import log_start_offsets

pytestmark = pytest.mark.brokers

FLOOR = """\
apiVersion: reconciler/v1
kind: RetentionFloor
metadata: {{name: floor}}
mode: continuous
spec:
  topics: [{topics}]
  keep: {{{last}: 40}}
  every: 1s
"""


def protecting(cluster: SandboxCluster, topics: str) -> str:
    """Return the Cluster with protected topics."""
    limits = "recordsPercentPerTopic: 100, recordsPercent: 100"
    return f"{cluster_manifest(cluster.bootstrap_servers, limits=limits)}  protect: {{topics: [{topics}]}}\n"


def test_a_protection_holds_for_a_watch_that_began_before_it(cluster: SandboxCluster, tmp_path: Path) -> None:
    """The manifests are invalid in the same moment: the old policies go on, without the protected topic."""
    mark = uuid4().hex[:8]
    protected, purged = f"protected-{mark}", f"purged-{mark}"
    client.create_topics(cluster.bootstrap_servers, [Topic(protected), Topic(purged)])
    for topic in (protected, purged):
        client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 100})

    def write(protect: str, last: str) -> None:
        write_file(tmp_path / "cluster.yaml", protecting(cluster, protect))
        write_file(tmp_path / "floor.yaml", FLOOR.format(topics=f"{protected}, {purged}", last=last))

    write("nothing-yet", "last")
    with running(tmp_path, "watch", str(tmp_path), "--every", "1s", "-q") as errors:
        for topic in (protected, purged):
            wait_for_log_start(cluster, topic, 60)
        write(protected, "lsat")
        message = "the last valid ones stay in force, with what Cluster/local protects now"
        client.wait_until(lambda: message in errors.read_text(), 120, "a round with invalid manifests")
        for topic in (protected, purged):
            client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 100})
        wait_for_log_start(cluster, purged, 160)
    assert log_start_offsets(cluster, protected) == {0: 60}
    assert "lsat" in errors.read_text()


def test_a_half_written_checkout_purges_nothing(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Git writes a new floor before the Cluster that protects its topic, and neither commit purges it.

    The last set stays in force in the meantime, except where the new floor claims a topic, too.
    """
    mark = uuid4().hex[:8]
    audit, clicks, shared = (f"{name}-{mark}" for name in ("audit", "clicks", "clicks-shared"))
    client.create_topics(cluster.bootstrap_servers, [Topic(audit), Topic(clicks), Topic(shared)])
    folder = tmp_path / "manifests"
    folder.mkdir()

    def produce() -> None:
        for topic in (audit, clicks, shared):
            client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 100})

    def write_cluster(protect: str) -> None:
        write_file(folder / "cluster.yaml", protecting(cluster, protect))

    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", tmp_path, *identity, *words], check=True, timeout=30)

    def commit() -> None:
        git("add", "-A")
        git("commit", "-q", "-m", "x")

    write_cluster("nothing-yet")
    floor = FLOOR.format(topics=f'"clicks-*{mark}"', last="last").replace("keep:", "expectAtMost: 2\n  keep:")
    write_file(folder / "floor.yaml", floor)
    (tmp_path / ".gitignore").write_text(".reconciler/\nerrors.txt\n")
    git("init", "-q")
    commit()
    produce()
    with running(tmp_path, "converge", str(folder), "--every", "1s", "-q") as errors:
        for topic in (clicks, shared):
            wait_for_log_start(cluster, topic, 60)
        (tmp_path / ".git" / "index.lock").touch()
        more = FLOOR.replace("name: floor", "name: more").format(topics=f"{audit}, {shared}", last="last")
        write_file(folder / "a.yaml", more)
        message = "the changed manifests are not in force yet: git is changing the checkout"
        client.wait_until(lambda: message in errors.read_text(), 120, "a round with changed manifests")
        produce()
        wait_for_log_start(cluster, clicks, 160)
        assert log_start_offsets(cluster, audit) == {0: 0}
        assert log_start_offsets(cluster, shared) == {0: 60}, "the changed manifests claim it, too"
        write_cluster(audit)
        write_file(folder / "floor.yaml", floor.replace("keep:", f"exceptTopics: [{shared}]\n  keep:"))
        (tmp_path / ".git" / "index.lock").unlink()
        commit()
        wait_for_log_start(cluster, shared, 160)
    assert log_start_offsets(cluster, audit) == {0: 0}


def watch_a_round(cluster: SandboxCluster, folder: Path, *, limits: str = "") -> tuple[str, str]:
    """Watch a topic of 100 records, whose newest 40 are kept, on a terminal for a round; return its name and the output."""
    topic = f"shown-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 100})
    manifest = protecting(cluster, "nothing")
    write_file(folder / "cluster.yaml", manifest.replace("limits: {", f"limits: {{{limits}"))
    write_file(folder / "floor.yaml", FLOOR.format(topics=topic, last="last"))
    words = ("-m", "reconciler", "watch", str(folder), "--every", "900s")
    return topic, run_on_terminal(*words, columns=200, until="next round in")


def test_a_watch_on_a_terminal_leaves_no_spinner(cluster: SandboxCluster, tmp_path: Path) -> None:
    """The plan of a round once began behind a spinner, and nothing said when the next round is."""
    topic, written = watch_a_round(cluster, tmp_path)
    shown = [line for line in screen(written) if line]
    assert topic in written, "the plan of the round"
    assert not [line for line in shown if re.search("[\u2800-\u28ff\u2501]", line)], shown
    assert not [line for line in shown if "next round" in line], "the status is a line that disappears"
    assert re.search(
        r"0 blocked, next round in 1[45] min( \d+ s)?, last purge \S+ \(1 partition, at most 60 records\)", written
    )
    assert log_start_offsets(cluster, topic) == {0: 60}


def test_a_limit_that_refuses_each_round_is_in_the_status_line(cluster: SandboxCluster, tmp_path: Path) -> None:
    """It said `0 blocked` while a limit refused every round, so nothing was ever done."""
    topic, written = watch_a_round(cluster, tmp_path, limits="topics: 0, ")
    assert re.search(r"refused by topics, 0 blocked, next round in 1[45] min( \d+ s)?, no purge yet", written)
    assert log_start_offsets(cluster, topic) == {0: 0}


def write_file(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def wait_for_log_start(cluster: SandboxCluster, topic: str, offset: int) -> None:
    client.wait_until(
        lambda: log_start_offsets(cluster, topic) == {0: offset}, 180, f"the log start {offset} of {topic}", every_s=0.5
    )
