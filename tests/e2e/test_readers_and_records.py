"""Who reads a topic and what counts as a record, on real brokers: what plans, results and removals say.

Groups of Kafka Streams are made with the bytes of their requests, because librdkafka has no such
member; MirrorMaker 2 and Kafka Connect leave only the names of their topics.
"""

from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from reconciler.companions.sandbox import client
from tests.e2e import raw_requests
from tests.e2e.workspace import Workspace, blocks, floor, removal, targets
from tests.kafka_client import begin_transaction
from tests.toolbox import group_types


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_a_streams_group_is_removed_once_it_is_empty_and_comes_back(space: Workspace, topic: str) -> None:
    """With a member it is in use; one that joins after the plan keeps it; its offsets can be written back.

    Streams groups were never removed, although a changed topology needs it.
    """
    servers = space.servers
    group, address = f"app-{topic}", f"GroupRemoval/dead/app-{topic}"
    raw_requests.join_streams_group(servers, group, topic)
    in_use = space.plan(removal(group, "types: [streams], idleFor: 1s"))
    raw_requests.leave_streams_group(servers, group)
    raw_requests.commit(servers, group, topic, 0, 30)
    assert in_use["actions"] == []
    assert blocks(in_use)[address]["code"] == "B303"

    (action,) = space.plan_once_idle()["actions"]
    assert (action["address"], action["seen"]["type"], action["seen"]["commits"]) == (address, "streams", 1)
    assert "kafka-streams-application-reset.sh" in action["caveat"]
    raw_requests.join_streams_group(servers, group, topic)
    space.apply(code=4)
    raw_requests.leave_streams_group(servers, group)
    assert group_types(space.cluster)[group] == "streams"

    space.plan_once_idle()
    assert "kafka-streams-application-reset.sh" in space.apply("--results", "results.json")
    assert group not in group_types(space.cluster)
    assert space.plan()["actions"] == []
    space.restore(group)
    raw_requests.join_streams_group(servers, group, topic)
    raw_requests.leave_streams_group(servers, group)
    try:
        plan = space.plan(floor(topic, f"keep: {{unreadBy: [{group}]}}, consumers: clamp"))
        assert targets(plan) == [30], "the application continues where it was"
    finally:
        raw_requests.delete(servers, group)


def test_a_running_consumer_of_a_quiet_topic_is_named(space: Workspace, topic: str) -> None:
    """It assigns its partitions itself, and librdkafka commits no offset that has not moved: it looks dead.

    A group that had a member has a record of it, also once the member has left.
    """
    settings = {"bootstrap.servers": space.servers, "auto.offset.reset": "earliest", "auto.commit.interval.ms": 200}
    groups = [f"{topic}-{part}" for part in ("alone", "left")]
    alone, left = (Consumer({**settings, "group.id": group}) for group in groups)
    alone.assign([TopicPartition(topic, 0, 0)])
    left.subscribe([topic])
    for consumer in (alone, left):
        client.wait_until(lambda of=consumer: read_to(of, topic) == 100, 60, f"{topic} is read")
    left.close()
    space.write(removal(", ".join(groups), "idleFor: 1s"))
    try:
        actions = space.plan_once_idle()["actions"]
        assert read_to(alone, topic) == 100, "it still runs"
    finally:
        alone.close()
    caveats = [action.get("caveat", "") for action in actions]
    assert ["assigns its partitions itself" in caveat for caveat in caveats] == [True, False]


def read_to(consumer: Consumer, topic: str) -> int:
    """Let a consumer read on, and return its position."""
    consumer.consume(100, 0.2)
    return int(consumer.position([TopicPartition(topic, 0)])[0].offset)


def test_a_topic_without_known_consumers_is_named(space: Workspace, topic: str) -> None:
    """Text, comment, page, plan file and results say so; a group that has read everything guards.

    A paused MirrorMaker 2 lost 800 of 2,000 records, and the plan had not a word about readers.
    """
    syncs = space.create_topic(0, name=f"mm2-offset-syncs.{uuid4().hex[:8]}.internal")
    words = 'no consumer is known: "consumers: block" guards nobody here'
    (action,) = space.plan(floor(topic, "keep: {last: 60}"))["actions"]
    assert action["caveat"].startswith(words)
    assert syncs in action["caveat"]
    for output in ("text", "md", "html"):
        shown = space.run("show", "plan.json", "-o", output)
        assert "no consumer is known" in shown, output
        assert "guards nobody here" in one_line(shown), output
    assert words in one_line(space.run("explain", f"{topic}[0]", "plan.json"))
    assert words in one_line(space.apply("--results", "results.json"))
    (outcome,) = space.read("results.json")["outcomes"]
    assert outcome["caveat"] == action["caveat"]
    assert words in one_line(space.run("show", "results.json"))
    space.commit(f"reader-{topic}", topic)
    (action,) = space.plan(floor(topic, "keep: {last: 30}"))["actions"]
    assert "caveat" not in action
    (action,) = space.plan(floor(topic, "keep: {last: 30}, exceptGroups: [reader-*]"))["actions"]
    assert action["caveat"].startswith('exceptGroups names the 1 known consumer: "consumers: block" guards nobody')


def test_a_consumer_that_appears_after_the_plan_is_no_larger_change(space: Workspace, topic: str) -> None:
    """The reviewed plan said that no consumer is known. One that has read enough changes nothing; one behind blocks."""
    assert space.plan(floor(topic, "keep: {last: 60}"))["actions"][0]["caveat"]
    for offset, code, log_start in ((10, 4, 0), (50, 0, 40)):
        space.commit(f"behind-{topic}", topic, offset)
        space.apply(code=code)
        assert space.log_start(topic) == log_start


def test_aborted_records_are_offsets(space: Workspace) -> None:
    """30,000 aborted records hid that 1,000 of 1,000 records go: the plan said `at most 1,000 records (3.3 %)`.

    Neither count while the transaction is open nor afterwards, so the limit refuses.
    """
    topic = space.create_topic(1_000)
    space.commit(f"reader-{topic}", topic, 1_000)
    producer = begin_transaction(space.servers, topic)
    for _ in range(30_000):
        producer.produce(topic, b"aborted", partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0
    limits = "groups: 10000, groupsPercent: 100, recordsPercent: 100"
    space.write(floor(topic, "keep: {fromOffset: {0: 1000}}"), limits=limits)
    while_open = one_line(space.run("plan", code=3))
    producer.abort_transaction(60)
    aborted = one_line(space.run("plan", "--out", "plan.json", code=3))
    for refused in (while_open, aborted):
        assert f"share of one topic's records removed ({topic}): 100 %" in refused
    assert [action["may_have_gaps"] for action in space.read("plan.json")["actions"]] == [True]
    assert "at most 1,000 offsets (100.0 % of the partition's offsets, perhaps all records)" in aborted
    assert "1,000 records" not in aborted


def test_aborted_records_between_and_beside_records_are_in_no_share(space: Workspace) -> None:
    """Also where they lie between two records that stay, or on a partition that loses nothing and is not selected."""
    topic = space.create_topic(0, partitions=2)
    space.produce(topic, 1_000)
    space.commit(f"reader-{topic}", topic, 990)
    producer = begin_transaction(space.servers, topic)
    for number in range(8_000):
        producer.produce(topic, b"aborted", partition=number % 2)
        producer.poll(0)
    assert producer.flush(120) == 0
    producer.abort_transaction(60)
    space.produce(topic, 20)
    limits = "groups: 10000, groupsPercent: 100, recordsPercent: 100"
    space.write(floor(topic, "keep: {fromOffset: {0: 990}}"), limits=limits)
    refused = one_line(space.run("plan", "--out", "plan.json", code=3))
    assert f"share of one topic's records removed ({topic}): 100 %" in refused  # 990 of 1,020
    assert "100 %" in one_line(space.apply(code=3))
    assert space.log_start(topic) == 0
