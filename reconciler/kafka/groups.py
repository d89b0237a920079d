"""Reads consumer groups: type, state, committed offsets and what they consume.

Decided here: when a group counts as absent.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from reconciler.errors import ClusterUnreachable
from reconciler.kafka.consumer_offsets import reduce_partitions
from reconciler.kafka.coordinators import (
    NO_ANSWER,
    REMOVING_CLIENTS,
    Commit,
    ask_for_positions,
    open_clients,
    read_consumption,
    select_commits,
)
from reconciler.kafka.futures import Deadline, error_columns, submit
from reconciler.kafka.group_listing import list_all_groups, list_groups, with_members
from reconciler.kafka.offsets import read_last_stable_offsets
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC, consumer_offsets_missing, describe
from reconciler.model.garbage import gc_paused
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import (
    NO_COMMIT_YET,
    CommittedOffset,
    Consumers,
    GroupFacts,
    GroupObservation,
    GroupState,
    GroupType,
    ObservedCommit,
    PendingCommit,
    Unknown,
    fingerprint,
)

_LISTING_SHARE = 2 / 3
"""Share of the time for the listing before a request; coordinators answer in the rest."""
_OBSERVED_MAX = 1_500
"""Commits of an observed group: they are one record of the journal, of up to 600 KB."""


@gc_paused()
def read_groups(
    session: KafkaSession,
    requested: Sequence[str],
    *,
    deadline: Deadline,
    removed: Collection[str] = (),
    hidden: bool = False,
) -> dict[str, GroupFacts]:
    """Listing, state and commits of some groups.

    `listed` False needs a provably complete listing and the group's coordinator: while a
    coordinator moves, no broker lists its groups and no error says so. The listing has the type and
    state of a listed group, so its coordinator answers only for the commits. If an open transaction
    may replace one of them, all commits of the group are Unknown. Unless the session's `cluster_id` is
    None, every fact is Unknown where another cluster answers, or one that does not tell its id: the same
    name there is another group. While the brokers list their groups, a worker process connects to them.
    `removed`, `hidden`: as in `model.ports.Gateway`. Raises ClusterUnreachable.
    """
    listing_deadline = Deadline.after(deadline.remaining_s * _LISTING_SHARE)
    asked = len(requested) - len(removed)
    opening: list[Future[Any]] = []
    if asked:
        connect = partial(session.call_worker, open_clients, asked, timeout_s=listing_deadline.remaining_s)
        with suppress(ClusterUnreachable):  # no thread can be started; the first request opens them
            opening.append(submit(connect))
    try:
        listing = list_groups(session, hidden=hidden, only=frozenset(requested), deadline=listing_deadline)
    finally:
        wait(opening, timeout=listing_deadline.remaining_s)
    if (elsewhere := listing.check_cluster(session.cluster_id)) is not None:
        return {group: unknown_group(group, elsewhere) for group in requested}
    incomplete = listing.hidden_unread if hidden else listing.incomplete
    removed = frozenset(removed).difference(listing.groups)
    listed = {group: None for group in requested if group in listing.groups}
    uncertain = tuple(
        group
        for group in requested
        if (listing.groups[group].state is GroupState.UNKNOWN if group in listed else group not in removed)
    )
    answer = None
    if uncertain or listed:
        ask = partial(ask_for_positions, clients=REMOVING_CLIENTS, stable=True)
        answer = session.call_worker(ask, (uncertain, listed), timeout_s=deadline.remaining_s)
    described, fetched = answer or ({}, {})
    offsets = {group: select_commits(positions) for group, (positions, _is_final) in fetched.items()}
    states = {group: state for group, (state, _topics, _is_final) in described.items()}
    topic_ids = _topic_ids(session, offsets.values(), deadline)
    facts = {}
    for group in requested:
        if group in listed:
            known = replace(listing.groups[group], listed=True)
            state = states.get(group, NO_ANSWER) if group in uncertain else known.state
            facts[group] = _with_commits(known, state, offsets.get(group, NO_ANSWER), topic_ids)
        else:
            state = GroupState.DEAD if group in removed else states.get(group, NO_ANSWER)
            facts[group] = _unlisted(group, incomplete, state)
    return facts


def observe_groups(
    session: KafkaSession, requested: Sequence[str], *, clock: Callable[[], int]
) -> dict[str, GroupObservation | Unknown]:
    """What coordinators and leaders say of some groups, without `__consumer_offsets`. Unknown: not all was read.

    `clock`: tells the time after the reading. Raises ClusterUnreachable.
    """
    read = read_groups(session, requested, deadline=session.deadline()) if requested else {}
    empty = [facts.offsets for facts in read.values() if facts.state is GroupState.EMPTY]
    partitions = {commit.at for offsets in empty if not isinstance(offsets, Unknown) for commit in offsets}
    ends = read_last_stable_offsets(session, sorted(partitions)) if partitions else {}
    at_ms = clock()
    return {group: _observation(facts, ends, at_ms) for group, facts in read.items()}


def _observation(
    facts: GroupFacts, ends: Mapping[TopicPartition, int | Unknown], at_ms: int
) -> GroupObservation | Unknown:
    type_, state, offsets = facts.type, facts.state, facts.offsets
    for fact in (facts.listed, type_, state, offsets):
        if isinstance(fact, Unknown):
            return fact
    assert isinstance(type_, GroupType)
    assert isinstance(state, GroupState)
    assert not isinstance(offsets, Unknown)
    if state is not GroupState.EMPTY:
        return GroupObservation(at_ms=at_ms, group=facts.group, type=type_, state=state)
    if len(offsets) > _OBSERVED_MAX:
        return Unknown(f"it has {len(offsets):,} commits, and groups of at most {_OBSERVED_MAX:,} are observed")
    commits = []
    for commit in offsets:
        end = ends[commit.at]
        if isinstance(end, Unknown):
            return end.about(f"the last stable offset of {commit.at}")
        if commit.topic_id is None:
            return Unknown(f"the topic id of {commit.topic} is not known")
        commits.append(
            ObservedCommit(
                topic=commit.topic,
                topic_id=commit.topic_id,
                partition=commit.partition,
                offset=commit.offset,
                last_stable_offset=end,
            )
        )
    return GroupObservation(at_ms=at_ms, group=facts.group, type=type_, state=state, commits=tuple(commits))


def read_consumers(
    session: KafkaSession, topics: Collection[str], *, log_starts: Mapping[int, int], without_log: bool = False
) -> Consumers:
    """All groups, and what they consume of some topics.

    `log_starts`: from where on the records of share groups in each partition of `__consumer_offsets` are
    news; a partition without one is read from its beginning. The last stable offsets are read before the
    commits and the records after them: what is not committed when the commits are read has a record
    between the two. `without_log`: as `ScanRequest.without_consumer_offsets`. Raises ClusterUnreachable.
    """
    described = describe(session, [CONSUMER_OFFSETS_TOPIC])[CONSUMER_OFFSETS_TOPIC]
    of_log = [facts.partition for facts in described[1]] if isinstance(described, tuple) else []
    last_stable_offsets: dict[int, int] = {}
    for partition, end in read_last_stable_offsets(session, of_log).items():
        if isinstance(end, Unknown):
            return Consumers(groups={}, commits={}, incomplete=end.about(f"the last stable offset of {partition}"))
        last_stable_offsets[partition.partition] = end
    groups, incomplete = list_all_groups(session)
    if incomplete is None and not isinstance(described, tuple):
        failure = None if described is None else described.about(CONSUMER_OFFSETS_TOPIC)
        incomplete = consumer_offsets_missing(failure, groups, hidden=without_log)
    if incomplete is not None:
        return Consumers(groups=groups, commits={}, incomplete=incomplete)
    commits: dict[str, dict[str, dict[int, int]]] = {topic: {} for topic in topics}
    for part in read_consumption(session, sorted(groups), with_members=with_members(groups)):
        for group, consumption in part.items():
            unread = consumption.unread
            if unread is None and groups[group].type is GroupType.HIDDEN and not consumption.commits:
                unread = NO_COMMIT_YET  # of this type are groups of Streams, and share groups
            groups[group] = replace(groups[group], consumption_unread=unread)
            for topic, of_topic in consumption.by_topic(commits).items():
                commits[topic][group] = of_topic
    starts = {number: min(end, log_starts.get(number, 0)) for number, end in last_stable_offsets.items()}
    logs = reduce_partitions(session, list(last_stable_offsets), starts=starts)
    pending: dict[tuple[str, TopicPartition], PendingCommit] = {}
    may_read: dict[str, Collection[str] | None] = {}
    for number, log in logs.items():
        if log.unread is not None:
            at = TopicPartition(CONSUMER_OFFSETS_TOPIC, number)
            incomplete = log.unread.about(f"{at} was not read from {starts[number]} to its end")
        for row in log.pending(last_stable_offsets[number], commits):
            commits[row["topic"]].setdefault(row["group"], {})
            at = TopicPartition(row["topic"], row["partition"])
            pending[row["group"], at] = PendingCommit(row["committed"], number)
        may_read |= {row["group"]: row["may_read"] for row in log.activities() if row.get("may_read", []) != []}
    return Consumers(
        groups=groups,
        commits=commits,
        pending=pending,
        subscriptions={group: None if of is None else frozenset(of) for group, of in may_read.items()},
        log_ends={number: log.end for number, log in logs.items() if log.unread is None and log.end is not None},
        incomplete=incomplete,
    )


def commit_row(group: str, commits: Sequence[Commit] | Unknown) -> dict[str, Any]:
    """The row of a group: the counts and the fingerprint of its commits, or an error."""
    return {"group": group, **(error_columns(commits) if isinstance(commits, Unknown) else _summary(commits))}


def _summary(commits: Sequence[Commit]) -> dict[str, Any]:
    topics = {topic for topic, *_ in commits}
    digest = fingerprint(commit[:3] for commit in commits)
    return {"commits": len(commits), "commit_topics": len(topics), "fingerprint": digest}


def unknown_group(group: str, reason: Unknown) -> GroupFacts:
    """A group whose facts could not be read."""
    return GroupFacts(
        group=group, listed=reason, type=reason, state=reason, commits=reason, commit_topics=reason, fingerprint=reason
    )


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
    listed: GroupFacts, state: GroupState | Unknown, offsets: Sequence[Commit] | Unknown, topic_ids: Mapping[str, str]
) -> GroupFacts:
    if listed.type is GroupType.HIDDEN:
        listed = replace(listed, type=Unknown("the broker did not tell the group's type"))
    if isinstance(offsets, Unknown):
        return replace(
            listed, state=state, commits=offsets, commit_topics=offsets, fingerprint=offsets, offsets=offsets
        )
    identified = tuple(
        CommittedOffset(
            topic=topic, topic_id=topic_ids.get(topic), partition=number, offset=offset, leader_epoch=leader_epoch
        )
        for topic, number, offset, leader_epoch in sorted(offsets)
    )
    return replace(listed, state=state, **_summary(offsets), offsets=identified)


def _topic_ids(
    session: KafkaSession, offsets: Iterable[Sequence[Commit] | Unknown], deadline: Deadline
) -> dict[str, str]:
    """The id of each topic with a commit, without topics whose id is not known."""
    names = {topic for commits in offsets if not isinstance(commits, Unknown) for topic, *_ in commits}
    described = describe(session, names, deadline=deadline) if names else {}
    topic_ids = {name: answer[0].topic_id for name, answer in described.items() if isinstance(answer, tuple)}
    return {name: topic_id for name, topic_id in topic_ids.items() if isinstance(topic_id, str)}
