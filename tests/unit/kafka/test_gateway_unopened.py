"""A gateway that cannot open a client, or that reaches another cluster, answers Unknown and does
not raise.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException
from confluent_kafka.admin import AclOperation, AdminClient

from reconciler.apply.results import exit_code
from reconciler.errors import ClusterUnreachable, JournalUnavailable, ProgramFailed
from reconciler.journal.journal import ActionJournal
from reconciler.kafka import connect, topics
from reconciler.kafka.connect import Connection
from reconciler.kafka.futures import Deadline
from reconciler.kafka.gateway import KafkaGateway, _delete_in_worker
from reconciler.kafka.group_listing import list_groups
from reconciler.kafka.groups import read_groups
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.kafka.offsets import with_watermarks
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import topic_id_text
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.ports import Election, ItemResult
from reconciler.model.snapshot import NOT_ASKED, Cause, CommittedOffset, GroupState, Unknown, fingerprint
from reconciler.operations import DeleteGroup
from reconciler.operations.error_meanings import ResponseAction, interpret
from reconciler.text.redact import add_references
from tests.fakes.cluster import cluster_of_orders
from tests.fakes.error_table import InterpretingGateway
from tests.fakes.runs import intercept, last_purges, purge, run
from tests.golden.wording import mentions
from tests.strategies.facts import partition, topic

NOWHERE = Connection(bootstrap_servers="127.0.0.1:9", properties={}, timeout_s=1.0)
AT = TopicPartition("orders", 0)
LIMIT = "no client: a limit of threads"


@pytest.fixture
def unopened(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client can be opened, as during a change of certificates, or at a limit of threads."""

    def refuse(*_arguments: object) -> Any:
        raise ClusterUnreachable(LIMIT)

    monkeypatch.setattr(connect, "create", refuse)


@pytest.mark.usefixtures("unopened")
def test_facts_are_unknown_and_requests_are_retried() -> None:
    """An exception would lose the outcomes of earlier requests."""
    gateway = InterpretingGateway(KafkaGateway(KafkaSession(NOWHERE)))
    partition = gateway.read_partitions([AT], offsets=True)[AT]
    assert partition is not None
    assert isinstance(partition.log_start, Unknown)
    group = gateway.read_groups(["billing"])["billing"]
    assert isinstance(group.listed, Unknown)
    assert LIMIT in group.listed.reason
    for answer in (gateway.delete_records({AT: 5})[AT], gateway.elect_leaders(Election.PREFERRED, [AT])[AT]):
        assert (answer.answer, answer.no_effect, answer.sent) == (ResponseAction.RETRY, True, False)


def test_no_read_that_the_library_refuses_shows_the_value_of_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exceptions quote what it was given, and a reason goes into results and the journal."""
    add_references({"broker-of-mars": "${env:KAFKA_HOST}"})

    def refuse(*_arguments: object, **_options: object) -> Any:
        raise KafkaException(KafkaError(KafkaError._RESOLVE, "Failed to resolve 'broker-of-mars:9092'"))

    gateway = KafkaGateway(KafkaSession(NOWHERE, isolates=False))
    for client in ("client", "clients", "read"):
        monkeypatch.setattr(gateway.session, client, refuse)
    reasons = (
        gateway.read_partitions([AT], offsets=False),
        gateway.read_positions({"billing": [AT]}),
        gateway.read_consumers(["orders"], {}).incomplete,
        gateway.read_groups(["billing"]),
        gateway.list_groups(),
        gateway.read_consumer_offsets({0: 5}),
    )
    for reason in map(str, reasons):
        assert "Failed to resolve '${env:KAFKA_HOST}:9092' (_RESOLVE)" in reason
        assert "mars" not in reason


@pytest.mark.usefixtures("unopened")
def test_a_removal_without_a_client_was_not_sent() -> None:
    """The worker process ended with this error, and the removal counted as sent."""
    removal = _delete_in_worker(KafkaSession(NOWHERE), ["billing"], Deadline.after(1))["billing"]
    assert (removal.code, removal.sent) == ("_TRANSPORT", False)
    assert LIMIT in removal.text


@pytest.mark.usefixtures("unopened")
def test_a_request_that_was_never_sent_does_not_count(tmp_path: Path) -> None:
    """Results once reported six requests, sixty records, and the purge clock ran for a month."""
    cluster = cluster_of_orders()
    nowhere = KafkaGateway(KafkaSession(NOWHERE))
    cluster.delete_records = nowhere.delete_records  # type: ignore[method-assign]
    action = purge(cluster, AT, 60, every_ms=30 * 86_400_000)
    applied = run(cluster, [action], tmp_path)
    outcome = applied.only
    assert (outcome.status, outcome.sends, outcome.possible, outcome.removed_max) == (Status.NOT_ATTEMPTED, 0, False, 0)
    assert LIMIT in outcome.detail
    assert last_purges(applied.journal) == {}
    assert exit_code([outcome]) == 1


def test_a_limit_of_threads_is_an_unreachable_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python raises RuntimeError there."""

    monkeypatch.setattr(threading.Thread, "start", _refuse_to_start)
    with pytest.raises(ClusterUnreachable, match="can't start new thread"):
        connect.create(AdminClient, Connection(("127.0.0.1:9",), timeout_s=1.0))


def test_without_a_thread_no_request_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has opened its client before; `refresh` drops the clients, too."""
    session = KafkaSession(NOWHERE)
    gateway = KafkaGateway(session)
    monkeypatch.setattr(KafkaSession, "client", lambda *_arguments, **_options: SimpleNamespace())
    monkeypatch.setattr(threading.Thread, "start", _refuse_to_start)
    removal = _delete_in_worker(session, ["billing"], Deadline.after(1))["billing"]
    deletion = gateway.delete_records({AT: 5})[AT]
    assert (removal.code, removal.sent, deletion.code, deletion.sent) == ("_TRANSPORT", False, "_TRANSPORT", False)
    assert "can't start new thread" in removal.text
    session._clients["reads"] = SimpleNamespace()  # type: ignore[assignment]
    gateway.refresh()
    assert session._clients == {}


def _refuse_to_start(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_worker_that_opens_no_client_says_why() -> None:
    """It ended with the error, and the user read that the coordinator did not answer."""
    session = KafkaSession(Connection(("127.0.0.1:9",), {"no.such.property": "1"}, timeout_s=5.0))
    try:
        for _ in range(2):
            position = KafkaGateway(session).read_positions({"billing": [AT]})["billing", AT]
            assert isinstance(position, Unknown)
            assert mentions(position.reason, "no.such.property", "correct the Cluster's spec.client")
            assert len(session._idle_workers) == 1
    finally:
        session.close()


@pytest.mark.usefixtures("unopened")
def test_a_journal_without_a_client_is_unavailable() -> None:
    """The run stops without a request."""
    journal = ActionJournal(JournalTopic(KafkaSession(NOWHERE), "journal"))
    with pytest.raises(JournalUnavailable, match=LIMIT):
        last_purges(journal)


def done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def refused(error: KafkaError) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(error))
    return future


def session_of(
    *, cluster_id: str = "here", errors: Sequence[KafkaError] = (), listed: bool = False, answer: object = None
) -> Any:
    """A session whose listing has these errors, and billing if `listed`, and whose coordinators give this answer.

    The caller may describe the cluster.
    """
    billing = SimpleNamespace(group_id="billing", type=ConsumerGroupType.CLASSIC, state=ConsumerGroupState.EMPTY)
    listing = SimpleNamespace(valid=[billing] if listed else [], errors=errors)
    described = SimpleNamespace(cluster_id=cluster_id, authorized_operations=[AclOperation.DESCRIBE], nodes=[])
    client: Any = SimpleNamespace(
        poll=lambda _timeout: 0,
        list_consumer_groups=lambda **_options: done(listing),
        describe_cluster=lambda **_options: done(described),
    )
    session: Any = KafkaSession(NOWHERE, cluster_id="here")
    session._clients["reads"] = client
    session.call_worker = lambda *_arguments, **_options: answer
    return session


def test_groups_of_another_cluster_are_unknown() -> None:
    """Absence there proves nothing, and the same name is another group."""
    session = session_of(cluster_id="elsewhere")
    billing = read_groups(session, ["billing"], deadline=Deadline.after(5))["billing"]
    assert isinstance(billing.listed, Unknown)
    assert mentions(billing.listed.reason, "elsewhere", "here")


@pytest.mark.parametrize(("in_metadata", "known"), [("here", True), ("elsewhere", False), (None, False)])
def test_groups_of_a_cluster_without_a_known_id_are_unknown(in_metadata: str | None, *, known: bool) -> None:
    """DescribeCluster waits for the controller, which may be frozen. The metadata has the id, too."""
    session = session_of(listed=True)
    client = session._clients["reads"]
    client.describe_cluster = lambda **_options: refused(SILENT)
    client.cluster_id = lambda timeout: in_metadata  # noqa: ARG005
    listing = list_groups(session, hidden=False, deadline=Deadline.after(0.2))
    assert listing.cluster_id == in_metadata
    assert (listing.check_cluster("here") is None) is known
    assert listing.check_cluster(None) is None
    groups = read_groups(session, ["billing"], deadline=Deadline.after(0.2), removed=["billing"])
    assert (groups["billing"].listed is True) is known


SILENT = KafkaError(KafkaError._TIMED_OUT)
MOVING = Unknown("the coordinator moves")


@pytest.mark.parametrize(
    ("errors", "coordinators", "absent"),
    [
        ([], ({"billing": (GroupState.DEAD, frozenset(), True)}, {}), True),
        ([SILENT], ({"billing": (GroupState.DEAD, frozenset(), True)}, {}), False),
        ([SILENT], None, False),
        ([], ({"billing": (MOVING, frozenset(), False)}, {}), False),
        ([], ({"billing": (GroupState.EMPTY, frozenset(), True)}, {}), False),
        ([], None, False),
    ],
    ids=["proven", "silent broker", "nothing answers", "moving coordinator", "it exists", "crashed client"],
)
def test_absence_needs_a_complete_listing_and_the_coordinator(
    errors: list[KafkaError], coordinators: object, *, absent: bool
) -> None:
    """Any doubt makes an unlisted group Unknown: a silent broker may be its coordinator."""
    session = session_of(errors=errors, answer=coordinators)
    billing = read_groups(session, ["billing"], deadline=Deadline.after(0.2))["billing"]
    assert billing.listed is False if absent else isinstance(billing.listed, Unknown)


@pytest.mark.parametrize("errors", [[], [SILENT]], ids=["complete", "silent broker"])
def test_a_group_that_its_coordinator_has_removed_is_absent_from_a_complete_listing(errors: list[KafkaError]) -> None:
    """Its coordinator is not asked a second time; the others are."""
    session = session_of(errors=errors)
    calls = intercept(session, "call_worker")
    deadline, groups = Deadline.after(5), ["billing", "orders"]
    facts = read_groups(session, groups, deadline=deadline, removed=["billing"])
    assert facts["billing"].listed is False if not errors else isinstance(facts["billing"].listed, Unknown)
    assert isinstance(facts["orders"].listed, Unknown)
    assert [asked for _work, asked in calls] == [1, (("orders",), {})], "connected for one group, then asked"
    read_groups(session, groups, deadline=deadline, removed=groups)
    assert len(calls) == 2, "where all are removed, no coordinator is connected to or asked"


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_a_commit_on_a_topic_that_cannot_be_described_has_no_topic_id(code: int) -> None:
    """The group may still be removed; such an offset is never restored."""
    commit = CommittedOffset(topic="orders", partition=0, offset=3)
    answer = ({}, {"billing": ({("orders", 0): ("orders", 0, 3, None)}, True)})
    session = session_of(listed=True, answer=answer)
    session._clients["reads"].describe_topics = lambda _topics, **_options: {"orders": refused(KafkaError(code))}
    billing = read_groups(session, ["billing"], deadline=Deadline.after(5))["billing"]
    assert (billing.commits, billing.offsets) == (1, (commit,))
    assert billing.fingerprint == fingerprint([("orders", 0, 3)])


def test_no_topic_id_is_not_an_id() -> None:
    """All zeros (KIP-516): a topic that was created again would have the same value."""
    assert isinstance(topic_id_text("AAAAAAAAAAAAAAAAAAAAAA=="), Unknown)
    assert topic_id_text("kAwXdc4bS8u+/XAMPLE0g==") == "kAwXdc4bS8u-_XAMPLE0g"


def test_a_topic_that_could_not_be_described_says_why_in_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They said that their topic id was not asked for, and no silent broker was named."""
    silent = Unknown("no broker answered in time", Cause.NO_ANSWER)
    monkeypatch.setattr(topics, "describe", lambda *_arguments, **_options: {"orders": silent})
    listed = topics.TopicListing(
        brokers=(), topics={"orders": topic()}, partitions={"orders": (partition(topic_id=NOT_ASKED),)}
    )
    (described,) = topics.describe_topics(session_of(), listed, ["orders"]).partitions["orders"]
    assert described.topic_id == Unknown("topic id: no broker answered in time", Cause.NO_ANSWER)


def test_an_error_of_a_whole_call_has_its_name_for_each_group() -> None:
    """Facts are unknown, and a request may have been sent: neither is a silent broker, nor proof of no effect."""
    error = ProgramFailed("an error of this program, please report it: TypeError: no")

    def fail() -> None:
        raise error

    session = session_of(listed=True)
    intercept(session, "call_worker", fail)
    gateway, at = KafkaGateway(session), TopicPartition("orders", 0)
    unread = Unknown(str(error))
    assert gateway.read_groups(["billing"])["billing"].listed == unread
    assert gateway.read_positions({"billing": [at]}) == {("billing", at): unread}
    failed = ItemResult("_APPLICATION", str(error))
    assert gateway.delete_groups(["billing"]) == {"billing": failed}
    assert gateway.commit_offsets("billing", [CommittedOffset(topic="orders", partition=0, offset=3)]) == {at: failed}
    response = interpret(failed, DeleteGroup.ERRORS, DeleteGroup.RIGHT)
    assert (response.answer, response.no_effect, response.sent) == (ResponseAction.READ_BACK, False, True)


def test_the_brokers_of_a_partition_without_a_leader_are_named() -> None:
    """`restore-group` said that there is no leader, and whoever was called had to look up what to start."""
    session: Any = SimpleNamespace(read=lambda *_arguments, **_options: {})
    for replicas, words in (((2, 3), "brokers with a replica: 2,3"), (Unknown("lost"), "replica: unknown")):
        facts = partition(leader=None, replicas=replicas)
        read = with_watermarks(session, {facts.partition: facts}, deadline=Deadline.after(1))[facts.partition]
        assert read is not None
        assert isinstance(read.log_start, Unknown)
        assert read.log_start.reason.endswith(words)
