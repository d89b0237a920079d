"""Who would lose unread records: the guard of purges, asked when planning and again before sending.

Here: which groups count, when their positions count as known, and when a commit proves that its group has read something.
Not here: what a policy does about a group that is behind (kinds/retention_floor.py) or what recheck does (plan/recheck.py).
"""

from collections.abc import Callable, Iterable

from reconciler.model.block_reason import BlockReason, quote_group, unknown_fact
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot, ConsumerPosition, GroupFacts, GroupType, PartitionFacts, Unknown

_READABLE = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})
"""Types whose positions are offsets that a client can read. Share groups answer `[]` without an error, which is not "no position"."""

GroupExcluder = Callable[[str], bool]


def group_excluder(selectors: Iterable[Selector]) -> GroupExcluder:
    """Whether a group is one of those that are not looked at; remembers its answers, since it is asked once per reader."""
    selectors = tuple(selectors)
    known: dict[str, bool] = {}

    def excepted(group: str) -> bool:
        if group not in known:
            known[group] = any(selector.matches(group) for selector in selectors)
        return known[group]

    return excepted


def unknown_consumers(snapshot: ClusterSnapshot, excepted: GroupExcluder) -> BlockReason | None:
    """Why nobody can say who reads; None: every group that the cluster may hold is accounted for."""
    if snapshot.groups_incomplete is not None:
        return _unseen(f"the list of groups is incomplete: {snapshot.groups_incomplete.reason}")
    if snapshot.readers_incomplete is not None:
        return _unseen(f"the commits of all groups could not be read: {snapshot.readers_incomplete.reason}")
    hidden = []
    for name, group in sorted(snapshot.groups.items()):
        # not listed: hidden, or made since the listing; the commits of such a group were not read, whatever its type
        if (group.listed and group.type in _READABLE) or excepted(name):
            continue
        if isinstance(group.type, Unknown):
            return unknown_fact(f"the type of group {quote_group(name)}", group.type)
        hidden.append((name, group))
    if not hidden:
        return None
    name, first = hidden[0]
    more = f" (and {len(hidden) - 1} more)" if len(hidden) > 1 else ""
    return BlockReason(
        code="B211",
        reason=f"{quote_group(name)}{more} is {_sort(first)}, whose position cannot be read, so nobody knows what it would miss",
        next_step="if it does not read this topic, name it in exceptGroups",
    )


def _sort(group: GroupFacts) -> str:
    if group.type is GroupType.HIDDEN:
        return "a group of a type that is not told"
    if group.type in _READABLE:
        return "a group that is not listed, though the cluster holds something of it"
    return f"a {group.type} group"


def _unseen(why: str) -> BlockReason:
    return BlockReason(
        code="B212",
        reason=f"{why}, so nobody knows whom a purge would hurt",
        next_step="grant DESCRIBE on the cluster and on all groups (`doctor` tells which right is missing), then plan again",
        unread=True,
    )


def verified_offset(
    group: str, reader: ConsumerPosition | None, facts: PartitionFacts, topic_id: str, high_watermark: int
) -> int | BlockReason:
    """The offset below which `group` has read everything on this partition, or why its commit does not prove that.

    Commits outlive a topic that is deleted and made again, and the broker takes any number: a position above the end, or one
    made for another topic id, proves nothing.
    """
    if reader is None or reader.implied or reader.committed < 0:
        return BlockReason(
            code="B205",
            reason=f"group {quote_group(group)} of unreadBy has no committed position on {facts.partition}",
            next_step="let it commit one, or take it out of unreadBy: a missing group is not one that has read everything",
        )
    if reader.committed > high_watermark:
        return BlockReason(
            code="B206",
            reason=f"group {quote_group(group)} of unreadBy has committed {reader.committed}, above the end {high_watermark}",
            next_step="the commit is not of this topic as it is now: reset the group's offsets, or let it commit again",
        )
    if isinstance(reader.topic_id, Unknown):
        return unknown_fact(f"for which topic group {quote_group(group)} of unreadBy has committed", reader.topic_id)
    if reader.topic_id is not None and reader.topic_id != topic_id:
        return BlockReason(
            code="B207",
            reason=f"group {quote_group(group)} of unreadBy has committed {reader.committed} for topic id {reader.topic_id}, "
            f"and {facts.partition.topic} is {topic_id} by now",
            next_step="the topic was deleted and made again: let the group commit on the new one",
        )
    return reader.committed


def lagging(
    readers: Iterable[ConsumerPosition], before_offset: int, named: frozenset[str]
) -> tuple[ConsumerPosition, ...]:
    """The readers that would skip records if everything below `before_offset` went; groups of unreadBy are judged on their own."""
    return tuple(r for r in readers if r.committed < before_offset and r.group not in named)
