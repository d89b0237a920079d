"""Every row of the error table on the fake cluster: the outcome of each code, with and without
effect. test_error_rows.py says which rows real brokers produce, and in which test.
"""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from reconciler.apply.context import Tuning
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import ItemResult
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.operations.error_meanings import ErrorMeaning, interpret
from tests.fakes.cluster import FakeCluster, Fault
from tests.fakes.error_table import Operation
from tests.fakes.runs import election, purge, removal, run

AT = TopicPartition("orders", 0)
ALWAYS = 10_000


def cluster() -> FakeCluster:
    fake = FakeCluster()
    fake.create_topic("orders", 3)
    fake.produce("orders", {0: 100, 1: 100, 2: 100})
    fake.create_topic("audit")
    fake.produce("audit", {0: 100})
    fake.commit("etl", {TopicPartition("audit", 0): 40})
    partition = fake.partition(AT)
    partition.replicas = (*partition.replicas[1:], partition.replicas[0])
    return fake


def action(fake: FakeCluster, operation: Operation) -> DeleteRecords | DeleteGroup | ElectLeader:
    match operation:
        case Operation.DELETE_RECORDS:
            return purge(fake, AT, 60)
        case Operation.DELETE_GROUP:
            return removal(fake, "etl")
        case Operation.ELECT_LEADER:
            return election(fake, AT)


def has_effect_on(fake: FakeCluster, operation: Operation) -> bool:
    """Return whether the cluster shows the effect."""
    match operation:
        case Operation.DELETE_RECORDS:
            return fake.partition(AT).log_start == 60
        case Operation.DELETE_GROUP:
            return "etl" not in fake.groups
        case Operation.ELECT_LEADER:
            return fake.partition(AT).leader == fake.partition(AT).replicas[0]


def outcome_of(
    folder: Path, operation: Operation, code: int, *, has_effect: bool = False, times: int = ALWAYS
) -> tuple[Outcome, FakeCluster]:
    fake = cluster()
    planned_action = action(fake, operation)
    fake.faults.append(Fault(operation, code, has_effect=has_effect, times=times))
    return run(fake, [planned_action], folder).only, fake


RECORDS, GROUP, LEADER = Operation.DELETE_RECORDS, Operation.DELETE_GROUP, Operation.ELECT_LEADER

NO_ANSWER = [
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._DESTROY,
    KafkaError._DESTROY_BROKER,
    KafkaError._IN_PROGRESS,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.UNKNOWN,
    -77_777,
]
NO_LEADER = [
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._NOENT,
    KafkaError._UNKNOWN_BROKER,
]
NOT_SENT = [KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_IMPLEMENTED]
READ_BACK = [
    *((operation, code) for operation in Operation for code in NO_ANSWER),
    (RECORDS, KafkaError.REQUEST_TIMED_OUT),
    (GROUP, KafkaError.REQUEST_TIMED_OUT),
]
RETRY = [
    (RECORDS, KafkaError.LEADER_NOT_AVAILABLE),
    (RECORDS, KafkaError.NOT_LEADER_FOR_PARTITION),
    (RECORDS, KafkaError.KAFKA_STORAGE_ERROR),
    (RECORDS, KafkaError.FENCED_LEADER_EPOCH),
    (RECORDS, KafkaError.UNKNOWN_LEADER_EPOCH),
    (RECORDS, KafkaError.BROKER_NOT_AVAILABLE),
    (RECORDS, KafkaError.REPLICA_NOT_AVAILABLE),
    (LEADER, KafkaError.BROKER_NOT_AVAILABLE),
    *((operation, KafkaError.THROTTLING_QUOTA_EXCEEDED) for operation in Operation),
    *((operation, code) for operation in Operation for code in NO_LEADER),
    (GROUP, KafkaError.COORDINATOR_NOT_AVAILABLE),
    (GROUP, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
    (GROUP, KafkaError.NOT_COORDINATOR),
    (LEADER, KafkaError.NOT_CONTROLLER),
    (LEADER, KafkaError.LEADER_NOT_AVAILABLE),
    (LEADER, KafkaError.REQUEST_TIMED_OUT),
]
STALE = [
    (RECORDS, KafkaError.OFFSET_OUT_OF_RANGE),
    (RECORDS, KafkaError.UNKNOWN_TOPIC_OR_PART),
    (GROUP, KafkaError.NON_EMPTY_GROUP),
    (RECORDS, KafkaError.UNKNOWN_TOPIC_ID),
    (LEADER, KafkaError.UNKNOWN_TOPIC_OR_PART),
    (LEADER, KafkaError.UNKNOWN_TOPIC_ID),
]
FAILED = [
    *((operation, code) for operation in Operation for code in NOT_SENT),
    (RECORDS, KafkaError.POLICY_VIOLATION),
    (RECORDS, KafkaError.TOPIC_AUTHORIZATION_FAILED),
    (RECORDS, KafkaError.TOPIC_EXCEPTION),
    (RECORDS, KafkaError.INVALID_REQUEST),
    (GROUP, KafkaError.INVALID_GROUP_ID),
    (GROUP, KafkaError.GROUP_AUTHORIZATION_FAILED),
    (GROUP, KafkaError.INVALID_REQUEST),
    (LEADER, KafkaError.CLUSTER_AUTHORIZATION_FAILED),
    (LEADER, KafkaError.INVALID_REQUEST),
    (LEADER, KafkaError.POLICY_VIOLATION),
]
DONE = [
    *((operation, KafkaError.NO_ERROR) for operation in Operation),
    (GROUP, KafkaError.GROUP_ID_NOT_FOUND),
    (LEADER, KafkaError.ELECTION_NOT_NEEDED),
]
WAITING = [(LEADER, KafkaError.PREFERRED_LEADER_NOT_AVAILABLE), (LEADER, KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE)]


@pytest.mark.parametrize("operation", [operation for operation, code in DONE if code == KafkaError.NO_ERROR])
def test_none_is_applied_and_read_back(tmp_path: Path, operation: Operation) -> None:
    """NONE with a visible effect is applied after one request."""
    fake = cluster()
    outcome = run(fake, [action(fake, operation)], tmp_path).only
    assert (outcome.status, outcome.sends, outcome.code) == (Status.APPLIED, 1, "NONE")
    assert outcome.read_back
    assert has_effect_on(fake, operation)


@pytest.mark.parametrize("operation", Operation)
def test_none_without_effect_is_not_believed(tmp_path: Path, operation: Operation) -> None:
    """NONE without an effect is failed: the response alone proves nothing."""
    outcome, fake = outcome_of(tmp_path, operation, KafkaError.NO_ERROR)
    assert outcome.status is Status.FAILED
    assert not has_effect_on(fake, operation)


@pytest.mark.parametrize(("operation", "code"), [row for row in DONE if row[1] != KafkaError.NO_ERROR])
def test_an_effect_of_another_client_is_satisfied(tmp_path: Path, operation: Operation, code: int) -> None:
    """Another client makes the change between check and request: satisfied, not applied."""
    fake = cluster()
    planned_action = action(fake, operation)

    def make_change(_operation: Operation) -> None:
        fake.groups.pop("etl", None)
        fake.partition(AT).leader = fake.partition(AT).replicas[0]

    fake.on_request = make_change
    outcome = run(fake, [planned_action], tmp_path).only
    assert (outcome.status, outcome.code) == (
        Status.SATISFIED,
        {GROUP: "GROUP_ID_NOT_FOUND", LEADER: "ELECTION_NOT_NEEDED"}[operation],
    )
    assert code in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.ELECTION_NOT_NEEDED)


def test_records_below_the_log_start_are_satisfied(tmp_path: Path) -> None:
    """For a target at or below the log start no request is sent."""
    fake = cluster()
    planned_action = purge(fake, AT, 60)
    fake.expire(AT, 60)
    outcome = run(fake, [planned_action], tmp_path).only
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.SATISFIED, 0, 0)
    assert fake.requests == []


@pytest.mark.parametrize(("operation", "code"), READ_BACK)
def test_a_timeout_with_effect_is_applied(tmp_path: Path, operation: Operation, code: int) -> None:
    """After a timeout the effect is read back: applied, without a second request."""
    outcome, fake = outcome_of(tmp_path, operation, code, has_effect=True)
    assert (outcome.status, outcome.sends) == (Status.APPLIED, 1)
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (RECORDS, KafkaError.NOT_LEADER_FOR_PARTITION),
        (RECORDS, KafkaError.UNKNOWN_TOPIC_OR_PART),
        (RECORDS, KafkaError.KAFKA_STORAGE_ERROR),
        (RECORDS, KafkaError.INVALID_REQUEST),
        (GROUP, KafkaError.NOT_COORDINATOR),
        (GROUP, KafkaError.COORDINATOR_NOT_AVAILABLE),
        (LEADER, KafkaError.NOT_CONTROLLER),
    ],
)
def test_a_former_leader_that_deleted_is_read_back(tmp_path: Path, operation: Operation, code: int) -> None:
    """A leader may delete, wait for its followers and then lose the partition: the effect is read
    back.

    The outcome once said that another client was first and that no record was removed.
    """
    outcome, fake = outcome_of(tmp_path, operation, code, has_effect=True)
    assert has_effect_on(fake, operation)
    assert (outcome.status, outcome.sends) == (Status.APPLIED, 1)
    assert outcome.removed_max == (60 if operation is RECORDS else 0)
    assert outcome.possible


@pytest.mark.parametrize("code", [KafkaError.INVALID_REQUEST, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_the_log_of_another_leader_proves_nothing(tmp_path: Path, code: int) -> None:
    """An ambiguous refusal, and then another leader at the read-back: failed, with the possible
    removal.
    """
    fake = cluster()
    fake.faults.append(Fault(RECORDS, code))

    def make_change(_operation: Operation) -> None:
        fake.partition(AT).leader = next(b for b in fake.partition(AT).replicas if b != fake.partition(AT).leader)

    planned_action = purge(fake, AT, 60)
    fake.on_request = make_change
    outcome = run(fake, [planned_action], tmp_path).only
    assert (outcome.status, outcome.possible, outcome.removed_max) == (Status.FAILED, True, 60)
    fake = cluster()
    fake.faults.append(Fault(RECORDS, code))
    outcome = run(fake, [purge(fake, AT, 60)], tmp_path).only
    assert (outcome.possible, outcome.removed_max) == (False, 0), "the leader that answered shows what it did"


@pytest.mark.parametrize(("operation", "code"), [*READ_BACK, *RETRY])
def test_temporary_errors_are_retried(tmp_path: Path, operation: Operation, code: int) -> None:
    """After two temporary errors the third request is applied; each retry reads the metadata again."""
    outcome, fake = outcome_of(tmp_path, operation, code, times=2)
    assert (outcome.status, outcome.sends) == (Status.APPLIED, 3)
    assert fake.refreshes == 2


@pytest.mark.parametrize(("operation", "code"), [*READ_BACK, *RETRY])
def test_permanent_errors_fail_after_bounded_attempts(tmp_path: Path, operation: Operation, code: int) -> None:
    """If the error stays, the outcome is failed with its code, after a bounded number of requests."""
    outcome, fake = outcome_of(tmp_path, operation, code)
    assert outcome.status is Status.FAILED
    assert outcome.sends == len(fake.requests) == Tuning().attempts
    assert outcome.code is not None
    assert outcome.code in outcome.detail
    assert not has_effect_on(fake, operation)


@pytest.mark.parametrize(("operation", "code"), STALE)
def test_changed_subjects_are_stale_at_once(tmp_path: Path, operation: Operation, code: int) -> None:
    """The broker says that the subject changed: stale after one request, without effect."""
    outcome, fake = outcome_of(tmp_path, operation, code)
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.STALE, 1, 0)
    assert len(fake.requests) == 1


@pytest.mark.parametrize(("operation", "code"), FAILED)
def test_refusals_are_failed_at_once(tmp_path: Path, operation: Operation, code: int) -> None:
    """A refusal is not retried."""
    outcome, fake = outcome_of(tmp_path, operation, code)
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.FAILED, 1, 0)
    assert len(fake.requests) == 1


@pytest.mark.parametrize(("operation", "code"), WAITING)
def test_an_unavailable_replica_is_waited_for(tmp_path: Path, operation: Operation, code: int) -> None:
    """If the preferred leader is not available yet, the action is waiting, not failed."""
    outcome, _ = outcome_of(tmp_path, operation, code)
    assert (outcome.status, outcome.sends) == (Status.WAITING, 1)


def test_absent_groups_may_be_refused_without_rights(tmp_path: Path) -> None:
    """GROUP_AUTHORIZATION_FAILED for a group that a complete list does not have is satisfied.

    Brokers also return this error for absent groups.
    """
    fake = cluster()
    planned_action = removal(fake, "etl")
    fake.faults.append(Fault(GROUP, KafkaError.GROUP_AUTHORIZATION_FAILED))
    fake.on_request = lambda _operation: fake.groups.clear()
    assert run(fake, [planned_action], tmp_path).only.status is Status.SATISFIED


def test_too_many_elections_are_halved_until_they_fit(tmp_path: Path) -> None:
    """After POLICY_VIOLATION the batch is halved, with a new check, until the broker accepts it;
    all are applied.
    """
    fake = FakeCluster()
    fake.create_topic("wide", 100)
    fake.max_elections = 13
    ats = [TopicPartition("wide", number) for number in range(100)]
    for at in ats:
        fake.partition(at).replicas = tuple(reversed(fake.partition(at).replicas))
    outcomes = run(fake, [election(fake, at) for at in ats], tmp_path).outcomes
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    assert len(outcomes) == 100
    assert sum(len(request.subjects) for request in fake.requests if len(request.subjects) <= 13) == 100


def test_an_election_of_another_leader_fails(tmp_path: Path) -> None:
    """NONE while another replica leads: the program waits, retries and fails, and names the leader."""
    fake = cluster()
    planned_action = election(fake, AT)
    fake.faults.append(Fault(LEADER, KafkaError.NO_ERROR, times=ALWAYS))
    outcome = run(fake, [planned_action], tmp_path).only
    assert outcome.status is Status.FAILED
    assert f"leader {fake.partition(AT).leader}" in outcome.detail


def test_the_failure_of_an_item_is_its_own(tmp_path: Path) -> None:
    """One call with a refused, a stale and a valid item: each has its own outcome."""
    fake = cluster()
    ats = [TopicPartition("orders", number) for number in range(3)]
    for at in ats:
        fake.partition(at).leader = 1
    actions = [purge(fake, at, 60) for at in ats]
    fake.faults.append(Fault(RECORDS, KafkaError.TOPIC_AUTHORIZATION_FAILED, frozenset({ats[0]})))
    fake.faults.append(Fault(RECORDS, KafkaError.OFFSET_OUT_OF_RANGE, frozenset({ats[1]})))
    statuses = {outcome.action.address.partition: outcome.status for outcome in run(fake, actions, tmp_path).outcomes}
    assert statuses == {0: Status.FAILED, 1: Status.STALE, 2: Status.APPLIED}
    assert len(fake.requests) == 1


@pytest.mark.parametrize("code", ["_TIMED_OUT", "_TRANSPORT", "NONE"])
def test_a_request_that_did_not_leave_this_machine_had_no_effect(code: str) -> None:
    """Whatever its code says: it is sent later, and its result is not open."""
    response = interpret(ItemResult(code, "no client", sent=False), DeleteRecords.ERRORS, DeleteRecords.RIGHT)
    assert ((response.answer, response.no_effect), response.sent) == (ErrorMeaning.NOT_READY.value, False)
