"""Each objection word by word: what is in the way, and what to do next. A stranger reads these at night."""

import pytest

from reconciler.kinds import group_removal
from reconciler.kinds.floor_partition import Floor
from reconciler.kinds.objection import Objection, contradiction, not_read, shown
from reconciler.kinds.readers import blind_spot, excepted_by, proven_position
from reconciler.kinds.retention_floor import not_truncatable
from reconciler.kinds.topics import leadership, suggestion, unknown_partition, unknown_topic, untouchable
from reconciler.model.names import Address, Place, TopicPartition
from reconciler.model.plan import Blocked, Decision, Skipped
from reconciler.model.selector import Selector
from reconciler.model.snapshot import GroupState, GroupType, Unread
from tests.strategies.facts import (
    DAY,
    LOST,
    NOW_MS,
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

ADDRESS, PLACE = Address("RetentionFloor", "gdpr", "orders", 0), Place("floors.yaml", 9, 1)
READ_AGAIN = "see that brokers are up and that the rights to read are there (`doctor` tells), then plan again"


def told(objection: Objection | None) -> tuple[str, str, str, bool]:
    assert objection is not None
    return objection.code, objection.reason, objection.next_step, objection.unread


def blocked(decision: Decision) -> tuple[str, str, str, bool]:
    assert isinstance(decision, Blocked)
    return decision.code, decision.reason, decision.next_step, decision.unread


def test_an_objection_becomes_blocked_or_skipped() -> None:
    """Exact names and unread facts block; a pattern's find is skipped with the same words."""
    plain = Objection(code="B999", reason="because", next_step="do")
    unread = Objection(code="B999", reason="because", next_step="do", unread=True)
    as_blocked = Blocked(address=ADDRESS, declared_at=PLACE, code="B999", reason="because", next_step="do")
    assert plain.blocked(ADDRESS, PLACE) == as_blocked
    assert plain.unqualified(ADDRESS, PLACE, exact=True) == as_blocked
    assert plain.unqualified(ADDRESS, PLACE, exact=False) == Skipped(address=ADDRESS, reason="because")
    assert isinstance(unread.unqualified(ADDRESS, PLACE, exact=False), Blocked)
    assert unread.blocked(ADDRESS, PLACE).unread


def test_what_is_not_known() -> None:
    assert told(not_read("the log start of x", LOST)) == (
        "B103",
        "the log start of x could not be read: broker 2 did not answer",
        READ_AGAIN,
        True,
    )
    assert told(contradiction("an end of -1")) == (
        "B104",
        "the scan contradicts itself: an end of -1",
        "plan again; if it stays, compare with Kafka's own tools before trusting either",
        False,
    )
    lost = leadership(TopicPartition("orders", 3), None)
    assert isinstance(lost, Objection)
    assert lost.reason == "orders[3] could not be read: the scan has no facts about it"
    none = leadership(TopicPartition("orders", 3), partition(3, replicas=()))
    assert isinstance(none, Objection)
    assert none.reason == "the scan contradicts itself: orders[3] has no replicas"


def test_topics_and_partitions_that_are_not_there() -> None:
    assert told(unknown_topic("odrers", snapshot(topic("orders")))) == (
        "B101",
        'topic odrers is not on the cluster, or hidden from this principal; did you mean "orders"?',
        "correct the name, create the topic, or grant DESCRIBE on it",
        False,
    )
    assert told(unknown_partition(TopicPartition("orders", 3), 3)) == (
        "B102",
        "orders has 3 partitions, so none with number 3",
        "correct partitions; numbers begin at 0",
        False,
    )
    assert suggestion("nothing-like-it", ["orders"]) == ""


def test_topics_that_are_not_truncated() -> None:
    assert told(untouchable(topic("__x"))) == (
        "B201",
        "__x belongs to Kafka itself: losing records of it can destroy a cluster's state",
        "take it out of topics, or add it to exceptTopics",
        False,
    )
    assert untouchable(topic("_x")) is None
    assert told(not_truncatable(topic(cleanup_policy=frozenset({"compact"})))) == (
        "B202",
        "cleanup.policy of orders is compact: brokers delete no records of it",
        "take it out of topics, or give it a cleanup.policy that deletes",
        False,
    )
    assert told(not_truncatable(topic(cleanup_policy=LOST)))[1].startswith(
        "the cleanup policy of orders could not be read"
    )
    assert not_truncatable(topic()) is None


@pytest.mark.parametrize(
    ("keep", "facts", "expected"),
    [
        (
            {"last": 60},
            {"leader": None},
            (
                "B203",
                "orders[0] has no leader, and only a leader deletes records",
                "bring a replica of it back, then plan again",
                False,
            ),
        ),
        (
            {"last": 60},
            {"readers": (reader("billing", 5),)},
            (
                "B204",
                'group "billing" is at 5 and would skip 35 records below 40',
                "let it catch up, say consumers: clamp, or name it in exceptGroups",
                False,
            ),
        ),
        (
            {"fromOffset": {"0": 101}},
            {},
            (
                "B208",
                "fromOffset 101 is above the end 100: it was meant for another topic or another time",
                "correct the offset; it is never lowered on its own",
                False,
            ),
        ),
        (
            {"fromOffset": {"0": 10}, "topicId": OTHER_ID},
            {},
            (
                "B209",
                f"orders has topic id {TOPIC_ID}, the manifest's offsets are for {OTHER_ID}",
                "the topic was deleted and made again: read its offsets anew and correct topicId",
                False,
            ),
        ),
        (
            {"since": "2026-11-22T00:00:00Z"},
            {},
            (
                "B210",
                "since 2026-11-22T00:00:00Z is in the future: nothing that is there now would be kept",
                "name an instant that has passed, or use newerThan",
                False,
            ),
        ),
        (
            {"last": 60},
            {"readers_below": 39},
            (
                "B213",
                "readers were looked for below offset 39 only, and the floor is 40",
                "let the scan look at all readers up to the end, then plan again",
                True,
            ),
        ),
        (
            {"last": 60},
            {"log_start": -1001},
            (
                "B104",
                "the scan contradicts itself: orders[0] has log start -1001, end 100, high watermark 100",
                "",
                False,
            ),
        ),
        (
            {"newerThan": "7d"},
            {"at": {7 * DAY: -1, 8 * DAY: 0}},
            (
                "B104",
                "the scan contradicts itself: offset -1 of orders[0] for 2026-11-14T10:00:00Z (end 100)",
                "",
                False,
            ),
        ),
    ],
)
def test_what_stands_in_the_way_of_a_floor(keep: dict, facts: dict, expected: tuple[str, str, str, bool]) -> None:  # type: ignore[type-arg]
    (decision,) = planned(floor(keep=keep), snapshot(partition(**({"at": {DAY: 100}} | facts)))).decisions
    found = blocked(decision)
    assert (found[0], found[1], found[3]) == (expected[0], expected[1], expected[3])
    assert not expected[2] or found[2] == expected[2]


def test_two_readers_in_the_way() -> None:
    facts = partition(at={DAY: 100}, readers=(reader("a", 7), reader("b", 5)))
    (decision,) = planned(floor(keep={"last": 60}), snapshot(facts)).decisions
    assert blocked(decision)[1] == 'group "b" is at 5 and would skip 35 records below 40; 1 more group is behind'


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (
            None,
            (
                "B205",
                'group "g" of unreadBy has no committed position on orders[0]',
                "let it commit one, or take it out of unreadBy: a missing group is not one that has read everything",
                False,
            ),
        ),
        (
            reader("g", 101),
            (
                "B206",
                'group "g" of unreadBy has committed 101, above the end 100',
                "the commit is not of this topic as it is now: reset the group's offsets, or let it commit again",
                False,
            ),
        ),
        (
            reader("g", 5, topic_id=LOST),
            (
                "B103",
                'for which topic group "g" of unreadBy has committed could not be read: broker 2 did not answer',
                READ_AGAIN,
                True,
            ),
        ),
        (
            reader("g", 5, topic_id=OTHER_ID),
            (
                "B207",
                f'group "g" of unreadBy has committed 5 for topic id {OTHER_ID}, and orders is {TOPIC_ID} by now',
                "the topic was deleted and made again: let the group commit on the new one",
                False,
            ),
        ),
    ],
)
def test_commits_that_prove_nothing(standing: object, expected: tuple[str, str, str, bool]) -> None:
    found = proven_position("g", standing, partition(), TOPIC_ID, 100)  # type: ignore[arg-type]
    assert isinstance(found, Objection)
    assert told(found) == expected


def test_a_commit_at_zero_is_a_position() -> None:
    """It proves that nothing was read, which is a proof."""
    assert proven_position("g", reader("g", 0), partition(), TOPIC_ID, 100) == 0


def test_groups_that_nobody_can_see() -> None:
    nobody = excepted_by(())
    rights = "grant DESCRIBE on the cluster and on all groups (`doctor` tells which right is missing), then plan again"
    assert told(blind_spot(snapshot(groups_incomplete=Unread("no right")), nobody)) == (
        "B212",
        "the list of groups is incomplete: no right, so nobody knows whom a purge would hurt",
        rights,
        True,
    )
    assert told(blind_spot(snapshot(readers_incomplete=Unread("no right")), nobody)) == (
        "B212",
        "the commits of all groups could not be read: no right, so nobody knows whom a purge would hurt",
        rights,
        True,
    )
    assert told(blind_spot(snapshot(group("s", type=GroupType.SHARE)), nobody)) == (
        "B211",
        '"s" is a share group, whose position cannot be read, so nobody knows what it would miss',
        "if it does not read this topic, name it in exceptGroups",
        False,
    )
    assert told(blind_spot(snapshot(group("s", type=LOST)), nobody))[1].startswith(
        'the type of group "s" could not be read'
    )
    assert blind_spot(snapshot(group("a"), group("b", type=GroupType.CONSUMER)), nobody) is None


def test_exceptions_are_matched_once_per_group() -> None:
    """Selectors of the manifest, asked for every reader of every partition."""

    excepted = excepted_by(iter([Selector("a*"), Selector("b")]))
    assert [excepted(name) for name in ("a1", "b", "b1", "a1", "b1")] == [True, True, False, True, False]


@pytest.mark.parametrize(
    ("facts", "spec", "expected"),
    [
        (
            {"type": GroupType.SHARE},
            {},
            (
                "B302",
                '"old-etl" is a share group; only classic and consumer groups are ever removed',
                "take it out of groups",
                False,
            ),
        ),
        (
            {"state": GroupState.STABLE},
            {},
            (
                "B303",
                'group "old-etl" is STABLE, not EMPTY: it is in use',
                "stop its members first, or take it out of groups",
                False,
            ),
        ),
        (
            {"idle": DAY},
            {},
            (
                "B304",
                'group "old-etl" was active at 2026-11-20T10:00:00Z, and idleFor is 3d',
                "wait, or take it out of groups if something still uses it",
                False,
            ),
        ),
        (
            {"listed": False},
            {},
            (
                "B301",
                'group "old-etl" is not listed, but the cluster still holds something of it',
                "grant DESCRIBE on the cluster and on the group (`doctor` tells which right is missing), then plan again",
                True,
            ),
        ),
    ],
)
def test_groups_that_are_not_removed(facts: dict, spec: dict, expected: tuple[str, str, str, bool]) -> None:  # type: ignore[type-arg]
    (decision,) = planned(removal(**spec), snapshot(group(**facts))).decisions
    assert blocked(decision) == expected


def test_a_pattern_may_not_give_up_the_evidence() -> None:

    policy = removal(idleFor="0s", exceptGroups=["x"])
    (found,) = group_removal.decide(policy, {"old-etl": False}, snapshot(group()))
    assert found == Skipped(
        address=Address("GroupRemoval", "dead", "old-etl"),
        reason='idleFor 0s gives up the evidence that "old-etl" is idle, and a pattern selected it',
    )


def test_what_the_planner_objects_to() -> None:
    """Protected, journal, too many, two claims."""
    facts = snapshot(partition(at={DAY: 100}), group("old-etl"))
    guarded = cluster(protect={"topics": ["orders"], "groups": ["old-*"]})
    (topics,) = planned(floor(keep={"last": 60}), facts, cluster=guarded).decisions
    assert blocked(topics) == (
        "B106",
        "topic orders is protected by Cluster/prod-eu (manifests/cluster.yaml:1): orders",
        "take it out of the policy, or out of protect in a reviewed change of its own",
        False,
    )
    (groups,) = planned(removal(), facts, cluster=guarded).decisions
    assert blocked(groups)[1] == 'group "old-etl" is protected by Cluster/prod-eu (manifests/cluster.yaml:1): old-*'
    (journal,) = planned(floor(keep={"last": 60}), facts, cluster=cluster(journal={"topic": "orders"})).decisions
    assert blocked(journal) == (
        "B201",
        "orders is the journal of this tool: its records are the audit trail and the clock of `every`",
        "take it out of topics; its own retention rules it",
        False,
    )
    (many,) = planned(floor("ord*", keep={"last": 60}, expectAtMost=0), facts).decisions
    assert blocked(many) == (
        "B107",
        "selects 1 topics, and expectAtMost is 0: nothing of this policy is done",
        "narrow topics, or raise expectAtMost to 1 if all of them are meant",
        False,
    )
    (claimed, _) = planned([leaders(name="a"), leaders("ord*", name="b")], facts).decisions
    assert blocked(claimed) == (
        "B105",
        "LeaderPolicy/a (manifests/leaders.yaml:6) and LeaderPolicy/b (manifests/leaders.yaml:6) both claim topic orders",
        "leave it to one of them: name it under exceptTopics of the others",
        False,
    )


def test_a_group_in_a_sentence_is_quoted() -> None:
    assert shown("old-etl") == '"old-etl"'
    assert shown('a"b\n') == '"a\\"b\\n"'


def test_a_floor_knows_its_guard_once_for_all_partitions() -> None:
    """Named groups and exceptions in order, so that neither order changes a digest."""
    made = Floor.of(floor(keep={"unreadBy": ["b", "a"]}, exceptGroups=["z", "y"]), snapshot())
    assert (made.guard.named, made.guard.except_groups) == (("a", "b"), ("y", "z"))
    assert made.instants.asked == (NOW_MS - DAY,)
