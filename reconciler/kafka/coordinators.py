"""Calls the coordinators of consumer groups, with a request per group and several clients.

Decided here: how groups are distributed over clients, how many removals are under way at once,
which answers are positions, which say that there is none, which say nothing, and which reading is
repeated. The library may crash while a coordinator moves, so these calls belong in worker processes
and in Spark tasks (session.py says why). What opens a client raises ClusterUnreachable.
"""

import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from reconciler.kafka.connect import Settings
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.futures import (
    Deadline,
    batched,
    failed_with,
    failure_of,
    is_final,
    parse_each,
    unknown_of,
    wait_all,
)
from reconciler.kafka.group_listing import STATES
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import REBALANCING, Cause, GroupState, Unknown

Commit = tuple[str, int, int, int | None]
"""Topic, partition, committed offset, leader epoch: worker processes send tuples, which pickle fast.

The library's text of the metadata ends somewhere in the memory of the process, so no one reads it:
c_parts_to_py copies up to a NUL that librdkafka did not store.
"""

Positions = dict[tuple[str, int], Commit | Unknown | None]
"""Commits of one group; None: requested by name and not committed, or committed below 0."""

PartitionsByGroup = Mapping[str, Sequence[TopicPartition] | None]
"""Partitions of each group, never an empty list; None: every commit of the group."""

NO_ANSWER = Unknown("the group's coordinator did not answer: it moves, or there is none yet", Cause.NO_ANSWER)
NAMELESS = Unknown("the client library cannot read the commits of a group without a name")

Fetched = dict[str, tuple[Positions | Unknown, bool]]
"""The positions of each group, and whether a retry would not change them."""

_SETTLED_STATES = (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
"""The library reads the states ASSIGNING and RECONCILING of the new protocol (KIP-848) as UNKNOWN."""
_ASSIGNMENTS = ("assignment", "target_assignment")
_READING_CLIENTS = 8
REMOVING_CLIENTS = 24
"""For removals, and for the commits that are read before them: each has a connection to every broker.

They connect at the same time. Of more than 50, some wait a second: socket.listen.backlog.size.
"""
_GROUPS_PER_CLIENT = 10
"""The library remembers the coordinators of so many groups. With fewer, another client takes longer to
open than it saves.
"""
SETTINGS: Settings = {"metadata.max.age.ms": 1_000}
"""Forget a coordinator a second after its last use.

The library remembers the coordinators of about ten groups for so long, and the answer NOT_COORDINATOR
does not make it look them up again: the request is repeated until it times out.
"""
LOG_PARTITIONS = 50
"""The default of offsets.topic.num.partitions; another value makes retries and batches less exact."""
_REMOVALS_AT_ONCE = 20
"""Removals that each client sends before all of them wait for the answers.

Clients that do not wait for each other drift apart. Their removals of one moment are then for different
partitions of `__consumer_offsets`: two in a batch instead of ten.
"""
_PACE_S = 3.0
"""How long clients wait for each other in one call; then the rest goes out at once."""

_REBALANCE_S = 5.0
"""How long to wait for the end of a rebalance: members have no partitions until then."""
_TRIES = 2
_GROUPS_IN_FLIGHT = 500
_PAUSE_S = 0.25
Members = tuple[GroupState | Unknown, frozenset[str] | Unknown, bool]
"""The state of a group, the topics of its members, and whether a retry would not change them."""
_NO_MEMBERS: Members = (GroupState.EMPTY, frozenset(), True)

_DESCRIBED_SHARE = 0.7
"""Share of the time for descriptions after which the library ends them. It does so a second late, and
ends those of all groups of a client together: one silent coordinator must not make the others late.
"""


@dataclass(frozen=True, slots=True)
class Consumption:
    """What a group consumes: its commits, and the topics whose partitions its members have."""

    commits: Sequence[Commit] | Unknown
    member_topics: frozenset[str] | Unknown = frozenset()

    @property
    def unread(self) -> Unknown | None:
        """Why it is not known what the group consumes; None: it is."""
        return next((part for part in (self.commits, self.member_topics) if isinstance(part, Unknown)), None)

    def by_topic(self, names: Container[str]) -> dict[str, dict[int, int]]:
        """The committed offset of each partition with a commit, for each of these topics that it consumes."""
        commits = () if isinstance(self.commits, Unknown) else self.commits
        members = () if isinstance(self.member_topics, Unknown) else self.member_topics
        by_topic: dict[str, dict[int, int]] = {topic: {} for topic in members if topic in names}
        for topic, partition, offset, _leader_epoch in commits:
            if topic in names:
                by_topic.setdefault(topic, {})[partition] = offset
        return by_topic


def ask_for_positions(
    session: KafkaSession,
    groups: tuple[Sequence[str], PartitionsByGroup],
    deadline: Deadline,
    *,
    clients: int = _READING_CLIENTS,
    stable: bool = False,
) -> tuple[dict[str, Members], Fetched]:
    """Return members of the first groups, positions of the second. For a process whose crash is survived.

    `stable`: a position that an open transaction may replace is Unknown (KIP-447).
    """
    uncertain, requested = groups
    readers = _spread(session, uncertain, clients, deadline)
    described: dict[str, Future[Any]] = {}
    described_by = Deadline.after(deadline.remaining_s / 2) if requested else deadline
    limit_s = max(0.1, described_by.remaining_s * _DESCRIBED_SHARE)
    for client, part in readers:
        described |= client.describe_consumer_groups(part, request_timeout=limit_s)
    wait_all([client for client, _ in readers], described.values(), described_by)
    # Members first, and no later answers: one that leaves in between has committed before the commits are read.
    members = parse_each(described, _parse_members, lambda failure: (failure, failure, True))
    readers = _spread(session, requested, clients, deadline)
    fetched: dict[str, Future[Any]] = {}
    for client, part in readers:
        for group in part:
            partitions = requested[group]
            names = None if partitions is None else [ClientPartition(p.topic, p.partition) for p in partitions]
            request = [ConsumerGroupTopicPartitions(group, names)]
            fetched |= client.list_consumer_group_offsets(
                request, require_stable=stable, request_timeout=deadline.request_timeout_s
            )
    wait_all([client for client, _ in readers], fetched.values(), deadline)
    return members, parse_each(
        fetched,
        lambda future: (_parse_positions(future), future.done() and is_final(future)),
        lambda failure: (failure, True),
    )


def open_clients(session: KafkaSession, groups: int, deadline: Deadline) -> bool:
    """Open as many clients as this number of groups needs, and return whether there are any. For a worker process."""
    return bool(_clients(session, groups, REMOVING_CLIENTS, deadline))


def send_removals(session: KafkaSession, groups: Sequence[str], deadline: Deadline) -> dict[str, Future[Any]]:
    """Send a DeleteGroups request per group, in waves. For a worker process.

    A coordinator of KIP-848 answers it when its followers have the tombstones, an older one at once. A
    call that the library refuses fails its own groups only. Raises ClusterUnreachable before the first request.
    """
    # All clients first: what is already sent must not count as unsent. The reads before have opened some.
    parts = _spread(session, groups, REMOVING_CLIENTS, deadline)
    futures: dict[str, Future[Any]] = {}
    pace = Deadline.after(min(_PACE_S, deadline.remaining_s / 2))
    for start in range(0, len(parts[0][1]), _REMOVALS_AT_ONCE):
        wave: dict[str, Future[Any]] = {}
        for client, part in parts:
            if selected := part[start : start + _REMOVALS_AT_ONCE]:
                wave |= _send_removals_of(client, selected, max(0.1, deadline.remaining_s))
        futures |= wave
        # A coordinator that does not answer must not hold up the groups of the others for long.
        wait(wave.values(), timeout=pace.remaining_s)
    return futures


def fetch(session: KafkaSession, requested: PartitionsByGroup, *, timeout_s: float) -> Fetched:
    """Each group's positions. A worker process that dies is replaced once, with a new client.

    Raises ClusterUnreachable where no client can be opened.
    """
    named = {group: partitions for group, partitions in requested.items() if group}
    answer = session.call_worker(ask_for_positions, ((), named), timeout_s=timeout_s, tries=_TRIES) if named else None
    return _unasked(requested) | ({} if answer is None else answer[1])


def _unasked(groups: Iterable[str]) -> Fetched:
    return {group: (NO_ANSWER, False) if group else (NAMELESS, True) for group in groups}


def read_consumption(
    session: KafkaSession, groups: Sequence[str], *, with_members: Collection[str]
) -> Iterator[dict[str, Consumption]]:
    """What each group consumes, a few hundred groups at a time.

    `with_members`: groups that may have members; the members of other groups are not read. Raises
    ClusterUnreachable where no client can be opened.
    """
    with_members = frozenset(with_members)
    for part in batched(groups, _GROUPS_IN_FLIGHT):
        described, fetched = _read(session, part, with_members.intersection(part))
        yield {group: _consumption(fetched[group][0], described.get(group, _NO_MEMBERS)[1]) for group in part}


def _consumption(positions: Positions | Unknown, topics: frozenset[str] | Unknown) -> Consumption:
    """What a group consumes. `topics`: of its members; it consumes those of a commit below 0, too, from no position."""
    if not isinstance(positions, Unknown) and not isinstance(topics, Unknown):
        topics |= {topic for (topic, _number), committed in positions.items() if committed is None}
    return Consumption(select_commits(positions), topics)


def _read(session: KafkaSession, groups: Sequence[str], members: Collection[str]) -> tuple[dict[str, Members], Fetched]:
    """Read all groups, then failed ones per coordinator: a moving one fails no others."""
    described: dict[str, Members] = {group: (NO_ANSWER, NO_ANSWER if group else NAMELESS, False) for group in members}
    fetched = _unasked(groups)
    deadline, rebalance_deadline = session.deadline(), Deadline.after(_REBALANCE_S)
    parts: list[Sequence[str]] = [[group for group in groups if group]]
    while parts and not deadline.passed:
        by_coordinator: dict[int, list[str]] = {}
        for part in parts:
            limit_s = max(0.1, min(deadline.remaining_s, session.timeout_s / 3))
            request = ([group for group in part if group in described], dict.fromkeys(part))
            answer = session.call_worker(ask_for_positions, request, timeout_s=limit_s, tries=_TRIES)
            if answer is not None:
                described |= answer[0]
                fetched |= answer[1]
            for group in part:
                _state, topics, is_settled = described.get(group, _NO_MEMBERS)
                is_rebalancing = topics == REBALANCING or not isinstance(topics, Unknown)
                may_settle = not is_settled and not (is_rebalancing and rebalance_deadline.passed)
                if may_settle or not fetched[group][1]:
                    by_coordinator.setdefault(log_partition(group, LOG_PARTITIONS), []).append(group)
        parts = list(by_coordinator.values())
        if parts:
            time.sleep(min(_PAUSE_S, deadline.remaining_s))
    return described, fetched


def _send_removals_of(client: AdminClient, groups: Sequence[str], limit_s: float) -> Mapping[str, Future[Any]]:
    try:
        futures: Mapping[str, Future[Any]] = client.delete_consumer_groups(groups, request_timeout=limit_s)
    except KafkaException as error:
        refused = Future[Any]()
        refused.set_exception(error)
        return dict.fromkeys(groups, refused)
    return futures


def _spread(
    session: KafkaSession, groups: Collection[str], clients: int, deadline: Deadline
) -> list[tuple[AdminClient, list[str]]]:
    """Distribute groups over several clients.

    The library sends a request per group, and a broker answers those of one connection one after the
    other. Groups of one partition of `__consumer_offsets` go out side by side: their coordinator stores
    their removals in one batch. `deadline`: of the requests.
    """
    in_order = sorted(groups, key=lambda group: log_partition(group, LOG_PARTITIONS))
    opened = _clients(session, len(in_order), clients, deadline)
    return [(client, in_order[at :: len(opened)]) for at, client in enumerate(opened)]


def _clients(session: KafkaSession, groups: int, clients_max: int, deadline: Deadline) -> list[AdminClient]:
    if not session.isolates:  # of one of many tasks, which must not wait for connections to brokers that are away
        return [session.reader()] if groups else []
    count = min(clients_max, -(-groups // _GROUPS_PER_CLIENT))
    return session.clients("coordinators", count, SETTINGS, deadline=deadline)


def _parse_members(future: Future[Any]) -> Members:
    """Return what a description says. A group that does not exist is DEAD, as brokers say it, and has no members."""
    if failed_with(future, {KafkaError.GROUP_ID_NOT_FOUND}):
        return GroupState.DEAD, frozenset(), True
    # From Kafka 4.0 on: who may not describe each topic of its members is told nothing of a group of KIP-848.
    is_of_topics = failed_with(future, {KafkaError.TOPIC_AUTHORIZATION_FAILED})
    failure = failure_of(future, right=f"DESCRIBE on {'all topics of its members' if is_of_topics else 'the group'}")
    if failure is not None:
        unread = failure.about("the group's members could not be read")
        return failure.about("the group could not be described"), unread, future.done() and is_final(future)
    description = future.result()
    present = STATES.get(description.state, GroupState.UNKNOWN)
    is_settled = description.state in _SETTLED_STATES
    # A member of the new protocol (KIP-848) also has partitions that it is to get, and has them until all have
    # given up what they lose. That takes as long as the slowest member, or the session of a static one that is away.
    members = [[getattr(member, name, None) for name in _ASSIGNMENTS] for member in description.members]
    has_targets = bool(members) and all(target and target.topic_partitions for _assignment, target in members)
    if not is_settled and not (description.state is ConsumerGroupState.UNKNOWN and has_targets):
        return present, REBALANCING, False
    assignments = (assignment for of_member in members for assignment in of_member if assignment)
    partitions = (partition for assignment in assignments for partition in assignment.topic_partitions)
    return present, frozenset(partition.topic for partition in partitions), is_settled


def _parse_positions(future: Future[Any]) -> Positions | Unknown:
    """The positions in the answer for a group. Kafka's clients take an offset below 0 for none (ConsumerCoordinator)."""
    failure = failure_of(future, right="READ or DESCRIBE on the group")
    if failure is not None:
        return failure.about("the group's commits could not be read")
    answers = future.result().topic_partitions
    if answers is None:
        return Unknown("the answer has no list of commits")
    read: Positions = {}
    for answer in answers:
        at = answer.topic, answer.partition
        read[at] = None if answer.offset < 0 else (*at, answer.offset, answer.leader_epoch)
        if answer.error is not None:
            read[at] = unknown_of(answer.error).about("the group's commit could not be read")
    return read


def select_commits(read: Positions | Unknown) -> list[Commit] | Unknown:
    """All commits of a group. One position that is Unknown makes all of them Unknown."""
    if isinstance(read, Unknown):
        return read
    known: list[Commit] = []
    for (topic, number), committed in read.items():
        if isinstance(committed, Unknown):
            return committed.about(f"{topic}[{number}]")
        if committed is not None:
            known.append(committed)
    return known
