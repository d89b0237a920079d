"""What a time rule and a lag make of records that were looked up, or could not be."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.names import Address, TopicPartition
from reconciler.model.plan import Blocked, Satisfied, Undecided, Waiting
from reconciler.model.snapshot import (
    Cause,
    ExternalPosition,
    LookupKind,
    PartitionFacts,
    RecordLookup,
    RecordStamp,
    Unknown,
)
from reconciler.operations.delete_records import DeleteRecords
from reconciler.text.formatting import format_instant
from tests.golden.wording import mentions
from tests.strategies.facts import (
    DAY,
    LONG_AGO_MS,
    NOW_MS,
    OldRecords,
    external_reader,
    floor,
    group,
    partition,
    planned,
    reader,
    snapshot,
    topic,
)

ADDRESS = Address("RetentionFloor", "gdpr", "orders", 0)
WEEK = {7 * DAY: 50, 8 * DAY: 40}
NO_RIGHT = Unknown("the right READ on orders is missing")
Answers = Mapping[RecordLookup, RecordStamp | Unknown | None]
FIRST, LAST = RecordLookup(LookupKind.FIRST, 0, 50), RecordLookup(LookupKind.LAST, 0, 50)
NEWEST, PLAUSIBLE = RecordLookup(LookupKind.NEWEST), RecordLookup(LookupKind.UNCOMMITTED, 978_307_200_000)
NONE = {7 * DAY: None, 8 * DAY: None}
UNSUPPORTED, EARLIER = Unknown("ListOffsets before version 7"), RecordStamp(0, LONG_AGO_MS - 1)
SILENT = Unknown("broker 2 does not answer", Cause.SILENT_BROKER)
UNANSWERED = Unknown("no answer came", Cause.NO_ANSWER)
ABOVE, WEEK_AGO = RecordStamp(100, NOW_MS - DAY), RecordLookup(LookupKind.UNCOMMITTED, NOW_MS - 7 * DAY)
SECONDS = RecordStamp(0, NOW_MS // 1_000)
YESTERDAY, DAY_BEFORE = RecordStamp(60, NOW_MS - DAY), format_instant(NOW_MS - DAY)


def decide(facts: PartitionFacts, keep: dict[str, Any] | None = None, **spec: Any) -> Any:
    (decision,) = planned(floor(keep=keep or {"newerThan": "7d"}, **spec), snapshot(facts, topic())).decisions
    return decision


def looked_up(answers: Answers, at: Mapping[int, int | None] = WEEK, **facts: Any) -> PartitionFacts:
    return partition(at=at, lookups=OldRecords(answers), **facts)


def first(start: int, end: int) -> RecordLookup:
    return RecordLookup(LookupKind.FIRST, start, end)


def since(age_ms: int) -> RecordLookup:
    """Return the lookup of the first record of this age or younger, also above the last stable offset."""
    return RecordLookup(LookupKind.UNCOMMITTED, NOW_MS - age_ms)


PROOFS: dict[str, tuple[Any, ...]] = {
    # Without READ on the topic, as principals of earlier versions.
    "first unread": (WEEK, {PLAUSIBLE: None, FIRST: NO_RIGHT}, "B216?", "READ on orders"),
    "last unread": (WEEK, {LAST: NO_RIGHT}, "B216?", "READ on orders"),
    # The subjects that wait for a silent broker fold into one line, as for every fact.
    "a silent broker": (WEEK, {PLAUSIBLE: SILENT}, "B109?", SILENT.reason),
    # None of the last 10,000 offsets holds a record, though there are older ones.
    "a stretch without records": (WEEK, {LAST: None}, "B216", "10,000 offsets below 50"),
    # Kafka has -1 for none. Clients other than Java's send any number, such as events of 1969.
    "no timestamp": (WEEK, {PLAUSIBLE: None, FIRST: RecordStamp(3, -1)}, "B216", "offset 3 has no timestamp"),
    "before 1970": (
        WEEK,
        {PLAUSIBLE: None, FIRST: RecordStamp(3, -5)},
        "B216",
        "3 is stamped 1969-12-31T23:59:59.995Z, before 2001",
    ),
    # It stands behind records that a search by time passes over.
    "the first plausible one": (WEEK, {PLAUSIBLE: RecordStamp(3, LONG_AGO_MS), FIRST: SECONDS}, "B216", "before 2001"),
    "of the future": (WEEK, {PLAUSIBLE: RecordStamp(0, NOW_MS + DAY)}, "B216", "offset 0 is stamped"),
    # A segment without timestamps ends a broker's search by time, which the newest timestamp contradicts.
    "the newest": (NONE, {NEWEST: YESTERDAY}, "B216", f"60 is stamped {DAY_BEFORE}, which newerThan 7d keeps"),
    # It may answer the next plan: that is no reason to give the rule up.
    "the newest, without an answer": (NONE, {NEWEST: UNANSWERED}, "B216?", UNANSWERED.reason),
    # A record of a minute ago was to go: Kafka 2.8 answered with the first record, and with tiered storage
    # brokers look among local segments only.
    "before Kafka 3.0": (NONE, {NEWEST: UNSUPPORTED}, "B216", UNSUPPORTED.reason),
    "tiered storage": (NONE, {NEWEST: None}, "B216", "remote storage"),
    # Its version was lost: it answers with its first record, too.
    "its version is not known": (NONE, {NEWEST: EARLIER}, "B216", "offset 99 is newer than the newest"),
    # A live producer always has a young record above the end, which alone proves nothing: a segment without
    # timestamps may hide young ones below.
    "above the end": (NONE, {NEWEST: ABOVE, WEEK_AGO: ABOVE}, 100, ""),
    "the search ends before it": (NONE, {NEWEST: ABOVE, WEEK_AGO: None}, "B216", ""),
    "below the end": (NONE, {NEWEST: ABOVE, WEEK_AGO: YESTERDAY}, "B216", ""),
    # Only markers and aborted records are lost.
    "no record": (WEEK, {PLAUSIBLE: None, FIRST: None, LAST: None}, 50, ""),
}


@pytest.mark.parametrize(("at", "answers", "code", "words"), PROOFS.values(), ids=PROOFS)
def test_a_time_rule_needs_proof_of_the_age(
    at: dict[int, int | None], answers: Answers, code: str | int, words: str
) -> None:
    decision = decide(looked_up(answers, at))
    if isinstance(decision, DeleteRecords):
        assert decision.before_offset == code
        return
    assert decision.code + "?" * decision.unread == code
    assert words in decision.reason
    if decision.code == "B216":
        assert "say last" in decision.next_step
        assert ("READ" in decision.next_step) is (decision.unread and UNANSWERED.reason not in decision.reason)
        assert ("--timeout" in decision.next_step) is (UNANSWERED.reason in decision.reason)


@pytest.mark.parametrize(
    ("offset", "words"),
    [(9, ("below 100", "not all known to be old", "offset 9", "deleted")), (10, ("offset 10 is stamped",))],
)
def test_the_newest_timestamp_may_be_of_a_deleted_record(offset: int, words: tuple[str, ...]) -> None:
    """Its segment keeps it, and the brokers' search ends there. The reason called it a record below the floor."""
    decision = decide(looked_up({NEWEST: RecordStamp(offset, NOW_MS)}, NONE, log_start=10))
    assert decision.code == "B216"
    assert mentions(decision.reason, *words)


def test_what_is_not_looked_up_is_asked_once_and_blocks_until_then() -> None:
    """Never an action on a question without an answer."""
    plan = planned(floor(keep={"newerThan": "7d"}), snapshot(partition(at=WEEK, lookups={}), topic()))
    (decision,) = plan.decisions
    assert isinstance(decision, Undecided)
    assert decision.unread
    assert plan.asked == {decision.partition: (PLAUSIBLE, LAST)}


@pytest.mark.parametrize(
    ("log_start", "high_watermark", "others"),
    [(0, 100, ["__transaction_state"]), (0, 101, []), (30, 100, [])],
    ids=["transactions", "an open one", "few offsets"],
)
def test_a_search_by_time_is_no_record(log_start: int, high_watermark: int, others: list[str]) -> None:
    """It finds markers and aborted records, too, so the first record is read where there may be any.

    So it is where few offsets go: one reading finds both records.
    """
    first_record = first(log_start, 50)
    facts = looked_up({first_record: SECONDS}, log_start=log_start, high_watermark=high_watermark)
    topics = topic(), *(topic(name, internal=True) for name in others)
    (decision,) = planned(floor(keep={"newerThan": "7d"}), snapshot(facts, *topics)).decisions
    assert isinstance(decision, Blocked)
    assert (decision.code, "before 2001" in decision.reason) == ("B216", True)


def test_a_lag_that_could_not_be_looked_up_stays_a_lag() -> None:
    """The block says which right is missing."""
    facts = looked_up({first(80, 90): NO_RIGHT}, {DAY: 100}, readers=(reader("billing", 80),))
    decision = decide(facts, {"last": 10})
    assert decision.code == "B204"
    assert "at most 10 records below 90" in decision.reason
    assert "READ on orders" in decision.reason


@pytest.mark.parametrize(
    ("keep", "consumers", "facts", "expected"),
    [
        # More than 10,000 offsets are not read, so none of them is asked for.
        (1, "block", {"at": {DAY: 20_000}, "end": 20_000, "readers": (reader("billing", 0),)}, "B204"),
        # A cluster without transactions is not searched for gaps: a floor that counts offsets needs no right to READ.
        (60, "block", {"at": {DAY: 100}}, ()),
        # What a group skips is an upper bound under `ignore`.
        (10, "ignore", {"at": {DAY: 100}, "readers": (reader("billing", 80),)}, (("billing", 10),)),
    ],
)
def test_what_no_decision_needs_is_not_looked_up(keep: int, consumers: str, facts: Any, expected: Any) -> None:
    decision = decide(partition(lookups={}, **facts), {"last": keep}, consumers=consumers)
    assert (decision.code if isinstance(decision, Blocked) else decision.skips) == expected


@pytest.mark.parametrize(
    ("answer", "counted", "words"),
    [
        (NO_RIGHT, 40, "hold records is not known (the right READ on orders is missing)"),
        (None, 75, "limits count 75 of 100 offsets"),
    ],
)
def test_what_is_not_known_to_hold_records_is_in_no_share(answer: Unknown | None, counted: int, words: str) -> None:
    """The loss may be all records, or all but one."""
    facts = looked_up({RecordLookup(LookupKind.LAST, 90, 100): answer}, {DAY: 100})
    state = snapshot(facts, topic("__transaction_state", internal=True), topic())
    (action,) = planned(floor(keep={"last": 60}), state).actions
    assert action.records_counted == counted
    assert words in action.reason


@pytest.mark.parametrize("spec", [{}, {"partitions": [0]}])
def test_a_share_asks_about_all_partitions_of_a_topic(spec: Any) -> None:
    """Also about those that lose nothing, are not selected, or are no part of this plan."""
    facts = [partition(number=number, end=end, at={DAY: end}, lookups={}) for number, end in enumerate((100, 10))]
    state = snapshot(*facts, topic("__transaction_state", internal=True), topic(partitions=2))
    policy = floor(keep={"last": 60}, **spec)
    plans = planned(policy, state), planned(policy, state, candidates={policy.address_of("orders", 0)})
    for plan in plans:
        assert {of.partition: len(lookups) for of, lookups in plan.asked.items()} == {0: 10, 1: 2}


def test_a_share_looks_at_the_largest_of_many_partitions() -> None:
    """The others count for nothing: 5,000 partitions were looked at because one of them lost a record."""
    facts = [partition(number=number, end=100 + number, at={DAY: 100}, lookups={}) for number in range(40)]
    state = snapshot(*facts, topic("__transaction_state", internal=True), topic(partitions=40, records=4_780))
    policy = floor(keep={"last": 60}, partitions=[3])
    assert {of.partition for of in planned(policy, state).asked} == {3, *range(24, 40)}
    known = snapshot(
        *(replace(of, lookups=OldRecords() if of.partition.partition in {3, 39} else {}) for of in facts),
        topic("__transaction_state", internal=True),
        topic(partitions=40, records=4_780),
    )
    shares = {limit.id: limit.observed for limit in planned(policy, known).limits}
    assert shares["recordsPercentPerTopic"] == 100 * 43 / (103 + 139)


def test_no_share_asks_what_it_does_not_need() -> None:
    """Groups of unreadBy have read all that goes; without the topic of transactions, those ended that are not open.

    The gaps of a compacted topic were taken from the cluster's total, which holds none of its records.
    """
    billing = (reader("billing", 40),)
    transactions = topic("__transaction_state", internal=True)
    compacted = topic(cleanup_policy=frozenset({"compact", "delete"}), records_min=0)
    read = partition(at={DAY: 100}, readers=billing, lookups={})
    is_open = partition(at={DAY: 50}, end=50, high_watermark=100, lookups={})
    cases: Any = (
        ({"unreadBy": ["billing"]}, snapshot(read, transactions, topic(), group("billing"))),
        ({"fromOffset": {"0": 40}}, snapshot(is_open, topic())),
        ({"last": 60}, snapshot(partition(at={DAY: 100}, lookups={}), transactions, compacted)),
    )
    for keep, state in cases:
        plan = planned(floor(keep=keep), state)
        assert (len(plan.actions), plan.asked) == (1, {})


def test_a_share_asks_about_a_partition_that_two_policies_claim() -> None:
    """It is blocked, so nobody asked: its 30,000 aborted records made 98 % of a topic 3 %."""
    facts = [partition(number=number, at={DAY: 100}, lookups={}) for number in range(3)]
    state = snapshot(*facts, topic("__transaction_state", internal=True), topic(partitions=3))
    policies: list[Any] = [floor(name=f"p{low}", keep={"last": 60}, partitions=[low, low + 1]) for low in (0, 1)]
    assert {of.partition: len(lookups) for of, lookups in planned(policies, state).asked.items()} == dict.fromkeys(
        range(3), 10
    )


DAY_AGO, NOW, HANGING = since(DAY), since(0), RecordStamp(400, NOW_MS - DAY)


def behind_it(answers: Answers, **facts: Any) -> PartitionFacts:
    """Return a partition with a transaction that is open since offset 100, up to which billing has read."""
    defaults: dict[str, Any] = {"at": {DAY: None}, "log_start": 100, "high_watermark": 500}
    return looked_up(answers, **(defaults | {"readers": (reader("billing", 100),)} | facts))


@pytest.mark.parametrize("keep", [{"last": 10}, {"unreadBy": ["billing"]}], ids=str)
@pytest.mark.parametrize("log_start", [100, 90], ids=["nothing below the transaction", "the floor"])
@pytest.mark.parametrize(
    ("committed", "before", "is_held"),
    [
        (None, HANGING, True),
        (None, None, True),
        (None, RecordStamp(100, NOW_MS - DAY), False),
        (99, HANGING, False),
        (None, NO_RIGHT, True),
    ],
    ids=["old records", "only old records", "young", "the stable offset rises", "unread"],
)
def test_a_transaction_that_hangs_is_named_without_a_rule_by_time(
    keep: dict[str, Any], log_start: int, committed: int | None, before: RecordStamp | Unknown | None, is_held: bool
) -> None:
    """`last: 10` of a partition with 400 offsets behind a producer that is gone was in sync for ever."""
    position = reader("billing", log_start)
    answers = {DAY_AGO: before, NOW: None}
    decision = decide(behind_it(answers, at={DAY: committed}, log_start=log_start, readers=(position,)), keep)
    if log_start == 90 and "unreadBy" in keep:  # the group is behind, and would not read more without the transaction
        assert isinstance(decision, Satisfied)
    elif is_held:
        assert (decision.code, "400 offsets" in decision.reason) == ("B217", True)
        assert "--start-offset 100" in decision.next_step
    else:
        assert isinstance(decision, Satisfied)


WEEK_OLD, OLDER = NOW_MS - 7 * DAY, NOW_MS - 8 * DAY - 1
GONE = RecordStamp(49, NOW_MS)
"""A record that a purge took, whose segment keeps its timestamp."""
UNCOMMITTED = RecordStamp(100, NOW_MS)


@pytest.mark.parametrize(
    ("newest", "last", "is_overdue"),
    [
        (RecordStamp(60, WEEK_OLD), OLDER, False),
        (RecordStamp(60, OLDER), WEEK_OLD, True),
        (GONE, WEEK_OLD, False),
        (GONE, OLDER, True),
        (GONE, -1, True),
        (GONE, NO_RIGHT, True),
        (UNCOMMITTED, OLDER, True),
        (SILENT, SILENT, True),
        (UNSUPPORTED, WEEK_OLD, False),
        (None, OLDER, True),
        (RecordStamp(49, NOW_MS + DAY), OLDER, True),
        (GONE, NOW_MS + DAY, True),
    ],
    ids=[
        "young",
        "old",
        "gone",
        "gone, and old ones left",
        "gone, and no timestamp left",
        "gone, and unread",
        "not committed",
        "a silent broker",
        "before Kafka 3.0",
        "all in remote storage",
        "gone, and of the future",
        "gone, and the last of the future",
    ],
)
@pytest.mark.parametrize(
    ("keep", "at"), [({"newerThan": "7d"}, {7 * DAY: 80, 8 * DAY: None}), ({"last": 20}, {8 * DAY: None})], ids=str
)
def test_a_stamp_that_is_gone_does_not_make_a_floor_overdue(
    keep: dict[str, Any],
    at: dict[int, int | None],
    newest: RecordStamp | Unknown | None,
    last: int | Unknown,
    is_overdue: bool,
) -> None:
    """Searches by time end in its segment, whatever follows: the one of `driftAfter` ago found none, so all was overdue.

    Each drift check right after an apply was red, and so was one behind a backfill for as long as `driftAfter`.
    """
    record = RecordStamp(99, last) if isinstance(last, int) else last
    answers = {
        NEWEST: newest,
        # Where no plausible timestamp is told to be the newest one, the first record decides.
        (RecordLookup(LookupKind.LAST, 50, 100) if newest in (GONE, UNCOMMITTED) else first(50, 100)): record,
        RecordLookup(LookupKind.LAST, 50, 80): RecordStamp(79, WEEK_OLD - 1),
    }
    drift_after = {} if "newerThan" in keep else {"driftAfter": "8d"}
    assert decide(looked_up(answers, at, log_start=50), keep, **drift_after).drift is is_overdue
    waiting = decide(
        looked_up(answers, {8 * DAY: None}, log_start=50, readers=(reader("billing", 50),)),
        {"last": 20},
        consumers="clamp",
        driftAfter="8d",
    )
    assert isinstance(waiting, Blocked if is_overdue else Waiting)


def test_a_purge_of_younger_records_leaves_nothing_due() -> None:
    """The search ended in what was purged, so all was to go, and was blocked: wait, say `last` or `fromOffset`."""
    answers = {PLAUSIBLE: None, first(50, 100): RecordStamp(50, WEEK_OLD), WEEK_AGO: None, NEWEST: YESTERDAY}
    answers |= {RecordLookup(LookupKind.LAST, 50, 100): RecordStamp(99, NOW_MS - DAY)}
    decision = decide(looked_up(answers, NONE, log_start=50))
    assert isinstance(decision, Satisfied)
    old = decide(looked_up(answers | {first(50, 100): RecordStamp(50, LONG_AGO_MS)}, NONE, log_start=50))
    assert old.code == "B216"


@pytest.mark.parametrize("newest", [RecordStamp(100, NOW_MS), GONE], ids=["its own", "gone"])
@pytest.mark.parametrize("log_start", [100, 50], ids=["all purged", "old records below it"])
def test_a_stamp_that_is_gone_does_not_make_a_transaction_hang(log_start: int, newest: RecordStamp) -> None:
    """A busy exactly-once topic was B217 after a purge, with the advice to abort the transaction of its producer."""
    answers = {DAY_AGO: None, NOW: None, NEWEST: newest}
    decision = decide(behind_it(answers, log_start=log_start, readers=()), {"last": 50})
    assert isinstance(decision, Satisfied)


@pytest.mark.parametrize("newest", [UNSUPPORTED, None], ids=["before Kafka 3.0", "no timestamp"])
def test_a_transaction_hangs_where_no_stamp_tells_that_it_is_young(newest: Unknown | None) -> None:
    answers = {DAY_AGO: None, NOW: None, NEWEST: newest}
    assert decide(behind_it(answers, readers=()), {"last": 50}).code == "B217"


@pytest.mark.parametrize("log_start", [100, 50], ids=["nothing below the transaction", "records below it"])
@pytest.mark.parametrize(
    "keep",
    [
        {"newerThan": "7d", "unreadBy": ["billing"]},
        {"since": "2026-11-14T10:00:00Z", "unreadBy": ["billing"]},
        {"newerThan": "1d", "since": "2026-11-14T10:00:00Z", "unreadBy": ["billing"]},
        {"fromOffset": {"0": 100}, "unreadBy": ["billing"]},
        {"fromOffset": {"0": 90}, "last": 10},
    ],
    ids=str,
)
def test_a_transaction_holds_no_floor_that_another_rule_keeps_there(keep: dict[str, Any], log_start: int) -> None:
    """`unreadBy` beside `newerThan: 7d` blocked a partition for a transaction of two days, whose records stay anyway."""
    young = RecordStamp(100, NOW_MS - 2 * DAY)
    answers = {DAY_AGO: HANGING, NOW: None, WEEK_AGO: young, since(8 * DAY): young}
    decision = decide(behind_it(answers, at=dict.fromkeys((DAY, 2 * DAY, 7 * DAY, 8 * DAY)), log_start=log_start), keep)
    if log_start == 100:
        assert isinstance(decision, Satisfied)
    else:
        assert isinstance(decision, DeleteRecords)
        assert "transaction" not in decision.reason + decision.caveat


@pytest.mark.parametrize(
    ("last_purge", "is_held"),
    [(NOW_MS - DAY, False), (NOW_MS - DAY - 1, True), (None, True), (Unknown("no journal"), True)],
    ids=str,
)
def test_a_transaction_since_the_last_purge_does_not_hang(last_purge: int | Unknown | None, is_held: bool) -> None:
    """A Streams application that repeats its input was B217 at each plan, with the advice to abort its transaction."""
    decision = decide(behind_it({DAY_AGO: None, NOW: None}, last_purge=last_purge), {"unreadBy": ["billing"]})
    assert isinstance(decision, Blocked if is_held else Satisfied)


def test_what_stays_above_a_transaction_that_hangs_waits_for_nothing() -> None:
    """The floor would keep all of it anyway. Records that may go do, and the plan says what holds the floor back."""
    facts = behind_it({DAY_AGO: HANGING, NOW: None}, log_start=0)
    assert isinstance(decide(facts, {"last": 500}), Satisfied)
    assert isinstance(decide(facts, {"fromOffset": {"0": 0}}), Satisfied)
    assert isinstance(decide(replace(facts, log_start=100), {"fromOffset": {"0": 95}, "last": 10}), Satisfied)
    action = decide(facts, {"last": 10})
    assert isinstance(action, DeleteRecords)
    assert "400 offsets" in action.reason
    assert action.caveat.endswith("an open transaction holds the floor back")


@pytest.mark.parametrize(
    ("more", "following", "is_overdue"),
    [
        (0, RecordStamp(6, LONG_AGO_MS), True),
        (0, RecordStamp(6, NOW_MS - 7 * DAY - 1), False),
        (0, None, False),
        (0, NO_RIGHT, True),
        # Four more stamps of the future are passed; behind five nobody looks.
        (4, RecordStamp(10, NOW_MS - DAY), False),
        (5, RecordStamp(11, NOW_MS - DAY), True),
    ],
    ids=["old", "not yet overdue", "none", "unread", "behind four", "behind five"],
)
def test_a_stamp_of_the_future_blocks_once_what_follows_is_overdue(
    more: int, following: RecordStamp | Unknown | None, is_overdue: bool
) -> None:
    """In doubt it blocks."""
    instants = {NOW_MS - 7 * DAY: NOW_MS + DAY, NOW_MS - 8 * DAY: NOW_MS + DAY}
    behind = None if following is None else RecordStamp(99, NOW_MS - DAY)
    lookups: dict[RecordLookup, RecordStamp | Unknown | None] = {first(6 + more, 100): following}
    lookups |= {first(at, 100): RecordStamp(at, NOW_MS + DAY) for at in range(6, 6 + more)}
    lookups |= {RecordLookup(LookupKind.LAST, at, 100): behind for at in range(6, 20)}
    decision = decide(looked_up(lookups, {7 * DAY: 5, 8 * DAY: 5}, log_start=5, future_stamps=instants))
    assert isinstance(decision, Blocked if is_overdue else Waiting)
    assert "until 2026-11-29T10:00:00Z" in decision.reason


@pytest.mark.parametrize(("ahead_ms", "is_named"), [(1, False), (300_000, False), (300_001, True)])
def test_a_record_of_now_is_no_stamp_of_the_future(ahead_ms: int, is_named: bool) -> None:
    """Five records that came while the plan read, or of a clock two seconds ahead, blocked a partition as overdue."""
    instants = dict.fromkeys((NOW_MS - 7 * DAY, NOW_MS - 8 * DAY), NOW_MS + ahead_ms)
    lookups: dict[RecordLookup, RecordStamp | Unknown | None] = {
        first(at, 100): RecordStamp(at, NOW_MS + ahead_ms) for at in range(6, 20)
    }
    lookups |= {RecordLookup(LookupKind.LAST, at, 100): RecordStamp(99, NOW_MS + ahead_ms) for at in range(6, 20)}
    decision = decide(looked_up(lookups, {7 * DAY: 5, 8 * DAY: 5}, log_start=5, future_stamps=instants))
    assert isinstance(decision, Blocked if is_named else Satisfied)


def test_records_of_now_behind_a_stamp_of_the_future_are_not_overdue() -> None:
    instants = dict.fromkeys((NOW_MS - 7 * DAY, NOW_MS - 8 * DAY), NOW_MS + DAY)
    now = RecordStamp(6, NOW_MS + 1_000)
    lookups = {first(6, 100): now, RecordLookup(LookupKind.LAST, 6, 100): now._replace(offset=99)}
    decision = decide(looked_up(lookups, {7 * DAY: 5, 8 * DAY: 5}, log_start=5, future_stamps=instants))
    assert isinstance(decision, Waiting)


def test_aborted_records_at_the_very_start_are_named() -> None:
    """No marker is at offset 0, and what old ones are behind an aborted record there was in sync."""
    facts = looked_up({first(0, 100): RecordStamp(21, LONG_AGO_MS)}, {7 * DAY: 0, 8 * DAY: 0})
    plan = planned(floor(keep={"newerThan": "7d"}), snapshot(facts, topic(), topic("__transaction_state")))
    (decision,) = plan.decisions
    assert isinstance(decision, Blocked)
    assert decision.code == "B217"
    assert "keeps offset 0, a transaction marker or an aborted record" in decision.reason


@pytest.mark.parametrize("log_start", [20, 0], ids=["in sync", "records go"])
@pytest.mark.parametrize(
    ("found", "code"),
    [
        (RecordStamp(21, NOW_MS - 8 * DAY - 1), "B217"),
        (RecordStamp(21, NOW_MS - 8 * DAY), None),
        (RecordStamp(20, LONG_AGO_MS), None),
        (RecordStamp(21, -1), None),
        (None, None),
        # An unread record is no young one.
        (NO_RIGHT, "B216?"),
        (UNANSWERED, "B216?"),
        (SILENT, "B109?"),
    ],
    ids=["overdue", "not yet", "a record", "of no age", "no record behind", "no right", "no answer", "silent"],
)
def test_an_offset_without_a_record_that_keeps_old_ones_is_named(
    found: RecordStamp | Unknown | None, code: str | None, log_start: int
) -> None:
    """A marker has the time at which its transaction ended, and what a backfill wrote was in sync behind it."""
    facts = looked_up({first(20, 100): found}, {7 * DAY: 20, 8 * DAY: 20}, log_start=log_start)
    plan = planned(floor(keep={"newerThan": "7d"}), snapshot(facts, topic(), topic("__transaction_state")))
    (decision,) = plan.decisions
    if isinstance(found, Unknown) or (code is not None and log_start == 20):
        assert isinstance(decision, Blocked)
        assert decision.code + "?" * decision.unread == code
        assert isinstance(found, Unknown) or "at offset 21" in decision.reason
    elif log_start == 0:
        assert isinstance(decision, DeleteRecords)
        assert decision.before_offset == 20
        assert decision.caveat.endswith("a transaction marker holds the floor back") is (code is not None)
    else:
        assert isinstance(decision, Satisfied)
    in_sync = decide(replace(facts, lookups={}, log_start=20))
    assert isinstance(in_sync, Satisfied), "without transactions nothing is read"


@pytest.mark.parametrize("consumers", ["block", "clamp"])
@pytest.mark.parametrize("is_group", [True, False], ids=["group", "external reader"])
def test_offsets_without_a_record_stay_where_a_consumer_goes_on(consumers: str, is_group: bool) -> None:
    """A marker behind a librdkafka group went, and Kafka reset the group to the end: 100 new records were lost."""
    position = ExternalPosition({TopicPartition("orders", 0): 50}, NOW_MS)
    external = {} if is_group else {external_reader("orders"): position}
    readers = (reader("billing", 50),) if is_group else ()
    facts = looked_up({first(50, 90): None}, {DAY: None}, readers=readers)
    for log_start in (0, 50):
        state = snapshot(replace(facts, log_start=log_start), topic(), group("billing"), external=external)
        (decision,) = planned(floor(keep={"last": 10}, consumers=consumers), state, candidates={ADDRESS}).decisions
        assert isinstance(decision, Satisfied if log_start == 50 else DeleteRecords)
        assert "has read all, and offset 50, where it goes on, stays" in decision.reason
        assert isinstance(decision, Satisfied) or decision.before_offset == 50
