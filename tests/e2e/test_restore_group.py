"""A removed group comes back with `restore-group`, on a real cluster: from results and from the journal.

Only offsets that still mean the same records are written, and never over a group that exists.
"""

import json
import os
import pty
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic, admin_client
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from tests import build, kafka_client
from tests.build import head
from tests.command import command, environment, reconciler
from tests.toolbox import committed_offsets, list_groups

pytestmark = [pytest.mark.brokers]

RECORDS = 10


class RemovedGroup:
    """A group with commits on two topics that `apply` has removed."""

    def __init__(self, cluster: SandboxCluster, folder: Path) -> None:
        mark = uuid4().hex[:8]
        self.cluster, self.folder, self.servers = cluster, folder, cluster.bootstrap_servers
        self.topic, self.other, self.group = f"orders-{mark}", f"changed-{mark}", f"old-{mark}"
        client.create_topics(self.servers, [Topic(self.topic, 2), Topic(self.other)])
        client.produce(self.servers, self.topic, {0: [Record(b"%d" % n) for n in range(RECORDS)]})
        client.produce(self.servers, self.other, {0: [Record(b"x")] * RECORDS})
        client.commit(self.servers, self.group, {(self.topic, 0): 4, (self.topic, 1): 0, (self.other, 0): 6})
        client.wait_until(lambda: self.group in list_groups(cluster), 30, f"{self.group} in the list")
        write_manifests(folder, cluster, self.group)
        applied = self.run("plan", "--out", "plan.json"), self.run("apply", "plan.json", "--results", "results.json")
        assert [answer[0] for answer in applied] == [0, 0], applied
        assert self.group not in list_groups(cluster)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Return the exit code and the output of a command."""
        answer = reconciler(self.folder, *arguments)
        return answer.returncode, answer.stdout + answer.stderr

    def restore(self, source: str = "results.json") -> tuple[int, str]:
        return self.run("restore-group", source, self.group, "--confirm", self.group)

    def commits(self) -> Mapping[tuple[str, int], int | None]:
        partitions = [(self.topic, 0), (self.topic, 1), (self.other, 0)]
        return kafka_client.committed_offsets(self.servers, self.group, partitions)

    def next_record(self) -> bytes | None:
        """Return the record that a consumer of the group reads next from the first partition."""
        consumer = Consumer(client.consumer_properties(self.servers, self.group) | {"auto.offset.reset": "latest"})
        try:
            consumer.assign([ClientPartition(self.topic, 0)])
            message = consumer.poll(30)
            assert message is not None
            return message.value()
        finally:
            consumer.close()


def write_manifests(folder: Path, cluster: SandboxCluster, group: str, *, idle_for: str = "0s") -> None:
    build.write_manifests(
        folder,
        cluster.bootstrap_servers,
        f"""\
{head("GroupRemoval", "dead")}
spec: {{groups: [{group}], idleFor: {idle_for}}}
""",
        limits="groupsPercent: 100",
    )


@pytest.fixture
def removed(cluster: SandboxCluster, tmp_path: Path) -> RemovedGroup:
    return RemovedGroup(cluster, tmp_path)


def test_a_consumer_goes_on_where_the_group_was(removed: RemovedGroup) -> None:
    """The offsets are those of before; a second restore is refused, because the group exists."""
    code, text = removed.run("restore-group", "results.json", removed.group, "--dry-run")
    assert (code, removed.group in list_groups(removed.cluster)) == (0, False), text
    assert "3 of 3 offsets can be written back" in text
    code, text = removed.restore()
    assert code == 0, text
    assert "3 of 3 offsets written back" in text
    assert removed.commits() == {(removed.topic, 0): 4, (removed.topic, 1): 0, (removed.other, 0): 6}
    assert removed.next_record() == b"4"
    entries = [json.loads(line) for line in removed.run("journal", "-o", "json", "-q")[1].splitlines()]
    restores = [entry for entry in entries if entry["operation"] == "restore_group"]
    assert [(entry["event"], entry.get("status")) for entry in restores] == [
        *[("intent", None)] * 3,
        *[("outcome", "applied")] * 3,
    ]
    offsets = {(removed.topic, 0, 4), (removed.topic, 1, 0), (removed.other, 0, 6)}
    requests = [entry["request"] for entry in restores]
    assert {(request["topic"], request["partition"], request["offset"]) for request in requests} == offsets
    code, text = removed.restore()
    assert code == 3, text
    assert "exists" in text


@pytest.mark.parametrize("option", ["--results=results.json", "--output-file=json=results.json"])
def test_a_second_apply_of_the_plan_keeps_the_offsets(removed: RemovedGroup, option: str) -> None:
    """It found the group gone, and its results replaced those of the run that had removed it."""
    code, text = removed.run("apply", "plan.json", option)
    assert (code, "applied" in text.splitlines()[-1]) == (0, False), "the text is about this run"
    assert "Applied: 1 group removed" in removed.run("show", "results.json")[1]
    code, text = removed.restore()
    assert code == 0, text
    assert removed.commits() == {(removed.topic, 0): 4, (removed.topic, 1): 0, (removed.other, 0): 6}


def test_another_plan_does_not_take_the_offsets_away(removed: RemovedGroup) -> None:
    """It is refused before the scan, with its file as it was. The next step is another file."""
    before = (removed.folder / "results.json").read_bytes()
    client.commit(removed.servers, removed.group, {(removed.topic, 0): 9})
    client.wait_until(lambda: removed.group in list_groups(removed.cluster), 30, f"{removed.group} in the list")
    assert removed.run("plan", "--out", "plan.json")[0] == 0
    results = ("--results", "results.json")
    for options in (results, (*results, "--dry-run"), ("--output-file", "json=results.json")):
        code, text = removed.run("apply", "plan.json", *options)
        assert code == 64, text
        assert "results.json has the results of another plan" in text
        assert "nothing was done; choose another file" in text
        assert "rechecking" not in text
    assert removed.group in list_groups(removed.cluster)
    assert (removed.folder / "results.json").read_bytes() == before
    assert removed.run("apply", "plan.json", "--results", "other.json")[0] == 0


def test_the_journal_of_a_killed_run_is_enough(removed: RemovedGroup) -> None:
    """A run that was killed wrote no results and no outcome; its intent has the offsets."""
    path = removed.folder / "manifests" / ".reconciler" / "local.jsonl"
    intents = [line for line in path.read_text().splitlines() if '"event":"intent"' in line]
    path.write_text("\n".join(intents) + "\n")
    (removed.folder / "results.json").unlink()
    (removed.folder / "journal.jsonl").write_text(reconciler(removed.folder, "journal", "-o", "json", "-q").stdout)
    code, text = removed.restore("journal.jsonl")
    assert code == 0, text
    assert removed.commits() == {(removed.topic, 0): 4, (removed.topic, 1): 0, (removed.other, 0): 6}


def test_a_topic_that_was_created_again_is_refused(removed: RemovedGroup) -> None:
    """An offset of the deleted topic means other records in its successor."""
    kafka_client.delete_topics(removed.servers, [removed.other])
    client.create_topics(removed.servers, [Topic(removed.other)])
    client.produce(removed.servers, removed.other, {0: [Record(b"new")] * RECORDS})
    code, text = removed.restore()
    assert code == 5, text
    assert "the topic was deleted and created again" in text
    assert removed.commits() == {(removed.topic, 0): 4, (removed.topic, 1): 0, (removed.other, 0): None}


def test_a_log_that_starts_above_the_offset_is_refused(removed: RemovedGroup) -> None:
    """The group would skip records without a word; the other offsets come back."""
    deletion = [ClientPartition(removed.other, 0, 7), ClientPartition(removed.topic, 0, 5)]
    admin = admin_client(removed.servers)  # a reference: the futures of a collected client fail
    for future in admin.delete_records(deletion).values():
        future.result(30)
    code, text = removed.restore()
    assert code == 5, text
    assert "the log starts at 7, above the offset" in text
    assert "the log starts at 5, above the offset" in text
    assert removed.commits() == {(removed.topic, 0): None, (removed.topic, 1): 0, (removed.other, 0): None}


def test_nothing_is_written_where_every_offset_is_refused(removed: RemovedGroup) -> None:
    """The exit code says that nothing was done."""
    kafka_client.delete_topics(removed.servers, [removed.topic, removed.other])
    code, text = removed.restore()
    assert code == 4, text
    assert text.count("the partition is gone") == 2, "once for each topic"
    assert (
        f"2 partitions of {removed.topic}, such as {removed.topic}[0] — offsets 0 to 4: the partition is gone" in text
    )
    assert "0 of 3 offsets can be written back" in text
    assert removed.group not in list_groups(removed.cluster)


@pytest.mark.parametrize("live", [False, True], ids=["empty", "with a member"])
def test_a_group_that_exists_is_refused(removed: RemovedGroup, *, live: bool) -> None:
    """Its own offsets stay, also where it has none on the partition."""
    client.commit(removed.servers, removed.group, {(removed.topic, 0): 9})
    if live:
        with client.member(removed.servers, removed.group, [removed.other]):
            code, text = removed.restore()
    else:
        code, text = removed.restore()
    assert code == 3, text
    assert "exists" in text
    assert committed_offsets(removed.cluster, removed.group, removed.topic)[0] == 9


def test_the_results_of_another_cluster_and_other_files_are_refused(removed: RemovedGroup) -> None:
    """Each error names the file, what is wrong and what to pass."""
    path = removed.folder / "results.json"
    other = path.read_text().replace(CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAAAQ")
    (removed.folder / "other.json").write_text(other)
    code, text = removed.restore("other.json")
    assert code == 4, text
    assert "AAAAAAAAAAAAAAAAAAAAAQ" in text
    shutil.copy(removed.folder / "manifests" / "all.yaml", removed.folder / "no-results")
    for name, reason in (
        ("plan.json", "not a JSON object of kind Results"),
        ("no-results", "no-results is neither a results file nor"),
        ("missing.json", "No such file"),
    ):
        code, text = removed.restore(name)
        assert (code, reason in text) == (4, True), text
    code, text = removed.run("restore-group", "results.json", "unknown", "--dry-run")
    assert code == 4
    assert 'no offsets of group "unknown"' in text
    assert removed.group not in list_groups(removed.cluster)


def test_a_script_has_to_repeat_the_name(removed: RemovedGroup) -> None:
    """Without a terminal the question cannot be asked, and another name is not confirmation."""
    code, text = removed.run("restore-group", "results.json", removed.group)
    assert (code, "--confirm" in text) == (64, True), text
    code, text = removed.run("restore-group", "results.json", removed.group, "--confirm", "other")
    assert (code, "--confirm" in text) == (64, True), text
    assert removed.group not in list_groups(removed.cluster)


def test_a_person_types_the_name(removed: RemovedGroup) -> None:
    """On a terminal the program asks after the plan; another answer writes nothing."""
    for answer, code in (("other", 3), (removed.group, 0)):
        writer, terminal = pty.openpty()
        try:
            os.write(writer, f"{answer}\n".encode())
            process = subprocess.run(
                command("restore-group", "results.json", removed.group),
                cwd=removed.folder,
                env=environment(),
                stdin=terminal,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        finally:
            os.close(writer)
            os.close(terminal)
        assert process.returncode == code, process.stderr
        assert "3 of 3 offsets can be written back" in process.stdout
        assert f'Type the name of the group ("{removed.group}")' in process.stderr
        assert (removed.group in list_groups(removed.cluster)) is (code == 0)
