"""Which groups count as consumers of a partition, whether all are known, and what a commit proves.

A group has read only what its commit proves. Every other known consumer stands at the log start.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import NamedTuple

from reconciler.model.block_reason import BlockReason, unknown_fact, unread
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ExternalReaderRequest
from reconciler.model.selector import Selector, SelectorSet
from reconciler.model.snapshot import (
    NO_COMMIT_YET,
    REBALANCING,
    ClusterSnapshot,
    ConsumerPosition,
    ExternalPosition,
    GroupFacts,
    GroupType,
    Unknown,
    doubt_age,
)
from reconciler.text.escape import display_name, quoted
from reconciler.text.formatting import format_time

_READABLE = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})
"""Types whose positions a client can read. Share groups answer `[]`, and have positions."""

_UNLISTED = frozenset({GroupType.STREAMS, GroupType.OTHER})
"""Types that no list call names, and that answer for their commits. Schema registries, which only elect,
have none, but a client with a protocol of its own may have.
"""

_CONSUMPTION_UNREAD = (
    "plan again once its members have partitions and have committed, or name it in exceptGroups; if the reason names "
    "a right, grant it"
)
_EXACT_NAMES = "unreadBy takes exact names, and this one looks like a pattern: name each group, or let this one commit"

STORE_REMOVAL = (
    "raise max.message.bytes of __consumer_offsets; then bring the group back (restore-group writes its offsets, or its "
    "partition of __consumer_offsets gets another leader), and remove it again"
)
"""What to do about a group whose removal a coordinator up to Kafka 3.9 could not store: it has forgotten the group."""

_HIDDEN = "a group of a type that the cluster does not tell"
_REBALANCING = "a group that is rebalancing"
_NEW_STREAMS = "a Streams group without a commit"
_BY_SUBSCRIPTION: Mapping[tuple[GroupType | Unknown, Unknown | None], str] = {
    (GroupType.CLASSIC, REBALANCING): _REBALANCING,
    (GroupType.CONSUMER, REBALANCING): _REBALANCING,
    (GroupType.STREAMS, NO_COMMIT_YET): _NEW_STREAMS,
}
_NOT_LISTED = "a group that is not listed, though the cluster holds something of it"
_CUT = "a group whose name has a null character, where the client library cuts it"
_PASSING = frozenset({_REBALANCING, _NEW_STREAMS})
"""What a later reading may tell, so a request is tried again."""
_NEXT_STEPS = {
    _REBALANCING: "plan again once its members have partitions, or name it in exceptGroups",
    _NEW_STREAMS: "plan again once it has committed, or name it in exceptGroups",
    # Not exceptGroups: what these groups need is not known.
    _HIDDEN: "plan again: it may be new; if it stays, ask its owner what it reads; brokers before Kafka 3.8 tell no types",
    _NOT_LISTED: "plan again: it was created during the scan, or the broker that lists it was lost and another takes over; "
    f"if it stays, its removal was not stored: {STORE_REMOVAL}",
    _CUT: "remove it with another client, or name it in exceptGroups if it may miss these records",
}

# Names that MirrorMaker 2 and Kafka Connect give to their topics, unless told otherwise.
_MIRROR_MAKER = re.compile(r"mm2-offset-syncs[._-].+[._-]internal")
_CONNECT_TOPIC = re.compile(r"(.+)[._-](config|offset|status)(?:s|es)?")

GroupExcluder = Callable[[str], bool]
_ANSWERS_MAX = 100_000
"""Groups of which one excluder remembers its answer: fewer would be forgotten within one walk over a large cluster."""


@lru_cache(maxsize=64)
def group_excluder(texts: tuple[str, ...]) -> GroupExcluder:
    """Return a function that says whether one of these selectors matches a group. Raises ValueError.

    Many partitions have the selectors and the groups in common, so both the function and its last answers are
    remembered. Not all answers: a loop runs for months, and any client may create groups.
    """
    selectors = []
    for text in texts:
        try:
            selectors.append(Selector(text))
        except ValueError as error:
            raise ValueError(f"it excepts groups by {quoted(text)}, {error}") from None
    return lru_cache(_ANSWERS_MAX)(SelectorSet(selectors).matches)


UnknownConsumers = Callable[[str], BlockReason | None]
"""Returns why it is not known which groups would miss records of a topic; None: it is known."""


def unknown_consumers(snapshot: ClusterSnapshot, is_excluded: GroupExcluder) -> UnknownConsumers:
    """Return what says why this scan does not know the consumers of a topic, without the excluded groups."""
    named = ((name, group) for name, group in sorted(snapshot.groups.items()) if name and not is_excluded(name))
    groups = [group for _name, group in named if group.type is not GroupType.CONNECT]
    everywhere = next(_unread_everywhere(snapshot, groups), None)
    unreadable = [(group, kind) for group in groups if (kind := unreadable_kind(group)) is not None]

    @cache
    def of_topic(topic: str) -> BlockReason | None:
        of = [(group, kind) for group, kind in unreadable if group.may_read is None or topic in group.may_read]
        if everywhere is not None or not of:
            return everywhere
        group, kind = of[0]
        more = f" (and {len(of) - 1} more)" if len(of) > 1 else ""
        reason = f"{quoted(group.group)}{more} is {kind}, whose position cannot be read, so it may miss records"
        return BlockReason("B211", reason, next_step=_NEXT_STEPS.get(kind, ""), unread=kind in _PASSING)

    return of_topic


def _unread_everywhere(snapshot: ClusterSnapshot, groups: Iterable[GroupFacts]) -> Iterator[BlockReason]:
    """Yield why the consumers of no topic are known: a list, or a group that may read any."""
    for what, incomplete in (
        ("the list of groups is incomplete", snapshot.groups_incomplete),
        ("the commits of all groups could not be read", snapshot.readers_incomplete),
    ):
        if incomplete is not None:
            reason = f"{what}: {incomplete.reason}, so it is not known which groups would miss records"
            yield unread("B212", reason, incomplete)
    for group in groups:
        if isinstance(group.type, Unknown):
            yield unknown_fact(f"the type of group {quoted(group.group)}", group.type)
        elif (fact := group.consumption_unread) is not None and unreadable_kind(group) is None:
            reason = f"what group {quoted(group.group)} reads is not known: {fact.reason}"
            yield unread("B212", reason, fact, next_step=_CONSUMPTION_UNREAD)


def unreadable_kind(group: GroupFacts) -> str | None:
    """Return what a group is whose positions cannot be read; None: they can be, or its type is not known.

    What a rebalancing group reads besides its commits is what its last generation subscribed to: a topic
    that only a member who joins now would read is as free as that of a group which starts a moment later.
    """
    if "\0" in group.group:
        return _CUT
    by_subscription = _BY_SUBSCRIPTION.get((group.type, group.consumption_unread))
    if by_subscription is not None and group.may_read is not None:
        return by_subscription
    # A group that is not listed is hidden, or was created since the listing.
    if isinstance(group.type, Unknown) or group.type in _UNLISTED or (group.listed and group.type in _READABLE):
        return None
    if group.type is GroupType.HIDDEN:
        return _HIDDEN
    return _NOT_LISTED if group.type in _READABLE else f"a {group.type} group"


class Log(NamedTuple):
    """The log of a partition, as last read: a position is one of this log or proves nothing."""

    partition: TopicPartition
    topic_id: str
    log_start: int
    high_watermark: int


def verified_offset(group: str, reader: ConsumerPosition | None, log: Log, *, absence: str = "") -> int:
    """Return the offset below which `group` has read all. Raises BlockReason without proof.

    `absence`: what else to say of a group without a position.

    Commits outlive a topic that is deleted and created again, and the broker takes any number: a
    position above the end, or one that was committed for another topic id, proves nothing.
    """

    def has(what: str) -> str:
        return f"group {quoted(group)} of unreadBy has {what}"

    if reader is None or reader.without_commit or reader.committed < 0:
        next_step = "" if Selector.literal(group).text == group else _EXACT_NAMES
        raise BlockReason("B205", has(f"no committed position on {log.partition}{absence}"), next_step=next_step)
    if reader.committed > log.high_watermark:
        raise BlockReason("B206", has(f"committed {reader.committed}, above the end {log.high_watermark}"))
    if isinstance(reader.topic_id, Unknown):
        raise unknown_fact(f"for which topic {has('committed')}", reader.topic_id)
    if reader.topic_id not in (None, log.topic_id):
        committed = f"committed {reader.committed} for topic id {reader.topic_id}"
        raise BlockReason("B207", has(f"{committed}, and {log.partition.topic} is {log.topic_id} now"))
    if reader.pending is None:
        return reader.committed
    if reader.pending.committed is None:
        where = f"__consumer_offsets[{reader.pending.log_partition}]"
        raise BlockReason("B205", has(f"a commit on {log.partition} that cannot be decoded, in {where}"))
    return min(reader.committed, reader.pending.committed)


def verified_positions(readers: Iterable[ConsumerPosition], log: Log) -> Iterator[ConsumerPosition]:
    """Yield where each group stands: at the log start unless its commit proves that it has read more.

    A commit above the end, or for another topic id, is of an earlier topic of that name, or was set by
    hand. Kafka resets such a consumer when it comes back. Either commit can be the position once the
    transaction of a pending one ends, so the lower one counts.
    """
    for reader in readers:
        other_topic = isinstance(reader.topic_id, str) and reader.topic_id != log.topic_id
        if not reader.without_commit and (reader.committed > log.high_watermark or other_topic):
            yield replace(reader, committed=log.log_start, foreign_commit=reader.committed)
        elif reader.pending is not None:
            pending = log.log_start if reader.pending.committed is None else reader.pending.committed
            yield replace(reader, committed=min(reader.committed, pending))
        else:
            yield reader


def external_positions(snapshot: ClusterSnapshot, log: Log) -> Iterator[ConsumerPosition]:
    """Yield where each reader of a partition stands that a manifest declares. Raises BlockReason for Unknown.

    It stands at the log start without an entry, and with one above the end, which is of another log.
    """
    for reader, position in external_readers(snapshot, log.partition.topic):
        if isinstance(position, Unknown):
            reason = f"{reader.name} reads {log.partition.topic}, and its position is not known: {position.reason}"
            raise BlockReason("B218", reason, unread=True)
        offset = position.offsets.get(log.partition)
        is_true = offset is not None and offset <= log.high_watermark
        yield ConsumerPosition(
            group=reader.name,
            committed=offset if offset is not None and is_true else log.log_start,
            without_commit=offset is None,
            foreign_commit=None if is_true else offset,
            written_at_ms=position.written_at_ms,
        )


def external_readers(
    snapshot: ClusterSnapshot, topic: str
) -> Iterator[tuple[ExternalReaderRequest, ExternalPosition | Unknown]]:
    """Yield the external readers of a topic with their positions: its manifest names it, or its position does."""
    for reader, position in snapshot.external.items():
        if reader.selects(topic) or (isinstance(position, ExternalPosition) and topic in position.topics):
            yield reader, position


def name_consumer(position: ConsumerPosition) -> str:
    """Return what messages call a group or an external reader, whose names are apart."""
    return f"group {quoted(position.group)}" if position.written_at_ms is None else display_name(position.group)


def describe_move(written_at_ms: int, observed_at_ms: int) -> str:
    """Return since when an external reader has not moved, after `it`: by its own clock, which may be wrong."""
    if doubt := doubt_age(written_at_ms, observed_at_ms):
        return f"{doubt}, so since when it has not moved is not known"
    return f"has not moved since {format_time(written_at_ms)}"


def describe_pending(reader: ConsumerPosition) -> str:
    """Return which transaction a position of `verified_positions` rests on; empty: on none."""
    if reader.pending is None or reader.foreign_commit is not None:
        return ""
    if not reader.without_commit and reader.pending.committed not in (None, reader.committed):
        return ""
    return f"; it has a commit in or behind an open transaction of __consumer_offsets[{reader.pending.log_partition}]"


def undeclared_syncs(snapshot: ClusterSnapshot) -> list[str]:
    """Return the topics of offset syncs of MirrorMaker 2 that no external reader names (KIP-382)."""
    declared = {reader.at for reader in snapshot.external}
    return [topic for topic in sorted(snapshot.topics) if _MIRROR_MAKER.fullmatch(topic) and topic not in declared]


def traces_of_unlisted_readers(snapshot: ClusterSnapshot) -> list[str]:
    """Return topics and groups of programs that may read without a consumer group.

    MirrorMaker 2 keeps the offset syncs of a target on the source cluster (KIP-382). Kafka Connect has
    three topics of one beginning, and a group of its workers. A topic that an external reader names is
    no trace.
    """
    connect: defaultdict[str, dict[str, str]] = defaultdict(dict)
    traces = undeclared_syncs(snapshot)
    for topic in sorted(snapshot.topics):
        if match := _CONNECT_TOPIC.fullmatch(topic):
            connect[match[1]][match[2]] = topic
    traces += [of_worker["offset"] for of_worker in connect.values() if len(of_worker) == 3]
    workers = (name for name, group in snapshot.groups.items() if group.type is GroupType.CONNECT)
    return [*traces, *map(quoted, sorted(workers))]
