"""Who reads a topic and what counts as a record, on real brokers: what plans, results and removals say.

Groups of Kafka Streams are made with the bytes of their requests, because librdkafka has no such
member; MirrorMaker 2 and Kafka Connect leave only the names of their topics.
"""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from tests.build import head
from tests.command import reconciler
from tests.e2e import raw_groups
from tests.e2e.test_consumers_of_other_kinds import group_types
from tests.e2e.test_unseen_consumers import blocks, read_plan, write_floor, write_manifests
from tests.toolbox import log_start_offsets

pytestmark = pytest.mark.brokers

REMOVAL = head("GroupRemoval", "dead") + "\nspec: {groups: [%s], types: [streams], idleFor: 1s}\n"


def create_topic(cluster: SandboxCluster, name: str, records: int = 100, **settings: Any) -> str:
    client.create_topics(cluster.bootstrap_servers, [Topic(name, **settings)])
    client.produce(cluster.bootstrap_servers, name, {0: [Record(b"x")] * records})
    return name


def plan_once_idle(folder: Path) -> dict[str, Any]:
    """Return the first plan in which no group was active too recently (B304)."""
    plans: list[dict[str, Any]] = []

    def is_idle() -> bool:
        plans.append(read_plan(folder))
        return not any(block["code"] == "B304" for block in blocks(plans[-1]).values())

    client.wait_until(is_idle, 60, "the group is idle for idleFor")
    return plans[-1]


def test_a_streams_group_is_removed_once_it_is_empty_and_comes_back(cluster: SandboxCluster, tmp_path: Path) -> None:
    """With a member it is in use; one that joins after the plan keeps it; its offsets can be written back.

    Streams groups were never removed, although a changed topology needs it.
    """
    topic = create_topic(cluster, f"streams-{uuid4().hex[:8]}")
    # Creates __consumer_offsets on a new cluster.
    client.commit(cluster.bootstrap_servers, f"reader-{topic}", {(topic, 0): 100})
    group, address = f"app-{topic}", f"GroupRemoval/dead/app-{topic}"
    write_manifests(tmp_path, cluster, REMOVAL % group)
    raw_groups.join_streams_group(cluster.bootstrap_servers, group, topic)
    in_use = read_plan(tmp_path)
    raw_groups.leave_streams_group(cluster.bootstrap_servers, group)
    raw_groups.commit(cluster.bootstrap_servers, group, topic, 0, 30)
    assert in_use["actions"] == []
    assert blocks(in_use)[address]["code"] == "B303"

    (action,) = plan_once_idle(tmp_path)["actions"]
    assert (action["address"], action["seen"]["type"], action["seen"]["commits"]) == (address, "streams", 1)
    assert "kafka-streams-application-reset.sh" in action["caveat"]
    raw_groups.join_streams_group(cluster.bootstrap_servers, group, topic)
    stale = reconciler(tmp_path, "apply", "plan.json")
    raw_groups.leave_streams_group(cluster.bootstrap_servers, group)
    assert stale.returncode == 4, stale.stdout + stale.stderr
    assert group_types(cluster)[group] == "streams"

    plan_once_idle(tmp_path)
    applied = reconciler(tmp_path, "apply", "plan.json", "--results", "results.json")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "kafka-streams-application-reset.sh" in applied.stdout
    assert group not in group_types(cluster)
    assert read_plan(tmp_path)["actions"] == []
    restored = reconciler(tmp_path, "restore-group", "results.json", group, "--confirm", group)
    assert restored.returncode == 0, restored.stdout + restored.stderr
    raw_groups.join_streams_group(cluster.bootstrap_servers, group, topic)
    raw_groups.leave_streams_group(cluster.bootstrap_servers, group)
    try:
        write_floor(tmp_path, cluster, topic, f"keep: {{unreadBy: [{group}]}}, consumers: clamp")
        (purge,) = read_plan(tmp_path)["actions"]
        assert purge["request"]["before_offset"] == 30, "the application continues where it was"
    finally:
        raw_groups.delete(cluster.bootstrap_servers, group)


def test_a_running_consumer_of_a_quiet_topic_is_named(cluster: SandboxCluster, tmp_path: Path) -> None:
    """It assigns its partitions itself, and librdkafka commits no offset that has not moved: it looks dead.

    A group that had a member has a record of it, also once the member has left.
    """
    topic = create_topic(cluster, f"quiet-{uuid4().hex[:8]}")
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "auto.offset.reset": "earliest"}
    settings |= {"auto.commit.interval.ms": 200}
    groups = [f"{topic}-{part}" for part in ("alone", "left")]
    alone, left = (Consumer({**settings, "group.id": group}) for group in groups)
    alone.assign([TopicPartition(topic, 0, 0)])
    left.subscribe([topic])
    for consumer in (alone, left):
        client.wait_until(lambda of=consumer: read_to(of, topic) == 100, 60, f"{topic} is read")
    left.close()
    write_manifests(tmp_path, cluster, (REMOVAL % ", ".join(groups)).replace("streams", "classic"))
    try:
        actions = plan_once_idle(tmp_path)["actions"]
        assert read_to(alone, topic) == 100, "it still runs"
    finally:
        alone.close()
    caveats = [action.get("caveat", "") for action in actions]
    assert ["assigns its partitions itself" in caveat for caveat in caveats] == [True, False]


def read_to(consumer: Consumer, topic: str) -> int:
    """Let a consumer read on, and return its position."""
    consumer.consume(100, 0.2)
    return int(consumer.position([TopicPartition(topic, 0)])[0].offset)


def test_a_topic_without_known_consumers_is_named(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Text, comment, page, plan file and results say so; a group that has read everything guards.

    A paused MirrorMaker 2 lost 800 of 2,000 records, and the plan had not a word about readers.
    """
    mark = uuid4().hex[:8]
    topic = create_topic(cluster, f"mirrored-{mark}")
    syncs = create_topic(cluster, f"mm2-offset-syncs.{mark}.internal", 0)
    write_floor(tmp_path, cluster, topic, "keep: {last: 60}")
    words = 'no consumer is known: "consumers: block" guards nobody here'
    (action,) = read_plan(tmp_path)["actions"]
    assert action["caveat"].startswith(words)
    assert syncs in action["caveat"]
    for output in ("text", "md", "html"):
        shown = reconciler(tmp_path, "show", "plan.json", "-o", output).stdout
        assert "no consumer is known" in shown, output
        assert "guards nobody here" in " ".join(shown.split()), output
    assert words in " ".join(reconciler(tmp_path, "explain", f"{topic}[0]", "plan.json").stdout.split())
    applied = reconciler(tmp_path, "apply", "plan.json", "--results", "results.json")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert words in " ".join(applied.stdout.split())
    (outcome,) = json.loads((tmp_path / "results.json").read_text())["outcomes"]
    assert outcome["caveat"] == action["caveat"]
    assert words in " ".join(reconciler(tmp_path, "show", "results.json").stdout.split())
    client.commit(cluster.bootstrap_servers, f"reader-{topic}", {(topic, 0): 100})
    write_floor(tmp_path, cluster, topic, "keep: {last: 30}")
    (action,) = read_plan(tmp_path)["actions"]
    assert "caveat" not in action
    write_floor(tmp_path, cluster, topic, "keep: {last: 30}, exceptGroups: [reader-*]")
    (action,) = read_plan(tmp_path)["actions"]
    assert action["caveat"].startswith('exceptGroups names the 1 known consumer: "consumers: block" guards nobody')


def test_a_consumer_that_appears_after_the_plan_is_no_larger_change(cluster: SandboxCluster, tmp_path: Path) -> None:
    """The reviewed plan said that no consumer is known. One that has read enough changes nothing; one behind blocks."""
    topic = create_topic(cluster, f"appears-{uuid4().hex[:8]}")
    write_floor(tmp_path, cluster, topic, "keep: {last: 60}")
    assert read_plan(tmp_path)["actions"][0]["caveat"]
    client.commit(cluster.bootstrap_servers, f"behind-{topic}", {(topic, 0): 10})
    blocked = reconciler(tmp_path, "apply", "plan.json")
    assert blocked.returncode == 4, blocked.stdout + blocked.stderr
    assert log_start_offsets(cluster, topic) == {0: 0}
    client.commit(cluster.bootstrap_servers, f"behind-{topic}", {(topic, 0): 50})
    applied = reconciler(tmp_path, "apply", "plan.json")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert log_start_offsets(cluster, topic) == {0: 40}


def test_aborted_records_are_offsets(cluster: SandboxCluster, tmp_path: Path) -> None:
    """30,000 aborted records hid that 1,000 of 1,000 records go: the plan said `at most 1,000 records (3.3 %)`.

    Neither count while the transaction is open nor afterwards, so the limit refuses.
    """
    topic = create_topic(cluster, f"aborted-{uuid4().hex[:8]}", 1_000)
    client.commit(cluster.bootstrap_servers, f"reader-{topic}", {(topic, 0): 1_000})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(30_000):
        producer.produce(topic, b"aborted", partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0
    write_floor(tmp_path, cluster, topic, "keep: {fromOffset: {0: 1000}}")
    manifest = tmp_path / "manifests" / "all.yaml"
    manifest.write_text(manifest.read_text().replace("recordsPercentPerTopic: 100, ", ""))
    while_open = reconciler(tmp_path, "plan")
    producer.abort_transaction(60)
    aborted = reconciler(tmp_path, "plan", "--out", "plan.json")
    for refused in (while_open, aborted):
        assert refused.returncode == 3, refused.stdout + refused.stderr
        assert f"share of one topic's records removed ({topic}): 100 %" in " ".join(refused.stdout.split())
    document = json.loads((tmp_path / "plan.json").read_text())
    assert [action["may_have_gaps"] for action in document["actions"]] == [True]
    shown = " ".join(aborted.stdout.split())
    assert "at most 1,000 offsets (100.0 % of the partition's offsets, perhaps all records)" in shown
    assert "1,000 records" not in shown
