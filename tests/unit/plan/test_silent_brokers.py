"""A broker that does not answer is one cause: named once, with what waits for it, and no missing right."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from reconciler.kafka.futures import failure_of
from reconciler.kafka.silence import silence_of
from reconciler.model.block_reason import SILENT
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Blocked, Plan
from reconciler.model.snapshot import Cause, ClusterSnapshot, Unknown
from reconciler.plan import drift
from reconciler.report.drift import drift_report
from reconciler.report.results import results_report
from reconciler.report.terminal import write_lines
from reconciler.scan.snapshot_builder import lacks_answers, name_silent_brokers
from tests import rendering
from tests.strategies import examples
from tests.strategies.examples import purge
from tests.strategies.facts import floor, group, partition, planned, removal, snapshot, topic

NUMBERS = range(14)
NO_ANSWER = Unknown("its leader did not answer within 30 s", Cause.NO_ANSWER)
LISTING = Unknown("Local: Timed out (_TIMED_OUT)", Cause.NO_ANSWER)
SILENT_3 = silence_of(3, "kafka-3:9092", 10.0)
SENTENCE = "Broker 3 (kafka-3:9092) did not answer a test request within 10 s"
"""It once said `within 5 s` with `--timeout 10`, without saying that it was another wait."""


def unanswered() -> ClusterSnapshot:
    """Partitions of two leaders, of which broker 3 kept its facts and its groups."""
    kept = [
        partition(
            number,
            leader=3,
            log_start=NO_ANSWER,
            last_stable_offset=NO_ANSWER,
            high_watermark=NO_ANSWER,
            at={0: NO_ANSWER},
        )
        for number in NUMBERS
    ]
    return snapshot(*kept, topic(partitions=14), group("live"), groups_incomplete=LISTING, readers_incomplete=LISTING)


def plan_of(facts: ClusterSnapshot) -> Plan:
    return planned([floor("orders", keep={"last": 60}), removal("old-etl", "older-etl")], facts)


def test_every_fact_that_it_kept_has_one_reason() -> None:
    """Facts of its partitions, of lists and of groups; what was read stays."""
    facts = unanswered()
    assert lacks_answers(facts)
    named = name_silent_brokers(facts, {3: SILENT_3})
    assert named.silent_brokers == {3}
    assert (named.groups_incomplete, named.readers_incomplete, named.topics_incomplete) == (SILENT_3, SILENT_3, None)
    for facts_of_partition in named.partitions.values():
        assert facts_of_partition.log_start == facts_of_partition.high_watermark == SILENT_3
        assert set(facts_of_partition.offsets_at.values()) == {SILENT_3}
        assert facts_of_partition.leader == 3
    assert not lacks_answers(snapshot(partition(), group("live")))


def test_a_leader_that_answers_keeps_its_own_reason() -> None:
    """Another broker is silent: it says nothing of these partitions."""
    silent = silence_of(2, "b:1", 10.0)
    named = name_silent_brokers(unanswered(), {2: silent})
    assert {facts.log_start for facts in named.partitions.values()} == {NO_ANSWER}
    assert name_silent_brokers(unanswered(), {}) == unanswered()


@pytest.mark.parametrize(
    ("code", "text", "unanswered"),
    [
        # The caller gave up waiting for a call without a result.
        (None, "", True),
        (KafkaError._TIMED_OUT, "Failed while waiting for response from broker: Local: Timed out", True),
        (KafkaError._TRANSPORT, "Local: Broker transport failure", True),
        (KafkaError._ALL_BROKERS_DOWN, "Local: All broker connections are down", True),
        (KafkaError.REQUEST_TIMED_OUT, "Broker: Request timed out", True),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "Broker: Cluster authorization failed", False),
        (KafkaError.INVALID_GROUP_ID, "the group Timed out did not answer", False),
    ],
)
def test_a_refusal_is_an_answer(code: int | None, text: str, unanswered: bool) -> None:
    """Only the lack of an answer is silence, by its code: a name in the text once looked like it."""
    future: Future[object] = Future()
    if code is not None:
        future.set_exception(KafkaException(KafkaError(code, text)))
    failure = failure_of(future, right="DESCRIBE on the cluster")
    assert failure is not None
    assert failure.unanswered is unanswered


def test_the_plan_names_the_broker_once_and_no_right() -> None:
    """Its partitions and removals were 14 sentences and the advice to grant DESCRIBE on the cluster."""
    plan = plan_of(name_silent_brokers(unanswered(), {3: SILENT_3}))
    blocked = [decision for decision in plan.decisions if isinstance(decision, Blocked)]
    assert len(blocked) == 16
    assert {(decision.code, decision.reason, decision.unread) for decision in blocked} == {
        (SILENT, SILENT_3.reason, True)
    }
    assert plan.incomplete == (f"{SENTENCE}: 16 subjects of 2 policies could not be read.",)
    for text in ("\n".join(line.plain for line in rendering.text(plan)), rendering.markdown(plan)):
        assert text.count("did not answer") == 2, "the warning, and one item of all that waits for it"
        assert "right" not in text
        assert "grant" not in text
        assert "B109" in text


def test_what_it_may_know_of_a_group_waits_for_its_answer() -> None:
    """The plan once said that the group has no committed position, and to grant DESCRIBE on the group."""
    facts = snapshot(
        partition(readers=()), group("old-etl", listed=False), groups_incomplete=SILENT_3, readers_incomplete=SILENT_3
    )
    plan = planned([floor("orders", keep={"unreadBy": ["billing"]}), removal("old-etl")], facts)
    blocked = [decision for decision in plan.decisions if isinstance(decision, Blocked)]
    assert [(decision.code, decision.reason) for decision in blocked] == [(SILENT, SILENT_3.reason)] * 2


def test_drift_names_the_broker_once() -> None:
    """One line of the report, whatever the number of subjects; the JSON has each of them."""
    result = drift.report(plan_of(name_silent_brokers(unanswered(), {3: SILENT_3})))
    assert (len(result.unread), drift.exit_code([result])) == (16, 1)
    text = "\n".join(line.plain for line in write_lines(drift_report(result)))
    assert text.count("did not answer") == 2
    assert "grant" not in text


def test_what_was_not_sent_is_one_line_of_the_results() -> None:
    """14 actions for one silent broker: one item, with the cause, and none of them failed."""
    actions = [purge(partition=number) for number in NUMBERS]
    plan = examples.plan(*actions)
    outcomes = [Outcome(action=a, status=Status.NOT_ATTEMPTED, detail=SILENT_3.reason) for a in actions]
    text = "\n".join(line.plain for line in write_lines(results_report(rendering.header_of(plan), outcomes)))
    assert text.count("did not answer") == 1
    assert "14 partitions of orders" in text
    assert "failed" not in text.lower()
