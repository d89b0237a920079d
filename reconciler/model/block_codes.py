"""The code of every blocked subject, with the texts of `explain CODE` and of the documents.

B1xx any policy, B2xx retention floors, B3xx group removals. A code keeps its meaning for ever; a
new meaning is a new code.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """A code's title, the paragraph that `explain` prints, and what a plan tells the reader to do next.

    `next_step` is empty where it depends on the subject.
    """

    title: str
    explanation: str
    next_step: str = ""


REASONS: Mapping[str, Reason] = {
    "B101": Reason(
        "no such topic",
        "A manifest names a topic exactly, and the cluster does not list it. The name may be misspelt, the topic may be deleted, or "
        "this principal may lack DESCRIBE on it: a client cannot tell these cases apart. Nothing happens to the topic. Correct the "
        "name, create the topic, grant DESCRIBE on it, or remove it from the manifest.",
        "correct the name, create the topic, or grant DESCRIBE on it",
    ),
    "B102": Reason(
        "no such partition",
        "A manifest names a partition number that the topic does not have. Numbers begin at 0: a topic with three partitions has 0, 1 "
        "and 2. Correct or remove the number.",
        "correct partitions; numbers begin at 0",
    ),
    "B103": Reason(
        "a fact could not be read",
        "The decision needs a fact that this scan could not read, because a broker was unavailable, a permission is missing or the "
        "response was an error. A missing value is never taken for zero, so the subject stays as it is. `doctor` lists missing "
        "permissions; otherwise wait until all brokers are up, and plan again.",
        "see that brokers are up and that the rights to read are there (`doctor` tells), then plan again",
    ),
    "B104": Reason(
        "facts contradict each other",
        "Two facts of one scan cannot both be true, such as an offset below zero. Clients return such numbers for values that they do "
        "not know. Plan again. If the contradiction stays, compare both facts with Kafka's own tools before you trust either.",
        "plan again; if it stays, compare with Kafka's own tools before trusting either",
    ),
    "B105": Reason(
        "two policies claim the subject",
        "Two policies of one kind select the same topic, partition or group. The tool cannot decide which of them is right, so neither "
        "acts on the subject. Policies outside the targets and modes of this run count as well. Name the subject under exceptTopics or "
        "exceptGroups of all policies but one.",
    ),
    "B106": Reason(
        "protected by the Cluster manifest",
        "The Cluster manifest lists the subject under protect. Protected topics lose no records and protected groups are not removed, "
        "whatever a policy says. Remove the subject from the policy, or change protect in a separate reviewed change.",
        "take it out of the policy, or out of protect in a reviewed change of its own",
    ),
    "B107": Reason(
        "more matches than expected",
        "The policy's selectors match more subjects than expectAtMost allows. No action of the policy is planned, because a pattern that "
        "suddenly matches more is a common way to lose data. Narrow the selectors, or raise expectAtMost.",
    ),
    "B108": Reason(
        "beyond review",
        "The plan was made --within a reviewed plan, and this action is new, is larger or depends on other facts than the reviewed one. "
        "Only reviewed actions are carried out. The next reviewed plan brings the others; for policies in mode continuous, the next "
        "converge does.",
        "it comes with the next reviewed plan",
    ),
    "B201": Reason(
        "a system topic",
        "Kafka's own topics (internal topics, and all topics whose name starts with __) and the journal of this tool never lose records "
        "to a floor. Truncating the metadata of tiered storage, for example, destroys the data of a cluster. Remove the topic from the "
        "policy.",
        "take it out of topics, or add it to exceptTopics",
    ),
    "B202": Reason(
        "the cleanup policy does not delete",
        "Brokers refuse to delete records of a topic whose cleanup.policy does not contain delete, because a compacted topic keeps the "
        "newest record of each key. Remove the topic from the policy, or change its cleanup.policy.",
        "take it out of topics, or give it a cleanup.policy that deletes",
    ),
    "B203": Reason(
        "no leader",
        "Only the leader of a partition deletes records, and this partition has no leader. Start one of its replicas, then plan again.",
        "bring a replica of it back, then plan again",
    ),
    "B204": Reason(
        "another group is behind the floor",
        "A consumer group has not read all records below the floor, and would silently skip them. Wait until the group has read them; or "
        "set consumers: clamp, which lowers the floor to the slowest group; or name the group in exceptGroups if its position does not "
        "matter; or set consumers: ignore, which lets every group skip records. An unused group holds a floor back until the group is "
        "removed or its offsets expire.",
        "let it catch up, say consumers: clamp, or name it in exceptGroups",
    ),
    "B205": Reason(
        "a group of unreadBy has no position",
        "The floor keeps the records that a named group has not read, and the group has no committed offset on this partition. A missing "
        "position does not prove that the group has read everything, so no record is deleted. Let the group commit, correct its name, "
        "or remove it from unreadBy.",
        "let it commit one, or take it out of unreadBy: a missing group is not one that has read everything",
    ),
    "B206": Reason(
        "a group of unreadBy has committed beyond the end",
        "Brokers accept any offset as a commit. A group cannot have read past the high watermark of this topic: the offset was set by "
        "hand, or it is older than the topic. Reset the group's offsets, or let the group commit again.",
        "the commit is not of this topic as it is now: reset the group's offsets, or let it commit again",
    ),
    "B207": Reason(
        "a group of unreadBy has committed for another incarnation of the topic",
        "Commits survive the deletion of a topic. The commit log records the topic id of each commit, and this topic has another id: it "
        "was deleted and created again under the same name. Let the group commit on the new topic.",
        "the topic was deleted and made again: let the group commit on the new one",
    ),
    "B208": Reason(
        "fromOffset is above the end",
        "The partition has not reached the offset, so the offset was meant for another topic or another time. The tool never lowers it. "
        "Correct it.",
        "correct the offset; it is never lowered on its own",
    ),
    "B209": Reason(
        "the topic is not the incarnation that the manifest names",
        "The offsets of the manifest belong to the topic with the id under topicId. The topic of that name has another id: it was "
        "deleted and created again. Read the offsets again, and correct topicId.",
        "the topic was deleted and made again: read its offsets anew and correct topicId",
    ),
    "B210": Reason(
        "since is in the future",
        "A floor at a future instant would keep none of the present records. Name an instant in the past, or use newerThan.",
        "name an instant that has passed, or use newerThan",
    ),
    "B211": Reason(
        "a group whose position cannot be read",
        "The cluster holds a group without a position that a client can read: a share, streams or connect group, a group of unknown "
        "type, or a group that is not listed (hidden, or created during the scan). The records that it would miss are unknown. If it "
        "does not read this topic, name it in exceptGroups. If it was just created, plan again.",
        "if it does not read this topic, name it in exceptGroups",
    ),
    "B212": Reason(
        "not every group is known",
        "The list of groups, or the commits of a group, could not be read completely. Brokers silently omit groups that a principal may "
        "not describe, so a slower group may exist than the visible ones. Grant DESCRIBE on the cluster and on all groups; `doctor` "
        "lists what is missing.",
        "grant DESCRIBE on the cluster and on all groups (`doctor` tells which right is missing), then plan again",
    ),
    "B213": Reason(
        "the scan did not cover all consumer groups below the floor",
        "The scan returned only the consumer groups below a certain offset, and the floor is above it. A group between the two would be "
        "overlooked. Scan the groups up to the end of the partition.",
        "let the scan look at all readers up to the end, then plan again",
    ),
    "B301": Reason(
        "absence is not proven",
        "The manifest names a group that the cluster does not list, but the list is incomplete, or the commit log still holds records of "
        "the group. Missing permissions make a group look absent. The tool reports a group as gone only if the list is provably "
        "complete. Grant DESCRIBE on the cluster and on the group.",
        "grant DESCRIBE on the cluster and on the group (`doctor` tells which right is missing), then plan again",
    ),
    "B302": Reason(
        "a group of a type that is not removed",
        "Only groups of the listed types are removed, and only classic and consumer groups can be listed. Share, streams and connect "
        "groups are never removed: brokers delete them without objection, and a running application would lose its positions.",
        "take it out of groups",
    ),
    "B303": Reason(
        "the group is in use",
        "Only EMPTY groups are removed, and this group has members. Stop the members first, or remove the group from the policy.",
        "stop its members first, or take it out of groups",
    ),
    "B304": Reason(
        "the group was active recently",
        "The commit log holds a commit or another record of the group that is younger than idleFor. A group whose consumers assign their "
        "own partitions looks EMPTY while it works, so the state EMPTY is not enough. Wait, or find out which application uses the "
        "group.",
        "wait, or take it out of groups if something still uses it",
    ),
    "B305": Reason(
        "a pattern selects the group, and idleFor is 0s",
        "idleFor: 0s removes a group without evidence that it is idle. That is allowed for exact names only, because the author of a "
        "pattern cannot know all groups that it will ever match.",
        "name the group exactly, or ask for a time of idleness",
    ),
    "B306": Reason(
        "a retention floor needs the group's position",
        "A retention floor of the same manifests names the group under unreadBy, and keeps all records that the group has not read. "
        "Without the group, that floor would never delete records again. Remove the group from unreadBy first, or name it under "
        "exceptGroups of the removal.",
    ),
}
