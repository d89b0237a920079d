"""`watch` on real brokers, while its manifests change under it."""

import re
from pathlib import Path
from uuid import uuid4

from reconciler.companions.sandbox import client
from tests.build import cluster_manifest, commit, git
from tests.command import running
from tests.e2e.workspace import Workspace, floor
from tests.terminal import run_on_terminal, screen

KEEP = "keep: {last: 40}, every: 1s"


def protecting(space: Workspace, topics: str, limits: str = "") -> str:
    limits += "recordsPercentPerTopic: 100, recordsPercent: 100"
    return f"{cluster_manifest(space.servers, limits=limits)}  protect: {{topics: [{topics}]}}\n"


def purging(topics: str, rule: str = KEEP, name: str = "floor") -> str:
    return floor(topics, rule, name=name, mode="continuous")


def test_a_protection_holds_for_a_watch_that_began_before_it(space: Workspace) -> None:
    """The manifests are invalid in the same moment: the old policies go on, without the protected topic."""
    topics = protected, purged = space.create_topic(), space.create_topic()

    def write(protect: str, rule: str = KEEP) -> None:
        write_file(space.folder / "cluster.yaml", protecting(space, protect))
        write_file(space.folder / "floor.yaml", purging(", ".join(topics), rule))

    write("nothing-yet")
    with running(space.folder, "watch", str(space.folder), "--every", "1s", "-q") as errors:
        for topic in topics:
            wait_for_log_start(space, topic, 60)
        write(protected, KEEP.replace("last", "lsat"))
        message = "the last valid ones stay in force, with what Cluster/local protects now"
        client.wait_until(lambda: message in errors.read_text(), 120, "a round with invalid manifests")
        for topic in topics:
            space.produce(topic)
        wait_for_log_start(space, purged, 160)
    assert space.log_start(protected) == 60
    assert "lsat" in errors.read_text()


def test_a_half_written_checkout_purges_nothing(space: Workspace) -> None:
    """Git writes a new floor before the Cluster that protects its topic, and neither commit purges it.

    The last set stays in force in the meantime, except where the new floor claims a topic, too.
    """
    mark, tmp_path = uuid4().hex[:8], space.folder
    topics = audit, clicks, shared = [
        space.create_topic(name=f"{name}-{mark}") for name in ("audit", "clicks", "clicks-shared")
    ]
    folder = tmp_path / "manifests"
    folder.mkdir()

    def write_cluster(protect: str) -> None:
        write_file(folder / "cluster.yaml", protecting(space, protect))

    write_cluster("nothing-yet")
    pattern, at_most = f'"clicks-*{mark}"', f"{KEEP}, expectAtMost: 2"
    write_file(folder / "floor.yaml", purging(pattern, at_most))
    (tmp_path / ".gitignore").write_text(".reconciler/\nerrors.txt\n")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    with running(tmp_path, "converge", str(folder), "--every", "1s", "-q") as errors:
        for topic in (clicks, shared):
            wait_for_log_start(space, topic, 60)
        (tmp_path / ".git" / "index.lock").touch()
        write_file(folder / "a.yaml", purging(f"{audit}, {shared}", name="more"))
        message = "the changed manifests are not in force yet: git is changing the checkout"
        client.wait_until(lambda: message in errors.read_text(), 120, "a round with changed manifests")
        for topic in topics:
            space.produce(topic)
        wait_for_log_start(space, clicks, 160)
        assert space.log_start(audit) == 0
        assert space.log_start(shared) == 60, "the changed manifests claim it, too"
        write_cluster(audit)
        write_file(folder / "floor.yaml", purging(pattern, f"{at_most}, exceptTopics: [{shared}]"))
        (tmp_path / ".git" / "index.lock").unlink()
        commit(tmp_path)
        wait_for_log_start(space, shared, 160)
    assert space.log_start(audit) == 0


def watch_a_round(space: Workspace, topic: str, *, limits: str = "") -> str:
    """Watch a topic of 100 records, whose newest 40 are kept, on a terminal for a round; return the output."""
    write_file(space.folder / "cluster.yaml", protecting(space, "nothing", limits))
    write_file(space.folder / "floor.yaml", purging(topic))
    words = ("-m", "reconciler", "watch", str(space.folder), "--every", "900s")
    return run_on_terminal(*words, columns=200, until="next round in")


def test_a_watch_on_a_terminal_leaves_no_spinner(space: Workspace, topic: str) -> None:
    """The plan of a round once began behind a spinner, and nothing said when the next round is."""
    written = watch_a_round(space, topic)
    shown = [line for line in screen(written) if line]
    assert topic in written, "the plan of the round"
    assert not [line for line in shown if re.search("[\u2800-\u28ff\u2501]", line)], shown
    assert not [line for line in shown if "next round" in line], "the status is a line that disappears"
    assert re.search(
        r"0 blocked, next round in 1[45] min( \d+ s)?, last purge \S+ \(1 partition, at most 60 records\)", written
    )
    assert space.log_start(topic) == 60


def test_a_limit_that_refuses_each_round_is_in_the_status_line(space: Workspace, topic: str) -> None:
    """It said `0 blocked` while a limit refused every round, so nothing was ever done."""
    written = watch_a_round(space, topic, limits="topics: 0, ")
    assert re.search(r"refused by topics, 0 blocked, next round in 1[45] min( \d+ s)?, no purge yet", written)
    assert space.log_start(topic) == 0


def test_what_a_round_has_not_done_is_in_the_status_line(space: Workspace, topic: str) -> None:
    """It said `0 blocked` while no intent could be stored, so nothing was ever done."""
    (space.folder / ".reconciler").touch()
    written = watch_a_round(space, topic)
    assert re.search(r"local: 1 not done, 0 blocked, next round in 1[45] min( \d+ s)?, no purge yet", written)


def write_file(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def wait_for_log_start(space: Workspace, topic: str, offset: int) -> None:
    what = f"the log start {offset} of {topic}"
    client.wait_until(lambda: space.log_start(topic) == offset, 180, what, every_s=0.5)
