"""Which groups the cluster shows, with type and state, and which ids only the old list call shows.

Decided here: when a group listing is provably complete. Without DESCRIBE on the cluster brokers leave groups out and report no
error, so the caller's rights are asked for, too. What the groups have committed is read elsewhere.
"""

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError
from confluent_kafka.admin import AclOperation, AdminClient

from reconciler.kafka.connect import Connection, admin, read_timeouts
from reconciler.kafka.futures import CALL_FAILURES, Deadline, call_with_retry, code_of, reason_of, run_with_deadline
from reconciler.model.snapshot import NOT_ASKED, GroupState, GroupType, Unknown

_TYPES = {ConsumerGroupType.CLASSIC: GroupType.CLASSIC, ConsumerGroupType.CONSUMER: GroupType.CONSUMER}
_STATES = {
    ConsumerGroupState.PREPARING_REBALANCING: GroupState.PREPARING_REBALANCE,
    ConsumerGroupState.COMPLETING_REBALANCING: GroupState.COMPLETING_REBALANCE,
    ConsumerGroupState.STABLE: GroupState.STABLE,
    ConsumerGroupState.DEAD: GroupState.DEAD,
    ConsumerGroupState.EMPTY: GroupState.EMPTY,
}
_FINAL = frozenset({KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError._INVALID_ARG})
_RIGHTS, _LISTING = "rights", "listing"
_OLD_STATE = Unknown("state: only the old list call shows this group, and it does not know its protocol")


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """One group; `listed`: by the current list call, which tells consumer groups only. HIDDEN: nobody told the type."""

    group: str
    listed: bool
    type: GroupType
    state: GroupState | Unknown


@dataclass(frozen=True, slots=True)
class GroupListing:
    """Groups by id. `incomplete` None: the caller may describe the cluster and every broker answered.

    `hidden_unread` None: the old list call, which shows share and Streams groups too, answered in full.
    """

    groups: Mapping[str, GroupMetadata]
    incomplete: Unknown | None
    hidden_unread: Unknown | None


def list_groups(connection: Connection, *, hidden: bool) -> GroupListing:
    """Consumer groups with type and state, and (with `hidden`) the ids that only the old list call shows.

    Rights: DESCRIBE on the cluster. Never raises for a broker that is away: that makes the listing incomplete.
    """
    client = admin(connection, read_timeouts(connection))

    def call(wanted: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        calls = {
            _RIGHTS: lambda: client.describe_cluster(include_authorized_operations=True, request_timeout=limit_s),
            _LISTING: lambda: client.list_consumer_groups(request_timeout=limit_s),
        }
        return {name: calls[name]() for name in wanted}

    answers = call_with_retry(client, (_RIGHTS, _LISTING), call, enough=_enough, timeout_s=connection.timeout_s)
    groups, failure = _listed(answers[_LISTING])
    incomplete = failure if failure is not None else _describe_right(answers[_RIGHTS])
    if not hidden or incomplete is not None:
        # An incomplete listing blocks whatever the hidden ids would, and the old call does not stand brokers that are away.
        return GroupListing(groups, incomplete, NOT_ASKED if incomplete is None else incomplete)
    old = _old_listing(client, connection)
    if isinstance(old, Unknown):
        return GroupListing(groups, incomplete, old)
    return GroupListing({group.group: group for group in old} | groups, incomplete, None)


def _enough(answer: Future[Any]) -> bool:
    failure = answer.exception()
    if failure is not None:
        return code_of(failure) in _FINAL
    # The call succeeds with what it got: brokers that did not answer are in `errors`.
    return not getattr(answer.result(), "errors", None)


def _listed(answer: Future[Any]) -> tuple[dict[str, GroupMetadata], Unknown | None]:
    """The groups, and what makes the listing incomplete."""
    if not answer.done():
        return {}, Unknown("the group listing did not end in time")
    failure = answer.exception()
    if failure is not None:
        if code_of(failure) == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return {}, Unknown("the group listing was refused: the right DESCRIBE on the cluster is missing")
        return {}, Unknown(f"the group listing failed: {reason_of(failure)}")
    result = answer.result()
    groups = {
        found.group_id: GroupMetadata(
            found.group_id,
            True,
            _TYPES.get(found.type, GroupType.HIDDEN),
            _STATES.get(found.state, GroupState.UNKNOWN),
        )
        for found in result.valid
    }
    if result.errors:
        reasons = "; ".join(sorted({reason_of(error) for error in result.errors}))
        return groups, Unknown(f"the group listing is incomplete: {reasons}")
    return groups, None


def _describe_right(answer: Future[Any]) -> Unknown | None:
    if not answer.done():
        return Unknown("the group listing may lack groups: no broker said in time which rights the caller has")
    failure = answer.exception()
    if failure is not None:
        return Unknown(f"the group listing may lack groups: the caller's rights are unknown, {reason_of(failure)}")
    operations = answer.result().authorized_operations or ()
    if not {AclOperation.DESCRIBE, AclOperation.ALL}.intersection(operations):
        return Unknown("the group listing may lack groups: the right DESCRIBE on the cluster is missing")
    return None


def _old_listing(client: AdminClient, connection: Connection) -> list[GroupMetadata] | Unknown:
    deadline = Deadline.after(connection.timeout_s)

    def call() -> Any:
        with warnings.catch_warnings():
            # The call it is deprecated for hides exactly the groups that are wanted here.
            warnings.simplefilter("ignore", DeprecationWarning)
            return client.list_groups(timeout=deadline.left_s)

    try:
        found = run_with_deadline(call, deadline)
    except CALL_FAILURES as failure:
        return Unknown(f"ids of share, Streams and Connect groups: {reason_of(failure)}")
    # Its states are of the classic protocol: a share group with members reads "Dead".
    return [GroupMetadata(group.id, False, GroupType.HIDDEN, _OLD_STATE) for group in found]
