"""Why a subject is blocked: one stable code each, with what it means and what to do. `explain CODE` and the docs read this table.

B1: any kind. B2: retention floors. B3: group removals. A code keeps its meaning for ever; a new meaning is a new code.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """A code's title and the paragraph that `explain` prints."""

    title: str
    explanation: str


REASONS: Mapping[str, Reason] = {
    "B101": Reason(
        "no such topic",
        "A manifest names a topic exactly, and the cluster did not list it. It may be misspelt, it may have been deleted, or this "
        "principal may not describe it: to a client these look the same. Nothing is done about it. Correct the name, create the "
        "topic, grant DESCRIBE on it, or remove it from the manifest.",
    ),
    "B102": Reason(
        "no such partition",
        "A manifest names a partition number that the topic does not have. Numbers begin at 0, so a topic with three partitions "
        "has 0, 1 and 2. Correct the number, or remove it.",
    ),
    "B103": Reason(
        "a fact could not be read",
        "The decision needs a fact that this scan could not read, because a broker was away, a right is missing or an answer was "
        "an error. A missing value is never taken for zero, so the subject stays as it is. `doctor` tells which rights are "
        "missing; otherwise wait until all brokers are up, and plan again.",
    ),
    "B104": Reason(
        "facts contradict each other",
        "Two facts of one scan cannot both be true, such as an offset below zero. Clients answer with such numbers where they know "
        "nothing. Plan again; if it stays, compare with Kafka's own tools before trusting either.",
    ),
    "B105": Reason(
        "two policies claim the subject",
        "Two policies of one kind select the same topic, partition or group, so nobody has said which of them is right, and neither "
        "is carried out there. Policies that this run was not asked to carry out count as well. Name the subject under "
        "exceptTopics or exceptGroups of all but one of them.",
    ),
    "B106": Reason(
        "protected by the Cluster manifest",
        "The Cluster manifest lists the subject under protect: its topics lose no records and its groups are not removed, whatever "
        "a policy says. Take it out of the policy, or change protect in a reviewed change of its own.",
    ),
    "B107": Reason(
        "more matches than expected",
        "The policy's selectors match more than its expectAtMost allows, so nothing of the policy is done, not even in part: a "
        "pattern that suddenly means more is the usual way to lose data. Narrow the selectors, or raise expectAtMost.",
    ),
    "B108": Reason(
        "beyond review",
        "The plan was made --within a reviewed plan, and this action is new, larger or rests on other facts than the reviewed one. "
        "Only what was reviewed is done. The rest comes with the next reviewed plan or, for policies in mode continuous, with the "
        "next converge.",
    ),
    "B201": Reason(
        "a system topic",
        "Topics that belong to Kafka itself (internal ones, and all whose name starts with __) and the journal of this tool never "
        "lose records to a floor. Truncating the metadata of tiered storage, for one, destroys a cluster's data. Take the topic "
        "out of the policy.",
    ),
    "B202": Reason(
        "the cleanup policy does not delete",
        "Brokers refuse to delete records of a topic whose cleanup.policy does not contain delete, since a compacted topic "
        "promises to keep the newest record of each key. Take the topic out of the policy, or change its cleanup.policy.",
    ),
    "B203": Reason(
        "no leader",
        "Only a partition's leader deletes records, and this partition has none. Bring one of its replicas back, then plan again.",
    ),
    "B204": Reason(
        "another group is behind the floor",
        "A consumer group has not yet read what the floor would remove, and would silently skip those records. Let it catch up; or "
        "say consumers: clamp, which lowers the floor to the slowest group; or name the group in exceptGroups if its position does "
        "not matter; or say consumers: ignore to let every group skip. A dead group holds a floor back until it is removed or "
        "its offsets expire.",
    ),
    "B205": Reason(
        "a group of unreadBy has no position",
        "The floor keeps what a named group has not read, and that group has no committed offset on this partition. A missing "
        "group is not one that has read everything, so nothing goes. Let it commit, correct its name, or take it out of unreadBy.",
    ),
    "B206": Reason(
        "a group of unreadBy has committed beyond the end",
        "Brokers accept any offset as a commit. One above the high watermark cannot have been read from this topic as it is now: "
        "it was set by hand, or dates from before the topic was made again. Reset the group's offsets, or let it commit again.",
    ),
    "B207": Reason(
        "a group of unreadBy has committed for another incarnation of the topic",
        "Commits outlive a topic that is deleted and made again under the same name. The commit log tells for which topic id a "
        "commit was made, and it is not this topic's. Let the group commit on the new topic.",
    ),
    "B208": Reason(
        "fromOffset is above the end",
        "An offset that the partition has not reached was meant for another topic or another time. It is never lowered on its own. "
        "Correct it.",
    ),
    "B209": Reason(
        "the topic is another incarnation than the manifest pins",
        "The manifest's offsets were read from the topic with the id under topicId, and the topic of that name has another id: it "
        "was deleted and made again. Read the offsets anew and correct topicId.",
    ),
    "B210": Reason(
        "since lies in the future",
        "A floor at an instant that has not come would keep nothing of what is there now. Name an instant that has passed, or use "
        "newerThan.",
    ),
    "B211": Reason(
        "a group whose position cannot be read",
        "The cluster holds a share, streams or connect group, one whose type it does not tell, or one that it does not list (hidden, "
        "or made while the scan was running). Clients cannot read where such a group stands, so nobody knows what it would miss. If it "
        "does not read this topic, name it in exceptGroups; if it has just been made, plan again.",
    ),
    "B212": Reason(
        "not every group is known",
        "The list of groups, or some group's commits, could not be read in full. Brokers silently leave out what a principal may "
        "not describe, so the slowest group that is visible may not be the slowest one. Grant DESCRIBE on the cluster and on all "
        "groups; `doctor` tells what is missing.",
    ),
    "B213": Reason(
        "readers were not looked for up to the floor",
        "The scan brought back readers below a certain offset only, and the floor lies above it, so a reader in between would go "
        "unnoticed. Let the scan look at readers up to the end.",
    ),
    "B301": Reason(
        "absence is not proven",
        "The manifest names a group that the cluster did not list, but the list is incomplete, or the commit log still holds something "
        "living of the group: missing rights make a group look absent. Already gone is only said where the list is provably complete. "
        "Grant DESCRIBE on the cluster and on the group.",
    ),
    "B302": Reason(
        "a group of another type",
        "Only groups of the types under types are removed, classic and consumer at most. Share, streams and connect groups never "
        "are: deleting one succeeds just as easily and takes the positions of a running application with it.",
    ),
    "B303": Reason(
        "the group is in use",
        "Only EMPTY groups are removed, and this one has members. Stop them first, or take the group out of the policy.",
    ),
    "B304": Reason(
        "the group was active recently",
        "The commit log holds a commit or another record of the group that is younger than idleFor. A consumer that assigns its own "
        "partitions looks EMPTY while it works, so being EMPTY alone is not enough. Wait, or find out who uses it.",
    ),
    "B305": Reason(
        "no evidence was asked for, by a pattern",
        "idleFor: 0s gives up the evidence that a group is idle, which is for exact names only: whoever writes a pattern cannot "
        "have looked at each group that it will ever match.",
    ),
    "B306": Reason(
        "another policy waits for the group's position",
        "A retention floor of the same manifests names the group under unreadBy: whatever the group has not committed past stays. "
        "Without the group that floor would never purge again, since a missing group is not one that has read everything. Take the "
        "group out of unreadBy first, or name it under exceptGroups of the removal.",
    ),
}
