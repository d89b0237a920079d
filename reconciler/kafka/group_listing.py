"""Lists consumer groups with their types and states.

Decided here: when a listing is provably complete. Without DESCRIBE on the cluster brokers leave
groups out and report no error, so the caller's permissions are read, too.
"""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaException
from confluent_kafka.admin import AclOperation, AdminClient

from reconciler.kafka.api_versions import METADATA, find_untold, know_classic_only, tell_no_types
from reconciler.kafka.futures import Deadline, cause_of, failure_of, is_final, reason_of, submit
from reconciler.kafka.session import KafkaSession
from reconciler.model.snapshot import NOT_ASKED, Cause, GroupFacts, GroupState, GroupType, Unknown

STATES = {
    ConsumerGroupState.PREPARING_REBALANCING: GroupState.PREPARING_REBALANCE,
    ConsumerGroupState.COMPLETING_REBALANCING: GroupState.COMPLETING_REBALANCE,
    ConsumerGroupState.STABLE: GroupState.STABLE,
    ConsumerGroupState.DEAD: GroupState.DEAD,
    ConsumerGroupState.EMPTY: GroupState.EMPTY,
}
_TYPES = {ConsumerGroupType.CLASSIC: GroupType.CLASSIC, ConsumerGroupType.CONSUMER: GroupType.CONSUMER}
_OLD_TYPES = {"": GroupType.HIDDEN, "consumer": GroupType.HIDDEN, "connect": GroupType.CONNECT}
"""By the protocol type, which share and Streams groups do not have, of groups that only the old list call shows."""
_RIGHT = "DESCRIBE on the cluster"
CLUSTER_RIGHTS = ("Metadata", METADATA, 8)
"""The request whose answer has the caller's rights on the cluster and on topics, and from which version on."""
_CLUSTER, _LISTING, _OLD_LISTING = "cluster", "listing", "old listing"
_ID_S = 1.0
_OLD_STATE = Unknown("state: only the old list call shows this group, and it does not know its protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """Groups by id. `incomplete` None: every broker answered, and the caller may list all.

    `hidden_unread` None: the old list call, which shows share and Streams groups, was answered completely,
    too. `cluster_id`: of the cluster that answered; None: no broker has answered with it.
    `without_types`: brokers before Kafka 3.8 do not tell types. All groups are then classic, unless
    `__consumer_offsets` holds a key of another protocol, which the early access of Kafka 3.7 can write.
    `classic_only`: no broker knows another protocol, so that a hidden `__consumer_offsets` changes nothing.
    """

    groups: Mapping[str, GroupFacts]
    incomplete: Unknown | None = None
    hidden_unread: Unknown | None = NOT_ASKED
    cluster_id: str | None = None
    without_types: bool = False
    classic_only: bool = False

    def check_cluster(self, expected: str | None) -> Unknown | None:
        """Why these may be groups of another cluster than `expected`; None: they are not, or any will do."""
        if expected is None or self.cluster_id == expected:
            return None
        if self.cluster_id is None:
            return Unknown(f"no broker answered with the cluster's id, which must be {expected}", Cause.NO_ANSWER)
        return Unknown(f"the brokers that answer are cluster {self.cluster_id} now, not {expected}")


def list_groups(
    session: KafkaSession, *, hidden: bool, only: Collection[str] | None = None, deadline: Deadline | None = None
) -> GroupListing:
    """List consumer groups, and with `hidden` ids that only the old list call shows.

    `only`: the groups to return, although brokers list all; None: all. Rights: DESCRIBE on the
    cluster. A broker that is away makes the listing incomplete.
    """
    calls = (_CLUSTER, _LISTING, *((_OLD_LISTING,) if hidden else ()))
    answers = session.read(calls, _send_listing, is_final=_is_complete, deadline=deadline)
    cluster = answers[_CLUSTER]
    if failure_of(cluster) is None:
        session.addresses |= {node.id: f"{node.host}:{node.port}" for node in cluster.result().nodes}
    groups, incomplete = _listed(session, answers[_LISTING], cluster, only)
    # An incomplete listing blocks what hidden ids would.
    hidden_unread: Unknown | None = NOT_ASKED if incomplete is None else incomplete
    if hidden and incomplete is None:
        old = _old_groups(answers[_OLD_LISTING])
        hidden_unread = old if isinstance(old, Unknown) else None
        groups = groups if isinstance(old, Unknown) else old | groups
    untold = [name for name, facts in groups.items() if facts.listed is True and facts.type is GroupType.HIDDEN]
    without_types = bool(untold) and incomplete is None and tell_no_types(session.api_versions())
    if without_types:
        groups |= {name: replace(groups[name], type=GroupType.CLASSIC) for name in untold}
    return GroupListing(
        groups=groups,
        without_types=without_types,
        classic_only=without_types and know_classic_only(session.api_versions()),
        incomplete=incomplete,
        hidden_unread=hidden_unread,
        cluster_id=cluster.result().cluster_id
        if failure_of(cluster) is None
        else cluster_id_in_metadata(session, limit_s=_ID_S),
    )


def cluster_id_in_metadata(session: KafkaSession, *, limit_s: float) -> str | None:
    """The cluster's id in the last metadata, or in the first; None: no broker answers in time.

    DescribeCluster waits for the controller, which may be frozen. Raises ClusterUnreachable where no
    client can be opened.
    """
    try:
        return session.reader().cluster_id(timeout=limit_s) or None
    except KafkaException:
        return None


def list_all_groups(session: KafkaSession) -> tuple[dict[str, GroupFacts], Unknown | None]:
    """All groups, also hidden ones, and why there may be more; None: there are not.

    Raises ClusterUnreachable.
    """
    listing = list_groups(session, hidden=True)
    elsewhere = listing.check_cluster(session.cluster_id)
    return dict(listing.groups), listing.hidden_unread if elsewhere is None else elsewhere


def with_members(groups: Mapping[str, GroupFacts]) -> frozenset[str]:
    """Groups that may have members. Only members of listed groups can be read."""
    return frozenset(name for name, facts in groups.items() if facts.listed is True and facts.may_have_members)


def _send_listing(client: AdminClient, calls: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
    senders: dict[str, Callable[[], Future[Any]]] = {
        _CLUSTER: lambda: client.describe_cluster(include_authorized_operations=True, request_timeout=limit_s),
        _LISTING: lambda: client.list_consumer_groups(request_timeout=limit_s),
        _OLD_LISTING: lambda: submit(partial(_list_with_old_call, client, limit_s)),
    }
    return {call: senders[call]() for call in calls}


def _is_complete(answer: Future[Any]) -> bool:
    # The call succeeds with a part of the groups; brokers that did not answer are in `errors`.
    return is_final(answer) and (answer.exception() is not None or not getattr(answer.result(), "errors", None))


def _listed(
    session: KafkaSession, listing: Future[Any], cluster: Future[Any], only: Collection[str] | None
) -> tuple[dict[str, GroupFacts], Unknown | None]:
    """The groups, and what makes the listing incomplete."""
    failure = failure_of(listing, right=_RIGHT)
    if failure is not None:
        return {}, failure
    result = listing.result()
    groups: dict[str, GroupFacts] = {}
    for entry in result.valid or ():
        if only is not None and entry.group_id not in only:
            continue
        facts = GroupFacts(
            group=entry.group_id,
            listed=True,
            type=_TYPES.get(entry.type, GroupType.HIDDEN),
            state=STATES.get(entry.state, GroupState.UNKNOWN),
        )
        if groups.get(entry.group_id, facts) != facts:
            # While a coordinator moves, the former and the new one may both list its groups.
            facts = replace(facts, state=GroupState.UNKNOWN)
        groups[entry.group_id] = facts
    if result.errors:
        reasons = "; ".join(sorted({reason_of(failure) for failure in result.errors}))
        # Whatever the other brokers say, one that is silent keeps its groups.
        cause = Cause.NO_ANSWER if Cause.NO_ANSWER in map(cause_of, result.errors) else Cause.OTHER
        return groups, Unknown(reasons, cause)
    failure = failure_of(cluster)
    if failure is not None:
        return groups, failure.about("the caller's rights are unknown")
    rights = cluster.result().authorized_operations
    if {AclOperation.DESCRIBE, AclOperation.ALL}.intersection(rights or ()):
        return groups, None
    untold = None if rights else find_untold(session.api_versions(), "rights", *CLUSTER_RIGHTS)
    return groups, Unknown(f"the right {_RIGHT} is missing") if untold is None else untold


def _list_with_old_call(client: AdminClient, limit_s: float) -> Any:
    with warnings.catch_warnings():
        # The call that replaces it hides the groups that are needed here.
        warnings.simplefilter("ignore", DeprecationWarning)
        return client.list_groups(timeout=limit_s)


def _old_groups(answer: Future[Any]) -> dict[str, GroupFacts] | Unknown:
    failure = failure_of(answer)
    if failure is not None:
        return failure.about("ids of share, Streams and Connect groups")
    # Its states are of the classic protocol: a share group with members reads "Dead".
    return {
        entry.id: GroupFacts(
            group=entry.id, listed=False, type=_OLD_TYPES.get(entry.protocol_type, GroupType.OTHER), state=_OLD_STATE
        )
        for entry in answer.result()
    }
