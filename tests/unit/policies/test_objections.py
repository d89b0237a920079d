"""Each block: its code, the names and numbers in its reason, the fields in its next step, and
whether a fact is unread.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.model.block_reason import BlockReason, contradiction, unknown_fact
from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.plan import Blocked, Decision, Skipped
from reconciler.model.selector import Selector
from reconciler.model.snapshot import Cause, GroupState, GroupType, PendingCommit, Unknown
from reconciler.operations.consumers import group_excluder, unknown_consumers, verified_offset, verified_positions
from reconciler.operations.elect_leader import observe_leadership
from reconciler.operations.touchable import check_records_deletable, listed_topic, missing_partition
from reconciler.policies.retention_floor import FloorEvaluator
from reconciler.text.escape import quoted
from reconciler.text.suggest import suggestion_of_many
from tests.golden.wording import mentions
from tests.strategies.facts import (
    DAY,
    LOST,
    OTHER_ID,
    TOPIC_ID,
    cluster,
    floor,
    group,
    leaders,
    partition,
    planned,
    reader,
    removal,
    snapshot,
    topic,
)

ADDRESS, PLACE = Address("RetentionFloor", "gdpr", "orders", 0), SourceLocation("floors.yaml", 9, 1)


Expected = tuple[str, tuple[str, ...], tuple[str, ...], bool]
"""Code, facts of the reason, facts of the next step, unread."""


def assert_objection(objection: BlockReason | Decision | None, expected: Expected) -> None:
    assert isinstance(objection, BlockReason | Blocked)
    code, facts, fields, unread = expected
    assert (objection.code, objection.unread) == (code, unread)
    assert mentions(objection.reason, *facts), objection.reason
    assert fields, "a word of the next step"
    assert mentions(objection.next_step, *fields), objection.next_step


def block_of(check: Callable[..., object], *arguments: object) -> BlockReason:
    """Return the block that a check raises."""
    with pytest.raises(BlockReason) as error:
        check(*arguments)
    return error.value


def test_a_block_reason_becomes_blocked_or_skipped() -> None:
    """Exact names and unread facts are blocked; a match of a pattern is skipped with the same
    reason.
    """
    plain = BlockReason(code="B999", reason="because", next_step="do")
    unread = BlockReason(code="B999", reason="because", next_step="do", unread=True)
    as_blocked = Blocked(address=ADDRESS, declared_at=PLACE, code="B999", reason="because", next_step="do")
    assert plain.blocked(ADDRESS, PLACE) == as_blocked
    assert plain.blocked_or_skipped(ADDRESS, PLACE, exact=True) == as_blocked
    assert plain.blocked_or_skipped(ADDRESS, PLACE, exact=False) == Skipped(
        address=ADDRESS, code="B999", reason="because"
    )
    assert isinstance(unread.blocked_or_skipped(ADDRESS, PLACE, exact=False), Blocked)
    assert unread.blocked(ADDRESS, PLACE).unread


def test_unread_facts() -> None:
    lost = unknown_fact("the log start of x", LOST)
    assert_objection(lost, ("B103", ("the log start of x", LOST.reason), ("`doctor`",), True))
    assert_objection(contradiction("an end of -1"), ("B104", ("an end of -1",), ("Kafka's own tools",), False))
    facts = block_of(observe_leadership, TopicPartition("orders", 3), None)
    assert_objection(facts, ("B103", ("orders[3]",), ("`doctor`",), True))
    replicas = block_of(observe_leadership, TopicPartition("orders", 3), partition(3, replicas=()))
    assert_objection(replicas, ("B104", ("orders[3]", "replicas"), ("Kafka's own tools",), False))


def test_missing_topics_and_partitions() -> None:
    misspelt = block_of(listed_topic, "odrers", snapshot(topic("orders")))
    assert_objection(misspelt, ("B101", ("odrers", '"orders"'), ("DESCRIBE",), False))
    number = missing_partition(TopicPartition("orders", 3), 3)
    assert_objection(number, ("B102", ("orders", "3 partitions"), ("partitions", "0"), False))
    assert suggestion_of_many("nothing-like-it", ["orders"]) == ""


def test_topics_that_are_not_truncated() -> None:
    assert_objection(
        block_of(check_records_deletable, topic("__x")), ("B201", ("__x",), ("topics", "exceptTopics"), False)
    )
    check_records_deletable(topic("_x"))
    compact = block_of(check_records_deletable, topic(cleanup_policy=frozenset({"compact"})))
    assert_objection(compact, ("B202", ("cleanup.policy", "orders", "compact"), ("topics", "cleanup.policy"), False))
    lost = block_of(check_records_deletable, topic(cleanup_policy=LOST))
    assert_objection(lost, ("B103", ("policy", "orders", LOST.reason), ("`doctor`",), True))
    check_records_deletable(topic())


@pytest.mark.parametrize(
    ("keep", "facts", "expected"),
    [
        ({"last": 60}, {"leader": None}, ("B203", ("orders[0]",), ("replicas", "1,2,3"), False)),
        (
            {"last": 60},
            {"readers": (reader("billing", 5),)},
            ("B204", ('"billing"', "5", "35 records", "40"), ("consumers: clamp", "exceptGroups"), False),
        ),
        ({"fromOffset": {"0": 101}}, {}, ("B208", ("fromOffset", "101", "100"), ("offset", "never lowered"), False)),
        (
            {"fromOffset": {"0": 10}, "topicId": OTHER_ID},
            {},
            ("B209", ("orders", TOPIC_ID, OTHER_ID), ("topicId",), False),
        ),
        ({"since": "2026-11-22T00:00:00Z"}, {}, ("B210", ("since 2026-11-22T00:00:00Z",), ("newerThan",), False)),
        ({"last": 60}, {"readers_below": 39}, ("B213", ("39", "40"), ("scan", "groups"), True)),
        (
            {"last": 60},
            {"log_start": -1001},
            ("B104", ("orders[0]", "log start -1001", "end 100", "high watermark 100"), ("Kafka's own tools",), False),
        ),
        (
            {"newerThan": "7d"},
            {"at": {7 * DAY: -1, 8 * DAY: 0}},
            ("B104", ("offset -1", "orders[0]", "2026-11-14T10:00:00Z", "100"), ("Kafka's own tools",), False),
        ),
    ],
)
def test_consumers_below_a_floor(keep: dict, facts: dict, expected: Expected) -> None:  # type: ignore[type-arg]
    (decision,) = planned(floor(keep=keep), snapshot(partition(**({"at": {DAY: 100}} | facts)))).decisions
    assert_objection(decision, expected)


def test_two_consumers_below_a_floor() -> None:
    """The slowest one is named, the other one is counted."""
    facts = partition(at={DAY: 100}, readers=(reader("a", 7), reader("b", 5)))
    (decision,) = planned(floor(keep={"last": 60}), snapshot(facts)).decisions
    assert_objection(decision, ("B204", ('"b"', "5", "35 records", "40", "1 more"), ("consumers: clamp",), False))


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (None, ("B205", ('"g"', "unreadBy", "orders[0]"), ("unreadBy",), False)),
        (reader("g", 101), ("B206", ('"g"', "unreadBy", "101", "100"), ("reset",), False)),
        (reader("g", 5, topic_id=LOST), ("B103", ('"g"', "unreadBy", LOST.reason), ("`doctor`",), True)),
        (
            reader("g", 5, topic_id=OTHER_ID),
            ("B207", ('"g"', "unreadBy", "5", OTHER_ID, "orders", TOPIC_ID), ("commit on the new",), False),
        ),
    ],
)
def test_invalid_committed_offsets(position: object, expected: Expected) -> None:
    assert_objection(block_of(verified_offset, "g", position, partition(), TOPIC_ID, 100), expected)


@pytest.mark.parametrize("name", ["g*", "regex:g.*", "g[1]", "regex:("])
def test_a_pattern_in_unread_by_is_an_exact_name(name: str) -> None:
    """Kafka has groups of any name, so it is not an error; without a commit the next step says what it means."""
    reason = block_of(verified_offset, name, None, partition(), TOPIC_ID, 100)
    assert_objection(reason, ("B205", (quoted(name), "unreadBy"), ("exact names",), False))


def test_a_commit_at_zero_is_a_position() -> None:
    """It proves that the group has read nothing."""
    assert verified_offset("g", reader("g", 0), partition(), TOPIC_ID, 100) == 0


def test_unlisted_groups() -> None:
    no_exceptions, rights = group_excluder(()), ("DESCRIBE", "`doctor`")
    unlisted = unknown_consumers(snapshot(groups_incomplete=Unknown("no right")), no_exceptions).of("orders")
    assert_objection(unlisted, ("B212", ("list of groups", "no right"), rights, True))
    uncommitted = unknown_consumers(snapshot(readers_incomplete=Unknown("no right")), no_exceptions).of("orders")
    assert_objection(uncommitted, ("B212", ("commits", "no right"), rights, True))
    share = unknown_consumers(snapshot(group("s", type=GroupType.SHARE)), no_exceptions).of("orders")
    assert_objection(share, ("B211", ('"s"', "share group"), ("exceptGroups",), False))
    untyped = unknown_consumers(snapshot(group("s", type=LOST)), no_exceptions).of("orders")
    assert_objection(untyped, ("B103", ("type", '"s"', LOST.reason), ("`doctor`",), True))
    assert (
        unknown_consumers(snapshot(group("a"), group("b", type=GroupType.CONSUMER)), no_exceptions).of("orders") is None
    )


def test_exceptions_are_matched_once_per_group() -> None:
    """Each consumer of each partition would otherwise match all selectors again."""

    excepted = group_excluder(iter([Selector("a*"), Selector("b")]))
    assert [excepted(name) for name in ("a1", "b", "b1", "a1", "b1")] == [True, True, False, True, False]


OPEN = Unknown("an open transaction", Cause.OPEN_TRANSACTION)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"type": GroupType.SHARE}, ("B302", ('"old-etl"', "share", "classic", "consumer"), ("groups",), False)),
        ({"state": GroupState.STABLE}, ("B303", ('"old-etl"', "STABLE"), ("groups",), False)),
        ({"idle": DAY}, ("B304", ('"old-etl"', "2026-11-20T10:00:00Z", "idleFor is 3d"), ("groups",), False)),
        ({"last_activity_ms": OPEN}, ("B304", ('"old-etl"', "transaction"), ("exceptGroups",), False)),
        ({"listed": False}, ("B301", ('"old-etl"',), ("DESCRIBE", "`doctor`"), True)),
    ],
)
def test_groups_that_are_not_removed(facts: dict, expected: Expected) -> None:  # type: ignore[type-arg]
    (decision,) = planned(removal(), snapshot(group(**facts))).decisions
    assert_objection(decision, expected)


def test_a_pattern_needs_evidence() -> None:
    policy = removal(idleFor="0s", exceptGroups=["x"])
    (decision,) = policy.decide({"old-etl": False}, snapshot(group()))
    assert isinstance(decision, Skipped)
    assert decision.address == Address("GroupRemoval", "dead", "old-etl")
    assert mentions(decision.reason, "idleFor 0s", '"old-etl"')


def test_blocks_of_the_planner() -> None:
    """Protected, journal topic, too many matches, two policies."""
    facts = snapshot(partition(at={DAY: 100}), group("old-etl"))
    guarded = cluster(protect={"topics": ["orders"], "groups": ["old-*"]})
    by = ("Cluster/prod-eu", "manifests/cluster.yaml:1")
    (topics,) = planned(floor(keep={"last": 60}), facts, cluster=guarded).decisions
    assert_objection(topics, ("B106", ("topic orders", *by), ("protect",), False))
    (groups,) = planned(removal(), facts, cluster=guarded).decisions
    assert_objection(groups, ("B106", ('"old-etl"', *by, "old-*"), ("protect",), False))
    (journal,) = planned(floor(keep={"last": 60}), facts, cluster=cluster(journal={"topic": "orders"})).decisions
    assert_objection(journal, ("B201", ("orders", "journal"), ("topics",), False))
    (many,) = planned(floor("ord*", keep={"last": 60}, expectAtMost=0), facts).decisions
    assert_objection(many, ("B107", ("1", "expectAtMost", "0"), ("topics", "expectAtMost", "1"), False))
    (claimed, _) = planned([leaders(name="a"), leaders("ord*", name="b")], facts).decisions
    claims = tuple(f"LeaderPolicy/{name} (manifests/leaders.yaml:6)" for name in "ab")
    assert_objection(claimed, ("B105", ("orders", *claims), ("exceptTopics",), False))


def test_a_group_in_a_sentence_has_quotes() -> None:
    assert quoted("old-etl") == '"old-etl"'
    assert quoted('a"b\n') == '"a\\"b\\n"'


def test_a_floor_has_one_guard_for_all_partitions() -> None:
    """Named groups and exceptions are sorted, so that their order does not change a digest."""
    evaluator = FloorEvaluator(floor(keep={"unreadBy": ["b", "a"]}, exceptGroups=["z", "y"]), snapshot())
    assert (evaluator.guard.named, evaluator.guard.except_groups) == (("a", "b"), ("y", "z"))


SHARE = group("s", type=GroupType.SHARE, listed=False, may_read=frozenset({"clicks"}))


def test_a_share_group_blocks_only_the_topics_that_it_may_read() -> None:
    """One share group anywhere once blocked every floor of the cluster. Without keys it may read anything."""
    no_exceptions = group_excluder(())
    unknown = unknown_consumers(snapshot(SHARE), no_exceptions)
    assert_objection(unknown.of("clicks"), ("B211", ('"s"', "share group"), ("exceptGroups",), False))
    assert unknown.of("orders") is None
    anywhere = unknown_consumers(snapshot(replace(SHARE, may_read=None)), no_exceptions)
    assert anywhere.of("orders") is not None
    nothing = unknown_consumers(snapshot(replace(SHARE, may_read=frozenset())), no_exceptions)
    assert nothing.of("clicks") is None


@pytest.mark.parametrize(
    ("changes", "stands"),
    [
        ({"pending": PendingCommit(20, 7)}, 20),
        ({"pending": PendingCommit(80, 7)}, 50),
        ({"pending": PendingCommit(None, 7)}, 3),
        ({"committed": 3, "without_commit": True, "pending": PendingCommit(20, 7)}, 3),
        ({"committed": 101, "pending": PendingCommit(20, 7)}, 3),
        ({"topic_id": OTHER_ID, "pending": PendingCommit(20, 7)}, 3),
    ],
    ids=["lower", "higher", "not decodable", "the first commit", "a commit above the end", "of another topic"],
)
def test_a_pending_commit_can_only_lower_a_position(changes: dict[str, object], stands: int) -> None:
    """Either commit can be the position once the transaction ends; a commit that proves nothing restarts the group."""
    (position,) = verified_positions([replace(reader("g", 50), **changes)], TOPIC_ID, 3, 100)  # type: ignore[arg-type]
    assert position.committed == stands


def test_a_named_group_has_read_up_to_the_lower_commit() -> None:
    """Of the visible one and the pending one; without a visible one it has read nothing."""

    def offset(**changes: object) -> int:
        position = replace(reader("g", 50), **changes)  # type: ignore[arg-type]
        return verified_offset("g", position, partition(), TOPIC_ID, 100)

    assert offset(pending=PendingCommit(20, 7)) == 20
    assert offset(pending=PendingCommit(80, 7)) == 50
    for changes in ({"without_commit": True}, {"pending": PendingCommit(None, 7)}):
        with pytest.raises(BlockReason) as blocked:
            offset(**changes)
        assert blocked.value.code == "B205"
