"""Metadata that other clients committed: a removal keeps its bytes, and a restore writes no others.

Compared by the records of `__consumer_offsets`. The client library once journaled the memory of the
process as metadata, and restored each text, the empty one too, with a NUL byte behind it.
"""

import base64
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import DebugLogger, admin_client, consumer_properties
from tests import other_client
from tests.e2e import raw_requests
from tests.e2e.workspace import Workspace, removal
from tests.kafka_client import pending_commit
from tests.other_client import logged_commits

STREAMS = base64.b64encode(b"\2\0\0\1\x99\xd2\x57\xb8\x40\0\0\0\0").decode()
"""Metadata of Kafka Streams: a version, the time of the partition, and processor metadata."""
TEXTS: Mapping[str, str | None] = {
    "none": None,
    "empty": "",
    "short": "host-1:12345",
    "long": "x" * 4_096,
    "multi-byte": "où en suis-je ? 数 🎈",
    "NUL": "a\0b",
    "NUL at the end": "a\0",
    "Kafka Streams": STREAMS,
}
EXACT = {name: (text or "").encode() for name, text in TEXTS.items()}


class Scenario:
    """A topic of this test, and commands in its folder. Groups are removed after a second without a commit."""

    def __init__(self, space: Workspace, partitions: int = 1, idle_for: str = "1s", group: str = "*") -> None:
        self.space, self.servers = space, space.servers
        self.topic = space.create_topic(10, partitions=partitions)
        rule = f"idleFor: {idle_for}" + ", expectAtMost: 1000" * (group == "*")
        space.write(removal(f'"{self.group(group)}"', rule), limits="groups: 1000, groupsPercent: 100")

    def group(self, name: object) -> str:
        return f"old-{self.topic}-{name}"

    def remove(self, groups: int) -> dict[str, list[dict[str, Any]]]:
        """Remove this number of groups, and return what the journal has of the commits of each."""
        plan = self.space.plan
        client.wait_until(lambda: len(plan()["actions"]) == groups, 60, f"{groups} groups idle for a second")
        self.space.apply("--results", "results.json")
        results = self.space.read("results.json")
        assert results["summary"]["applied"] == len(results["outcomes"]) == groups, results["summary"]
        assert not [name for name in self.space.groups() if name.startswith(self.group(""))]
        entries = self.space.journal()
        return {entry["request"]["group"]: entry["removed_offsets"] for entry in entries if entry["event"] == "intent"}

    def restore(self, name: object, *more: str) -> str:
        return self.space.restore(self.group(name), *more)


def metadata_of(commits: list[dict[str, Any]]) -> dict[int, bytes | None]:
    """The metadata in a file of this program; None: not known."""
    texts = {commit["partition"]: commit.get("metadata_base64") for commit in commits}
    return {number: None if text is None else base64.b64decode(text) for number, text in texts.items()}


def test_metadata_of_some_groups_keeps_no_group_from_being_removed(space: Workspace) -> None:
    """30 groups with 12 characters of metadata once kept 300 others from being removed, as "the group's
    coordinator did not answer".
    """
    scenario = Scenario(space, partitions=2)
    ats = [(scenario.topic, 0), (scenario.topic, 1)]
    groups = {
        scenario.group(n): dict.fromkeys(ats, (n % 10, f"host-{n:02}:1234" if n < 30 else None)) for n in range(330)
    }
    other_client.commit(scenario.servers, groups)  # type: ignore[arg-type]
    before = logged_commits(scenario.servers)
    journaled = scenario.remove(330)
    assert journaled.keys() == groups.keys()
    for group, commits in journaled.items():
        assert metadata_of(commits) == {number: before[group][scenario.topic, number][1] for number in range(2)}
    text = scenario.restore(7)
    assert "2 of 2 offsets written back; metadata of 2 partitions not restored" in text
    assert "metadata of" not in scenario.restore(300)
    after = logged_commits(scenario.servers)
    for n in (7, 300):
        assert after[scenario.group(n)] == dict.fromkeys(ats, (n % 10, b""))


def test_a_removal_keeps_the_bytes_of_each_kind_of_metadata(space: Workspace) -> None:
    """A broker stores bytes that are not UTF-8 as replacement characters, so the log is always UTF-8.

    The client library reads the NUL byte as the end, and some values not at all.
    """
    scenario = Scenario(space, partitions=len(TEXTS) + 1)
    group, invalid = scenario.group(1), len(TEXTS)
    offsets = {(scenario.topic, number): (number, text) for number, text in enumerate(TEXTS.values())}
    other_client.commit(scenario.servers, {group: offsets})
    raw_requests.commit(scenario.servers, group, scenario.topic, invalid, invalid, b"\xff\xfe-1")
    before = logged_commits(scenario.servers)[group]
    exact = {number: metadata for (_, number), (_, metadata) in before.items()}
    assert exact == dict(enumerate([*EXACT.values(), "\ufffd\ufffd-1".encode()]))
    (commits,) = scenario.remove(1).values()
    assert metadata_of(commits) == exact
    dry = scenario.restore(1, "--dry-run")
    expected = f"metadata of {len(exact) - 2} partitions not restored: the client library cannot write that of 7"
    assert f"{len(exact)} of {len(exact)} offsets can be written back; {expected}" in dry
    assert f"{len(exact)} of {len(exact)} offsets written back; {expected}" in scenario.restore(1)
    assert logged_commits(scenario.servers)[group] == {at: (offset, b"") for at, (offset, _) in before.items()}
    lost = [entry for entry in scenario.space.journal() if "without its metadata" in (entry.get("detail") or "")]
    assert {entry["request"]["partition"] for entry in lost} == {at for at, metadata in exact.items() if metadata}


def test_without_the_log_metadata_is_not_known(space: Workspace) -> None:
    """`idleFor: 0s` reads no log, and needs no right to it. Not known is said, and is not "none"."""
    scenario = Scenario(space, idle_for="0s", group="1")
    other_client.commit(scenario.servers, {scenario.group(1): {(scenario.topic, 0): (3, "note")}})
    (commits,) = scenario.remove(1).values()
    assert metadata_of(commits) == {0: None}
    assert "metadata of 1 partition not restored: that of 1 is not known" in scenario.restore(1)
    assert logged_commits(scenario.servers)[scenario.group(1)] == {(scenario.topic, 0): (3, b"")}


@pytest.mark.parametrize(("aborted", "known"), [(3, None), (5, None)], ids=["the same offset", "another offset"])
def test_metadata_of_an_aborted_transaction_is_not_that_of_the_commit(
    space: Workspace, aborted: int, known: bytes | None
) -> None:
    """Its record is the newest in the log, and the coordinator has the commit before it.

    An exactly-once application that fails without progress repeats the offset.
    """
    scenario = Scenario(space)
    group = scenario.group(1)
    other_client.commit(scenario.servers, {group: {(scenario.topic, 0): (3, "note")}})
    with pending_commit(scenario.servers, group, scenario.topic, aborted):
        pass
    assert logged_commits(scenario.servers)[group] == {(scenario.topic, 0): (aborted, b"")}
    (commits,) = scenario.remove(1).values()
    assert [commit["offset"] for commit in commits] == [3]
    assert metadata_of(commits) == {0: known}
    assert "metadata of 1 partition not restored: that of 1 is not known" in scenario.restore(1)


def test_metadata_of_an_earlier_group_of_the_name_is_not_that_of_the_present_one(space: Workspace) -> None:
    """The group was deleted and created again; the log has the records of both."""
    scenario = Scenario(space)
    group, at = scenario.group(1), (scenario.topic, 0)
    other_client.commit(scenario.servers, {group: {at: (3, "of the first")}})
    raw_requests.delete(scenario.servers, group)
    other_client.commit(scenario.servers, {group: {at: (3, "of the second")}})
    (commits,) = scenario.remove(1).values()
    assert metadata_of(commits) == {0: b"of the second"}


@pytest.mark.parametrize("text", ["note", ""])
@pytest.mark.parametrize("call", ["commit", "alter"])
def test_the_client_library_cannot_write_metadata(space: Workspace, text: str, call: str) -> None:
    """It writes a NUL byte behind each text. If this fails, restore-group can write metadata: see ADR 23."""
    scenario = Scenario(space)
    group = scenario.group(1)
    client.commit(scenario.servers, group, {(scenario.topic, 0): 1})  # a coordinator answers
    offsets = [TopicPartition(scenario.topic, 0, 2, metadata=text)]
    if call == "commit":
        with closing(Consumer(consumer_properties(scenario.servers, group), logger=DebugLogger())) as consumer:
            consumer.commit(offsets=offsets, asynchronous=False)
    else:
        admin = admin_client(scenario.servers)
        for future in admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)]).values():
            future.result(30)
    assert logged_commits(scenario.servers)[group] == {(scenario.topic, 0): (2, f"{text}\0".encode())}
