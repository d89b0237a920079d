"""The error table: what each code means, where real brokers produce it, and the outcome of each row on the fake cluster."""

import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from reconciler.apply.context import Tuning
from reconciler.kafka.gateway import error_name
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import ItemResult
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.operations.error_meanings import ErrorMeaning, ResponseAction, interpret
from tests.fakes.cluster import FakeCluster, Fault, cluster_of_orders
from tests.fakes.error_table import CODES, TABLE, Operation, response
from tests.fakes.runs import election, purge, removal, run, shows_effect

AT = TopicPartition("orders", 0)
ALWAYS = 10_000


def cluster() -> FakeCluster:
    fake = cluster_of_orders(3)
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


def outcome_of(
    operation: Operation, code: int, *, has_effect: bool = False, times: int = ALWAYS
) -> tuple[Outcome, FakeCluster]:
    fake = cluster()
    planned_action = action(fake, operation)
    fake.faults.append(Fault(operation, code, has_effect=has_effect, times=times))
    return run(fake, [planned_action]).only, fake


RECORDS, GROUP, LEADER = Operation.DELETE_RECORDS, Operation.DELETE_GROUP, Operation.ELECT_LEADER

EVERY = tuple(Operation)
K, M = KafkaError, ErrorMeaning
NO_SILENCE = (
    "the client's words for silence that no test brings about on purpose; the fault suite kills and freezes brokers"
)
NOT_MADE = "the client refuses requests that the gateway never makes, or is of another version"
BEHIND = "the client's cache is behind for a moment"
MOVING = "leaders, coordinators and controllers move within milliseconds: not to be met on purpose"
RARE = "takes a broken disk, a quota, or more than 10,000 elections in one request"
BY_NAME = "brokers of now answer requests by name, and group ids that a plan can hold are valid"
ROWS = "kafka/test_apply.py::"
CONTRACT = "contract/test_gateway_contract.py::test_contract_"
FAULTS = "kafka/test_gateway_faults.py::test_gateway_"
RIGHTS = "kafka/test_apply_rights.py::test_an_action_without_permission_fails_and_the_others_go_on"
APPLIED = f"{ROWS}test_apply_does_what_was_planned_and_nothing_else"
NO_LEADER = f"{FAULTS}no_leader_means_retry_and_elections_wait"

MEANINGS: list[tuple[tuple[Operation, ...], tuple[int, ...], ErrorMeaning, str]] = [
    (EVERY, (K.NO_ERROR,), M.DONE, APPLIED),
    ((GROUP,), (K.GROUP_ID_NOT_FOUND,), M.ALREADY_DONE, f"{CONTRACT}a_removed_group_has_no_commits"),
    ((LEADER,), (K.ELECTION_NOT_NEEDED,), M.ALREADY_DONE, f"{CONTRACT}elections"),
    ((RECORDS,), (K._TIMED_OUT,), M.READ_BACK, f"{FAULTS}a_silent_leader_affects_only_its_partitions"),
    ((GROUP, LEADER), (K._TIMED_OUT,), M.READ_BACK, NO_SILENCE),
    (EVERY, (K._TIMED_OUT_QUEUE, K._MSG_TIMED_OUT, K._TRANSPORT, K._ALL_BROKERS_DOWN, K._RESOLVE, K._DESTROY), M.READ_BACK, NO_SILENCE),
    (EVERY, (K._DESTROY_BROKER, K._IN_PROGRESS, K.NETWORK_EXCEPTION, K.UNKNOWN), M.READ_BACK, NO_SILENCE),
    ((RECORDS,), (K.REQUEST_TIMED_OUT,), M.READ_BACK, f"{FAULTS}a_slow_follower_is_a_timeout_with_an_effect"),
    ((GROUP,), (K.REQUEST_TIMED_OUT,), M.READ_BACK, MOVING),
    (EVERY, (K._UNKNOWN_PARTITION, K._UNKNOWN_TOPIC, K._UNKNOWN_BROKER), M.NOT_READY, BEHIND),
    ((RECORDS,), (K._NOENT,), M.NOT_READY, f"{CONTRACT}a_read_creates_no_topic"),
    ((GROUP, LEADER), (K._NOENT,), M.NOT_READY, BEHIND),
    (EVERY, (K.THROTTLING_QUOTA_EXCEEDED,), M.NOT_READY, RARE),
    ((RECORDS,), (K.LEADER_NOT_AVAILABLE,), M.NOT_READY, NO_LEADER),
    ((RECORDS,), (K.FENCED_LEADER_EPOCH, K.UNKNOWN_LEADER_EPOCH), M.NOT_READY, MOVING),
    ((GROUP,), (K.COORDINATOR_LOAD_IN_PROGRESS,), M.NOT_READY, MOVING),
    ((LEADER,), (K.LEADER_NOT_AVAILABLE,), M.NOT_READY, MOVING),
    # Said by a leader that deleted, waited for its followers, and lost the partition meanwhile.
    ((RECORDS,), (K.NOT_LEADER_FOR_PARTITION, K.BROKER_NOT_AVAILABLE, K.REPLICA_NOT_AVAILABLE), M.RETRY, MOVING),
    ((RECORDS,), (K.KAFKA_STORAGE_ERROR,), M.RETRY, RARE),
    ((GROUP,), (K.COORDINATOR_NOT_AVAILABLE, K.NOT_COORDINATOR), M.RETRY, MOVING),
    ((LEADER,), (K.NOT_CONTROLLER, K.REQUEST_TIMED_OUT, K.BROKER_NOT_AVAILABLE), M.RETRY, MOVING),
    ((RECORDS,), (K.OFFSET_OUT_OF_RANGE,), M.STALE, f"{ROWS}test_offset_out_of_range_is_stale"),
    ((RECORDS, LEADER), (K.UNKNOWN_TOPIC_ID,), M.STALE, BY_NAME),
    ((GROUP,), (K.NON_EMPTY_GROUP,), M.STALE, f"{CONTRACT}groups_with_members_are_not_removed"),
    ((LEADER,), (K.UNKNOWN_TOPIC_OR_PART,), M.STALE, f"{ROWS}test_a_deleted_topic_is_stale"),
    ((RECORDS,), (K.UNKNOWN_TOPIC_OR_PART,), M.GONE, f"{ROWS}test_a_deleted_topic_is_stale"),
    ((LEADER,), (K.PREFERRED_LEADER_NOT_AVAILABLE,), M.WAITING, NO_LEADER),
    ((LEADER,), (K.ELIGIBLE_LEADERS_NOT_AVAILABLE,), M.WAITING, NO_LEADER),
    (EVERY, (K._INVALID_ARG, K._UNSUPPORTED_FEATURE, K._NOT_IMPLEMENTED), M.REFUSED, NOT_MADE),
    ((RECORDS,), (K.POLICY_VIOLATION,), M.REFUSED, f"{CONTRACT}delete_records_of_a_compacted_topic_fails"),
    ((RECORDS,), (K.TOPIC_EXCEPTION,), M.REFUSED, f"{ROWS}test_invalid_topic_is_failed"),
    ((RECORDS,), (K.TOPIC_AUTHORIZATION_FAILED,), M.REFUSED, RIGHTS),
    ((GROUP,), (K.GROUP_AUTHORIZATION_FAILED,), M.REFUSED, RIGHTS),
    ((LEADER,), (K.CLUSTER_AUTHORIZATION_FAILED,), M.REFUSED, RIGHTS),
    ((GROUP,), (K.INVALID_GROUP_ID,), M.REFUSED, BY_NAME),
    ((LEADER,), (K.POLICY_VIOLATION,), M.HALVE, RARE),
]  # fmt: skip
"""What each code means to which requests, and the test that provokes it on real brokers, or why none does."""
MEANING_OF = {(operation, code): meaning for of, codes, meaning, _ in MEANINGS for operation in of for code in codes}
FROM_THE_FUTURE = (9_999, -77_777)


def rows(*meanings: ErrorMeaning) -> list[tuple[Operation, int]]:
    """Return the rows of these meanings, and those of a code that no table names."""
    unknown = [(operation, -77_777) for operation in Operation if M.READ_BACK in meanings]
    unknown += [(operation, K.INVALID_REQUEST) for operation in Operation if M.FAILED in meanings]
    return [row for row, meaning in MEANING_OF.items() if meaning in meanings] + unknown


READ_BACK, RETRIED = rows(M.READ_BACK), rows(M.RETRY, M.NOT_READY)


# --- the table: total, and never optimistic


@pytest.mark.parametrize("operation", Operation)
def test_each_code_means_what_the_table_says_and_every_other_one_proves_nothing(operation: Operation) -> None:
    """Of all codes of the library, and of some unknown ones. Another code of the client is read back, another one
    of a broker is a failure, and neither shows that nothing happened.
    """
    for code in (*CODES, *FROM_THE_FUTURE):
        expected = MEANING_OF.get((operation, code), M.READ_BACK if code < 0 else M.FAILED)
        answer = response(operation, code)
        assert (answer.answer, answer.no_effect) == expected.value, error_name(code)
    assert {(operation, code) for code in TABLE[operation]} == {row for row in MEANING_OF if row[0] is operation}


@pytest.mark.parametrize("operation", Operation)
def test_codes_of_authorization_name_the_right(operation: Operation) -> None:
    """Every authorization error names the right that the request needs, and the command that prints the grants."""
    right = {RECORDS: "DELETE on the topic", GROUP: "DELETE on the group", LEADER: "ALTER on the cluster"}[operation]
    codes = [code for code in CODES if error_name(code).endswith("AUTHORIZATION_FAILED")]
    assert len(codes) >= 5
    for code in codes:
        answer = response(operation, code, "denied")
        assert answer.answer is ResponseAction.FAILED
        for text in ("a right is missing (denied)", right, "doctor --acls"):
            assert text in answer.text, error_name(code)


def test_codes_have_kafkas_names() -> None:
    """Kafka's name replaces an old name of the library."""
    assert error_name(0) == "NONE"
    assert error_name(KafkaError.NOT_LEADER_FOR_PARTITION) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(KafkaError.UNKNOWN_TOPIC_OR_PART) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_name(KafkaError.TOPIC_EXCEPTION) == "INVALID_TOPIC_EXCEPTION"
    assert error_name(KafkaError._TIMED_OUT) == "_TIMED_OUT"
    assert error_name(KafkaError.NON_EMPTY_GROUP) == "NON_EMPTY_GROUP"


def test_each_row_names_its_test_on_real_brokers_or_why_there_is_none() -> None:
    for provoked in {evidence for *_, evidence in MEANINGS if "::" in evidence}:
        file, _, name = provoked.partition("::")
        text = (Path(__file__).parents[2] / file).read_text()
        assert re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE), provoked


# --- what a run makes of each row, on the fake cluster


@pytest.mark.parametrize("operation", Operation)
def test_none_is_applied_where_it_is_read_back(operation: Operation) -> None:
    """NONE without a visible effect is failed: the response alone proves nothing. The other leader is named."""
    fake = cluster()
    outcome = run(fake, [action(fake, operation)]).only
    assert (outcome.status, outcome.sends, outcome.code) == (Status.APPLIED, 1, "NONE")
    assert outcome.read_back
    assert shows_effect(fake, outcome.action)
    outcome, fake = outcome_of(operation, KafkaError.NO_ERROR)
    assert outcome.status is Status.FAILED
    assert operation is not LEADER or f"leader {fake.partition(AT).leader}" in outcome.detail
    assert not shows_effect(fake, outcome.action)


@pytest.mark.parametrize(
    ("operation", "code", "status", "has_effect"),
    [
        # After a timeout the effect is read back, without a second request.
        *((*row, Status.APPLIED, True) for row in READ_BACK),
        # The broker says that the subject changed, a refusal is not retried, and a leader is waited for.
        *((*row, Status.STALE, False) for row in rows(M.STALE, M.GONE)),
        *((*row, Status.FAILED, False) for row in rows(M.FAILED, M.REFUSED, M.HALVE)),
        *((*row, Status.WAITING, False) for row in rows(M.WAITING)),
    ],
)
def test_one_request_is_enough_where_the_answer_says_so(
    operation: Operation, code: int, status: Status, has_effect: bool
) -> None:
    outcome, fake = outcome_of(operation, code, has_effect=has_effect)
    assert (outcome.status, outcome.sends, len(fake.requests)) == (status, 1, 1)
    assert has_effect or status is Status.WAITING or outcome.removed_max == 0


@pytest.mark.parametrize(("operation", "code"), [*rows(M.ALREADY_DONE), (GROUP, K.GROUP_AUTHORIZATION_FAILED)])
def test_an_effect_of_another_client_is_satisfied(operation: Operation, code: int) -> None:
    """Another client makes the change between check and request: satisfied, not applied.

    GROUP_AUTHORIZATION_FAILED is also said of absent groups: a complete list decides.
    """
    fake = cluster()
    planned_action = action(fake, operation)

    def make_change(_operation: Operation) -> None:
        fake.groups.pop("etl", None)
        fake.partition(AT).leader = fake.partition(AT).replicas[0]

    fake.on_request = make_change
    if code == K.GROUP_AUTHORIZATION_FAILED:
        fake.faults.append(Fault(operation, code))
    outcome = run(fake, [planned_action]).only
    assert (outcome.status, outcome.code) == (Status.SATISFIED, error_name(code))


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
def test_a_former_leader_that_deleted_is_read_back(operation: Operation, code: int) -> None:
    """It lost the partition while it waited for followers; once nothing counted as removed."""
    outcome, fake = outcome_of(operation, code, has_effect=True)
    assert shows_effect(fake, outcome.action)
    assert (outcome.status, outcome.sends) == (Status.APPLIED, 1)
    assert outcome.removed_max == (60 if operation is RECORDS else 0)
    assert outcome.possible


@pytest.mark.parametrize("code", [KafkaError.INVALID_REQUEST, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_the_log_of_another_leader_proves_nothing(code: int) -> None:
    """Another leader answers the read-back of an ambiguous refusal: failed, possibly removed."""
    fake = cluster()
    fake.faults.append(Fault(RECORDS, code))

    def make_change(_operation: Operation) -> None:
        fake.partition(AT).leader = next(b for b in fake.partition(AT).replicas if b != fake.partition(AT).leader)

    planned_action = purge(fake, AT, 60)
    fake.on_request = make_change
    outcome = run(fake, [planned_action]).only
    assert (outcome.status, outcome.possible, outcome.removed_max) == (Status.FAILED, True, 60)
    fake = cluster()
    fake.faults.append(Fault(RECORDS, code))
    outcome = run(fake, [purge(fake, AT, 60)]).only
    assert (outcome.possible, outcome.removed_max) == (False, 0), "the leader that answered shows what it did"


@pytest.mark.parametrize(("operation", "code"), [*READ_BACK, *RETRIED])
def test_temporary_errors_are_retried(operation: Operation, code: int) -> None:
    """After two temporary errors the third request is applied; each retry reads the metadata again."""
    outcome, fake = outcome_of(operation, code, times=2)
    assert (outcome.status, outcome.sends) == (Status.APPLIED, 3)
    assert fake.refreshes == 2


@pytest.mark.parametrize(("operation", "code"), [*READ_BACK, *RETRIED])
def test_permanent_errors_fail_after_bounded_attempts(operation: Operation, code: int) -> None:
    """If the error stays, the outcome is failed with its code, after a bounded number of requests."""
    outcome, fake = outcome_of(operation, code)
    assert outcome.status is Status.FAILED
    assert outcome.sends == len(fake.requests) == Tuning().attempts
    assert outcome.code is not None
    assert outcome.code in outcome.detail
    assert not shows_effect(fake, outcome.action)


def test_too_many_elections_are_halved_until_they_fit() -> None:
    """After POLICY_VIOLATION the batch is halved, with a new check; all are applied."""
    fake = FakeCluster()
    fake.create_topic("wide", 100)
    fake.max_elections = 13
    ats = [TopicPartition("wide", number) for number in range(100)]
    for at in ats:
        fake.partition(at).replicas = tuple(reversed(fake.partition(at).replicas))
    outcomes = run(fake, [election(fake, at) for at in ats]).outcomes
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    assert len(outcomes) == 100
    assert sum(len(request.subjects) for request in fake.requests if len(request.subjects) <= 13) == 100


def test_the_failure_of_an_item_is_its_own() -> None:
    """One call with a refused, a stale and a valid item: each has its own outcome."""
    fake = cluster()
    ats = [TopicPartition("orders", number) for number in range(3)]
    for at in ats:
        fake.partition(at).leader = 1
    actions = [purge(fake, at, 60) for at in ats]
    fake.faults.append(Fault(RECORDS, KafkaError.TOPIC_AUTHORIZATION_FAILED, frozenset({ats[0]})))
    fake.faults.append(Fault(RECORDS, KafkaError.OFFSET_OUT_OF_RANGE, frozenset({ats[1]})))
    statuses = {outcome.action.address.partition: outcome.status for outcome in run(fake, actions).outcomes}
    assert statuses == {0: Status.FAILED, 1: Status.STALE, 2: Status.APPLIED}
    assert len(fake.requests) == 1


@pytest.mark.parametrize("code", ["_TIMED_OUT", "_TRANSPORT", "NONE"])
def test_a_request_that_did_not_leave_this_machine_had_no_effect(code: str) -> None:
    """Whatever its code says: it is sent later, and its result is not open."""
    unsent = interpret(ItemResult(code, "no client", sent=False), DeleteRecords.ERRORS, DeleteRecords.RIGHT)
    assert ((unsent.answer, unsent.no_effect), unsent.sent) == (ErrorMeaning.NOT_READY.value, False)
