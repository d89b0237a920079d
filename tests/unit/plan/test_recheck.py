"""What is left of a plan on a fresh snapshot: goes on, already so, stale, protected, waiting, or not to be told."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.errors import PlanUnusable, WrongCluster
from reconciler.model.election import Election
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import GroupFacts, GroupState, GroupType, PartitionFacts, TopicFacts
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy
from reconciler.plan import recheck
from reconciler.plan.recheck import Recheck
from tests.strategies import examples
from tests.strategies.examples import election, purge, removal
from tests.strategies.facts import (
    DAY,
    LOST,
    NOW_MS,
    OTHER_ID,
    SECOND,
    TOPIC_ID,
    cluster,
    group,
    partition,
    reader,
    snapshot,
    topic,
    waiver,
)

LATER_MS = NOW_MS + 60 * SECOND
Facts = PartitionFacts | TopicFacts | GroupFacts


def rechecked(
    action: Any, *facts: Facts, now_ms: int = LATER_MS, spec: dict[str, Any] | None = None, **changes: Any
) -> Recheck:
    return recheck.recheck(examples.plan(action), cluster(**(spec or {})), (), snapshot(*facts, **changes), now_ms)


def ending(action: Any, *facts: Facts, **changes: Any) -> tuple[Status, str] | None:
    """How the one action ended before anything was sent; None: it goes on."""
    found = rechecked(action, *facts, **changes)
    if found.remaining:
        assert found.remaining == (action,)
        assert found.outcomes == ()
        return None
    (outcome,) = found.outcomes
    assert outcome == Outcome(action=action, status=outcome.status, detail=outcome.detail)
    assert outcome.detail, "every end says why"
    return outcome.status, outcome.detail


# --- the plan as a whole


def test_an_expired_plan_is_unusable() -> None:
    """To the millisecond; expiry binds what is applied."""
    plan = examples.plan(purge())
    facts = snapshot(orders(), topic(partitions=4))
    with pytest.raises(PlanUnusable) as raised:
        recheck.recheck(plan, cluster(), (), facts, NOW_MS + DAY)
    assert str(raised.value) == (
        "the plan expired at 2026-11-22T10:00:00Z, and now it is 2026-11-22T10:00:00Z: nothing was done; plan again"
    )
    assert recheck.recheck(plan, cluster(), (), facts, NOW_MS + DAY - 1).remaining


def test_a_plan_of_another_cluster_is_refused() -> None:
    """Whether it is the brokers or the manifest that are of another one."""
    with pytest.raises(WrongCluster) as raised:
        rechecked(purge(), cluster_id="other")
    assert str(raised.value).endswith(
        "the brokers are other: nothing was done; choose the right manifests or plan again"
    )
    with pytest.raises(WrongCluster, match="Cluster/prod-eu names other: nothing was done"):
        rechecked(purge(), spec={"clusterId": "other"})


@pytest.mark.parametrize("make", [purge, removal, election])
def test_a_plan_that_acts_on_one_subject_twice_is_unusable(make: Any) -> None:
    """Only an edited file can: duplicates fail a whole request."""
    with pytest.raises(PlanUnusable, match="twice"):
        recheck.recheck(examples.plan(make(), make(policy="zzz")), cluster(), (), snapshot(), LATER_MS)


def test_one_partition_may_be_purged_and_get_its_leader() -> None:
    """Two operations are two subjects."""
    actions = (purge(), election("orders", 3))
    found = recheck.recheck(
        examples.plan(*actions), cluster(), (), snapshot(orders(leader=2), topic(partitions=4)), LATER_MS
    )
    assert len(found.remaining) == 2


def test_one_failure_hides_no_other_action() -> None:
    """Each action has its own end, in the plan's order."""
    facts = snapshot(orders(3), orders(4, log_start=LOST), orders(5), topic(partitions=6))
    actions = [purge(partition=number) for number in (3, 4, 5)]
    found = recheck.recheck(examples.plan(*actions), cluster(), (), facts, LATER_MS)
    assert found.remaining == (actions[0], actions[2])
    assert [outcome.action for outcome in found.outcomes] == [actions[1]]


# --- DeleteRecords


def orders(number: int = 3, **facts: Any) -> PartitionFacts:
    """orders[3] as examples.purge saw it: offsets 1000 to 250,000, target 98,213."""
    return partition(number, **({"log_start": 1000, "end": 250_000} | facts))


def purged(action: DeleteRecords | None = None, *facts: Facts, **changes: Any) -> tuple[Status, str] | None:
    """How a purge of orders[3] ends with these facts about it."""
    about = {
        key: changes.pop(key) for key in tuple(changes) if key in PartitionFacts.__dataclass_fields__ or key == "end"
    }
    return ending(action or purge(), orders(**about), topic(partitions=4), *facts, **changes)


def test_a_purge_goes_on_while_everything_holds() -> None:
    assert purged() is None
    assert purged(log_start=98_212) is None
    assert purged(end=250_000, readers_below=98_213) is None


@pytest.mark.parametrize("log_start", [98_213, 98_214])
def test_a_purge_that_somebody_did_first_is_satisfied(log_start: int) -> None:
    """Also where it went further."""
    assert purged(log_start=log_start) == (Status.SATISFIED, f"the log start is {log_start} already")


@pytest.mark.parametrize(
    ("facts", "detail"),
    [
        (
            {"topic_id": OTHER_ID},
            f"the topic was deleted and made again: its id is {OTHER_ID}, it was {TOPIC_ID} in the plan",
        ),
        (
            {"topic_id": OTHER_ID, "log_start": LOST},
            f"the topic was deleted and made again: its id is {OTHER_ID}, it was {TOPIC_ID} in the plan",
        ),
        ({"end": 98_212}, "the high watermark is 98212, below the 250000 of the plan"),
        ({"end": 249_999}, "the high watermark is 249999, below the 250000 of the plan"),
        ({"log_start": 999}, "the log start is 999, below the 1000 of the plan"),
        ({"readers": (reader("new", 98_212),)}, 'group "new" is at 98212, and the plan does not know it there'),
        (
            {"readers": (reader("new", 1000, implied=True),)},
            'group "new" is at 1000, and the plan does not know it there',
        ),
    ],
)
def test_a_purge_is_stale_where_the_world_moved(facts: dict[str, Any], detail: str) -> None:
    assert purged(**facts) == (Status.STALE, detail)


def test_a_reader_at_the_target_is_in_nobodys_way() -> None:
    assert purged(readers=(reader("new", 98_213),)) is None


@pytest.mark.parametrize(
    "facts",
    [
        {"topic_id": LOST},
        {"leader": LOST},
        {"leader": None},
        {"log_start": LOST},
        {"stable_end": LOST},
        {"high_watermark": LOST},
        {"high_watermark": -1001},
        {"readers": LOST},
        {"readers_below": LOST},
        {"readers_below": 98_212},
        {"readers_incomplete": LOST},
        {"groups_incomplete": LOST},
    ],
)
def test_a_purge_of_which_something_cannot_be_read_again_fails_unsent(facts: dict[str, Any]) -> None:
    """Nothing rests on what is not known."""
    found = purged(**facts)
    assert found is not None
    assert found[0] is Status.FAILED


def test_what_could_not_be_read_again_is_named() -> None:
    """Subject and reason, as in the plan."""
    assert purged(readers=LOST) == (
        Status.FAILED,
        "the consumers of orders[3] could not be read: broker 2 did not answer",
    )
    assert purged(readers_below=5) == (Status.FAILED, "consumers were not looked for up to 98213")
    assert purged(log_start=LOST) == (
        Status.FAILED,
        "the log start of orders[3] could not be read: broker 2 did not answer",
    )
    assert purged(purge(every_ms=1), last_purge_ms=LOST) == (
        Status.FAILED,
        "when orders[3] was last purged could not be read: broker 2 did not answer",
    )


def test_an_unread_cleanup_policy_fails_and_one_that_deletes_no_more_is_stale() -> None:
    assert ending(purge(), orders(), topic(partitions=4, cleanup_policy=LOST))[0] is Status.FAILED  # type: ignore[index]
    found = ending(purge(), orders(), topic(partitions=4, cleanup_policy=frozenset({"compact"})))
    assert found is not None
    assert found[0] is Status.STALE
    assert "cleanup.policy of orders is compact" in found[1]


def test_a_topic_or_partition_that_is_gone_is_stale_only_where_the_list_proves_it() -> None:
    assert ending(purge()) == (Status.STALE, "topic orders is gone")
    assert ending(purge(), topics_incomplete=LOST) == (
        Status.FAILED,
        "topic orders is not listed, but the list is incomplete: broker 2 did not answer",
    )
    assert ending(purge(), topic(partitions=3)) == (Status.STALE, "orders[3] is gone: the topic has 3 partitions")
    assert ending(purge(), topic(partitions=2)) == (Status.STALE, "orders[3] is gone: the topic has 2 partitions")
    assert ending(purge(), topic(partitions=1)) == (Status.STALE, "orders[3] is gone: the topic has 1 partition")
    missing = ending(purge(), topic(partitions=4))
    assert missing is not None
    assert missing[0] is Status.FAILED
    uncounted = ending(purge(), topic(partitions=LOST))
    assert uncounted is not None
    assert uncounted[0] is Status.FAILED


def test_protections_hold_as_they_stand_now() -> None:
    """Whatever the plan was made under."""
    assert purged(spec={"protect": {"topics": ["ord*"]}}) == (
        Status.BLOCKED,
        "topic orders is protected by Cluster/prod-eu (manifests/cluster.yaml:1): ord*",
    )
    journal = purged(spec={"journal": {"topic": "orders"}})
    assert journal is not None
    assert journal[0] is Status.BLOCKED


def test_no_plan_file_truncates_a_system_topic() -> None:
    """However it came by such an action."""
    found = ending(purge("__consumer_offsets"), orders(topic="__consumer_offsets"), topic("__consumer_offsets", 4))
    assert found is not None
    assert found[0] is Status.BLOCKED
    internal = ending(purge(), orders(), topic(partitions=4, internal=True))
    assert internal is not None
    assert internal[0] is Status.BLOCKED


@pytest.mark.parametrize(
    ("standing", "status", "detail"),
    [
        ((reader("billing", 98_213),), None, ""),
        ((reader("billing", 98_213, topic_id=None),), None, ""),
        ((), Status.STALE, 'group "billing" of unreadBy has no committed position on orders[3]'),
        (
            (reader("billing", 1000, implied=True),),
            Status.STALE,
            'group "billing" of unreadBy has no committed position',
        ),
        ((reader("billing", 98_212),), Status.STALE, 'group "billing" is at 98212 now, below the target 98213'),
        (
            (reader("billing", 250_001),),
            Status.STALE,
            'group "billing" of unreadBy has committed 250001, above the end 250000',
        ),
        (
            (reader("billing", 98_213, topic_id=OTHER_ID),),
            Status.STALE,
            'group "billing" of unreadBy has committed 98213 for topic id',
        ),
        ((reader("billing", 98_213, topic_id=LOST),), Status.FAILED, "for which topic"),
    ],
)
def test_each_named_group_still_stands_at_or_above_the_target(
    standing: tuple[Any, ...], status: Status | None, detail: str
) -> None:
    """A named group that vanished or went back makes the purge stale."""
    found = purged(purge(named=("billing",)), group("billing"), readers=standing)
    if status is None:
        assert found is None
    else:
        assert found is not None
        assert found[0] is status
        assert found[1].startswith(detail)


def test_all_named_groups_are_looked_at() -> None:
    found = purged(purge(named=("a", "b")), readers=(reader("a", 98_213), reader("b", 5)))
    assert found == (Status.STALE, 'group "b" is at 5 now, below the target 98213')


@pytest.mark.parametrize(
    ("committed", "detail"),
    [(52_000, None), (52_001, None), (51_999, 'group "late" is at 51999 now, behind the 52000 that the plan accepted')],
)
def test_an_accepted_reader_may_not_have_fallen_further_behind(committed: int, detail: str | None) -> None:
    """It would skip more than was reviewed."""
    action = purge(consumers=LagPolicy.IGNORE, accepted=(AcceptedLag("late", 52_000),))
    found = purged(action, readers=(reader("late", committed),))
    assert found == (None if detail is None else (Status.STALE, detail))


def test_an_accepted_reader_that_is_gone_is_in_nobodys_way() -> None:
    assert purged(purge(consumers=LagPolicy.IGNORE, accepted=(AcceptedLag("late", 52_000),))) is None


def test_excepted_groups_are_not_looked_at_again() -> None:
    """Neither their positions nor their hidden types; everybody else is."""
    action = purge(except_groups=("console-*",))
    carts = group("console-9", type=GroupType.SHARE)
    assert purged(action, carts, readers=(reader("console-1", 5),)) is None
    assert purged(action, carts, readers=(reader("console-1", 5), reader("zzz", 5))) is not None


def test_a_hidden_group_that_appeared_makes_it_stale() -> None:
    """Nobody knows where it stands."""
    found = purged(None, group("carts", type=GroupType.SHARE))
    assert found is not None
    assert found[0] is Status.STALE
    unknown = purged(None, group("carts", type=LOST))
    assert unknown is not None
    assert unknown[0] is Status.FAILED


def test_guards_of_one_plan_are_kept_apart() -> None:
    """What one action excepts holds for no other."""
    actions = (
        purge(partition=3, except_groups=("carts",)),
        purge(partition=4),
    )
    facts = snapshot(orders(3), orders(4), topic(partitions=5), group("carts", type=GroupType.SHARE))
    found = recheck.recheck(examples.plan(*actions), cluster(), (), facts, LATER_MS)
    assert found.remaining == actions[:1]


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (None, None),
        (LATER_MS - 30 * SECOND - 1, None),
        (LATER_MS - 30 * SECOND, Status.WAITING),
        (LATER_MS + SECOND, Status.WAITING),
        (LOST, Status.FAILED),
    ],
)
def test_the_purge_interval_has_to_be_over_by_now(last: Any, status: Status | None) -> None:
    """Measured on the clock of the apply, not of the plan."""
    found = purged(purge(every_ms=30 * SECOND), last_purge_ms=last)
    assert (None if found is None else found[0]) is status
    if status is Status.WAITING:
        assert found is not None
        assert found[1].endswith("purges of a partition are at least 30s apart")


def test_without_a_clock_the_journal_does_not_matter() -> None:
    assert purged(last_purge_ms=LOST) is None


# --- DeleteGroup


def test_a_removal_goes_on_while_everything_holds() -> None:
    assert ending(removal(), group()) is None


@pytest.mark.parametrize(
    ("facts", "status", "detail"),
    [
        ({"type": LOST}, Status.FAILED, 'the type of group "old-etl" could not be read: broker 2 did not answer'),
        ({"type": GroupType.CONSUMER}, Status.STALE, 'group "old-etl" is of type consumer now, it was classic'),
        ({"type": GroupType.SHARE}, Status.BLOCKED, 'group "old-etl" is of type share, which is never removed'),
        ({"type": GroupType.SHARE, "listed": False}, Status.STALE, '"old-etl" is a share group'),
        ({"type": LOST, "listed": False}, Status.FAILED, 'the type of group "old-etl" could not be read'),
        (
            {"listed": False},
            Status.FAILED,
            'group "old-etl" is not listed, but the cluster still holds something of it',
        ),
        ({"state": LOST}, Status.FAILED, 'the state of group "old-etl" could not be read'),
        ({"state": GroupState.UNKNOWN}, Status.FAILED, 'the state of group "old-etl" could not be read'),
        ({"state": GroupState.STABLE}, Status.STALE, 'group "old-etl" is STABLE now'),
        (
            {"fingerprint": LOST},
            Status.FAILED,
            'the commits of group "old-etl" could not be read: broker 2 did not answer',
        ),
        ({"fingerprint": "cd" * 32}, Status.STALE, 'group "old-etl" has other commits than the plan saw'),
        (
            {"newest_record": LOST},
            Status.FAILED,
            'the activity of group "old-etl" could not be read: broker 2 did not answer',
        ),
        ({"newest_record": (17, 4712)}, Status.STALE, 'the commit log holds a newer record of group "old-etl"'),
    ],
)
def test_a_removal_ends_where_something_moved(facts: dict[str, Any], status: Status, detail: str) -> None:
    """Joined, committed (the same offset again shows in the commit log only), another type, gone."""
    found = ending(removal(), group(**facts))
    assert found is not None
    assert found[0] is status
    assert found[1].startswith(detail)


def test_without_evidence_the_commit_log_is_not_asked_again() -> None:
    """idleFor 0s gave it up when planning."""
    action = removal(idle_for_ms=0, newest_record=None, last_activity_ms=None)
    assert ending(action, group(newest_record=LOST, idle=LOST)) is None
    assert ending(action, group(newest_record=(1, 1))) is None


def test_a_group_that_is_gone_is_satisfied_only_where_the_list_proves_it() -> None:
    assert ending(removal()) == (Status.SATISFIED, "gone already")
    found = ending(removal(), groups_incomplete=LOST)
    assert found is not None
    assert found[0] is Status.FAILED


def test_a_group_protected_by_now_is_blocked() -> None:
    found = ending(removal(), group(), spec={"protect": {"groups": ["old-*"]}})
    assert found is not None
    assert found[0] is Status.BLOCKED


# --- ElectLeader


def payments(**facts: Any) -> PartitionFacts:
    """payments[0] as examples.election saw it: led by 2, broker 1 preferred and in sync."""
    return partition(0, topic="payments", **({"leader": 2} | facts))


@pytest.mark.parametrize(
    ("facts", "brokers", "status", "detail"),
    [
        ({}, (1, 2, 3), None, ""),
        ({"leader": 3, "in_sync": (1, 3)}, (1, 2, 3), None, ""),
        ({"leader": 1}, (1, 2, 3), Status.SATISFIED, "broker 1 leads already"),
        ({"leader": 1, "replicas": (1, 3)}, (1, 2, 3), Status.SATISFIED, "broker 1 leads already"),
        ({"replicas": (1, 3, 2)}, (1, 2, 3), Status.STALE, "the replicas are 1,3,2 now, they were 1,2,3"),
        (
            {"replicas": (2, 3), "in_sync": (2, 3)},
            (1, 2, 3),
            Status.STALE,
            "the replicas are 2,3 now, they were 1,2,3",
        ),
        ({"in_sync": (2, 3)}, (1, 2, 3), Status.STALE, "broker 1 is not alive and in sync now"),
        ({}, (2, 3), Status.STALE, "broker 1 is not alive and in sync now"),
        ({"topic_id": OTHER_ID}, (1, 2, 3), Status.STALE, "the topic was deleted and made again"),
        ({"leader": LOST}, (1, 2, 3), Status.FAILED, "the leader of payments[0] could not be read"),
        ({"replicas": LOST}, (1, 2, 3), Status.FAILED, "the replicas of payments[0] could not be read"),
        ({"topic_id": LOST}, (1, 2, 3), Status.FAILED, "the topic id of payments[0] could not be read"),
    ],
)
def test_a_preferred_election(
    facts: dict[str, Any], brokers: tuple[int, ...], status: Status | None, detail: str
) -> None:
    found = ending(election(), payments(**facts), brokers=brokers)
    assert (None if found is None else found[0]) is status
    assert found is None or found[1].startswith(detail)


@pytest.mark.parametrize(
    ("facts", "brokers", "status", "detail"),
    [
        ({}, (1, 3), None, ""),
        ({"leader": 3}, (1, 3), Status.SATISFIED, "broker 3 leads already"),
        ({"in_sync": (2,)}, (1, 2, 3), Status.STALE, "broker 2 is alive and in sync now: no record needs to be lost"),
        ({"replicas": (1, 2)}, (1, 3), Status.STALE, "the replicas are 1,2 now, they were 1,2,3"),
    ],
)
def test_an_unclean_election(
    facts: dict[str, Any], brokers: tuple[int, ...], status: Status | None, detail: str
) -> None:
    """Only while leaderless and while nobody in sync is there."""
    action = election(unclean=True)
    assert action.election is Election.UNCLEAN
    found = rechecked(
        action,
        payments(**({"leader": None, "in_sync": (2,)} | facts)),
        brokers=brokers,
        spec={"limits": {"uncleanElections": 1}},
    )
    if status is None:
        assert found.remaining == (action,)
        return
    (outcome,) = found.outcomes
    assert outcome.status is status
    assert outcome.detail.startswith(detail)


def test_a_protected_topic_gets_no_unclean_leader() -> None:
    facts = payments(leader=None, in_sync=())
    found = ending(election(unclean=True), facts, spec={"protect": {"topics": ["payments"]}})
    assert found is not None
    assert found[0] is Status.BLOCKED
    assert ending(election(), payments(), spec={"protect": {"topics": ["payments"]}}) is None


def test_an_election_of_a_topic_that_is_gone_is_stale() -> None:
    assert ending(election()) == (Status.STALE, "topic payments is gone")


# --- limits and waivers as they stand now


def test_limits_are_checked_on_what_remains() -> None:
    """What somebody did first counts no more."""
    actions = [purge(partition=number) for number in (3, 4)] + [purge("other", 0)]
    facts = snapshot(
        orders(3),
        orders(4, log_start=98_213),
        partition(topic="other", log_start=1000, end=250_000),
        topic(partitions=5, records=10**6),
    )
    found = recheck.recheck(examples.plan(*actions), cluster(limits={"topics": 1}), (), facts, LATER_MS)
    assert len(found.remaining) == 2
    refused = [verdict for verdict in found.limits if not verdict.passed]
    assert "topics" in [verdict.id for verdict in refused]
    done = replace(
        facts,
        partitions={
            **facts.partitions,
            TopicPartition("other", 0): partition(topic="other", log_start=98_213, end=250_000),
        },
    )
    again = recheck.recheck(examples.plan(*actions), cluster(limits={"topics": 1}), (), done, LATER_MS)
    assert next(verdict for verdict in again.limits if verdict.id == "topics").passed


def test_records_that_retention_took_meanwhile_count_no_more() -> None:
    """The share is of what is lost by this apply."""
    facts = (orders(log_start=90_000), topic(partitions=4, records=10_000))
    found = rechecked(purge(), *facts)
    share = next(verdict for verdict in found.limits if verdict.id == "recordsPercentPerTopic")
    assert share.observed == pytest.approx(82.13)
    assert found.remaining == (purge(),)


def test_waivers_count_as_they_stand_at_the_apply() -> None:
    """One that expired in between waives nothing any more."""
    facts = snapshot(orders(), topic(partitions=4, records=100_000), cluster_records=10**7, observed_at_ms=LATER_MS)
    for expires, passed in (("2026-11-21T10:00:30Z", False), ("2026-11-21T10:02:00Z", True)):
        allowed = waiver("RetentionFloor/orders-gdpr", "recordsPercentPerTopic", 100, expires=expires)
        found = recheck.recheck(examples.plan(purge()), cluster(), (allowed,), facts, LATER_MS)
        assert next(v for v in found.limits if v.id == "recordsPercentPerTopic").passed is passed


# --- needs


def test_recheck_asks_for_the_plans_subjects_and_nothing_else() -> None:
    """Offsets and readers of what is purged, with the named groups; commits of what is removed; metadata of what is elected."""
    plan = examples.plan(
        purge("a", 0, named=("billing",), every_ms=5),
        purge("a", 2, named=("billing",), every_ms=5),
        purge("b", 1),
        purge("c", 1),
        removal("old-etl"),
        removal("without", idle_for_ms=0, newest_record=None),
        election("d", 7),
    )
    needs = recheck.scan_request(plan)
    seen = [
        ([s.text for s in n.topics], n.partitions, n.offsets, n.readers, n.named_groups, n.last_purge, n.instants_ms)
        for n in needs.topics
    ]
    assert seen == [
        (["d"], frozenset({7}), False, False, frozenset(), False, ()),
        (["a"], frozenset({0, 2}), True, True, frozenset({"billing"}), True, ()),
        (["b", "c"], frozenset({1}), True, True, frozenset(), False, ()),
    ]
    assert [([s.text for s in n.groups], n.activity) for n in needs.groups] == [
        (["old-etl"], True),
        (["without"], False),
    ]
    assert needs.topic_records
    assert needs.cluster_records


def test_recheck_of_elections_needs_no_spark_and_of_nothing_needs_nothing() -> None:
    assert not recheck.scan_request(examples.plan(election())).spark
    assert recheck.scan_request(examples.plan()) == recheck.ScanRequest()
    assert not recheck.scan_request(examples.plan(removal())).cluster_records


@pytest.mark.parametrize("name", ["a*b", "[ab]", "regex:.*", "what?", "plain", "line\nbreak"])
def test_a_group_whose_id_reads_like_a_pattern_is_asked_for_exactly(name: str) -> None:
    """Ids are arbitrary text; asking for `[ab]` must not ask for a and b."""
    (want,) = recheck.scan_request(examples.plan(removal(name))).groups
    (selector,) = want.groups
    assert selector.matches(name)
    assert not any(selector.matches(other) for other in ("a", "b", "aXb", "whatX", "regexXX", "") if other != name)


def test_the_outcome_names_its_action() -> None:
    (outcome,) = rechecked(removal()).outcomes
    assert isinstance(outcome.action, DeleteGroup)
    assert outcome.action.address == Address("GroupRemoval", "dead-etl", "old-etl")
    assert (outcome.sends, outcome.removed_max, outcome.code, outcome.read_back) == (0, 0, None, None)
