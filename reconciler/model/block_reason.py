"""Reasons not to act on a subject, and their codes with the texts of `explain CODE`.

A subject that does not qualify is blocked where its exact name selected it, and skipped where a
pattern did; a fact that could not be read always blocks. B1xx any policy, B2xx retention floors,
B3xx group removals. A code keeps its meaning for ever; a new meaning is a new code. Each text begins with
the code, its origin unless that is the cluster, and the title.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Skipped
from reconciler.model.snapshot import Unknown


class BlockReason(Exception):
    """A reason not to act on a subject. Checks raise it; it blocks in plans and ends actions.

    `code`: a key of BLOCK_CODES, with a next step unless `next_step` says another. `unread`: a fact
    could not be read. `held_by`: the groups that hold the subject back, in order.
    """

    def __init__(
        self, code: str, reason: str, *, next_step: str = "", unread: bool = False, held_by: tuple[str, ...] = ()
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.next_step = next_step or BLOCK_CODES[code].next_step
        self.unread = unread
        self.held_by = held_by

    def blocked(self, address: Address, declared_at: SourceLocation) -> Blocked:
        """Return the decision that the subject may not or cannot be acted upon."""
        return Blocked(address=address, declared_at=declared_at, **vars(self))

    def blocked_or_skipped(self, address: Address, declared_at: SourceLocation, *, exact: bool) -> Blocked | Skipped:
        """Return that the subject does not qualify. `exact`: an exact name selected it."""
        if exact or self.unread:
            return self.blocked(address, declared_at)
        return Skipped(address=address, code=self.code, reason=self.reason)


SILENT = "B109"
"""The code of all that waits for a broker's answer: its subjects have one reason, and fold."""


def unknown_fact(what: str, fact: Unknown) -> BlockReason:
    """Return the reason that a needed fact is unknown. `what`: its name, such as `log start`."""
    if fact.silent:
        return BlockReason("B109", fact.reason, unread=True)
    return BlockReason("B103", f"{what} could not be read: {fact.reason}", unread=True)


def contradiction(what: str) -> BlockReason:
    """Return the reason that facts of one scan cannot all be true, such as an end below zero."""
    return BlockReason("B104", f"the scan contradicts itself: {what}")


class Origin(StrEnum):
    """Where a reason lies, which decides how `apply` ends an action that a new decision blocks.

    MANIFESTS: nobody asks for the action any more. UNREAD: another try may read what is missing.
    CLUSTER: the cluster changed since the plan.
    """

    MANIFESTS = "manifests"
    UNREAD = "unread"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class BlockCode:
    """A code's title, its cause, and what to do next; empty where that depends on the subject."""

    title: str
    cause: str
    next_step: str
    origin: Origin

    @property
    def explanation(self) -> str:
        """The paragraph of `explain`: the cause and the next step."""
        return f"{self.cause} {self.next_step[0].upper()}{self.next_step[1:]}." if self.next_step else self.cause


_TEXTS = """\
B101 no such topic
    A manifest names a topic exactly, and the cluster does not list it. The name may be misspelt,
    the topic may be deleted, or this principal may lack DESCRIBE on it: a client cannot tell these
    cases apart. Nothing happens to the topic.
    Next: correct the name, create the topic, or grant DESCRIBE on it
B102 no such partition
    A manifest names a partition number that the topic does not have. A topic with three partitions
    has 0, 1 and 2.
    Next: correct partitions; numbers begin at 0
B103 (unread) a fact could not be read
    The decision needs a fact that this scan could not read, because a broker was unavailable, a
    permission is missing or the response was an error. A missing value is never taken for zero, so
    the subject stays as it is.
    Next: see that all brokers are up and that no right to read is missing (`doctor` lists them),
    then plan again
B104 (unread) facts contradict each other
    Two facts of one scan cannot both be true, such as an offset below zero. Clients return such
    numbers for values that they do not know.
    Next: plan again; if it stays, compare with Kafka's own tools before trusting either
B105 (manifests) two policies claim the subject
    Two policies of one kind select the same topic, partition or group. The tool cannot decide which
    of them is right, so neither acts on the subject. Policies outside the targets and modes of this
    run count as well. Name the subject under exceptTopics or exceptGroups of all policies but one.
B106 (manifests) protected by the Cluster manifest
    The Cluster manifest lists the subject under protect. No policy deletes records of protected
    topics or removes protected groups.
    Next: remove it from the policy, or from protect in a separate reviewed change
B107 (manifests) more matches than expected
    The policy's selectors match more subjects than expectAtMost allows. No action of the policy is
    planned, because a pattern that suddenly matches more is a common way to lose data. Narrow the
    selectors, or raise expectAtMost.
B108 beyond review
    The plan was made --within a reviewed plan, and this action is new, is larger or depends on
    other facts than the reviewed one. Only reviewed actions are carried out.
    Next: wait for the next reviewed plan, or for the next converge in mode continuous
B109 (unread) a broker did not answer
    The decision needs a fact that only this broker has, and the broker sent no answer in time: its
    process may be stopped or overloaded, or the network does not reach it. No right is missing, as a
    refusal would be an answer. Once another replica leads its partitions, they can be read again.
    Next: see why the broker is silent, then plan again
B201 (manifests) a system topic
    Kafka's own topics (internal topics, and all topics whose name starts with __) and the journal
    of this tool never lose records to a floor. Truncating the metadata of tiered storage, for
    example, destroys the data of a cluster.
    Next: remove it from topics, or add it to exceptTopics
B202 the cleanup policy does not delete
    Brokers refuse to delete records of a topic whose cleanup.policy does not contain delete,
    because a compacted topic keeps the newest record of each key.
    Next: remove it from topics, or give it a cleanup.policy that deletes
B203 (unread) no leader
    Only the leader of a partition deletes records, and this partition has no leader.
    Next: start one of its replicas, then plan again
B204 another group is behind the floor
    A consumer group has not read all records below the floor, and would silently skip them. A group
    whose members have not committed yet, or whose commit lies above the end of the log, stands at
    the log start.
    consumers: clamp lowers the floor to the slowest group. exceptGroups names groups whose position
    does not matter, and consumers: ignore lets every group skip records. An unused group holds a
    floor back until the group is removed or its offsets expire.
    Next: let it catch up, say consumers: clamp, or name it in exceptGroups
B205 a group of unreadBy has no position
    The floor keeps the records that a named group has not read, and the group has no committed
    offset on this partition. A missing position does not prove that the group has read everything,
    so no record is deleted.
    Next: let the group commit, correct its name, or remove it from unreadBy
B206 a group of unreadBy has committed beyond the end
    Brokers accept any offset as a commit. A group cannot have read past the high watermark of this
    topic: the offset was set by hand, or it is older than the topic.
    Next: reset the group's offsets, or let it commit again
B207 a group of unreadBy has committed for an earlier topic of the same name
    Commits survive the deletion of a topic. The commit log records the topic id of each commit, and
    this topic has another id: it was deleted and created again under the same name.
    Next: let the group commit on the new topic
B208 fromOffset is above the end
    The partition has not reached the offset, so the offset was meant for another topic or another
    time.
    Next: correct the offset; it is never lowered automatically
B209 the topic has another id than the manifest names
    The offsets of the manifest belong to the topic with the id under topicId. The topic of that
    name has another id: it was deleted and created again.
    Next: read the offsets of the new topic, then correct the offsets and topicId
B210 (manifests) since is in the future
    A floor at a future instant would keep none of the present records.
    Next: name an instant that has passed, or use newerThan
B211 a group whose position cannot be read
    The cluster holds a group without a position that a client can read: a share group, a group of
    unknown type, or a group that is not listed (hidden, or created during the scan). The records
    that it would miss are unknown. If it was just created, plan again.
    Next: if it does not read this topic, name it in exceptGroups
B212 not every group is known
    The list of groups, or what a group reads, could not be read completely. Brokers silently omit
    groups that a principal may not describe, so a slower group may exist than the visible ones. What
    a group reads is also unknown while it rebalances, and before the first commit of a Streams
    group: plan again later.
    Next: see that all brokers are up, and that DESCRIBE on the cluster and on all groups is granted
    (`doctor` tells which right is missing), then plan again
B213 the scan did not cover all consumer groups below the floor
    The scan returned only the consumer groups below a certain offset, and the floor is above it. A
    group between the two would be overlooked.
    Next: scan the groups up to the end of the partition, then plan again
B214 (manifests) a pattern selects a compacted topic
    The topic is compacted. Such topics are changelogs, and what restores a state from them has no
    consumer group. Only an exact name may truncate one.
    Next: name it exactly in topics if its oldest records may go
B301 absence is not proven
    The manifest names a group that the cluster does not list, but the list is incomplete, or the
    commit log still holds records of the group. Missing permissions make a group look absent. The
    tool reports a group as gone only if the list is provably complete.
    Next: see that all brokers are up, and that DESCRIBE on the cluster and on the group is granted
    (`doctor` tells which right is missing), then plan again
B302 (manifests) a group of a type that is not removed
    Only groups of the listed types are removed, and only classic and consumer groups can be listed.
    Share, streams and connect groups are never removed: brokers delete them without objection, and
    a running application would lose its positions.
    Next: remove it from groups
B303 the group is in use
    Only EMPTY groups are removed, and this group has members.
    Next: stop its members first, or remove it from groups
B304 the group was active recently
    The commit log holds a commit or another record of the group that is younger than idleFor. A
    group whose consumers assign their own partitions looks EMPTY while it works, so the state EMPTY
    is not enough.
    Next: wait, or remove it from groups if an application still uses it
B305 (manifests) a pattern selects the group, and idleFor is 0s
    idleFor: 0s removes a group without evidence that it is idle. That is allowed for exact names
    only, because the author of a pattern cannot know all groups that it will ever match.
    Next: name the group exactly, or set idleFor above 0s
B306 (manifests) a retention floor needs the group's position
    A retention floor of the same manifests names the group under unreadBy, and keeps all records
    that the group has not read. Without the group, that floor would never delete records again.
    Remove the group from unreadBy first, or name it under exceptGroups of the removal.
"""


BLOCK_CODES: Mapping[str, BlockCode] = {
    code: BlockCode(title, cause, next_step, Origin(origin or Origin.CLUSTER))
    for code, origin, title, paragraph in re.findall(
        r"^(B\d{3}) (?:\((\w+)\) )?(.+)\n((?: .+\n)+)", _TEXTS, re.MULTILINE
    )
    for cause, _, next_step in [" ".join(paragraph.split()).partition(" Next: ")]
}
