"""The error table: what each code means, and its outcome on the fake cluster, with and without effect."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from reconciler.apply.context import Tuning
from reconciler.kafka.gateway import error_name
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import ItemResult
from reconciler.operations.attempt import ErrorMeaning, ResponseAction, interpret
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from tests.fakes.cluster import FakeCluster, Fault
from tests.fakes.error_table import CODES, Operation, response
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

EVERY = tuple(Operation)
APPLY = "kafka/test_apply.py::test_apply_does_what_was_planned_and_nothing_else"
FAULTS = "kafka/test_gateway_faults.py::test_gateway_"
ROWS = "kafka/test_apply_rows.py::test_"
RIGHTS = "kafka/test_apply_rights.py::test_an_action_without_permission_fails_and_the_others_go_on"
NO_LEADER = f"{FAULTS}no_leader_means_retry_and_elections_wait"
SILENCE = (
    "the client's words for silence that no test brings about on purpose; the fault suite kills and freezes brokers"
)
UNUSED = "the client refuses requests that the gateway never makes, or is of another version"
CACHE = "the client's cache is behind for a moment"
MOVES = "leaders, coordinators and controllers move within milliseconds: not to be met on purpose"
RARE = "takes a broken disk, a quota, or more than 10,000 elections in one request"
OTHER = "brokers of now answer requests by name, and group ids that a plan can hold are valid"

TABLE: Sequence[tuple[Sequence[Operation], ErrorMeaning, Mapping[str, str]]] = [
    (EVERY, ErrorMeaning.DONE, {"NONE": APPLY}),
    ([GROUP], ErrorMeaning.ALREADY_DONE, {"GROUP_ID_NOT_FOUND": f"{ROWS}group_id_not_found_is_satisfied"}),
    ([LEADER], ErrorMeaning.ALREADY_DONE, {"ELECTION_NOT_NEEDED": f"{ROWS}election_not_needed_is_satisfied"}),
    ([RECORDS], ErrorMeaning.READ_BACK, {"_TIMED_OUT": f"{FAULTS}a_silent_leader_affects_only_its_partitions"}),
    ([GROUP, LEADER], ErrorMeaning.READ_BACK, {"_TIMED_OUT": SILENCE}),
    (
        EVERY,
        ErrorMeaning.READ_BACK,
        dict.fromkeys(
            [
                "_TIMED_OUT_QUEUE",
                "_MSG_TIMED_OUT",
                "_TRANSPORT",
                "_ALL_BROKERS_DOWN",
                "_RESOLVE",
                "_DESTROY",
                "_DESTROY_BROKER",
                "_IN_PROGRESS",
                "NETWORK_EXCEPTION",
                "UNKNOWN_SERVER_ERROR",
            ],
            SILENCE,
        ),
    ),
    ([RECORDS], ErrorMeaning.READ_BACK, {"REQUEST_TIMED_OUT": f"{FAULTS}a_slow_follower_is_a_timeout_with_an_effect"}),
    ([GROUP], ErrorMeaning.READ_BACK, {"REQUEST_TIMED_OUT": MOVES}),
    (
        EVERY,
        ErrorMeaning.NOT_READY,
        {"_UNKNOWN_PARTITION": CACHE, "_UNKNOWN_TOPIC": CACHE, "_UNKNOWN_BROKER": CACHE}
        | {"THROTTLING_QUOTA_EXCEEDED": RARE},
    ),
    (
        [RECORDS],
        ErrorMeaning.NOT_READY,
        {"_NOENT": "contract/test_gateway_contract.py::test_contract_a_read_creates_no_topic"}
        | {"LEADER_NOT_AVAILABLE": NO_LEADER, "FENCED_LEADER_EPOCH": MOVES, "UNKNOWN_LEADER_EPOCH": MOVES},
    ),
    ([GROUP], ErrorMeaning.NOT_READY, {"_NOENT": CACHE, "COORDINATOR_LOAD_IN_PROGRESS": MOVES}),
    ([LEADER], ErrorMeaning.NOT_READY, {"_NOENT": CACHE, "LEADER_NOT_AVAILABLE": MOVES}),
    (
        [RECORDS],
        ErrorMeaning.RETRY,
        {"NOT_LEADER_OR_FOLLOWER": MOVES, "BROKER_NOT_AVAILABLE": MOVES, "REPLICA_NOT_AVAILABLE": MOVES}
        | {"KAFKA_STORAGE_ERROR": RARE},
    ),
    ([GROUP], ErrorMeaning.RETRY, {"COORDINATOR_NOT_AVAILABLE": MOVES, "NOT_COORDINATOR": MOVES}),
    (
        [LEADER],
        ErrorMeaning.RETRY,
        {"NOT_CONTROLLER": MOVES, "REQUEST_TIMED_OUT": MOVES, "BROKER_NOT_AVAILABLE": MOVES},
    ),
    (
        [RECORDS],
        ErrorMeaning.STALE,
        {"OFFSET_OUT_OF_RANGE": f"{ROWS}offset_out_of_range_is_stale", "UNKNOWN_TOPIC_ID": OTHER},
    ),
    ([RECORDS], ErrorMeaning.GONE, {"UNKNOWN_TOPIC_OR_PARTITION": f"{ROWS}a_deleted_topic_is_stale"}),
    ([GROUP], ErrorMeaning.STALE, {"NON_EMPTY_GROUP": f"{ROWS}non_empty_group_is_stale"}),
    (
        [LEADER],
        ErrorMeaning.STALE,
        {"UNKNOWN_TOPIC_OR_PARTITION": f"{ROWS}a_deleted_topic_is_stale", "UNKNOWN_TOPIC_ID": OTHER},
    ),
    (EVERY, ErrorMeaning.REFUSED, {"_INVALID_ARG": UNUSED, "_UNSUPPORTED_FEATURE": UNUSED, "_NOT_IMPLEMENTED": UNUSED}),
    (
        [RECORDS],
        ErrorMeaning.REFUSED,
        {"POLICY_VIOLATION": f"{ROWS}policy_violation_is_failed", "TOPIC_AUTHORIZATION_FAILED": RIGHTS}
        | {"INVALID_TOPIC_EXCEPTION": f"{ROWS}invalid_topic_is_failed"},
    ),
    ([GROUP], ErrorMeaning.REFUSED, {"INVALID_GROUP_ID": OTHER, "GROUP_AUTHORIZATION_FAILED": RIGHTS}),
    ([LEADER], ErrorMeaning.REFUSED, {"CLUSTER_AUTHORIZATION_FAILED": RIGHTS}),
    (
        [LEADER],
        ErrorMeaning.WAITING,
        {"PREFERRED_LEADER_NOT_AVAILABLE": f"{ROWS}preferred_leader_not_available_waits"}
        | {"ELIGIBLE_LEADERS_NOT_AVAILABLE": NO_LEADER},
    ),
    ([LEADER], ErrorMeaning.HALVE, {"POLICY_VIOLATION": RARE}),
]
"""What each code means for an operation, and the test on real brokers that provokes it, or why none does."""

UNLISTED = (9_999, -9_999)
CODE_OF = {error_name(code): code for code in CODES}
MEANINGS = {
    (operation, CODE_OF[name]): meaning
    for operations, meaning, rows in TABLE
    for operation in operations
    for name in rows
}
WHERE = {
    (operation, name): where
    for operations, _, rows in TABLE
    for operation in operations
    for name, where in rows.items()
}


def rows(*meanings: ErrorMeaning) -> list[tuple[Operation, int]]:
    return [row for row, meaning in MEANINGS.items() if meaning in meanings]


READ_BACK = [*rows(ErrorMeaning.READ_BACK), *((operation, -77_777) for operation in Operation)]
RETRIED = [*READ_BACK, *rows(ErrorMeaning.RETRY, ErrorMeaning.NOT_READY)]
REFUSED = [
    *rows(ErrorMeaning.REFUSED, ErrorMeaning.HALVE),
    *((operation, KafkaError.INVALID_REQUEST) for operation in Operation),
]


@pytest.mark.parametrize("operation", Operation)
def test_codes_mean_what_the_table_says_and_no_other_is_optimistic(operation: Operation) -> None:
    """Of all codes, only the listed ones prove "done" or "no effect".

    Silence and the answers of a former leader, coordinator or controller prove nothing. An unlisted
    code of the client is read back, one of a broker is a failure that may have had an effect.
    """
    for code in (*CODES, *UNLISTED):
        unlisted = ErrorMeaning.READ_BACK if code < 0 else ErrorMeaning.FAILED
        answer = response(operation, code)
        assert (answer.answer, answer.no_effect) == MEANINGS.get((operation, code), unlisted).value, error_name(code)


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


@pytest.mark.parametrize(("operation", "name"), WHERE)
def test_every_row_has_a_test_on_real_brokers_or_a_reason(operation: Operation, name: str) -> None:
    """A row that names a test that does not exist fails."""
    where = WHERE[operation, name]
    file, separator, test = where.partition("::")
    if not separator:
        assert where in (SILENCE, UNUSED, CACHE, MOVES, RARE, OTHER)
        return
    text = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {re.escape(test)}\(", text, re.MULTILINE), where


def test_codes_have_kafkas_names() -> None:
    """Kafka's name replaces an old name of the library."""
    assert error_name(0) == "NONE"
    assert error_name(KafkaError.NOT_LEADER_FOR_PARTITION) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(KafkaError.UNKNOWN_TOPIC_OR_PART) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_name(KafkaError.TOPIC_EXCEPTION) == "INVALID_TOPIC_EXCEPTION"
    assert error_name(KafkaError._TIMED_OUT) == "_TIMED_OUT"
    assert error_name(KafkaError.NON_EMPTY_GROUP) == "NON_EMPTY_GROUP"


@pytest.mark.parametrize("operation", Operation)
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


@pytest.mark.parametrize(("operation", "code"), rows(ErrorMeaning.ALREADY_DONE))
def test_an_effect_of_another_client_is_satisfied(tmp_path: Path, operation: Operation, code: int) -> None:
    """Another client makes the change between check and request: satisfied, not applied."""
    fake = cluster()
    planned_action = action(fake, operation)

    def make_change(_operation: Operation) -> None:
        fake.groups.pop("etl", None)
        fake.partition(AT).leader = fake.partition(AT).replicas[0]

    fake.on_request = make_change
    outcome = run(fake, [planned_action], tmp_path).only
    assert (outcome.status, outcome.code) == (Status.SATISFIED, error_name(code))


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


@pytest.mark.parametrize(("operation", "code"), RETRIED)
def test_temporary_errors_are_retried(tmp_path: Path, operation: Operation, code: int) -> None:
    """After two temporary errors the third request is applied; each retry reads the metadata again."""
    outcome, fake = outcome_of(tmp_path, operation, code, times=2)
    assert (outcome.status, outcome.sends) == (Status.APPLIED, 3)
    assert fake.refreshes == 2


@pytest.mark.parametrize(("operation", "code"), RETRIED)
def test_permanent_errors_fail_after_bounded_attempts(tmp_path: Path, operation: Operation, code: int) -> None:
    """If the error stays, the outcome is failed with its code, after a bounded number of requests."""
    outcome, fake = outcome_of(tmp_path, operation, code)
    assert outcome.status is Status.FAILED
    assert outcome.sends == len(fake.requests) == Tuning().attempts
    assert outcome.code is not None
    assert outcome.code in outcome.detail
    assert not has_effect_on(fake, operation)


@pytest.mark.parametrize(("operation", "code"), rows(ErrorMeaning.STALE, ErrorMeaning.GONE))
def test_changed_subjects_are_stale_at_once(tmp_path: Path, operation: Operation, code: int) -> None:
    """The broker says that the subject changed: stale after one request, without effect."""
    outcome, fake = outcome_of(tmp_path, operation, code)
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.STALE, 1, 0)
    assert len(fake.requests) == 1


@pytest.mark.parametrize(("operation", "code"), REFUSED)
def test_refusals_are_failed_at_once(tmp_path: Path, operation: Operation, code: int) -> None:
    """A refusal is not retried."""
    outcome, fake = outcome_of(tmp_path, operation, code)
    assert (outcome.status, outcome.sends, outcome.removed_max) == (Status.FAILED, 1, 0)
    assert len(fake.requests) == 1


@pytest.mark.parametrize(("operation", "code"), rows(ErrorMeaning.WAITING))
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
