"""A removed group comes back with `restore-group`, on a real cluster: from results and from the journal.

Only offsets that still mean the same records are written, and never over a group that exists.
"""

import os
import re
from contextlib import closing, nullcontext

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, admin_client
from reconciler.companions.sandbox.cluster import CLUSTER_ID
from tests import kafka_client
from tests.build import policy
from tests.command import command, reconciler, run_process
from tests.e2e.workspace import Workspace, removal
from tests.terminal import keyboard
from tests.toolbox import committed_offsets

RECORDS = 10


class RemovedGroup:
    """A group with commits on two topics that `apply` has removed."""

    def __init__(self, space: Workspace) -> None:
        self.space, self.servers, self.folder = space, space.servers, space.folder
        self.topic, self.other = space.create_topic(0, partitions=2), space.create_topic(RECORDS)
        self.group, self.results = f"old-{self.topic}", space.folder / "results.json"
        client.produce(self.servers, self.topic, {0: [Record(b"%d" % n) for n in range(RECORDS)]})
        client.commit(self.servers, self.group, {(self.topic, 0): 4, (self.topic, 1): 0, (self.other, 0): 6})
        client.wait_until(self.exists, 30, f"{self.group} in the list")
        space.plan(removal(self.group))
        space.apply("--results", "results.json")
        assert not self.exists()

    def exists(self) -> bool:
        return self.group in self.space.groups()

    def restore(self, source: str = "results.json", *, code: int = 0) -> str:
        return self.space.restore(self.group, source=source, code=code)

    def commits(self) -> list[int | None]:
        """Return the offsets on both partitions of `topic`, and on `other`."""
        partitions = [(self.topic, 0), (self.topic, 1), (self.other, 0)]
        return list(kafka_client.committed_offsets(self.servers, self.group, partitions).values())

    def next_record(self) -> bytes | None:
        """Return the record that a consumer of the group reads next from the first partition."""
        properties = client.consumer_properties(self.servers, self.group) | {"auto.offset.reset": "latest"}
        with closing(Consumer(properties)) as consumer:
            consumer.assign([ClientPartition(self.topic, 0)])
            message = consumer.poll(30)
            assert message is not None
            return message.value()


@pytest.fixture
def removed(space: Workspace) -> RemovedGroup:
    return RemovedGroup(space)


def test_a_consumer_goes_on_where_the_group_was(removed: RemovedGroup) -> None:
    """The offsets are those of before; a second restore finds them there."""
    text = removed.space.run("restore-group", "results.json", removed.group, "--dry-run")
    assert not removed.exists(), text
    assert "3 of 3 offsets can be written back" in text
    assert "3 of 3 offsets written back" in removed.restore()
    assert removed.commits() == [4, 0, 6]
    assert removed.next_record() == b"4"
    restores = [entry for entry in removed.space.journal() if entry["operation"] == "restore_group"]
    assert [(entry["event"], entry.get("status")) for entry in restores] == [
        *[("intent", None)] * 3,
        *[("outcome", "applied")] * 3,
    ]
    offsets = {(removed.topic, 0, 4), (removed.topic, 1, 0), (removed.other, 0, 6)}
    requests = [entry["request"] for entry in restores]
    assert {(request["topic"], request["partition"], request["offset"]) for request in requests} == offsets
    assert "the group has this offset" in removed.restore()


@pytest.mark.parametrize("option", ["--results=results.json", "--output-file=json=results.json"])
def test_a_second_apply_of_the_plan_keeps_the_offsets(removed: RemovedGroup, option: str) -> None:
    """It found the group gone, and its results replaced those of the run that had removed it."""
    text = removed.space.apply(option)
    assert "applied" not in text.splitlines()[-1], "the text is about this run"
    assert "Applied: 1 group removed" in removed.space.run("show", "results.json")
    removed.restore()
    assert removed.commits() == [4, 0, 6]


@pytest.mark.parametrize("case", ["ended", "killed", "killed and continued", "journal damaged"])
def test_the_same_plan_does_not_remove_a_restored_group(removed: RemovedGroup, case: str) -> None:
    """With `idleFor: 0s` and the same offsets it looks like the group that was reviewed: a job that ran again removed it.

    Of a run that was killed, the journal has the intent only; the restore, or the next run, finds the group gone.
    """
    journal = removed.space.journal_file
    intent, outcome = journal.read_text().splitlines(keepends=True)
    if "killed" in case:
        journal.write_text(intent)
    if case == "killed and continued":
        removed.space.apply()
    removed.restore()
    if case == "journal damaged":
        journal.write_text(intent + outcome.replace("{", "", 1))
        text = removed.space.apply("--results", "results.json", code=1)
        assert "whether a run of this plan has removed the group before is unknown: the journal" in text
        assert removed.commits() == [4, 0, 6]
        return
    text = removed.space.apply("--results", "results.json", code=4)
    assert "has found the group gone, and it was restored or created again since" in text
    assert removed.commits() == [4, 0, 6]
    # Six minutes later.
    journal.write_text(re.sub('"at_ms":([0-9]+)', lambda at: f'"at_ms":{int(at[1]) - 361_000}', journal.read_text()))
    removed.space.plan()
    removed.space.apply()
    assert not removed.exists()


def test_what_a_loop_removes_again_is_said_before_the_offsets_are_written(removed: RemovedGroup) -> None:
    """The group came back, and the next round of a loop removed it again without a word."""
    removed.space.write(policy("GroupRemoval", "dead", f"groups: [{removed.group}], idleFor: 1d", mode="continuous"))
    text = removed.space.run("restore-group", "results.json", removed.group, "--dry-run")
    assert "by GroupRemoval/dead (manifests/all.yaml:" in text
    assert "name it in exceptGroups first" in text
    removed.space.write(removal(removed.group))
    assert "exceptGroups" not in removed.restore()


def test_another_plan_does_not_take_the_offsets_away(removed: RemovedGroup) -> None:
    """It is refused before the scan, with its file as it was. The next step is another file."""
    before = removed.results.read_bytes()
    removed.space.commit(removed.group, removed.topic, 9)
    removed.space.plan()
    results = ("--results", "results.json")
    for options in (results, (*results, "--dry-run"), ("--output-file", "json=results.json")):
        text = removed.space.apply(*options, code=64)
        assert "results.json has the results of another plan" in text
        assert "nothing was done; choose another file" in text
        assert "rechecking" not in text
    assert removed.exists()
    assert removed.results.read_bytes() == before
    removed.space.apply("--results", "other.json")


def test_the_journal_of_a_killed_run_is_enough(removed: RemovedGroup) -> None:
    """A run that was killed wrote no results and no outcome; its intent has the offsets."""
    path = removed.space.journal_file
    intents = [line for line in path.read_text().splitlines() if '"event":"intent"' in line]
    path.write_text("\n".join(intents) + "\n")
    removed.results.unlink()
    (removed.folder / "journal.jsonl").write_text(reconciler(removed.folder, "journal", "-o", "json", "-q").stdout)
    removed.restore("journal.jsonl")
    assert removed.commits() == [4, 0, 6]


def test_a_topic_that_was_created_again_is_refused(removed: RemovedGroup) -> None:
    """An offset of the deleted topic means other records in its successor."""
    kafka_client.delete_topics(removed.servers, [removed.other])
    removed.space.create_topic(name=removed.other)
    assert "the topic was deleted and created again" in removed.restore(code=5)
    assert removed.commits() == [4, 0, None]


def test_a_log_that_starts_above_the_offset_is_refused(removed: RemovedGroup) -> None:
    """The group would skip records without a word; the other offsets come back."""
    deletion = [ClientPartition(removed.other, 0, 7), ClientPartition(removed.topic, 0, 5)]
    admin = admin_client(removed.servers)  # a reference: the futures of a collected client fail
    for future in admin.delete_records(deletion).values():
        future.result(30)
    text = removed.restore(code=5)
    assert "the log starts at 7, above the offset" in text
    assert "the log starts at 5, above the offset" in text
    assert removed.commits() == [None, 0, None]


def test_nothing_is_written_where_every_offset_is_refused(removed: RemovedGroup) -> None:
    """The exit code says that nothing was done."""
    kafka_client.delete_topics(removed.servers, [removed.topic, removed.other])
    text = removed.restore(code=4)
    assert text.count("the partition is gone") == 2, "once for each topic"
    gone = f"2 partitions of {removed.topic}, such as {removed.topic}[0] — offsets 0 to 4: the partition is gone"
    assert gone in text
    assert "0 of 3 offsets can be written back" in text
    assert not removed.exists()


@pytest.mark.parametrize("live", [False, True], ids=["empty", "with a member"])
def test_a_group_that_exists_is_refused(removed: RemovedGroup, *, live: bool) -> None:
    """Its own offsets stay, also where it has none on the partition."""
    removed.space.commit(removed.group, removed.topic, 9)
    member = client.member(removed.servers, removed.group, [removed.other])
    with member if live else nullcontext():
        assert "exists" in removed.restore(code=3)
    assert committed_offsets(removed.space.cluster, removed.group, removed.topic)[0] == 9


def test_a_new_group_that_repeats_a_part_of_the_old_one_is_no_restored_part(removed: RemovedGroup) -> None:
    """Offset 0 of a partition without records is that of any group. A commit elsewhere shows whose it is."""
    removed.space.commit(removed.group, removed.space.create_topic(), 9)
    client.commit(removed.servers, removed.group, {(removed.topic, 1): 0})
    assert "exists" in removed.restore(code=3)
    assert removed.commits() == [None, 0, None]


def test_the_results_of_another_cluster_and_other_files_are_refused(removed: RemovedGroup) -> None:
    """Each error names the file, what is wrong and what to pass."""
    other = removed.results.read_text().replace(CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAAAQ")
    (removed.folder / "other.json").write_text(other)
    (removed.folder / "no-results").write_text(removed.space.manifest.read_text())
    for name, reason in (
        ("other.json", "AAAAAAAAAAAAAAAAAAAAAQ"),
        ("plan.json", "not a JSON object of kind Results"),
        ("no-results", "no-results is neither a results file nor"),
        ("missing.json", "No such file"),
    ):
        assert reason in removed.restore(name, code=4)
    text = removed.space.run("restore-group", "results.json", "unknown", "--dry-run", code=4)
    assert 'no offsets of group "unknown"' in text
    assert not removed.exists()


def test_a_script_has_to_repeat_the_name(removed: RemovedGroup) -> None:
    """Without a terminal the question cannot be asked, and another name is not confirmation."""
    for words in ((), ("--confirm", "other")):
        assert "--confirm" in removed.space.run("restore-group", "results.json", removed.group, *words, code=64)
    assert not removed.exists()


def test_a_person_types_the_name(removed: RemovedGroup) -> None:
    """On a terminal the program asks after the plan; another answer writes nothing."""
    for answer, code in (("other", 3), (removed.group, 0)):
        with keyboard() as (keys, stdin):
            os.write(keys, f"{answer}\n".encode())
            words = command("restore-group", "results.json", removed.group)
            process = run_process(removed.folder, *words, stdin=stdin)
        assert process.returncode == code, process.stderr
        assert "3 of 3 offsets can be written back" in process.stdout
        assert f'Type the name of the group ("{removed.group}")' in process.stderr
        assert removed.exists() is (code == 0)
