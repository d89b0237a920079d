"""Reads consumer groups: type, state, committed offsets and the topics of their members.

Decided here: which answers are positions, which say that there is none, and which say nothing.
Outside of Spark tasks coordinators are asked by worker processes (session.py says why).
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from reconciler.kafka import connect
from reconciler.kafka.consumer_offsets import log_partition
from reconciler.kafka.futures import (
    Deadline,
    batched,
    cause_of,
    error_columns,
    failed_with,
    failure_of,
    is_final,
    reason_of,
    submit,
    wait_all,
)
from reconciler.kafka.group_listing import STATES, list_all_groups, list_groups, with_members
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import describe
from reconciler.model.garbage import gc_paused
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import (
    Cause,
    CommittedOffset,
    Consumers,
    GroupFacts,
    GroupState,
    GroupType,
    Unknown,
    fingerprint,
)

Positions = dict[tuple[str, int], int | Unknown | None]
"""Committed offsets of one group; None: requested by name and not committed."""

Commit = tuple[str, int, int]
"""Topic, partition, committed offset."""

_FullCommit = tuple[str, int, int, int | None, str | None]
"""A commit, its leader epoch and its metadata: worker processes send tuples, which pickle fast."""

PartitionsByGroup = Mapping[str, Sequence[TopicPartition] | None]
"""Partitions of each group, never an empty list; None: every commit of the group."""

NO_ANSWER = Unknown("the group's coordinator did not answer: it moves, or there is none yet", Cause.NO_ANSWER)
NAMELESS = Unknown("the client library cannot read the commits of a group without a name")

REBALANCING = Unknown("the group is rebalancing, so the topics that its members will read are not known")

Fetched = dict[str, tuple[Positions | Unknown, bool]]
"""The positions of each group, and whether a retry would not change them."""


@dataclass(frozen=True, slots=True)
class Consumption:
    """What a group consumes: its commits, and the topics of which its members have partitions."""

    commits: Sequence[Commit] | Unknown
    member_topics: frozenset[str] | Unknown = frozenset()

    @property
    def unread(self) -> Unknown | None:
        """Why it is not known what the group consumes; None: it is."""
        return next((part for part in (self.commits, self.member_topics) if isinstance(part, Unknown)), None)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the group is known to consume."""
        members = frozenset[str]() if isinstance(self.member_topics, Unknown) else self.member_topics
        return members.union(() if isinstance(self.commits, Unknown) else (topic for topic, _, _ in self.commits))

    def of_topic(self, name: str) -> dict[int, int]:
        """The committed offset of each partition of a topic on which there is a commit."""
        commits = () if isinstance(self.commits, Unknown) else self.commits
        return {partition: offset for topic, partition, offset in commits if topic == name}


_NO_COMMIT = (-1001, -1)
_SETTLED_STATES = (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
"""The library reads the states ASSIGNING and RECONCILING of the new protocol (KIP-848) as UNKNOWN."""
_REBALANCE_S = 5.0
"""How long to wait for the end of a rebalance: members have no partitions until then."""
_TRIES = 2
_GROUPS_IN_FLIGHT = 500
_PAUSE_S = 0.25
_READING_CLIENTS = 8
REMOVING_CLIENTS = 24
"""For removals, and for the commits that are read before them: each has a connection to every broker.

They connect at the same time. Of more than 50, some wait a second: socket.listen.backlog.size.
"""
_GROUPS_PER_CLIENT = 10
"""The library remembers the coordinators of so many groups. With fewer, another client takes longer to
open than it saves.
"""
# The default of offsets.topic.num.partitions; another value makes retries and batches less exact.
_LOG_PARTITIONS = 50

_Members = tuple[GroupState | Unknown, frozenset[str] | Unknown, bool]
"""The state of a group, the topics of its members, and whether a retry would not change them."""

_ASSIGNMENTS = ("assignment", "target_assignment")
_LISTING_SHARE = 2 / 3
"""Share of the time for the listing before a request; coordinators answer in the rest."""


@gc_paused()
def read_groups(
    session: KafkaSession,
    requested: Sequence[str],
    *,
    cluster_id: str | None,
    deadline: Deadline,
    removed: Collection[str] = (),
) -> dict[str, GroupFacts]:
    """Listing, state and commits of some groups.

    `listed` False needs a provably complete listing and the group's coordinator: while a
    coordinator moves, no broker lists its groups and no error says so. The coordinators of `removed`
    have answered: each removed its group. The listing has the type and state of a listed group, so
    its coordinator answers only for the commits. Where another cluster than `cluster_id` answers,
    every fact is Unknown: the same name there is another group. While the brokers list their groups,
    a worker process connects to them.
    """
    listing_deadline = Deadline.after(deadline.remaining_s * _LISTING_SHARE)
    asked = len(requested) - len(removed)
    opening: list[Future[Any]] = []
    if asked:
        open_clients = partial(session.call_worker, _open_clients, asked, timeout_s=listing_deadline.remaining_s)
        with suppress(OSError):  # where no thread can be started, the first request opens them
            opening.append(submit(open_clients))
    try:
        listing = list_groups(session, hidden=False, only=frozenset(requested), deadline=listing_deadline)
    finally:
        wait(opening, timeout=listing_deadline.remaining_s)
    if cluster_id is not None and listing.cluster_id not in (None, cluster_id):
        reason = Unknown(f"the brokers that answer are cluster {listing.cluster_id} now, not {cluster_id}")
        return {group: unknown_group(group, reason) for group in requested}
    removed = frozenset(removed).difference(listing.groups)
    listed = {group: None for group in requested if group in listing.groups}
    uncertain = tuple(
        group
        for group in requested
        if (listing.groups[group].state is GroupState.UNKNOWN if group in listed else group not in removed)
    )
    described: dict[str, _Members] = {}
    offsets: dict[str, tuple[_FullCommit, ...] | Unknown] = {}
    if uncertain or listed:
        answer = session.call_worker(_ask_for_commits, (uncertain, listed), timeout_s=deadline.remaining_s)
        described, offsets = answer or (described, offsets)
    states = {group: state for group, (state, _topics, _is_final) in described.items()}
    topic_ids = _topic_ids(session, offsets.values(), deadline)
    facts = {}
    for group in requested:
        if group in listed:
            known = listing.groups[group]
            state = states.get(group, NO_ANSWER) if group in uncertain else known.state
            facts[group] = _with_commits(known, state, offsets.get(group, NO_ANSWER), topic_ids)
        else:
            state = GroupState.DEAD if group in removed else states.get(group, NO_ANSWER)
            facts[group] = _unlisted(group, listing.incomplete, state)
    return facts


def read_consumers(session: KafkaSession, topics: Collection[str], *, cluster_id: str | None) -> Consumers:
    """All groups, and what they consume of some topics. Raises ClusterUnreachable."""
    groups, incomplete = list_all_groups(session, cluster_id=cluster_id)
    if incomplete is not None:
        return Consumers(groups=groups, commits={}, incomplete=incomplete)
    commits: dict[str, dict[str, dict[int, int]]] = {topic: {} for topic in topics}
    for part in read_consumption(session, sorted(groups), with_members=with_members(groups), isolated=True):
        for group, consumption in part.items():
            groups[group] = replace(groups[group], consumption_unread=consumption.unread)
            for topic in consumption.topics.intersection(commits):
                commits[topic][group] = consumption.of_topic(topic)
    return Consumers(groups=groups, commits=commits)


def fetch(session: KafkaSession, requested: PartitionsByGroup, *, timeout_s: float) -> Fetched:
    """Each group's positions. A worker process that dies is replaced once, with a new client."""
    fetched: Fetched = {group: (NO_ANSWER, False) if group else (NAMELESS, True) for group in requested}
    named = {group: partitions for group, partitions in requested.items() if group}
    answer = session.call_worker(_ask_coordinators, ((), named), timeout_s=timeout_s, tries=_TRIES) if named else None
    return fetched if answer is None else fetched | answer[1]


def read_consumption(
    session: KafkaSession, groups: Sequence[str], *, with_members: Collection[str], isolated: bool
) -> Iterator[dict[str, Consumption]]:
    """What each group consumes, a few hundred groups at a time.

    `with_members`: groups that may have members; the members of other groups are not read.
    `isolated`: send from a worker process. Otherwise the library may kill this process while a
    coordinator moves: acceptable in a Spark task, which is retried, never in the driver.
    """
    with_members = frozenset(with_members)
    for part in batched(groups, _GROUPS_IN_FLIGHT):
        members = [group for group in part if group in with_members]
        positions, topics = (_read_isolated if isolated else _read_in_process)(session, part, members)
        yield {
            group: Consumption(
                _commits(positions.get(group, NAMELESS)),
                topics.get(group, NAMELESS) if group in with_members else frozenset(),
            )
            for group in part
        }


def spread(
    session: KafkaSession, purpose: str, groups: Collection[str], *, clients: int, deadline: Deadline
) -> list[tuple[AdminClient, list[str]]]:
    """Distribute groups over several clients of one purpose.

    The library sends a request per group, and a broker answers those of one connection one after the
    other. Groups of one partition of the commit log go out side by side: their coordinator stores
    their removals in one batch. `deadline`: of the requests.
    """
    in_order = sorted(groups, key=lambda group: log_partition(group, _LOG_PARTITIONS))
    opened = _clients(session, purpose, len(in_order), clients, deadline)
    return [(client, in_order[at :: len(opened)]) for at, client in enumerate(opened)]


def _clients(
    session: KafkaSession, purpose: str, groups: int, clients_max: int, deadline: Deadline
) -> list[AdminClient]:
    count = min(clients_max, -(-groups // _GROUPS_PER_CLIENT))
    return session.clients(purpose, count, connect.coordinator_settings(), deadline=deadline)


def commit_row(group: str, commits: Sequence[Commit] | Unknown) -> dict[str, Any]:
    """The row of a group: the counts and the fingerprint of its commits, or an error."""
    return {"group": group, **(error_columns(commits) if isinstance(commits, Unknown) else _summary(commits))}


def _summary(commits: Sequence[Commit]) -> dict[str, Any]:
    topics = {topic for topic, _, _ in commits}
    return {"commits": len(commits), "commit_topics": len(topics), "fingerprint": fingerprint(commits)}


def unknown_group(group: str, reason: Unknown) -> GroupFacts:
    """A group of which no fact could be read."""
    return GroupFacts(
        group=group,
        listed=reason,
        type=reason,
        state=reason,
        commits=reason,
        commit_topics=reason,
        fingerprint=reason,
    )


def _ask_coordinators(
    session: KafkaSession, groups: tuple[Sequence[str], PartitionsByGroup], deadline: Deadline
) -> tuple[dict[str, _Members], Fetched]:
    """For a worker process: members of the first groups, positions of the second."""
    described, fetched = _call_coordinators(session, groups, _READING_CLIENTS, deadline)
    return described, {
        group: (_positions(future), future.done() and is_final(future)) for group, future in fetched.items()
    }


def _ask_for_commits(
    session: KafkaSession, groups: tuple[Sequence[str], PartitionsByGroup], deadline: Deadline
) -> tuple[dict[str, _Members], dict[str, tuple[_FullCommit, ...] | Unknown]]:
    """The same, with all that is committed for a partition."""
    described, fetched = _call_coordinators(session, groups, REMOVING_CLIENTS, deadline)
    return described, {group: _committed_offsets(future) for group, future in fetched.items()}


def _open_clients(session: KafkaSession, groups: int, deadline: Deadline) -> bool:
    """For a worker process: connect to all coordinators, while the brokers still list the groups."""
    return bool(_clients(session, "coordinators", groups, REMOVING_CLIENTS, deadline))


def _call_coordinators(
    session: KafkaSession, groups: tuple[Sequence[str], PartitionsByGroup], clients: int, deadline: Deadline
) -> tuple[dict[str, _Members], dict[str, Future[Any]]]:
    uncertain, requested = groups
    readers = spread(session, "coordinators", uncertain, clients=clients, deadline=deadline)
    described: dict[str, Future[Any]] = {}
    for client, part in readers:
        described |= client.describe_consumer_groups(part, request_timeout=deadline.request_timeout_s)
    # Members first: one that leaves in between has committed before the commits are read.
    wait_all([client for client, _ in readers], described.values(), Deadline.after(deadline.remaining_s / 2))
    readers = spread(session, "coordinators", requested, clients=clients, deadline=deadline)
    fetched: dict[str, Future[Any]] = {}
    for client, part in readers:
        partitions = {group: requested[group] for group in part}
        fetched |= _send_offset_fetches(client, partitions, deadline.request_timeout_s)
    wait_all([client for client, _ in readers], (*described.values(), *fetched.values()), deadline)
    members = {
        group: (_state(future), _member_topics(future), _is_settled(future)) for group, future in described.items()
    }
    return members, fetched


def _state(future: Future[Any]) -> GroupState | Unknown:
    if failed_with(future, {KafkaError.GROUP_ID_NOT_FOUND}):
        return GroupState.DEAD
    failure = failure_of(future, prefix="the group could not be described: ")
    return STATES.get(future.result().state, GroupState.UNKNOWN) if failure is None else failure


def _member_topics(future: Future[Any]) -> frozenset[str] | Unknown:
    """The topics of which members have partitions. A group that does not exist has no members."""
    if failed_with(future, {KafkaError.GROUP_ID_NOT_FOUND}):
        return frozenset()
    failure = failure_of(future, right="DESCRIBE on the group", prefix="the group's members could not be read: ")
    if failure is not None:
        return failure
    description = future.result()
    if description.state not in _SETTLED_STATES:
        return REBALANCING
    # A member of the new protocol (KIP-848) also has partitions that it is to get.
    assignments = (getattr(member, name, None) for member in description.members for name in _ASSIGNMENTS)
    return frozenset(
        partition.topic for assignment in assignments if assignment for partition in assignment.topic_partitions
    )


def _is_settled(future: Future[Any]) -> bool:
    return future.done() and is_final(future) and _member_topics(future) != REBALANCING


def _unlisted(group: str, incomplete: Unknown | None, state: GroupState | Unknown) -> GroupFacts:
    if incomplete is None and state is GroupState.DEAD:
        return replace(unknown_group(group, Unknown("there is no such group")), listed=False)
    reason = Unknown(f"the group is not listed, yet its coordinator says {state}")
    if incomplete is not None:
        reason = incomplete
    elif isinstance(state, Unknown):
        reason = state
    return replace(unknown_group(group, reason), state=state)


def _with_commits(
    listed: GroupFacts,
    state: GroupState | Unknown,
    offsets: tuple[_FullCommit, ...] | Unknown,
    topic_ids: Mapping[str, str],
) -> GroupFacts:
    if listed.type is GroupType.HIDDEN:
        listed = replace(listed, type=Unknown("the broker did not tell the group's type"))
    if isinstance(offsets, Unknown):
        return replace(
            listed, state=state, commits=offsets, commit_topics=offsets, fingerprint=offsets, offsets=offsets
        )
    summary = _summary([(topic, number, offset) for topic, number, offset, _, _ in offsets])
    identified = tuple(
        CommittedOffset(
            topic=topic,
            topic_id=topic_ids.get(topic),
            partition=number,
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
        )
        for topic, number, offset, leader_epoch, metadata in offsets
    )
    return replace(listed, state=state, **summary, offsets=identified)


def _topic_ids(
    session: KafkaSession, offsets: Iterable[tuple[_FullCommit, ...] | Unknown], deadline: Deadline
) -> dict[str, str]:
    """The id of each topic with a commit, without topics whose id is not known."""
    names = {topic for commits in offsets if not isinstance(commits, Unknown) for topic, *_ in commits}
    described = describe(session, names, deadline=deadline) if names else {}
    topic_ids = {name: answer[0].topic_id for name, answer in described.items() if isinstance(answer, tuple)}
    return {name: topic_id for name, topic_id in topic_ids.items() if isinstance(topic_id, str)}


def _send_offset_fetches(client: AdminClient, requested: PartitionsByGroup, timeout_s: float) -> dict[str, Future[Any]]:
    """Send one request per group without waiting. To be called where a crash is survived."""
    futures: dict[str, Future[Any]] = {}
    for group, partitions in requested.items():
        names = None if partitions is None else [ClientPartition(p.topic, p.partition) for p in partitions]
        request = [ConsumerGroupTopicPartitions(group, names)]
        futures |= client.list_consumer_group_offsets(request, request_timeout=timeout_s)
    return futures


def _positions(future: Future[Any]) -> Positions | Unknown:
    """One group's answer. Some offsets below zero mean "no commit"; the others mean nothing."""
    failure = failure_of(
        future, right="READ or DESCRIBE on the group", prefix="the group's commits could not be read: "
    )
    if failure is not None:
        return failure
    read: Positions = {}
    for answer in future.result().topic_partitions or ():
        offset: int | Unknown | None = answer.offset
        if answer.error is not None:
            reason = f"the group's commit could not be read: {reason_of(answer.error)}"
            offset = Unknown(reason, cause_of(answer.error))
        elif answer.offset < 0:
            offset = None if answer.offset in _NO_COMMIT else Unknown(f"the group's commit reads as {answer.offset}")
        read[answer.topic, answer.partition] = offset
    return read


def _commits(read: Positions | Unknown) -> list[Commit] | Unknown:
    """All commits of a group. One position that is Unknown makes all of them Unknown."""
    if isinstance(read, Unknown):
        return read
    known: list[Commit] = []
    for (topic, number), committed in read.items():
        if isinstance(committed, Unknown):
            return replace(committed, reason=f"{topic}[{number}]: {committed.reason}")
        if committed is not None:
            known.append((topic, number, committed))
    return known


def _committed_offsets(future: Future[Any]) -> tuple[_FullCommit, ...] | Unknown:
    """All commits of a group, sorted; one that is Unknown makes all Unknown."""
    commits = _commits(_positions(future))
    if isinstance(commits, Unknown):
        return commits
    answers = {(answer.topic, answer.partition): answer for answer in future.result().topic_partitions or ()}
    return tuple(
        (topic, number, offset, answers[topic, number].leader_epoch, answers[topic, number].metadata or None)
        for topic, number, offset in sorted(commits)
    )


_Read = tuple[dict[str, Positions | Unknown], dict[str, frozenset[str] | Unknown]]
"""Positions, and topics of members, by group."""


def _read_in_process(session: KafkaSession, groups: Sequence[str], members: Sequence[str]) -> _Read:
    rebalance_deadline = Deadline.after(_REBALANCE_S)

    def describe(client: AdminClient, pending: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        return dict(client.describe_consumer_groups(list(pending), request_timeout=limit_s))

    def fetch_offsets(client: AdminClient, pending: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        return _send_offset_fetches(client, dict.fromkeys(pending), limit_s)

    # Members first: one that leaves in between has committed before the commits are read.
    described = session.read(
        [group for group in members if group],
        describe,
        is_final=lambda future: _is_settled(future) or (rebalance_deadline.passed and is_final(future)),
    )
    fetched = session.read([group for group in groups if group], fetch_offsets)
    return (
        {group: _positions(future) for group, future in fetched.items()},
        {group: _member_topics(future) for group, future in described.items()},
    )


def _read_isolated(session: KafkaSession, groups: Sequence[str], members: Sequence[str]) -> _Read:
    """Read all groups, then failed ones per coordinator: a moving one fails no others."""
    positions: dict[str, Positions | Unknown] = {group: NO_ANSWER if group else NAMELESS for group in groups}
    topics: dict[str, frozenset[str] | Unknown] = {group: NO_ANSWER if group else NAMELESS for group in members}
    deadline, rebalance_deadline = session.deadline(), Deadline.after(_REBALANCE_S)
    parts: list[Sequence[str]] = [[group for group in groups if group]]
    while parts and not deadline.passed:
        by_coordinator: dict[int, list[str]] = {}
        for part in parts:
            limit_s = max(0.1, min(deadline.remaining_s, session.timeout_s / 3))
            request = ([group for group in part if group in topics], dict.fromkeys(part))
            described, fetched = session.call_worker(_ask_coordinators, request, timeout_s=limit_s, tries=_TRIES) or (
                {},
                {},
            )
            positions |= {group: answer for group, (answer, _is_final) in fetched.items()}
            topics |= {group: member_topics for group, (_state, member_topics, _is_final) in described.items()}
            for group in part:
                settled = group not in topics or described.get(group, (None, None, False))[2]
                settled = settled or (topics[group] == REBALANCING and rebalance_deadline.passed)
                if not settled or not fetched.get(group, (None, False))[1]:
                    by_coordinator.setdefault(log_partition(group, _LOG_PARTITIONS), []).append(group)
        parts = list(by_coordinator.values())
        if parts:
            time.sleep(min(_PAUSE_S, deadline.remaining_s))
    return positions, topics
