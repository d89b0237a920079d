"""Checks that policies and the recheck share: facts that must be known, topics, partitions and consumers.

A check raises SubjectBlocked, or returns why a subject is blocked. Which subjects an operation may
act on is decided in the policies and in the operation.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Self, TypeVar

from reconciler.model.block_reason import BlockReason, quote_group, unknown_fact
from reconciler.model.names import TopicPartition
from reconciler.model.selector import Selector
from reconciler.model.snapshot import (
    ClusterSnapshot,
    ConsumerPosition,
    GroupType,
    PartitionFacts,
    TopicFacts,
    Unknown,
)
from reconciler.text.formatting import count
from reconciler.text.suggest import did_you_mean

T = TypeVar("T")

_MAX_NAMES = 2_000
"""Among more names no nearest one is looked for: a hint must not cost minutes on a large cluster."""
_READABLE = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})
"""Types whose positions a client can read. Share groups answer `[]` without an error: that is not "no position"."""

GroupExcluder = Callable[[str], bool]


class SubjectBlocked(Exception):
    """A subject does not pass a check. A plan blocks it; the recheck ends its action."""

    def __init__(self, block: BlockReason) -> None:
        super().__init__(block.reason)
        self.block = block

    @classmethod
    def because(cls, code: str, reason: str, *, next_step: str = "", unread: bool = False) -> Self:
        """Return the exception for a block code; the arguments are those of `BlockReason.of`."""
        return cls(BlockReason.of(code, reason, next_step=next_step, unread=unread))


def known(fact: T | Unknown, what: str, subject: object = "") -> T:
    """Return a fact that was read. Raises SubjectBlocked; `what` and `subject` name the fact in the reason."""
    if isinstance(fact, Unknown):
        raise SubjectBlocked(unknown_fact(f"{what} {subject}".rstrip(), fact))
    return fact


# --- topics and partitions


def suggestion(word: str, names: Collection[str]) -> str:
    """Return `; did you mean …`, or nothing."""
    nearest = did_you_mean(word, names) if len(names) < _MAX_NAMES else None
    return f'; did you mean "{nearest}"?' if nearest else ""


def listed_topic(topic: str, snapshot: ClusterSnapshot) -> TopicFacts:
    """Return the facts of a topic. A topic that the principal may not describe looks like one that is not there."""
    facts = snapshot.topics.get(topic)
    if facts is not None:
        return facts
    hidden = snapshot.topics_incomplete
    why = "not on the cluster, or hidden from this principal" if hidden is None else f"not listed: {hidden.reason}"
    raise SubjectBlocked.because(
        "B101", f"topic {topic} is {why}{suggestion(topic, snapshot.topics)}", unread=hidden is not None
    )


def missing_partition(partition: TopicPartition, partitions: int) -> BlockReason:
    """Return the block of a partition number beyond the last one."""
    return BlockReason.of(
        "B102", f"{partition.topic} has {count(partitions, 'partition')}, so none with number {partition.partition}"
    )


def system_topic_block(facts: TopicFacts) -> BlockReason | None:
    """Return the block of Kafka's own topics: no name and no pattern makes them lose records."""
    if not facts.internal and not facts.name.startswith("__"):
        return None
    return BlockReason.of(
        "B201", f"{facts.name} belongs to Kafka itself: losing records of it can destroy a cluster's state"
    )


def check_records_deletable(facts: TopicFacts) -> None:
    """Raise SubjectBlocked for Kafka's own topics and where the cleanup policy does not delete.

    Brokers delete no records of compacted topics (KIP-107: POLICY_VIOLATION).
    """
    if (block := system_topic_block(facts)) is not None:
        raise SubjectBlocked(block)
    policy = known(facts.cleanup_policy, "the cleanup policy of", facts.name)
    if "delete" not in policy:
        raise SubjectBlocked.because(
            "B202",
            f"cleanup.policy of {facts.name} is {','.join(sorted(policy)) or 'empty'}: brokers delete no records of it",
        )


# --- consumers: which groups count, when all of them are known, and when a commit proves what its group has read


def group_excluder(selectors: Iterable[Selector]) -> GroupExcluder:
    """Return whether selectors match a group. Answers are remembered: each group is asked once per partition."""
    selectors = tuple(selectors)
    answers: dict[str, bool] = {}

    def is_excluded(group: str) -> bool:
        if group not in answers:
            answers[group] = any(selector.matches(group) for selector in selectors)
        return answers[group]

    return is_excluded


def unknown_consumers(snapshot: ClusterSnapshot, is_excluded: GroupExcluder) -> BlockReason | None:
    """Return why a group may read that this scan does not know; None: all groups are accounted for."""
    for what, incomplete in (
        ("the list of groups is incomplete", snapshot.groups_incomplete),
        ("the commits of all groups could not be read", snapshot.readers_incomplete),
    ):
        if incomplete is not None:
            return BlockReason.of(
                "B212", f"{what}: {incomplete.reason}, so nobody knows whom a purge would hurt", unread=True
            )
    # Not listed: hidden, or created since the listing. The commits of such a group were not read, whatever its type.
    unreadable = [
        (name, group.type)
        for name, group in sorted(snapshot.groups.items())
        if not (group.listed and group.type in _READABLE) and not is_excluded(name)
    ]
    for name, type_ in unreadable:
        if isinstance(type_, Unknown):
            return unknown_fact(f"the type of group {quote_group(name)}", type_)
    if not unreadable:
        return None
    name, type_ = unreadable[0]
    if type_ is GroupType.HIDDEN:
        kind = "a group of a type that is not told"
    elif type_ in _READABLE:
        kind = "a group that is not listed, though the cluster holds something of it"
    else:
        kind = f"a {type_} group"
    more = f" (and {len(unreadable) - 1} more)" if len(unreadable) > 1 else ""
    return BlockReason.of(
        "B211",
        f"{quote_group(name)}{more} is {kind}, whose position cannot be read, so nobody knows what it would miss",
    )


def verified_offset(
    group: str, reader: ConsumerPosition | None, facts: PartitionFacts, topic_id: str, high_watermark: int
) -> int:
    """Return the offset below which `group` has read everything. Raises SubjectBlocked where no commit proves one.

    Commits outlive a topic that is deleted and created again, and the broker takes any number: a
    position above the end, or one that was committed for another topic id, proves nothing.
    """

    def has(what: str) -> str:
        return f"group {quote_group(group)} of unreadBy has {what}"

    if reader is None or reader.implied or reader.committed < 0:
        raise SubjectBlocked.because("B205", has(f"no committed position on {facts.partition}"))
    if reader.committed > high_watermark:
        raise SubjectBlocked.because("B206", has(f"committed {reader.committed}, above the end {high_watermark}"))
    if isinstance(reader.topic_id, Unknown):
        raise SubjectBlocked(unknown_fact(f"for which topic {has('committed')}", reader.topic_id))
    if reader.topic_id not in (None, topic_id):
        now = f"and {facts.partition.topic} is {topic_id} by now"
        committed = f"committed {reader.committed} for topic id {reader.topic_id}"
        raise SubjectBlocked.because("B207", has(f"{committed}, {now}"))
    return reader.committed


def lagging(
    readers: Iterable[ConsumerPosition], before_offset: int, named: Collection[str]
) -> tuple[ConsumerPosition, ...]:
    """Return the readers that would skip records below `before_offset`. `named`: groups that are judged on their own."""
    return tuple(reader for reader in readers if reader.committed < before_offset and reader.group not in named)
