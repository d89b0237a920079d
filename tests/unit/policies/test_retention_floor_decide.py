"""The decision of a floor for each partition: rules, consumers, purge interval, drift, and blocks."""

import re
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.plan import Blocked, Decision, Satisfied, Skipped, Waiting
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import (
    NO_COMMIT_YET,
    REBALANCING,
    ConsumerPosition,
    ExternalPosition,
    GroupFacts,
    GroupState,
    GroupType,
    KeptForever,
    PartitionFacts,
    PendingCommit,
    TopicFacts,
    Unknown,
)
from reconciler.operations.consumers import group_excluder
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy
from reconciler.policies import base
from reconciler.text.escape import quoted
from reconciler.text.formatting import format_instant
from tests.golden.wording import mentions
from tests.strategies.facts import (
    DAY,
    HOUR,
    LOST,
    MINUTE,
    NOW_MS,
    OTHER_ID,
    SECOND,
    TOPIC_ID,
    external_reader,
    floor,
    group,
    partition,
    planned,
    reader,
    snapshot,
    topic,
)

ADDRESS, PLACE = Address("RetentionFloor", "gdpr", "orders", 0), SourceLocation("manifests/floors.yaml", 9, 1)


def decide_partition(keep: Mapping[str, Any], *facts: Any, **spec: Any) -> Decision:
    """Return the decision on orders[0]."""
    changes = {
        key: spec.pop(key)
        for key in ("groups_incomplete", "readers_incomplete", "topics_incomplete", "transactions_hidden", "external")
        if key in spec
    }
    (decision,) = planned(floor(keep=keep, **spec), snapshot(*facts, **changes)).decisions
    return decision


def acted(keep: Mapping[str, Any], *facts: Any, **spec: Any) -> DeleteRecords:
    decision = decide_partition(keep, *facts, **spec)
    assert isinstance(decision, DeleteRecords), decision
    return decision


def blocked(keep: Mapping[str, Any], *facts: Any, **spec: Any) -> Blocked:
    decision = decide_partition(keep, *facts, **spec)
    assert isinstance(decision, Blocked), decision
    return decision


def outcome(decision: Decision) -> int | str:
    """Return the target of a deletion, the code of a block (`?`: of unread facts), or the kind of decision."""
    if isinstance(decision, Blocked):
        return decision.code + "?" * decision.unread
    if isinstance(decision, Skipped):
        return f"Skipped {decision.code}"
    return decision.before_offset if isinstance(decision, DeleteRecords) else type(decision).__name__


def old(**facts: Any) -> PartitionFacts:
    """A partition of a hundred records, all older than a day."""
    return partition(**({"at": {DAY: 100}} | facts))


def read(*more: ConsumerPosition, log_start: int = 0, **committed: int) -> PartitionFacts:
    """Return such a partition with the positions of groups. `_` in a name means a hyphen."""
    named = (reader(name.replace("_", "-"), offset) for name, offset in committed.items())
    return old(log_start=log_start, readers=(*named, *more))


def unlisted(name: str = "carts", **facts: Any) -> GroupFacts:
    return group(name, listed=False, **facts)


def case(
    keep: Mapping[str, Any],
    *facts: Any,
    gives: int | str | Mapping[str, Any],
    says: str | tuple[str, ...] = (),
    step: str = "",
    unsaid: str = "",
    **spec: Any,
) -> Any:
    """Return the facts of orders[0], fields of the floor, and the decision that they give.

    `gives`: as `outcome` says, or fields of the action and its preconditions. `says`: what the
    reason mentions. `step`: what the next step of a block mentions, where it is not that of its code. `unsaid`:
    what neither of the two mentions.
    """
    words = (says,) if isinstance(says, str) else says
    return pytest.param(keep, facts, spec, gives, words, step, unsaid, id=f"{keep} {spec or ''} {gives}")


LAST = {"last": 60}
"""Its floor is 40."""
TEN, WEEK = {"last": 10}, {"newerThan": "7d"}
HOUR_AGO = "2026-11-21T09:00:00Z"
UNREAD, REVERSED = {"unreadBy": ["billing"]}, {"unreadBy": ["shipping", "billing"]}
SHARED_BILLING = unlisted("billing", type=GroupType.SHARE, may_read=frozenset())
BILLING, SHARE = group("billing"), unlisted(type=GroupType.SHARE)
NAMED = (BILLING, group("shipping"))
BLOCK, IGNORE, CLAMP = LagPolicy.BLOCK, LagPolicy.IGNORE, LagPolicy.CLAMP
STORED = {"fromOffset": {"0": 40}, "topicId": TOPIC_ID}
MANY = tuple(reader(f"e{number:04d}", 7) for number in range(1000))
THREE, TIE, SLOW = read(a=39, billing=5, c=40), read(b=25, a=25, c=30), read(log_start=10, b=25, a=5, c=40)
SKIPS, BELOW = (("a", 30), ("b", 15)), read(console_1=5, console_2=30, billing=20)
CLAMPS, IGNORES = {"consumers": "clamp"}, {"consumers": "ignore"}
CONSOLES, AUDIT = {"exceptGroups": ["console-*"]}, {"exceptGroups": ["audit"]}
GUARD = {"consumers": BLOCK, "except_groups": ("console-*",)}
LOSS = {"consumed_by_named": False}
BY_NAMED = {"consumed_by_named": True, "named": ("billing", "shipping"), "every_ms": 30 * SECOND, "consumers": BLOCK}
BY_SHIPPING = ("unreadBy", '"shipping"', "35")
NO_POSITION = read(reader("billing", 0, without_commit=True))
FIRST_COMMIT = read(reader("billing", 0, without_commit=True, pending=PendingCommit(20, 7)))
NEXT_COMMIT = read(reader("billing", 50, pending=PendingCommit(20, 7)))
LATER_COMMIT = reader("billing", 20, pending=PendingCommit(80, 7))
OTHER_LOG = "not an offset of this log"
DESCRIBE = Unknown("no DESCRIBE on the cluster")
COMPACTED = topic(cleanup_policy=frozenset({"compact", "delete"}))
NEGATIVE = ("orders[0]", "log start -1001", "end 100", "high watermark 100")
BEYOND_LSO = {"log_start": 60, "last_stable_offset": 50}
"""A purge may go beyond an open transaction; then the last stable offset is below the log start."""
GUARDS_NOBODY = '"consumers: block" guards nobody here'


def week(now: int | Unknown | None, before: int | Unknown | None, **facts: Any) -> PartitionFacts:
    """Return a partition with the first offsets of seven days ago and of a day before that."""
    return partition(**({"at": {7 * DAY: now, 8 * DAY: before}} | facts))


def uncommitted(**facts: Any) -> PartitionFacts:
    """Return a partition with records above the last stable offset."""
    return old(high_watermark=120, **facts)


AHEAD = uncommitted(readers=(reader("billing", 110),))


def due(before: int | None, *readers: ConsumerPosition) -> PartitionFacts:
    """Return a partition that starts at 10, with the end of a day ago."""
    return partition(at={DAY: before}, log_start=10, readers=readers)


def of_topic(topic_id: str | Unknown | None) -> PartitionFacts:
    return old(readers=(reader("billing", 60, topic_id=topic_id),))


def shares(names: str) -> list[GroupFacts]:
    return [unlisted(name, type=GroupType.SHARE) for name in names]


def has(before_offset: int, **fields: Any) -> dict[str, Any]:
    """Return fields of an action and its preconditions."""
    return {"before_offset": before_offset, **fields}


def lag(**committed: int) -> tuple[AcceptedLag, ...]:
    return tuple(AcceptedLag(name.replace("_", "-"), offset) for name, offset in committed.items())


def consumed_by(*groups: str, **facts: Any) -> TopicFacts:
    return topic("orders", consumers=frozenset(groups), **facts)


NEXT_STEPS = {
    "B101": ("DESCRIBE",),
    "B102": ("partitions", "0"),
    "B103": ("`doctor`",),
    "B104": ("Kafka's own tools",),
    "B201": ("topics", "exceptTopics"),
    "B202": ("topics", "cleanup.policy"),
    "B203": ("replicas", "1,2,3"),
    "B204": ("consumers: clamp", "exceptGroups"),
    "B205": ("unreadBy",),
    "B206": ("reset",),
    "B207": ("commit on the new",),
    "B208": ("offset", "never lowered"),
    "B209": ("topicId",),
    "B211": ("exceptGroups",),
    "B212": ("DESCRIBE", "`doctor`"),
    "B213": ("scan", "groups"),
    "B216": (),
}
RULES: Iterable[Any] = [
    # The reason names the rule and its offset.
    # An answer at the last stable offset is not lowered.
    case(WEEK, week(100, 20, high_watermark=120), gives=100, unsaid="above the end"),
    # Every record is older: the end of the same scan, never -1 and never a later end.
    case(WEEK, week(None, None, high_watermark=150), gives=100, says=("newerThan 7d", "no record is younger", "100")),
    # Records above the last stable offset may still be rolled back, so they stay.
    case(WEEK, week(110, 20, high_watermark=120), gives=100, says=("newerThan 7d", "110", "100")),
    case(WEEK, week(41, 0, log_start=40), gives=41, says=("newerThan 7d", "41")),
    # The instant is fixed; the present instant is not in the future.
    case({"since": "2026-11-21T10:00:00Z"}, partition(at={0: 70}), gives=70, says=("since 2026-11-21T10:00:00Z", "70")),
    case({"since": HOUR_AGO}, partition(at={HOUR: None}), gives=100, says=(f"since {HOUR_AGO}", "100")),
    # `last` counts from the last stable offset, so records of open transactions stay, too.
    case({"last": 30}, old(high_watermark=120), gives=70, says=("last 30", "100", "70")),
    # Producers write between the two requests: the high watermark is at least the last stable offset.
    case(TEN, old(high_watermark=95), gives=90, says=("last 10", "100", "90")),
    case({"since": "1969-12-31T23:59:59Z"}, partition(at={NOW_MS: 3}), gives="B216"),
    # The offset was meant for another topic or another time: it is never lowered. The end is valid.
    case(
        {"fromOffset": {"0": 101}}, partition(high_watermark=100), gives="B208", says=("fromOffset", "101", "another")
    ),
    case({"fromOffset": {"0": 101}}, partition(high_watermark=200), gives="B208", says=("101", "100", "a transaction")),
    case({"fromOffset": {"0": 100}}, partition(high_watermark=200), gives=100),
    # Offsets of a topic that was created again mean nothing for the new topic.
    case(STORED, partition(), gives=40),
    case(STORED, partition(topic_id=OTHER_ID), gives="B209", says=("orders", OTHER_ID, TOPIC_ID)),
    # Nothing can go: no record is left below the floor.
    case(WEEK, week(40, 0, log_start=40), gives="Satisfied"),
    case({"last": 101}, old(), gives="Satisfied"),
    case(WEEK, week(None, None, **BEYOND_LSO), gives="Satisfied"),
    case({"fromOffset": {"0": 50}, "unreadBy": ["missing"]}, old(**BEYOND_LSO), gives="Satisfied"),
    case({"fromOffset": {"0": 51}}, old(**BEYOND_LSO), gives="B208"),
    # Of an empty partition nothing can go, but the offset was meant for other data.
    case({"fromOffset": {"0": 0}}, old(end=0), gives="Satisfied"),
    case({"fromOffset": {"0": 1}}, old(end=0, readers_below=0), gives="B208"),
    case(UNREAD, old(end=0), BILLING, gives="Satisfied"),
]
FACTS: Iterable[Any] = [
    # Negative offsets and missing replicas contradict; a missing leader says more than unread offsets.
    case(TEN, old(log_start=-1001), gives="B104", says=NEGATIVE),
    case(TEN, old(last_stable_offset=-1), gives="B104"),
    case(TEN, old(high_watermark=-1001), gives="B104"),
    case(WEEK, week(-1, 3), gives="B104", says=("offset -1", "orders[0]", "2026-11-14T10:00:00Z", "100")),
    case(TEN, old(replicas=()), gives="B104", says=("orders[0]", "replicas")),
    case(TEN, old(leader=None, log_start=LOST, replicas=(3, 1, 2)), gives="B203", says="orders[0]"),
    # An answer that the facts do not have is unread.
    case(WEEK, old(), gives="B103?"),
    # This holds for each fact that an action depends on; an unknown value is never zero.
    *(
        case(WEEK, week(40, 20, **{name: LOST}), gives="B103?", says=(what, LOST.reason), every="30s")
        for name, what in {
            "topic_id": "the topic id of orders[0]",
            "leader": "the leader of orders[0]",
            "replicas": "the replicas of orders[0]",
            "in_sync": "the in-sync replicas of orders[0]",
            "log_start": "the log start of orders[0]",
            "last_stable_offset": "the end of orders[0]",
            "high_watermark": "the high watermark of orders[0]",
            "readers": "the groups that read orders[0]",
            "readers_below": "the groups that read orders[0]",
            "last_purge": "when orders[0] was last purged",
        }.items()
    ),
    *(
        case(
            WEEK,
            week(now, before),
            gives="B103?",
            says=(f"the first offset of orders[0] at or after {at}", LOST.reason),
        )
        for now, before, at in ((LOST, 3, "2026-11-14T10:00:00Z"), (3, LOST, "2026-11-13T10:00:00Z"))
    ),
    # The scan would not have returned a consumer between the two offsets.
    case(TEN, old(readers_below=89), gives="B213?", says=("89", "90")),
    case(TEN, old(readers_below=90), gives=90),
    # Brokers delete records of such a topic, if its exact name is in the manifest.
    case(TEN, old(), COMPACTED, gives=90),
    case(TEN, topic(cleanup_policy=frozenset({"compact"})), gives="B202", says=("cleanup.policy", "orders", "compact")),
    case(TEN, topic(cleanup_policy=frozenset()), gives="B202", says=("cleanup.policy", "orders", "empty", "4.2")),
    case(TEN, topic(cleanup_policy=frozenset({"none", "compact"})), gives="B202", says="compact,none"),
    case(TEN, gives="B101?", says=("orders", LOST.reason), topics_incomplete=LOST),
    # The topic has one block, because its partitions are unknown.
    case(TEN, topic(partitions=LOST), gives="B103?", says=("partitions", "orders", LOST.reason)),
    # A mistyped name must not look like a topic in sync.
    case(TEN, topic("order"), gives="B101", says=("orders", '"order"')),
    # Numbers of partitions begin at 0.
    case(TEN, old(), gives="B102", says=("orders", "1 partition"), partitions=[1]),
]
GROUPS: Iterable[Any] = [
    # The slowest group is named, with its position and its number of records; the others are counted.
    case(LAST, THREE, BILLING, gives="B204", says=('"billing"', "5", "35 records", "40", "1 more")),
    case(LAST, read(*MANY, a=39, billing=5, d=6), gives="B204", says="1,002 more"),
    case(LAST, read(a=5), gives="B204", says="below 40"),
    case(LAST, read(a=5, b=6), gives="B204", says="1 more group is"),
    case(LAST, read(a=5, b=6, c=6), gives="B204", says="2 more groups are"),
    # The committed offset is the next offset that the group reads.
    case(LAST, read(billing=40), gives=40),
    case(LAST, read(billing=39), gives="B204"),
    # Records below the log start do not exist any more, whatever the group has committed.
    case(LAST, read(log_start=10, billing=3), gives="B204", says="30 records"),
    # It reads the topic, so it will read this partition from its start.
    case(LAST, NO_POSITION, gives="B204", says=('"billing"', "40 records", "has no position here")),
    # Of two groups at one offset the first by name is cited: the plan does not depend on the order.
    case(LAST, TIE, gives=has(25, accepted=()), says=("last 60", "40", "100", "25", '"a"'), **CLAMPS),
    # Without a slow group no clamp is named.
    case(LAST, read(a=40), gives=40, unsaid='"a"', **CLAMPS),
    # Each group is listed with its position, and apply accepts no earlier position.
    case(LAST, SLOW, gives=has(40, accepted=lag(a=5, b=25), skips=SKIPS, consumers=IGNORE), **IGNORES),
    # exceptGroups has selectors; the records that these groups skip are part of the impact.
    case(LAST, read(console_1=5, console_2=90), gives=has(40, **GUARD, accepted=lag(console_1=5)), **CONSOLES),
    case(LAST, read(console_1=5, console_2=90), gives="B204", exceptGroups=["console-2"]),
    # Excepted groups do not clamp, and skip no records at the clamped floor.
    case(LAST, BELOW, gives=has(20, accepted=lag(console_1=5), consumers=CLAMP), **CONSOLES, **CLAMPS),
    case(LAST, read(console_1=20, billing=20), gives=has(20, accepted=()), **CONSOLES, **CLAMPS),
    # The digest must not depend on the order of the manifest.
    case(LAST, old(), gives=has(40, except_groups=("a*", "z")), exceptGroups=["z", "a*"]),
    # The slowest visible group may not be the slowest group.
    *(
        case(LAST, old(), gives="B212?", says=(said, DESCRIBE.reason), consumers=consumers, **{which: DESCRIBE})
        for consumers in ("block", "clamp", "ignore")
        for which, said in (("groups_incomplete", "list of groups"), ("readers_incomplete", "commits"))
    ),
    case(LAST, old(), group("a"), group("b", type=GroupType.CONSUMER), gives=40),
    # One share group anywhere once blocked every floor. Without keys it may read anything.
    case(LAST, old(), unlisted(type=GroupType.SHARE, may_read=frozenset()), gives=40),
    # No record would be removed.
    case({"last": 100}, old(), gives="Satisfied", groups_incomplete=LOST),
    # Of several unknown groups the first by name is named, in any order. Excepted ones do not count.
    case(LAST, old(), *shares("bac"), gives="B211", says=('"a"', "1 more", "share"), exceptGroups=["c"]),
    case(LAST, old(), *shares("cab"), gives="B211", says=('"a"', "1 more", "share"), exceptGroups=["c"]),
    *(
        case(LAST, old(), *(unlisted(name, type=LOST) for name in names), gives="B103?", says=('"a"', "type"))
        for names in ("ba", "ab")
    ),
]
# Connect workers and schema registries have a group for their members, and never commit.
QUIET: Iterable[dict[str, Any]] = (
    {"type": GroupType.CONNECT},
    {"type": GroupType.OTHER},
    {"type": GroupType.CONNECT, "consumption_unread": LOST},
    # A group of the Streams protocol is not listed, and tells its commits.
    {"type": GroupType.STREAMS},
)
HERE, ELSEWHERE = {"may_read": frozenset({"orders"})}, {"may_read": frozenset({"clicks"})}
SHARE_HERE, SHARE_ELSEWHERE = (unlisted(type=GroupType.SHARE, **topics) for topics in (HERE, ELSEWHERE))
RESET, STREAMS_RESET = "reset its offsets, say consumers: clamp", "kafka-streams-application-reset.sh"
IN_USE = "let it catch up, say consumers: clamp, or name it in exceptGroups"
ADVICE: Iterable[Any] = [
    # A stopped connector keeps its offsets on purpose. The group with the longest name owns a topic of Streams.
    *(
        case(LAST, read(reader(name, 10)), group(name), *more, gives="B204", step=step, unsaid="remove it")
        for name, more, step in (
            ("connect-lake", (), "Connect's REST API"),
            ("my-app", (topic("my-app-store-changelog"),), STREAMS_RESET),
            ("my-app", (topic("my-app-by-key-repartition"), group("my")), STREAMS_RESET),
            ("counts", (group("counts", type=GroupType.STREAMS),), STREAMS_RESET),
        )
    ),
    *(
        case(LAST, read(reader(name, 10)), group(name), *more, gives="B204", step="or remove it if nothing uses it")
        for name, more in (
            ("my", (topic("my-app-store-changelog"), group("my-app"))),
            ("connect", ()),
            ("connect-", ()),
        )
    ),
    # Nor is a group proposed for removal beside one that keeps its offsets on purpose.
    case(
        LAST,
        read(a=10, connect_lake=20),
        group("a"),
        group("connect-lake"),
        gives="B204",
        step="let it catch up, say consumers: clamp, or name it in exceptGroups",
        unsaid="remove it",
    ),
    # The plan said `removing "billing" would unblock 1 partition` of a group in use. It also said to reset a Streams
    # application that runs, and to delete a connector that works.
    *(
        case(LAST, read(reader(name, 10)), group(name, state=state, type=type_), gives="B204", step=IN_USE)
        for state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE, LOST)
        for name, type_ in (
            ("billing", GroupType.CLASSIC),
            ("app", GroupType.STREAMS),
            ("connect-lake", GroupType.CLASSIC),
        )
    ),
    # Of a group without facts it is not known that it has stopped.
    case(LAST, read(connect_lake=10), gives="B204", step=IN_USE),
    # The plan said to let a group catch up at an offset of another log, which it never does: Kafka resets it once it
    # comes back.
    *(
        case(
            LAST,
            read(at),
            group(at.group, state=state),
            gives="B204",
            says=(said, str(at.committed), OTHER_LOG),
            **more,
        )
        for name, state, step in (
            ("billing", GroupState.STABLE, RESET),
            ("billing", GroupState.EMPTY, RESET),
            ("connect-lake", GroupState.EMPTY, "resume or delete the connector"),
        )
        for at in (reader(name, 101), reader(name, 50, topic_id=OTHER_ID))
        for said, more in (
            ("is at 0", {"step": step}),
            ("still needs everything from 0", {"step": "exceptGroups"} | CLAMPS),
        )
    ),
]
UNLISTED: Iterable[Any] = [
    # The slowest visible group may not be the slowest group, so it blocks unless it is excepted.
    *(
        case(LAST, old(), group("carts", **facts), gives=gives, says=('"carts"', *said), step=step, unsaid=unsaid)
        for facts, gives, said, step, unsaid in (
            # Share groups return an empty list of positions without an error.
            ({"type": GroupType.SHARE, "listed": False}, "B211", ("share",), "exceptGroups", ""),
            # What a group of an unknown type needs is not known: no one is told to except it.
            (
                {"type": GroupType.HIDDEN, "listed": False},
                "B211",
                ("type",),
                "plan again: it may be new",
                "exceptGroups",
            ),
            # Only `__consumer_offsets` has it: it is hidden, or was created during the scan, and its commits were not read.
            # Up to Kafka 3.9 also one whose removal could not be stored: planning again alone never helped.
            ({"type": GroupType.CLASSIC, "listed": False}, "B211", ("listed",), "restore-group", ""),
            ({"type": GroupType.CONSUMER, "listed": False}, "B211", ("listed",), "plan again", ""),
            ({"type": LOST}, "B103?", ("type",), "", ""),
            # A client with a protocol type of its own may commit: without an answer it counted as one that reads nothing.
            ({"type": GroupType.OTHER, "listed": False, "consumption_unread": LOST}, "B212?", (), "exceptGroups", ""),
            ({"type": GroupType.STREAMS, "listed": False, "consumption_unread": LOST}, "B212?", (), "exceptGroups", ""),
        )
    ),
    *(
        case(LAST, old(), unlisted(type=kind), gives=40, exceptGroups=["c*"])
        for kind in (GroupType.SHARE, GroupType.HIDDEN, GroupType.CLASSIC, GroupType.CONSUMER, LOST)
    ),
    *(
        case(LAST, old(), unlisted(type=kind, consumption_unread=LOST), gives=40, exceptGroups=["c*"])
        for kind in (GroupType.OTHER, GroupType.STREAMS)
    ),
    # Naming a share group of another topic in exceptGroups made limits refuse: unreadBy answered for nothing any more.
    *(
        case(UNREAD, read(billing=60), BILLING, SHARE_ELSEWHERE, gives=has(60, consumed_by_named=True), **excepts)
        for excepts in ({}, {"exceptGroups": ["carts"]})
    ),
    case(UNREAD, read(billing=60), BILLING, SHARE_HERE, gives=has(60, **LOSS), exceptGroups=["carts"]),
    *(
        case(LAST, old(), share, gives=gives, consumers=consumers)
        for share, gives in ((SHARE_ELSEWHERE, 40), (SHARE_HERE, "B211"))
        for consumers in ("block", "clamp", "ignore")
    ),
    # One consumer that was slow to rejoin blocked every floor of the cluster, for max.poll.interval.ms. So did an
    # application of Streams whose topics were empty, and a group of the new protocol one of whose members has no
    # partition to get.
    *(
        case(LAST, old(), group("slow", type=kind, consumption_unread=unread, **topics), gives=gives, step="plan again")
        for kind, unread in (
            (GroupType.CLASSIC, REBALANCING),
            (GroupType.CONSUMER, REBALANCING),
            (GroupType.STREAMS, NO_COMMIT_YET),
        )
        for topics, gives in ((ELSEWHERE, 40), (HERE, "B211?"), ({}, "B212?"))
    ),
    case(
        LAST,
        old(),
        group("slow", consumption_unread=Unknown("no right"), **ELSEWHERE),
        gives="B212?",
        step="plan again",
    ),
    *(case(LAST, old(), unlisted(**facts), gives=40) for facts in QUIET),
    *(case(LAST, read(carts=20), unlisted(**facts), gives="B204", says=('"carts"', "20")) for facts in QUIET),
    # It stays unlisted, whatever one waits for: the next step said to plan again.
    *(
        case(LAST, old(), unlisted("a\0b", type=kind), gives="B211", says=(r'"a\u0000b"', "null character"))
        for kind in (GroupType.STREAMS, GroupType.OTHER, GroupType.CLASSIC)
    ),
]
NAMED_GROUPS: Iterable[Any] = [
    # Records that all named groups have read may go; the interval is 30 s by default.
    case(REVERSED, read(billing=60, shipping=35), *NAMED, gives=has(35, **BY_NAMED), says=BY_SHIPPING),
    # A group that reads uncommitted records may be above the last stable offset; the reason has both.
    case(UNREAD, AHEAD, BILLING, gives=100, says=("unreadBy", '"billing"', "110", "100")),
    # Only under `block` is unreadBy an answer; else the record limits count the records.
    *(
        case(UNREAD, read(billing=60), BILLING, gives=has(60, consumed_by_named=False), consumers=consumers)
        for consumers in ("clamp", "ignore")
    ),
    # exceptGroups allows the loss, but the limits count it.
    case(UNREAD, read(billing=90, audit=5), BILLING, gives=has(90, **LOSS, accepted=lag(audit=5)), **AUDIT),
    case(UNREAD, read(billing=90), BILLING, gives=has(90, consumed_by_named=True), **AUDIT),
    # The position of the excepted group is not known.
    case(UNREAD, read(billing=90), BILLING, SHARE, gives=has(90, **LOSS), exceptGroups=["carts"]),
    # Of invalid positions, and a commit at 0, which proves that the group has read nothing.
    case(UNREAD, read(billing=0), BILLING, gives="Satisfied"),
    case(UNREAD, old(), BILLING, gives="B205", says=('"billing"', "unreadBy", "orders[0]")),
    # A misspelt name, also in another case, once read like a group that has not committed yet.
    case(UNREAD, old(), group("Billing"), gives="B205", says=('"billing"', "no such group, did you mean", '"Billing"')),
    # It was said, too, of a Streams group without a commit on a partition, which no list call names.
    *(
        case(UNREAD, old(), unlisted("billing", type=type_), gives="B205", says="orders[0]", unsaid=unsaid)
        for type_ in (GroupType.STREAMS, GroupType.OTHER)
        for unsaid in ("has no such group", "whose position cannot be read")
    ),
    # Kafka has groups of any name, so a pattern is one; without a commit the next step says what it means.
    *(
        case({"unreadBy": [name]}, old(), group(name), gives="B205", says=quoted(name), step="exact names")
        for name in ("g*", "regex:g.*", "g[1]", "regex:(")
    ),
    # The list call names no share group: the cluster had no such group, it was said.
    case(
        UNREAD,
        old(),
        SHARED_BILLING,
        gives="B205",
        says="orders[0]; it is a share group, whose position cannot be read",
    ),
    case(UNREAD, old(), group("orders"), gives="B205", says=("orders[0]; the cluster has no such group",)),
    case(UNREAD, read(billing=101), BILLING, gives="B206", says=('"billing"', "unreadBy", "101", "100")),
    case(UNREAD, of_topic(LOST), BILLING, gives="B103?", says=('"billing"', "unreadBy", LOST.reason)),
    case(UNREAD, of_topic(OTHER_ID), BILLING, gives="B207", says=('"billing"', "60", OTHER_ID, "orders", TOPIC_ID)),
    # A missing position does not prove that the group has read everything.
    case(REVERSED, read(billing=60), *NAMED, gives="B205"),
    case(UNREAD, NO_POSITION, BILLING, gives="B205"),
    case(UNREAD, read(billing=-1), BILLING, gives="B205"),
    # At the high watermark everything was read; above it no commit can be.
    case(UNREAD, uncommitted(readers=(reader("billing", 120),)), BILLING, gives=100),
    case(UNREAD, uncommitted(readers=(reader("billing", 121),)), BILLING, gives="B206"),
    # Brokers before value version 4 wrote no id: None is a fact, Unknown is not.
    case(UNREAD, of_topic(None), BILLING, gives=60),
    case(UNREAD, old(readers=LOST), BILLING, gives="B103?", says=("groups", "orders[0]", LOST.reason)),
    # unreadBy answers for the named groups only.
    case(UNREAD, read(billing=60, shipping=3), *NAMED, gives="B204"),
]
OPEN, IN_PARTITION = "kafka-transactions.sh", ('"billing"', "__consumer_offsets[7]")
PENDING: Iterable[Any] = [
    # Either commit can be the position once the transaction ends; one that proves nothing restarts the group.
    *(
        case(LAST, read(at, log_start=3), gives=gives, says=f"everything from {stands}", step="exceptGroups", **CLAMPS)
        for at, gives, stands in (
            (reader("billing", 39, pending=PendingCommit(20, 7)), 20, 20),
            (reader("billing", 30, pending=PendingCommit(80, 7)), 30, 30),
            (reader("billing", 39, pending=PendingCommit(None, 7)), "B204", 3),
            (reader("billing", 3, pending=PendingCommit(20, 7), without_commit=True), "B204", 3),
            (reader("billing", 101, pending=PendingCommit(20, 7)), "B204", 3),
            (reader("billing", 39, pending=PendingCommit(20, 7), topic_id=OTHER_ID), "B204", 3),
        )
    ),
    # Of the visible commit and the pending one; without a visible one a named group has read nothing.
    *(
        case(UNREAD, read(reader("billing", 50, pending=pending, **facts)), BILLING, gives=gives)
        for pending, facts, gives in (
            (PendingCommit(20, 7), {}, 20),
            (PendingCommit(80, 7), {}, 50),
            (PendingCommit(20, 7), {"without_commit": True}, "B205"),
            (PendingCommit(None, 7), {}, "B205"),
        )
    ),
    # The transaction is named with its partition.
    case(LAST, FIRST_COMMIT, BILLING, gives="B204", says=(*IN_PARTITION, "transaction", "no position"), step=OPEN),
    case(LAST, NEXT_COMMIT, BILLING, gives="B204", says=(*IN_PARTITION, "transaction", "20"), step=OPEN),
    case(LAST, FIRST_COMMIT, gives="B204", says=IN_PARTITION, step=OPEN, **CLAMPS),
    case(LAST, NEXT_COMMIT, gives=20, says=IN_PARTITION, **CLAMPS),
    # A busy exactly-once application always has one: only where it decides, the transaction is the reason.
    case(LAST, read(LATER_COMMIT), BILLING, gives="B204", unsaid="transaction"),
]
CLOCK_AND_DRIFT: Iterable[Any] = [
    # The first purge does not wait.
    case(LAST, old(last_purge=None), gives=40, every="30s"),
    # An unreadable journal blocks only policies with an interval.
    case(LAST, old(last_purge=LOST), gives=has(40, every_ms=None)),
    # A waiting decision would not show the consumer.
    case(LAST, old(last_purge=NOW_MS, readers=(reader("a", 3),)), gives="B204", every="30s"),
    # The log had only sixty records a day ago, so the rule kept all of them.
    case(LAST, partition(at={DAY: 60}), gives=has(40, drift=False)),
    # The log starts at the clamp: nothing is due, although the rule alone was due long ago.
    case(LAST, due(None, reader("a", 11)), gives=has(11, drift=True), **CLAMPS),
    # What a group keeps is overdue once the rule that keeps most is.
    case({"fromOffset": {"0": 40}, "last": 60}, due(70, reader("a", 10)), gives="Waiting", **CLAMPS),
    case({"fromOffset": {"0": 40}, "last": 60}, due(71, reader("a", 10)), gives="B204", step="exceptGroups", **CLAMPS),
    # The floor of `driftAfter` ago is above the log start, 10; a fixed rule is always due.
    case(WEEK, week(40, 10, log_start=10), gives=has(40, drift=False)),
    case(WEEK, week(40, 11, log_start=10), gives=has(40, drift=True)),
    case(WEEK, week(None, None, log_start=10), gives=has(100, drift=True)),
    case(LAST, due(70), gives=has(40, drift=False)),
    case(LAST, due(71), gives=has(40, drift=True)),
    case(LAST, due(None), gives=has(40, drift=True)),
    case(UNREAD, due(10, reader("billing", 50)), gives=has(50, drift=False), every="0s"),
    case(UNREAD, due(11, reader("billing", 50)), gives=has(50, drift=True), every="0s"),
    case(UNREAD, due(None, reader("billing", 50)), gives=has(50, drift=True), every="0s"),
    case({"since": "2026-11-14T10:00:00Z"}, week(40, None, log_start=10), gives=has(40, drift=True)),
    case({"fromOffset": {"0": 11}}, partition(log_start=10), gives=has(11, drift=True)),
    case({"fromOffset": {"0": 40}, "last": 60}, due(70), gives=has(40, drift=False)),
    case({"fromOffset": {"0": 40}, "last": 60}, due(71), gives=has(40, drift=True)),
]
TWO = consumed_by("console-1", "console-2")
EXTERNAL = ExternalPosition({TopicPartition("orders", 0): 90}, NOW_MS)
NO_CONSUMER = f"no consumer is known: {GUARDS_NOBODY}"
EXCEPTED = f"exceptGroups names all 2 known consumers: {GUARDS_NOBODY}"
IGNORED = '1 known consumer holds nothing back: "consumers: ignore" guards nobody here'
NOT_KNOWN = f"whether any consumer guards it is not known: {LOST.reason}"
TRANSACTIONS = topic("__transaction_state", internal=True)
GUARDS: Iterable[Any] = [
    # It has no consumer, or exceptGroups names all. "No group is behind" was said for none and for five.
    case(LAST, old(), consumed_by(), gives=has(40, caveat=NO_CONSUMER)),
    case(LAST, old(), TWO, gives=has(40, caveat=EXCEPTED), **CONSOLES),
    case(LAST, old(), TWO, gives=has(40, caveat=""), exceptGroups=["console-1"]),
    case(LAST, old(), topic("orders", consumers=LOST), gives=has(40, caveat=NOT_KNOWN)),
    # A consumer at the end guards: the scan leaves its position out, because it holds nothing back now.
    case(LAST, old(readers=()), consumed_by("billing"), gives=has(40, caveat="")),
    # Ignored consumers guard nobody, and those of unreadBy do.
    case(LAST, read(billing=90), consumed_by("billing"), gives=has(40, caveat=IGNORED), **IGNORES),
    case(UNREAD, read(billing=90), consumed_by("billing"), gives=has(90, caveat=""), **IGNORES),
    # An external reader guards what its manifest or its position names.
    *(
        case(LAST, old(), consumed_by(), gives=has(40, caveat=""), external={external_reader(declared): EXTERNAL})
        for declared in ("orders", "clicks")
    ),
    case(LAST, old(), topic(consumers=LOST), gives=has(40, caveat=""), external={external_reader("orders"): EXTERNAL}),
    # After transactions or compaction, and where a topic of transactions may be hidden.
    case(LAST, old(), topic("orders"), gives=has(40, may_have_gaps=False)),
    case(LAST, old(), topic("orders"), TRANSACTIONS, gives=has(40, may_have_gaps=True)),
    case(LAST, old(), COMPACTED, gives=has(40, may_have_gaps=True)),
    case(LAST, old(), topic("orders"), gives=has(40, may_have_gaps=True), topics_incomplete=LOST),
    case(LAST, old(), topic("orders"), gives=has(40, may_have_gaps=True), transactions_hidden=True),
]


@pytest.mark.parametrize(
    ("keep", "facts", "spec", "expected", "words", "step", "unsaid"),
    [*RULES, *FACTS, *GROUPS, *ADVICE, *UNLISTED, *NAMED_GROUPS, *PENDING, *CLOCK_AND_DRIFT, *GUARDS],
)
def test_the_decision_on_a_partition(
    keep: Mapping[str, Any],
    facts: tuple[Any, ...],
    spec: dict[str, Any],
    expected: Any,
    words: tuple[str, ...],
    step: str,
    unsaid: str,
) -> None:
    """A target is absolute, and never above the last stable offset, nor that above the high watermark."""
    decision = decide_partition(keep, *facts, **spec)
    if isinstance(decision, DeleteRecords):
        assert decision.before_offset <= decision.seen.last_stable_offset <= decision.seen.high_watermark
    if isinstance(decision, Blocked):
        assert decision.declared_at == PLACE
        assert mentions(decision.next_step, *((step,) if step else NEXT_STEPS[decision.code]))
    if isinstance(expected, Mapping):
        assert isinstance(decision, DeleteRecords), decision
        found = {name: getattr(decision if hasattr(decision, name) else decision.guard, name) for name in expected}
        assert found == expected
    else:
        assert outcome(decision) == expected
    assert mentions(decision.reason if not isinstance(decision, Satisfied) else "", *words)
    assert not unsaid or not mentions(f"{decision.reason}; {getattr(decision, 'next_step', '')}", unsaid)


def test_since_in_the_future_blocks_the_whole_policy() -> None:
    """The policy has one block at its address and no other decision."""
    decision = decide_partition({"since": "2026-11-21T10:00:01Z"}, partition(), partition(1))
    assert isinstance(decision, Blocked)
    assert (decision.address, decision.code) == (Address("RetentionFloor", "gdpr"), "B210")
    assert decision.declared_at == PLACE
    assert mentions(decision.reason, "2026-11-21T10:00:01Z")
    assert mentions(decision.next_step, "newerThan")


@pytest.mark.parametrize(
    ("keep", "drift_after", "ages"),
    [
        # Brokers read negative timestamps as other requests: -2 is the start, -1 the end.
        ({"since": "1969-12-31T23:59:59Z"}, "1d", (NOW_MS,)),
        ({"newerThan": "999999d", "last": 3}, "999999d", (NOW_MS,)),
        # The scan requests the instants that the decision looks up.
        (
            {"newerThan": "7d", "last": 5, "since": HOUR_AGO},
            "30m",
            (7 * DAY + 30 * MINUTE, 7 * DAY, HOUR, 30 * MINUTE),
        ),
    ],
)
def test_the_requested_instants(keep: dict[str, Any], drift_after: str, ages: tuple[int, ...]) -> None:
    """Neither the instant nor that of the drift is below zero."""
    requested = floor(keep=keep, driftAfter=drift_after).scan_request(NOW_MS).topics[0].instants_ms
    assert requested == tuple(NOW_MS - age for age in ages)


ALL_RULES = WEEK | {"since": HOUR_AGO, "last": 30, "fromOffset": {"0": 60}} | UNREAD


@pytest.mark.parametrize(
    ("keep", "expected", "rules"),
    [
        (WEEK | {"last": 30}, 40, "newerThan 7d, 40, last 30, 70"),
        (WEEK | {"last": 90}, 10, "last 90, 10, newerThan 7d, 40"),
        (
            ALL_RULES,
            40,
            f'newerThan 7d, 40, since {HOUR_AGO}, 90, last 30, 70, fromOffset 60, 60, unreadBy "billing", 80',
        ),
    ],
)
def test_the_floor_is_the_lowest_rule_and_the_reason_names_it(
    keep: Mapping[str, Any], expected: int, rules: str
) -> None:
    """A second rule can only keep more. The reason has all, the deciding one first."""
    at = {7 * DAY: 40, 8 * DAY: 30, HOUR: 90, DAY: 95}
    action = acted(keep, partition(at=at, readers=(reader("billing", 80),)), BILLING, driftAfter="24h")
    assert action.before_offset == expected
    assert re.search(".*".join(rf"\b{re.escape(rule)}" for rule in rules.split(", ")), action.reason)


def test_a_partition_without_facts_is_unread() -> None:
    """The list has two partitions, the scan returned one."""
    decisions = planned(floor(keep=TEN), snapshot(old(), topic(partitions=2))).decisions
    assert [outcome(decision) for decision in decisions] == [90, "B103?"]


APP, OWN = {"unreadBy": ["app"]}, {"kept_forever": KeptForever.TOPIC}
ONLY_COMPACTED = {"cleanup_policy": frozenset({"compact"})}


@pytest.mark.parametrize(
    ("name", "facts", "keep", "by_name", "by_pattern"),
    [
        # In doubt a pattern never skips.
        ("orders", {"cleanup_policy": LOST}, TEN, "B103?", "B103?"),
        ("orders", {"kept_forever": LOST}, TEN, 90, "B103?"),
        # Changelogs have no group.
        ("orders", {"cleanup_policy": frozenset({"compact", "delete"})}, TEN, 90, "Skipped B214"),
        # Internal and system topics, and topics whose cleanup policy does not delete.
        ("__consumer_offsets", {}, TEN, "B201", "Skipped B201"),
        ("orders", {"internal": True}, TEN, "B201", "Skipped B201"),
        ("orders", ONLY_COMPACTED, TEN, "B202", "Skipped B202"),
        # A schema history has no group; Kafka Streams keeps for ever what it purges itself.
        ("history", OWN, TEN, 90, "Skipped B215"),
        ("history", {"kept_forever": KeptForever.BROKER}, TEN, 90, 90),
        ("history", OWN, APP, 90, "Skipped B215"),
        ("app-x-repartition", OWN, APP, 90, 90),
        ("app-x-repartition", OWN, TEN, 90, "Skipped B215"),
        ("app-x-repartitions", OWN, APP, 90, "Skipped B215"),
    ],
)
def test_an_exact_name_selects_what_a_pattern_may_skip(
    name: str, facts: dict[str, Any], keep: dict[str, Any], by_name: int | str, by_pattern: int | str
) -> None:
    found = snapshot(partition(topic=name, at={DAY: 100}, readers=(reader("app", 90),)), topic(name, **facts))
    (named,), (matched,) = (floor(keep=keep).decide({name: exact}, found) for exact in (True, False))
    assert (outcome(named), outcome(matched)) == (by_name, by_pattern)
    if isinstance(named, Blocked):
        assert named.address == Address("RetentionFloor", "gdpr", name)
        assert mentions(named.next_step, *NEXT_STEPS[named.code])
    if isinstance(named, Blocked) and isinstance(matched, Skipped):
        assert matched == Skipped(address=named.address, code=named.code, reason=named.reason)
    elif isinstance(matched, Skipped):
        assert mentions(matched.reason, name, "pattern")
    elif isinstance(matched, DeleteRecords):
        assert mentions(matched.reason, "the brokers' default") is (facts["kept_forever"] is KeptForever.BROKER)


def test_a_very_large_cluster_gives_no_suggestion() -> None:
    """A thousand mistyped names times a hundred thousand topics would take minutes."""
    names = [topic(f"order-{number}") for number in range(2000)]
    assert '"order-' not in blocked({"last": 10}, *names).reason
    assert '"order-' in blocked({"last": 10}, *names[1:]).reason


def test_a_missing_partition_number_is_blocked_by_name_and_skipped_by_pattern() -> None:
    """partitions: [0, 7] on a topic with one partition."""
    by_name, by_pattern = (
        planned(floor(*topics, keep=TEN, partitions=[7, 0]), snapshot(old())).decisions for topics in ((), ("ord*",))
    )
    assert [outcome(decision) for decision in (*by_name, *by_pattern)] == [90, "B102", 90, "Skipped B102"]
    assert (by_name[1].address, by_name[1].declared_at) == (Address("RetentionFloor", "gdpr", "orders", 7), PLACE)
    assert mentions(by_name[1].reason, "orders", "1", "7")


def test_the_groups_that_hold_a_floor_back_are_data() -> None:
    """Above twenty none: no report may say that the removal of some would be enough."""
    readers = (reader("c", 39), reader("billing", 5), reader("at-the-floor", 40))
    decision = blocked(LAST, old(readers=readers))
    assert decision.held_by == ("billing", "c")
    many = tuple(reader(f"e{number:02d}", 7) for number in range(21))
    assert len(blocked(LAST, old(readers=many[:20])).held_by) == 20
    assert blocked(LAST, old(readers=many)).held_by == ()


def test_a_floor_that_a_group_holds_back_waits_and_drifts_once_overdue() -> None:
    """Groups that have read nothing keep all records: that is not in sync."""
    readers = (reader("a", 10), reader("b", 10, without_commit=True), reader("c", 30))
    held = decide_partition(LAST, partition(at={DAY: 50}, log_start=10, readers=readers), consumers="clamp")
    assert isinstance(held, Waiting)
    assert mentions(held.reason, "last 60", "40", '"a"', "10")
    assert (held.until_ms, held.held_by) == (None, ("a", "b"))
    overdue = blocked(LAST, old(log_start=10, readers=readers), consumers="clamp")
    assert (overdue.code, overdue.held_by) == ("B204", ("a", "b"))
    assert mentions(overdue.reason, "last 60", "40", '"a"', "10")
    assert "exceptGroups" in overdue.next_step


@pytest.mark.parametrize(
    ("ago", "waits"), [(30 * SECOND, True), (30 * SECOND + 1, False), (0, True), (-5 * SECOND, True)]
)
def test_a_purge_waits_for_its_interval(ago: int, waits: bool) -> None:
    """It must be over, as in Kafka Streams; also with a clock that is behind."""
    decision = decide_partition(LAST, old(last_purge=NOW_MS - ago), every="30s")
    if not waits:
        assert isinstance(decision, DeleteRecords)
        assert decision.guard.every_ms == 30 * SECOND
        return
    assert isinstance(decision, Waiting)
    assert decision.until_ms == NOW_MS - ago + 30 * SECOND + 1
    assert (decision.address, decision.declared_at) == (ADDRESS, PLACE)
    assert mentions(decision.reason, "last 60", "40", "100", format_instant(NOW_MS - ago), "30s")


def test_scan_request_of_a_floor() -> None:
    """With the named groups, the journal, and the totals of the limits."""
    rules = {"newerThan": "7d", "unreadBy": ["b", "a"]}
    request = TopicRequest(
        topics=(Selector("my-*"),),
        except_topics=(Selector("my-audit"),),
        patterns_skip_underscore=True,
        partitions=frozenset({0, 1}),
        offsets=True,
        instants_ms=(NOW_MS - 8 * DAY, NOW_MS - 7 * DAY, NOW_MS - DAY),
        readers=True,
        named_groups=frozenset({"a", "b"}),
        records=True,
        every_ms=30_000,
    )
    policy = floor("my-*", exceptTopics=["my-audit"], partitions=[0, 1], keep=rules)
    assert policy.scan_request(NOW_MS) == ScanRequest(topics=(request,), topic_records=True, cluster_records=True)
    assert floor(keep=LAST).scan_request(NOW_MS).topics[0].every_ms is None


def test_traces_of_readers_that_kafka_does_not_list_are_named() -> None:
    """MirrorMaker 2, and Connect by three topics of one beginning: `orders-offsets` alone is none."""
    names = ("mm2-offset-syncs.B.internal", "lake_connect_configs", "lake_connect_offsets", "lake_connect_statuses")
    others = ("orders-offsets", "orders-status", "mm2-offset-syncs", "offsets", "configs", "status")
    workers = group("connect-cluster", type=GroupType.CONNECT, listed=False)
    caveat = acted(LAST, old(), consumed_by(), workers, *(topic(name) for name in (*names, *others))).caveat
    traces = 'mm2-offset-syncs.B.internal, lake_connect_offsets, "connect-cluster"'
    assert caveat.endswith(f"; traces of readers that Kafka does not list: {traces}")


def test_explain_says_why_a_partition_is_in_sync() -> None:
    """A plan of named subjects has the rule's reason; a plan of all would grow by a third."""
    facts = snapshot(partition(at={7 * DAY: 30, 8 * DAY: 30}, log_start=30), topic())
    (decision,) = planned(floor(keep={"newerThan": "7d"}), facts, candidates={ADDRESS}).decisions
    assert isinstance(decision, Satisfied)
    assert decision.reason == "newerThan 7d resolves to offset 30; the log starts at 30"
    assert [found.reason for found in planned(floor(keep={"newerThan": "7d"}), facts).decisions] == [""]


class _Name(str):
    """A name with a weak reference."""


def test_a_loop_forgets_the_groups_of_earlier_rounds() -> None:
    """Any client may create groups, and a loop runs for months."""
    is_excluded, name = group_excluder(("console-*",)), _Name("console-1")
    assert is_excluded(name)
    earlier = weakref.ref(name)
    del name
    assert not any(is_excluded(f"billing-{number}") for number in range(110_000))
    assert earlier() is None


def test_a_partition_that_is_there_needs_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each of a million partitions took two seconds of a plan."""
    monkeypatch.delattr(base, "count")
    assert [missing for _at, missing in floor(keep=LAST).partitions(topic(partitions=3))] == [None, None, None]
