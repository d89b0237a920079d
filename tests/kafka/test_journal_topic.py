"""The journal in a topic, on real brokers.

No read or write creates the topic, each read reaches its end, and runs share it.
"""

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from reconciler import pipeline
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.errors import JournalUnavailable
from reconciler.journal.entry import create, dump_batch
from reconciler.journal.journal import ActionJournal
from reconciler.kafka import journal_topic
from reconciler.kafka.connect import Connection
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import describe
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import GroupObservation, GroupState, GroupType
from reconciler.operations import DeleteRecords
from tests import kafka_client
from tests.fakes.cluster import FakeCluster
from tests.fakes.runs import last_purges, purge
from tests.golden.wording import mentions
from tests.toolbox import run_kafka_tool, wait_for_topic

pytestmark = pytest.mark.brokers

AT = TopicPartition("orders", 0)
OpenJournal = Callable[..., ActionJournal]


@pytest.fixture
def fake() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create_topic("orders", 1000)
    cluster.produce("orders", dict.fromkeys(range(1000), 100))
    return cluster


def purged(action: DeleteRecords) -> Outcome:
    return Outcome(action=action, status=Status.APPLIED, detail="", sends=1, removed_max=60)


def unused_topic() -> str:
    return f"_journal.{uuid.uuid4().hex[:12]}"


@pytest.fixture
def open_journal(connection: Connection) -> Callable[..., ActionJournal]:
    """Opens the journal in a topic, as another run does."""
    return lambda name, **options: ActionJournal(JournalTopic(KafkaSession(connection), name), **options)


@pytest.fixture
def name(cluster: SandboxCluster, connection: Connection) -> str:
    """A topic that the program has created for a journal."""
    name = unused_topic()
    journal_topic.create_topic(KafkaSession(connection), name)
    wait_for_topic(cluster, name)
    return name


def create_topic(cluster: SandboxCluster, **settings: Any) -> str:
    """Create a topic as someone else does who wants a journal."""
    name = unused_topic()
    client.create_topics(cluster.bootstrap_servers, [client.Topic(name, **settings)])
    wait_for_topic(cluster, name)
    return name


def test_journal_topic_is_never_created_by_accident(
    cluster: SandboxCluster, open_journal: OpenJournal, fake: FakeCluster
) -> None:
    """A missing topic is an error that shows the command for its creation.

    The brokers of the test create topics automatically.
    """
    name = unused_topic()
    journal = open_journal(name)
    calls: tuple[Callable[[], object], ...] = (
        lambda: last_purges(journal),
        lambda: journal.record([purge(fake, AT, 60)], run_id="r", plan_digest="p", at_ms=1),
        lambda: list(journal.entries()),
    )
    for call in calls:
        with pytest.raises(
            JournalUnavailable, match=f"{name} does not exist.*kafka-topics --create --topic {name} .*retention.ms=-1"
        ):
            call()
    assert name not in run_kafka_tool(cluster, "kafka-topics", "--list").split()


def test_create_topic_creates_the_journal_topic_once(
    cluster: SandboxCluster, connection: Connection, name: str
) -> None:
    """It has one partition, is never compacted, and a second creation changes nothing."""
    journal_topic.create_topic(KafkaSession(connection), name)
    text = run_kafka_tool(cluster, "kafka-topics", "--describe", "--topic", name)
    for setting in (
        "PartitionCount: 1",
        "ReplicationFactor: 3",
        "cleanup.policy=delete",
        "min.insync.replicas=2",
        "message.timestamp.type=LogAppendTime",
        "retention.ms=-1",
    ):
        assert setting in text


def test_journal_topic_keeps_the_purge_clock(name: str, open_journal: OpenJournal, fake: FakeCluster) -> None:
    """Two runs share a topic with a thousand actions, half of them unsent; each call reads new lines."""
    journal, other_journal = open_journal(name), open_journal(name)
    assert last_purges(journal) == {}
    actions = [purge(fake, TopicPartition("orders", number), 60) for number in range(1000)]
    journal.record(actions, run_id="a", plan_digest="p", at_ms=100)
    unsent = [Outcome(action=action, status=Status.NOT_ATTEMPTED, detail="", sends=0) for action in actions[500:]]
    journal.record([*map(purged, actions[:500]), *unsent], run_id="a", plan_digest="p", at_ms=101)
    assert last_purges(journal).keys() == {action.partition for action in actions[:500]}
    before = last_purges(other_journal)
    other_journal.record([purged(actions[0])], run_id="b", plan_digest="p", at_ms=200)
    other_journal.record(actions[:1], run_id="b", plan_digest="p", at_ms=200)
    assert last_purges(journal) == last_purges(other_journal)
    assert last_purges(journal)[AT] > before[AT]
    assert len(list(other_journal.entries())) == 2002
    assert set(other_journal.open_intents("p")) == {actions[0].address}


def test_journal_topic_that_was_created_again_is_not_trusted(
    cluster: SandboxCluster, connection: Connection, name: str, fake: FakeCluster
) -> None:
    """A new topic of the same name is another journal."""
    journal = ActionJournal(JournalTopic(KafkaSession(connection), name))
    journal.record([purge(fake, AT, 60)], run_id="a", plan_digest="p", at_ms=100)
    kafka_client.delete_topics(cluster.bootstrap_servers, [name])
    journal_topic.create_topic(KafkaSession(connection), name)
    wait_for_topic(cluster, name)
    with pytest.raises(JournalUnavailable, match="created again"):
        journal.record([purge(fake, AT, 70)], run_id="a", plan_digest="p", at_ms=101)


def test_journal_topic_that_is_compacted_is_not_trusted(
    cluster: SandboxCluster, connection: Connection, open_journal: OpenJournal, fake: FakeCluster
) -> None:
    """An intent and its outcome share a key, so compaction would remove the intent."""
    name = create_topic(cluster, configs={"cleanup.policy": "compact"})
    client.wait_until(lambda: describe(KafkaSession(connection), [name])[name] is not None, 30, f"{name}")
    journal = open_journal(name)
    with pytest.raises(
        JournalUnavailable, match=rf"{name} cannot be trusted: its cleanup\.policy is compact.*set it to delete"
    ):
        last_purges(journal)
    with pytest.raises(JournalUnavailable, match=r"cleanup\.policy is compact"):
        journal.record([purge(fake, AT, 60)], run_id="r", plan_digest="p", at_ms=1)


def test_journal_topic_with_foreign_records_is_not_trusted(
    cluster: SandboxCluster, name: str, open_journal: OpenJournal
) -> None:
    """With records of another writer the purge clock is unknown, so the read is an error."""
    client.produce(cluster.bootstrap_servers, name, {0: [client.Record(b"hello")]})
    with pytest.raises(JournalUnavailable, match="record 0 of partition 0"):
        last_purges(open_journal(name))


def test_the_broker_stamps_the_journal(name: str, open_journal: OpenJournal, fake: FakeCluster) -> None:
    """A machine whose clock is a day ahead shortens no interval, and holds none back for a day."""
    journal = open_journal(name)
    began_ms, day_ms = pipeline.wall_clock_ms(), 86_400_000
    journal.record([purged(purge(fake, AT, 60))], run_id="a", plan_digest="p", at_ms=began_ms + day_ms)
    assert began_ms - 1_000 <= last_purges(journal)[AT] <= pipeline.wall_clock_ms() + 1_000
    [entry] = journal.entries()
    assert abs(entry.at_ms - began_ms) < 60_000
    late = GroupObservation(at_ms=began_ms - day_ms, group="g", type=GroupType.CLASSIC, state=GroupState.EMPTY)
    journal.record_observations([late], cluster_id="c", run_id="b")
    [seen] = journal.observations(["g"], cluster_id="c", since_ms=began_ms - day_ms)["g"]
    assert abs(seen.at_ms - began_ms) < 60_000, "nobody makes a group look idle by the clock of a machine"


def test_only_brokers_tell_when_they_stored_an_entry(
    cluster: SandboxCluster, connection: Connection, name: str, fake: FakeCluster
) -> None:
    """The delivery report has the append time of the leader, or the time of this machine, which tells nothing.

    A run without a review refuses the second kind, also where its config cannot be read.
    """
    stamped, unstamped, session = name, create_topic(cluster), KafkaSession(connection)
    began_ms, day_ms = pipeline.wall_clock_ms(), 86_400_000
    by_topic = {}
    for topic in (stamped, unstamped):
        journal = ActionJournal(JournalTopic(session, topic))
        by_topic[topic] = journal.record([purge(fake, AT, 60)], run_id="a", plan_digest="p", at_ms=began_ms + day_ms)
    at_ms = by_topic[stamped]
    assert at_ms is not None
    assert began_ms - 1_000 <= at_ms <= pipeline.wall_clock_ms() + 1_000
    assert by_topic[unstamped] is None
    journal_topic.check_stamps(session, stamped)
    with pytest.raises(JournalUnavailable) as refused:
        journal_topic.check_stamps(session, unstamped)
    command = f"--entity-name {unstamped} --add-config message.timestamp.type=LogAppendTime"
    assert mentions(str(refused.value), unstamped, "CreateTime", "kafka-configs --alter", command)


def test_only_the_records_of_the_interval_are_read(
    cluster: SandboxCluster, connection: Connection, fake: FakeCluster
) -> None:
    """The broker finds the first record of the interval by its time."""
    name = create_topic(cluster)
    store = JournalTopic(KafkaSession(connection), name)
    now_ms, hour_ms = pipeline.wall_clock_ms(), 3_600_000
    records = []
    for age in range(100, 0, -1):
        entry = create(purged(purge(fake, AT, 60)), run_id=f"run-{age}", plan_digest="p", at_ms=now_ms - age * hour_ms)
        [line] = dump_batch([entry])
        records.append(client.Record(line.encode(), timestamp_ms=now_ms - age * hour_ms))
    client.produce(cluster.bootstrap_servers, name, {0: records})
    assert len(list(store.lines())) == 100
    assert len(list(store.lines(since_ms=now_ms - 3 * hour_ms))) == 3
    assert list(store.lines(since_ms=now_ms)) == []
    journal = ActionJournal(store)
    assert journal.last_purges(every_ms=30_000, now_ms=now_ms) == {}
    assert last_purges(journal) == {AT: now_ms - hour_ms}
    journal.record([purge(fake, AT, 60)], run_id="now", plan_digest="p", at_ms=now_ms)
    assert len(list(store.lines(since_ms=now_ms))) == 1


def test_a_topic_that_forgets_purges_is_not_trusted(
    cluster: SandboxCluster, open_journal: OpenJournal, fake: FakeCluster
) -> None:
    """With an hour of retention, a purge of yesterday is forgotten, and `every: 1d` would not hold."""
    journal = open_journal(create_topic(cluster, configs={"retention.ms": "3600000"}))
    journal.record([purged(purge(fake, AT, 60))], run_id="a", plan_digest="p", at_ms=pipeline.wall_clock_ms())
    ask = partial(journal.last_purges, now_ms=pipeline.wall_clock_ms() + 1_000)
    assert set(ask(every_ms=30_000)) == {AT}
    with pytest.raises(JournalUnavailable, match=r"retention\.ms forgets entries after 1 h, .* 1 d .*: set it to -1"):
        ask(every_ms=86_400_000)
    assert len(list(journal.entries())) == 1


def test_doctor_names_what_may_lose_entries(cluster: SandboxCluster, connection: Connection, name: str) -> None:
    """One replica, a week of retention and the clocks of producers: each has a sentence and a remedy."""
    session = KafkaSession(connection)
    assert journal_topic.check_topic(session, name) == []
    assert journal_topic.check_topic(session, unused_topic()) is None
    name = create_topic(cluster, replication=1, configs={"retention.ms": "604800000"})
    risks = journal_topic.check_topic(session, name)
    assert isinstance(risks, list)
    assert [risk.partition(" of ")[0] for risk in risks] == [
        f"the journal {name} has 1 replica, and its entries are lost with it: give it 3 (kafka-reassign-partitions)",
        "retention.ms",
        "message.timestamp.type",
    ]
    assert f"--entity-name {name} --add-config retention.ms=-1" in risks[1]


def test_doctor_names_a_journal_that_cannot_be_written(cluster: SandboxCluster, connection: Connection) -> None:
    """An apply failed without an acknowledgement, and named doctor, which called the topic right."""
    name = create_topic(cluster, replication=1, configs={"min.insync.replicas": "2"})
    risks = journal_topic.check_topic(KafkaSession(connection), name)
    assert isinstance(risks, list)
    assert (
        f"the journal {name} has 1 replica in sync, and its min.insync.replicas is 2, so no entry can be written"
        in risks[1]
    )


def test_a_release_outlives_the_machine_and_a_short_retention(
    cluster: SandboxCluster, name: str, open_journal: OpenJournal
) -> None:
    """A run on another machine reads the record, also long after it; records and purges do not mix.

    A topic that forgets the records of a day is refused, because the schedule could not keep one
    alive.
    """
    manifests = f"sha256:{'a' * 64}"
    open_journal(name, who="ann").record_release(manifests, run_id="r", at_ms=1)
    journal = open_journal(name)
    now_ms = pipeline.wall_clock_ms()
    release = journal.newest_release(now_ms=now_ms)
    assert release is not None
    assert (release.who, release.manifests, release.released_at_ms) == ("ann", manifests, 1)
    # Its own time was long ago, so it was stored again; the first line may go now.
    assert [entry.at_ms for entry in journal.history()] == [1, now_ms]
    assert last_purges(journal) == {}
    entity = ("--alter", "--entity-type", "topics", "--entity-name", name)
    run_kafka_tool(cluster, "kafka-configs", *entity, "--add-config", "retention.ms=3600000")

    def refuses() -> bool:  # a broker may learn of the change after the tool has ended
        try:
            open_journal(name).newest_release(now_ms=now_ms)
        except JournalUnavailable as error:
            return "its retention.ms forgets entries after 1 h" in str(error)
        return False

    client.wait_until(refuses, 30, "a refusal")
