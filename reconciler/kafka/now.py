"""Facts of right now for the applier: a few partitions, a few groups, read shortly before and after each request.

The scan reads everything in bulk; this reads the subjects of one batch. A negative offset, a silent broker or a short listing is
Unread here, never a number and never absence. Nothing is created and nothing decided.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from reconciler.kafka.futures import Deadline, reason_of, wait_all
from reconciler.kafka.group_offsets import NO_ANSWER, Positions, positions, send
from reconciler.kafka.topics import topic_id_text
from reconciler.kafka.worker_process import ClientPool, WorkerPool
from reconciler.model.fingerprint import fingerprint
from reconciler.model.names import TopicPartition
from reconciler.model.ports import GroupNow, PartitionNow
from reconciler.model.snapshot import GroupState, GroupType, Unknown

_CALL_PARTITIONS = 1_000
"""The library merges answers quadratically: pipelined calls of this size beat one of all."""

_STATES = {
    ConsumerGroupState.EMPTY: GroupState.EMPTY,
    ConsumerGroupState.STABLE: GroupState.STABLE,
    ConsumerGroupState.PREPARING_REBALANCING: GroupState.PREPARING_REBALANCE,
    ConsumerGroupState.COMPLETING_REBALANCING: GroupState.COMPLETING_REBALANCE,
    ConsumerGroupState.DEAD: GroupState.DEAD,
}
_GONE = Unknown("there is no such partition")
_NOT_WANTED = Unknown("not asked")


def partitions(
    client: AdminClient, wanted: Sequence[TopicPartition], *, offsets: bool, deadline: Deadline
) -> dict[TopicPartition, PartitionNow]:
    """Each wanted partition; `exists` False only where a broker said that the topic, or this number of it, is not there."""
    numbers: dict[str, set[int]] = {}
    for partition in wanted:
        numbers.setdefault(partition.topic, set()).add(partition.partition)
    described = client.describe_topics(TopicCollection(list(numbers)), request_timeout=_seconds(deadline))
    wait_all(client, described.values(), deadline)
    found: dict[TopicPartition, PartitionNow] = {}
    for topic, chosen in numbers.items():
        found.update(_of_topic(topic, described[topic], chosen))
    metadata = {p: found.get(p) or _absent(described[p.topic]) for p in wanted}
    if not offsets:
        return metadata
    starts: dict[TopicPartition, Future[Any]] = {}
    ends: dict[TopicPartition, Future[Any]] = {}
    for call in _by_leader(metadata):
        # A call answers when its slowest broker does: a silent leader must not make the others' partitions unread.
        starts |= _offsets(client, call, OffsetSpec.earliest(), deadline)
        ends |= _offsets(client, call, OffsetSpec.latest(), deadline)
    wait_all(client, (*starts.values(), *ends.values()), deadline)
    return {
        p: _with_offsets(state, _offset(starts[p]), _offset(ends[p])) if p in starts else state
        for p, state in metadata.items()
    }


def groups(
    client: AdminClient,
    children: WorkerPool,
    wanted: Sequence[str],
    *,
    cluster_id: str | None = None,
    deadline: Deadline,
) -> dict[str, GroupNow]:
    """Each group by listing, description and commits. `listed` False takes both a provably complete listing and its coordinator.

    While a coordinator moves, its groups are in nobody's listing and no error says so: of a group that nobody lists its own coordinator
    is asked, too. Of one that is listed, its coordinator has just said type and state, and is only asked for the commits. Where another
    cluster than `cluster_id` answers by now, nothing is known of any group.
    """
    listing = client.list_consumer_groups(request_timeout=_seconds(deadline))
    rights = client.describe_cluster(include_authorized_operations=True, request_timeout=_seconds(deadline))
    wait_all(client, (listing, rights), deadline)
    if (other := _other_cluster(rights, cluster_id)) is not None:
        return dict.fromkeys(wanted, GroupNow(listed=other, type=other, state=other, fingerprint=other))
    listed, incomplete = _listing(listing, rights)
    doubtful = frozenset(group for group in wanted if group not in listed or listed[group].state is GroupState.UNKNOWN)
    there = tuple(group for group in wanted if group in listed)
    answer = children.call(_by_coordinators, (tuple(sorted(doubtful)), there), timeout_s=deadline.left_s)
    states, fingerprints = answer or ({}, {})
    found = {}
    for group in wanted:
        state = states.get(group, NO_ANSWER) if group in doubtful else listed[group].state
        found[group] = _group(listed.get(group), incomplete, state, fingerprints.get(group, NO_ANSWER))
    return found


def _by_coordinators(
    clients: ClientPool, wanted: tuple[Sequence[str], Sequence[str]], deadline: Deadline
) -> tuple[dict[str, GroupState | Unknown], dict[str, str | Unknown]]:
    """States of the first, fingerprints of the second."""
    client = clients.first
    doubtful, there = wanted
    described = client.describe_consumer_groups(list(doubtful), request_timeout=_seconds(deadline)) if doubtful else {}
    commits = send(client, dict.fromkeys(there), deadline)
    wait_all(client, (*described.values(), *commits.values()), deadline)
    return (
        {group: _state(future) for group, future in described.items()},
        {group: _fingerprint(positions(future)) for group, future in commits.items()},
    )


def _of_topic(topic: str, described: Future[Any], chosen: set[int]) -> Iterator[tuple[TopicPartition, PartitionNow]]:
    if not described.done() or described.exception() is not None:
        return
    description = described.result()
    for each in description.partitions:
        if each.id not in chosen:
            continue
        leader = None if each.leader is None or each.leader.id < 0 else int(each.leader.id)
        yield (
            TopicPartition(topic, each.id),
            PartitionNow(
                exists=True,
                topic_id=topic_id_text(description.topic_id),
                leader=leader,
                replicas=tuple(int(node.id) for node in each.replicas),
                in_sync=tuple(sorted(int(node.id) for node in each.isr)),
                log_start=_NOT_WANTED if leader is not None else Unknown("no leader"),
                high_watermark=_NOT_WANTED if leader is not None else Unknown("no leader"),
            ),
        )


def _absent(described: Future[Any]) -> PartitionNow:
    """A partition that the topic's description does not hold: gone if a broker said so, else unknown."""
    if not described.done():
        return unknown_partition(Unknown("no broker described the topic in time"), exists=True)
    failure = described.exception()
    if failure is None:
        return unknown_partition(_GONE, exists=False)
    if _code(failure) == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return unknown_partition(Unknown("there is no such topic"), exists=False)
    return unknown_partition(Unknown(f"the topic could not be described: {reason_of(failure)}"), exists=True)


def unknown_partition(why: Unknown, *, exists: bool) -> PartitionNow:
    """A partition of which nothing could be read."""
    return PartitionNow(
        exists=exists, topic_id=why, leader=why, replicas=why, in_sync=why, log_start=why, high_watermark=why
    )


def _with_offsets(state: PartitionNow, log_start: int | Unknown, high_watermark: int | Unknown) -> PartitionNow:
    return PartitionNow(
        exists=state.exists,
        topic_id=state.topic_id,
        leader=state.leader,
        replicas=state.replicas,
        in_sync=state.in_sync,
        log_start=log_start,
        high_watermark=high_watermark,
    )


def _by_leader(metadata: Mapping[TopicPartition, PartitionNow]) -> Iterator[Sequence[TopicPartition]]:
    led: dict[int, list[TopicPartition]] = {}
    for partition, state in metadata.items():
        if isinstance(state.leader, int):
            led.setdefault(state.leader, []).append(partition)
    for partitions_led in led.values():
        for at in range(0, len(partitions_led), _CALL_PARTITIONS):
            yield partitions_led[at : at + _CALL_PARTITIONS]


def _offsets(
    client: AdminClient, wanted: Sequence[TopicPartition], spec: OffsetSpec, deadline: Deadline
) -> dict[TopicPartition, Future[Any]]:
    answers = client.list_offsets(
        {ClientPartition(p.topic, p.partition): spec for p in wanted},
        request_timeout=_seconds(deadline),
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
    )
    return {TopicPartition(key.topic, key.partition): answer for key, answer in answers.items()}


def _offset(future: Future[Any]) -> int | Unknown:
    if not future.done():
        return Unknown("the leader did not answer in time")
    failure = future.exception()
    if failure is not None:
        return Unknown(f"the leader did not tell: {reason_of(failure)}")
    offset = int(future.result().offset)
    # Success with -1001 is what a silent broker looks like.
    return offset if offset >= 0 else Unknown("the leader did not answer")


@dataclass(frozen=True, slots=True)
class _Listed:
    """What a coordinator says of a group in its listing; UNKNOWN: nothing, or two of them said different things."""

    type: GroupType | Unknown
    state: GroupState


def _listing(listing: Future[Any], rights: Future[Any]) -> tuple[dict[str, _Listed], Unknown | None]:
    """Listed groups, and why the listing may be short (None: it is complete)."""
    if not listing.done():
        return {}, Unknown("the groups were not listed in time")
    if (failure := listing.exception()) is not None:
        return {}, Unknown(f"the groups could not be listed: {reason_of(failure)}")
    result = listing.result()
    listed: dict[str, _Listed] = {}
    for each in result.valid or ():
        said = _Listed(
            _type(getattr(each, "type", None)), _STATES.get(getattr(each, "state", None), GroupState.UNKNOWN)
        )
        before = listed.get(each.group_id, said)
        # A group whose coordinator moves may be listed by the old one and by the new one.
        listed[each.group_id] = said if before == said else _Listed(said.type, GroupState.UNKNOWN)
    if result.errors:
        return listed, Unknown(f"the list of groups is not complete: {_reason(result.errors[0])}")
    if not rights.done() or (failure := rights.exception()) is not None:
        return listed, Unknown("whether the list of groups is complete could not be read")
    if rights.result().authorized_operations is None:
        return listed, Unknown("the list of groups may be short: the right to describe the cluster is missing")
    return listed, None


def _other_cluster(rights: Future[Any], cluster_id: str | None) -> Unknown | None:
    """Groups have no id of their own: the same name elsewhere is another group."""
    if cluster_id is None or not rights.done() or rights.exception() is not None:
        return None
    found = rights.result().cluster_id
    return (
        None
        if found == cluster_id
        else Unknown(f"the brokers that answer are cluster {found} by now, not {cluster_id}")
    )


def _state(future: Future[Any]) -> GroupState | Unknown:
    if not future.done():
        return Unknown("the group's coordinator did not answer in time")
    failure = future.exception()
    if failure is not None:
        if _code(failure) == KafkaError.GROUP_ID_NOT_FOUND:
            return GroupState.DEAD
        return Unknown(f"the group could not be described: {reason_of(failure)}")
    return _STATES.get(future.result().state, GroupState.UNKNOWN)


def _group(
    listed: _Listed | None,
    incomplete: Unknown | None,
    state: GroupState | Unknown,
    commits: str | Unknown,
) -> GroupNow:
    if listed is not None:
        return GroupNow(listed=True, type=listed.type, state=state, fingerprint=commits)
    if incomplete is not None:
        return GroupNow(listed=incomplete, type=incomplete, state=state, fingerprint=_NOT_WANTED)
    if isinstance(state, Unknown):
        return GroupNow(listed=state, type=state, state=state, fingerprint=_NOT_WANTED)
    if state is not GroupState.DEAD:
        doubt = Unknown(f"not in the list of groups, yet its coordinator says {state}")
        return GroupNow(listed=doubt, type=doubt, state=state, fingerprint=_NOT_WANTED)
    absent = Unknown("there is no such group")
    return GroupNow(listed=False, type=absent, state=absent, fingerprint=absent)


def _fingerprint(positions: Positions | Unknown) -> str | Unknown:
    if isinstance(positions, Unknown):
        return positions
    for position in positions.values():
        if isinstance(position, Unknown):
            return position
    return fingerprint((p.topic, p.partition, offset) for p, offset in positions.items() if isinstance(offset, int))


def _type(value: ConsumerGroupType | None) -> GroupType | Unknown:
    if value is ConsumerGroupType.CLASSIC:
        return GroupType.CLASSIC
    if value is ConsumerGroupType.CONSUMER:
        return GroupType.CONSUMER
    return Unknown("the broker did not tell the group's type")


def _reason(error: Any) -> str:
    return reason_of(KafkaException(error) if isinstance(error, KafkaError) else error)


def _code(failure: BaseException) -> int | None:
    error = failure.args[0] if isinstance(failure, KafkaException) and failure.args else None
    return int(error.code()) if isinstance(error, KafkaError) else None


def _seconds(deadline: Deadline) -> float:
    """A little less than what is left, so that the library's own "timed out" comes while someone still listens."""
    return max(0.1, deadline.left_s * 0.9)
