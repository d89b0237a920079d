"""Invariant 11: the failure of one item never hides, stops or falsifies the result of another.

A run that did not finish reports it in its exit code.
"""

import tempfile
from pathlib import Path

from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.apply.context import Tuning
from reconciler.apply.results import exit_code
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from tests.fakes.cluster import Fault
from tests.fakes.error_table import TABLE, Operation
from tests.fakes.runs import run, shows_effect, wide_cluster

PARTITIONS, GROUPS = 10, 5
PARTITION_KEYS = [TopicPartition("wide", number) for number in range(PARTITIONS)]
# An example is up to ten runs of the executor.
FEWER_EXAMPLES = settings(max_examples=min(settings.default.max_examples // 2, 1_000))
NAMES = [f"group-{number}" for number in range(GROUPS)]


@st.composite
def faults_of(draw: st.DrawFn, operation: Operation, subjects: list[object]) -> list[Fault]:
    """For some subjects a broker answers an error code, for some time or always.

    The request has its effect or not, if the code leaves that open.
    """
    fault_lists = []
    for subject in draw(st.lists(st.sampled_from(subjects), unique=True, max_size=3)):
        # A broker that refuses too many elections refuses the request, not one partition.
        codes = [
            code
            for code in TABLE[operation]
            if operation is not Operation.ELECT_LEADER or code != KafkaError.POLICY_VIOLATION
        ]
        code = draw(st.sampled_from(sorted(codes)))
        unclear = code in (
            KafkaError._TIMED_OUT,
            KafkaError._TRANSPORT,
            KafkaError.NETWORK_EXCEPTION,
            KafkaError._ALL_BROKERS_DOWN,
        )
        fault_lists.append(
            Fault(operation, code, frozenset({subject}), unclear and draw(st.booleans()), draw(st.integers(1, 9)))
        )
    return fault_lists


FAULTS = st.tuples(
    faults_of(Operation.DELETE_RECORDS, list(PARTITION_KEYS)),
    faults_of(Operation.DELETE_GROUP, list(NAMES)),
    faults_of(Operation.ELECT_LEADER, list(PARTITION_KEYS[::3])),
)


@FEWER_EXAMPLES
@given(FAULTS, st.sampled_from([1, 3, 100]))
def test_an_item_ends_in_the_same_way_alone(faults: tuple[list[Fault], ...], size: int) -> None:
    """Each item has the same status alone and beside failing items, if the answers are the same."""
    tuning = Tuning(batch_max=size, attempts=4, effect_wait_ms=200)
    with tempfile.TemporaryDirectory() as folder:
        cluster, actions = wide_cluster(PARTITIONS, GROUPS)
        cluster.faults = [_copy(fault) for operation_faults in faults for fault in operation_faults]
        outcomes = {o.action.address: o for o in run(cluster, actions, Path(folder), tuning=tuning).outcomes}
        assert len(outcomes) == len(actions)
        all_faults = [fault for operation_faults in faults for fault in operation_faults]
        faulty_subjects = {(fault.operation, name) for fault in all_faults for name in fault.subjects or ()}
        for action in actions:
            outcome = outcomes[action.address]
            if (action.OPERATION, action.subject) not in faulty_subjects:
                assert outcome.status is Status.APPLIED
                continue
            other_cluster, other_actions = wide_cluster(PARTITIONS, GROUPS)
            other_cluster.faults = [_copy(fault) for fault in all_faults]
            (same_action,) = [candidate for candidate in other_actions if candidate.address == action.address]
            (outcome_alone,) = run(other_cluster, [same_action], Path(folder), tuning=tuning, run_id="alone").outcomes
            assert outcome_alone.status is outcome.status
            assert outcome_alone.code == outcome.code


@FEWER_EXAMPLES
@given(FAULTS, st.one_of(st.none(), st.integers(0, 6)))
def test_outcomes_are_true_and_the_exit_code_agrees(faults: tuple[list[Fault], ...], stop_at: int | None) -> None:
    """The status and the effect agree, and exit code 0 means that every action is satisfied or
    waits.
    """
    with tempfile.TemporaryDirectory() as folder:
        cluster, actions = wide_cluster(PARTITIONS, GROUPS)
        cluster.faults = [fault for operation_faults in faults for fault in operation_faults]
        outcomes = run(
            cluster,
            actions,
            Path(folder),
            tuning=Tuning(batch_max=2, attempts=3, effect_wait_ms=200),
            stop=lambda: stop_at is not None and len(cluster.requests) > stop_at,
        ).outcomes
        for outcome in outcomes:
            match outcome.status:
                case Status.APPLIED | Status.SATISFIED:
                    assert shows_effect(cluster, outcome.action)
                case Status.STALE | Status.WAITING | Status.BLOCKED | Status.NOT_ATTEMPTED:
                    assert not shows_effect(cluster, outcome.action)
                case Status.FAILED:
                    assert (
                        outcome.removed_max > 0
                        or outcome.read_back is None
                        or not shows_effect(cluster, outcome.action)
                    )
        code = exit_code(outcomes)
        all_done = all(o.status in (Status.APPLIED, Status.SATISFIED, Status.WAITING) for o in outcomes)
        cluster_changed = any(shows_effect(cluster, action) for action in actions)
        assert (code == 0) == all_done
        if cluster_changed and not all_done:
            assert code == 5


def _copy(fault: Fault) -> Fault:
    return Fault(fault.operation, fault.code, fault.subjects, fault.has_effect, fault.times)
