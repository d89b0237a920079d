"""The recheck of a plan on a new snapshot: which actions remain, and how the others end."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from reconciler.errors import PlanUnusable, WrongCluster
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.model.ports import Election
from reconciler.model.snapshot import (
    ClusterSnapshot,
    GroupFacts,
    GroupState,
    GroupType,
    PartitionFacts,
    TopicFacts,
)
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy
from reconciler.plan import recheck
from reconciler.plan.recheck import Recheck
from reconciler.policies import Policy
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver
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
    floor,
    group,
    leaders,
    partition,
    reader,
    snapshot,
    topic,
    waiver,
)
from tests.strategies.facts import removal as groups

LATER_MS = NOW_MS + 60 * SECOND
Facts = PartitionFacts | TopicFacts | GroupFacts


def check_plan(
    plan: Plan, manifest: Cluster, waivers: Sequence[Waiver], facts: ClusterSnapshot, now_ms: int
) -> Recheck:
    """Recheck with policies that ask for exactly the actions of the plan."""
    return recheck.recheck(plan, manifest, policies_of(plan), waivers, facts, now_ms)


def policies_of(plan: Plan) -> list[Policy]:
    """Return policies that name every subject of the plan."""
    names: dict[Address, list[str]] = {}
    for action in plan.actions:
        if not action.address.name.startswith("__"):  # no manifest may name a system topic
            names.setdefault(action.address.policy_address, []).append(action.address.name)
    make: dict[str, Any] = {
        "RetentionFloor": partial(floor, keep={"last": 1}),
        "GroupRemoval": groups,
        "LeaderPolicy": leaders,
    }
    return [make[address.kind](*sorted(set(subjects)), name=address.policy) for address, subjects in names.items()]


def rechecked(
    action: Any, *facts: Facts, now_ms: int = LATER_MS, spec: dict[str, Any] | None = None, **changes: Any
) -> Recheck:
    return check_plan(examples.plan(action), cluster(**(spec or {})), (), snapshot(*facts, **changes), now_ms)


def ending_of(action: Any, *facts: Facts, **changes: Any) -> tuple[Status, str] | None:
    """Return how an action ends before any request; None if it remains."""
    result = rechecked(action, *facts, **changes)
    if result.remaining:
        assert result.remaining == (action,)
        assert result.outcomes == ()
        return None
    (outcome,) = result.outcomes
    assert outcome == Outcome(action=action, status=outcome.status, detail=outcome.detail)
    assert outcome.detail, "every end says why"
    return outcome.status, outcome.detail


# --- the plan as a whole


def test_an_expired_plan_is_unusable() -> None:
    """The comparison is exact to the millisecond."""
    plan = examples.plan(purge())
    facts = snapshot(orders(), topic(partitions=4))
    with pytest.raises(PlanUnusable) as raised:
        check_plan(plan, cluster(), (), facts, NOW_MS + DAY)
    assert str(raised.value) == (
        "the plan expired at 2026-11-22T10:00:00Z, and now it is 2026-11-22T10:00:00Z: nothing was done; plan again"
    )
    assert check_plan(plan, cluster(), (), facts, NOW_MS + DAY - 1).remaining


def test_a_plan_of_another_cluster_is_refused() -> None:
    """Either the brokers or the manifest belong to another cluster."""
    with pytest.raises(WrongCluster) as raised:
        rechecked(purge(), cluster_id="other")
    assert str(raised.value).endswith(
        "the brokers are other: nothing was done; choose the right manifests or plan again"
    )
    with pytest.raises(WrongCluster, match="Cluster/prod-eu names other: nothing was done"):
        rechecked(purge(), spec={"clusterId": "other"})


@pytest.mark.parametrize("make", [purge, removal, election])
def test_a_plan_with_two_actions_on_one_subject_is_unusable(make: Any) -> None:
    """Only an edited file has them; duplicates fail a whole request."""
    with pytest.raises(PlanUnusable, match="twice"):
        check_plan(examples.plan(make(), make(policy="zzz")), cluster(), (), snapshot(), LATER_MS)


def test_one_partition_may_be_purged_and_get_its_leader() -> None:
    """Two operations on one partition are two subjects."""
    actions = (purge(), election("orders", 3))
    result = check_plan(
        examples.plan(*actions), cluster(), (), snapshot(orders(leader=2), topic(partitions=4)), LATER_MS
    )
    assert len(result.remaining) == 2


def test_one_failure_hides_no_other_action() -> None:
    """Each action has its own outcome, in the order of the plan."""
    facts = snapshot(orders(3), orders(4, log_start=LOST), orders(5), topic(partitions=6))
    actions = [purge(partition=number) for number in (3, 4, 5)]
    result = check_plan(examples.plan(*actions), cluster(), (), facts, LATER_MS)
    assert result.remaining == (actions[0], actions[2])
    assert [outcome.action for outcome in result.outcomes] == [actions[1]]


# --- the policies that are loaded now


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ([], ("RetentionFloor/orders-gdpr", "not in the manifests")),
        ([groups("orders", name="orders-gdpr")], ("RetentionFloor/orders-gdpr", "not in the manifests")),
        ([floor("clicks", name="orders-gdpr", keep={"last": 1})], ("floors.yaml:9", "does not select it")),
        ([floor("orders", name="orders-gdpr", keep={"last": 1}, exceptTopics=["ord*"])], ("does not select it",)),
        ([floor("orders", name="orders-gdpr", keep={"last": 1}, partitions=[0])], ("does not select it",)),
        (
            [floor("orders", name="orders-gdpr", keep={"last": 1}), floor("o*", name="new", keep={"last": 5})],
            ("RetentionFloor/new", "both claim topic orders"),
        ),
    ],
    ids=["no policy", "another kind", "another topic", "excepted", "another partition", "claimed twice"],
)
def test_an_action_that_no_policy_asks_for_is_blocked(policies: list[Policy], words: tuple[str, ...]) -> None:
    """A plan file says what was reviewed; the manifests say what is meant now."""
    facts = snapshot(orders(), topic(partitions=4))
    result = recheck.recheck(examples.plan(purge()), cluster(), policies, (), facts, LATER_MS)
    assert result.remaining == ()
    assert result.outcomes[0].status is Status.BLOCKED
    assert all(word in result.outcomes[0].detail for word in words), result.outcomes[0].detail


def test_an_operation_that_the_kind_never_asks_for_is_blocked() -> None:
    """A plan file may name any policy for any action."""
    action = replace(purge(), address=Address("LeaderPolicy", "all", "orders", 3))
    facts = snapshot(orders(), topic(partitions=4))
    result = recheck.recheck(examples.plan(action), cluster(), [leaders()], (), facts, LATER_MS)
    assert (result.remaining, result.outcomes[0].status) == ((), Status.BLOCKED)
    assert "LeaderPolicy/all never asks for a record deletion" in result.outcomes[0].detail


def test_an_election_of_a_topic_that_the_policy_no_longer_names_is_blocked() -> None:
    action = election(unclean=True)
    policies = [leaders(election="unclean", partitions={"clicks": [0]})]
    result = recheck.recheck(examples.plan(action), cluster(), policies, (), snapshot(), LATER_MS)
    assert (result.remaining, result.outcomes[0].status) == ((), Status.BLOCKED)
    assert "does not select it any more" in result.outcomes[0].detail


def test_a_group_that_a_policy_waits_for_by_now_is_not_removed() -> None:
    waiting = floor("orders", keep={"unreadBy": ["old-etl"]})
    policies = [groups(name="dead-etl"), waiting]
    result = recheck.recheck(examples.plan(removal()), cluster(), policies, (), snapshot(group()), LATER_MS)
    assert (result.remaining, result.outcomes[0].status) == ((), Status.BLOCKED)
    assert "named in unreadBy of RetentionFloor/gdpr" in result.outcomes[0].detail


def test_what_is_done_already_needs_no_policy() -> None:
    """A second run of a plan ends as satisfied."""
    facts = snapshot(orders(log_start=98_213), topic(partitions=4))
    result = recheck.recheck(examples.plan(purge()), cluster(), [], (), facts, LATER_MS)
    assert [outcome.status for outcome in result.outcomes] == [Status.SATISFIED]


# --- DeleteRecords


def orders(number: int = 3, **facts: Any) -> PartitionFacts:
    """Return orders[3] as in examples.purge: offsets 1,000 to 250,000, target 98,213."""
    return partition(number, **({"log_start": 1000, "end": 250_000} | facts))


def ending_of_purge(action: DeleteRecords | None = None, *facts: Facts, **changes: Any) -> tuple[Status, str] | None:
    """Return how a purge of orders[3] ends with these facts."""
    about = {
        key: changes.pop(key) for key in tuple(changes) if key in PartitionFacts.__dataclass_fields__ or key == "end"
    }
    return ending_of(action or purge(), orders(**about), topic(partitions=4), *facts, **changes)


def test_a_purge_remains_if_all_facts_hold() -> None:
    assert ending_of_purge() is None
    assert ending_of_purge(log_start=98_212) is None
    assert ending_of_purge(end=250_000, readers_below=98_213) is None


@pytest.mark.parametrize("log_start", [98_213, 98_214])
def test_a_purge_of_another_client_is_satisfied(log_start: int) -> None:
    """Also if it removed more."""
    assert ending_of_purge(log_start=log_start) == (Status.SATISFIED, f"the log start is {log_start} already")


@pytest.mark.parametrize(
    ("facts", "detail"),
    [
        (
            {"topic_id": OTHER_ID},
            f"the topic was deleted and created again: its id is {OTHER_ID}, it was {TOPIC_ID} in the plan",
        ),
        (
            {"topic_id": OTHER_ID, "log_start": LOST},
            f"the topic was deleted and created again: its id is {OTHER_ID}, it was {TOPIC_ID} in the plan",
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
def test_a_purge_is_stale_after_a_change(facts: dict[str, Any], detail: str) -> None:
    assert ending_of_purge(**facts) == (Status.STALE, detail)


def test_a_consumer_at_the_target_does_not_block() -> None:
    assert ending_of_purge(readers=(reader("new", 98_213),)) is None


@pytest.mark.parametrize(
    "facts",
    [
        {"topic_id": LOST},
        {"leader": LOST},
        {"leader": None},
        {"log_start": LOST},
        {"last_stable_offset": LOST},
        {"high_watermark": LOST},
        {"high_watermark": -1001},
        {"readers": LOST},
        {"readers_below": LOST},
        {"readers_below": 98_212},
        {"readers_incomplete": LOST},
        {"groups_incomplete": LOST},
    ],
)
def test_a_purge_with_unread_facts_ends_without_a_request(facts: dict[str, Any]) -> None:
    """Nothing rests on what is not known."""
    result = ending_of_purge(**facts)
    assert result is not None
    assert result[0] is Status.NOT_ATTEMPTED


def test_unread_facts_are_named() -> None:
    """The outcome has the subject and the reason, as in the plan."""
    assert ending_of_purge(readers=LOST) == (
        Status.NOT_ATTEMPTED,
        "the consumers of orders[3] could not be read: broker 2 did not answer",
    )
    assert ending_of_purge(readers_below=5) == (Status.NOT_ATTEMPTED, "consumers were not looked for up to 98213")
    assert ending_of_purge(log_start=LOST) == (
        Status.NOT_ATTEMPTED,
        "the log start of orders[3] could not be read: broker 2 did not answer",
    )
    assert ending_of_purge(purge(every_ms=1), last_purge=LOST) == (
        Status.NOT_ATTEMPTED,
        "when orders[3] was last purged could not be read: broker 2 did not answer",
    )


def test_an_unread_cleanup_policy_fails_and_a_compacted_topic_is_stale() -> None:
    assert ending_of(purge(), orders(), topic(partitions=4, cleanup_policy=LOST))[0] is Status.NOT_ATTEMPTED  # type: ignore[index]
    result = ending_of(purge(), orders(), topic(partitions=4, cleanup_policy=frozenset({"compact"})))
    assert result is not None
    assert result[0] is Status.STALE
    assert "cleanup.policy of orders is compact" in result[1]


def test_a_compacted_topic_that_only_a_pattern_selects_is_blocked() -> None:
    """As in the plan; the topic became `compact,delete` after it, or was named exactly then."""
    facts = snapshot(orders(), topic(partitions=4, cleanup_policy=frozenset({"compact", "delete"})))
    for selector, is_blocked in (("ord*", True), ("orders", False)):
        policies = [floor(selector, name="orders-gdpr", keep={"last": 1})]
        result = recheck.recheck(examples.plan(purge()), cluster(), policies, (), facts, LATER_MS)
        if is_blocked:
            (outcome,) = result.outcomes
            assert (result.remaining, outcome.status) == ((), Status.BLOCKED)
            assert outcome.detail == "orders is compacted, and only a pattern selects it"
        else:
            assert result.remaining == (purge(),)


def test_a_missing_topic_or_partition_is_stale_only_if_the_list_is_complete() -> None:
    assert ending_of(purge()) == (Status.STALE, "topic orders is gone")
    assert ending_of(purge(), topics_incomplete=LOST) == (
        Status.NOT_ATTEMPTED,
        "topic orders is not listed, but the list is incomplete: broker 2 did not answer",
    )
    assert ending_of(purge(), topic(partitions=3)) == (Status.STALE, "orders[3] is gone: the topic has 3 partitions")
    assert ending_of(purge(), topic(partitions=2)) == (Status.STALE, "orders[3] is gone: the topic has 2 partitions")
    assert ending_of(purge(), topic(partitions=1)) == (Status.STALE, "orders[3] is gone: the topic has 1 partition")
    missing = ending_of(purge(), topic(partitions=4))
    assert missing is not None
    assert missing[0] is Status.NOT_ATTEMPTED
    uncounted = ending_of(purge(), topic(partitions=LOST))
    assert uncounted is not None
    assert uncounted[0] is Status.NOT_ATTEMPTED


def test_present_protections_apply() -> None:
    """The protections at the time of the plan do not matter."""
    assert ending_of_purge(spec={"protect": {"topics": ["ord*"]}}) == (
        Status.BLOCKED,
        "topic orders is protected by Cluster/prod-eu (manifests/cluster.yaml:1): ord*",
    )
    journal = ending_of_purge(spec={"journal": {"topic": "orders"}})
    assert journal is not None
    assert journal[0] is Status.BLOCKED


def test_no_plan_file_truncates_a_system_topic() -> None:
    """Also if an edited file has such an action."""
    result = ending_of(purge("__consumer_offsets"), orders(topic="__consumer_offsets"), topic("__consumer_offsets", 4))
    assert result is not None
    assert result[0] is Status.BLOCKED
    internal = ending_of(purge(), orders(), topic(partitions=4, internal=True))
    assert internal is not None
    assert internal[0] is Status.BLOCKED


@pytest.mark.parametrize(
    ("positions", "status", "detail"),
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
        ((reader("billing", 98_213, topic_id=LOST),), Status.NOT_ATTEMPTED, "for which topic"),
    ],
)
def test_each_named_group_must_be_at_the_target_or_above(
    positions: tuple[Any, ...], status: Status | None, detail: str
) -> None:
    """A named group that is missing or moved back makes the purge stale."""
    result = ending_of_purge(purge(named=("billing",)), group("billing"), readers=positions)
    if status is None:
        assert result is None
    else:
        assert result is not None
        assert result[0] is status
        assert result[1].startswith(detail)


def test_all_named_groups_are_checked() -> None:
    result = ending_of_purge(purge(named=("a", "b")), readers=(reader("a", 98_213), reader("b", 5)))
    assert result == (Status.STALE, 'group "b" is at 5 now, below the target 98213')


@pytest.mark.parametrize(
    ("committed", "detail"),
    [(52_000, None), (52_001, None), (51_999, 'group "late" is at 51999 now, behind the 52000 that the plan accepted')],
)
def test_an_accepted_consumer_may_not_fall_further_behind(committed: int, detail: str | None) -> None:
    """It would skip more records than in the review."""
    action = purge(consumers=LagPolicy.IGNORE, accepted=(AcceptedLag("late", 52_000),))
    result = ending_of_purge(action, readers=(reader("late", committed),))
    assert result == (None if detail is None else (Status.STALE, detail))


def test_an_accepted_consumer_that_is_missing_does_not_block() -> None:
    assert ending_of_purge(purge(consumers=LagPolicy.IGNORE, accepted=(AcceptedLag("late", 52_000),))) is None


def test_excepted_groups_are_not_checked() -> None:
    """Neither their positions nor their hidden types count; all other groups do."""
    action = purge(except_groups=("console-*",))
    carts = group("console-9", type=GroupType.SHARE)
    assert ending_of_purge(action, carts, readers=(reader("console-1", 5),)) is None
    assert ending_of_purge(action, carts, readers=(reader("console-1", 5), reader("zzz", 5))) is not None


def test_a_new_hidden_group_makes_the_purge_stale() -> None:
    """Its position is unknown."""
    result = ending_of_purge(None, group("carts", type=GroupType.SHARE))
    assert result is not None
    assert result[0] is Status.STALE
    unknown = ending_of_purge(None, group("carts", type=LOST))
    assert unknown is not None
    assert unknown[0] is Status.NOT_ATTEMPTED


def test_actions_of_one_plan_have_separate_guards() -> None:
    """An exception of one action does not apply to another."""
    actions = (
        purge(partition=3, except_groups=("carts",)),
        purge(partition=4),
    )
    facts = snapshot(orders(3), orders(4), topic(partitions=5), group("carts", type=GroupType.SHARE))
    result = check_plan(examples.plan(*actions), cluster(), (), facts, LATER_MS)
    assert result.remaining == actions[:1]


@pytest.mark.parametrize(
    ("last_purge", "status"),
    [
        (None, None),
        (LATER_MS - 30 * SECOND - 1, None),
        (LATER_MS - 30 * SECOND, Status.WAITING),
        (LATER_MS + SECOND, Status.WAITING),
        (LOST, Status.NOT_ATTEMPTED),
    ],
)
def test_the_purge_interval_must_be_over(last_purge: Any, status: Status | None) -> None:
    """The clock of the apply counts, not that of the plan."""
    result = ending_of_purge(purge(every_ms=30 * SECOND), last_purge=last_purge)
    assert (None if result is None else result[0]) is status
    if status is Status.WAITING:
        assert result is not None
        assert result[1].endswith("purges of a partition are at least 30s apart")


def test_without_an_interval_the_journal_does_not_matter() -> None:
    assert ending_of_purge(last_purge=LOST) is None


# --- DeleteGroup


def test_a_removal_remains_if_all_facts_hold() -> None:
    assert ending_of(removal(), group()) is None


@pytest.mark.parametrize(
    ("facts", "status", "detail"),
    [
        (
            {"type": LOST},
            Status.NOT_ATTEMPTED,
            'the type of group "old-etl" could not be read: broker 2 did not answer',
        ),
        ({"type": GroupType.CONSUMER}, Status.STALE, 'group "old-etl" is of type consumer now, it was classic'),
        ({"type": GroupType.SHARE}, Status.BLOCKED, 'group "old-etl" is of type share, which is never removed'),
        ({"type": GroupType.SHARE, "listed": False}, Status.STALE, '"old-etl" is a share group'),
        ({"type": LOST, "listed": False}, Status.NOT_ATTEMPTED, 'the type of group "old-etl" could not be read'),
        (
            {"listed": False},
            Status.NOT_ATTEMPTED,
            'group "old-etl" is not listed, but the cluster still holds something of it',
        ),
        ({"state": LOST}, Status.NOT_ATTEMPTED, 'the state of group "old-etl" could not be read'),
        ({"state": GroupState.UNKNOWN}, Status.NOT_ATTEMPTED, 'the state of group "old-etl" could not be read'),
        ({"state": GroupState.STABLE}, Status.STALE, 'group "old-etl" is STABLE now'),
        (
            {"fingerprint": LOST},
            Status.NOT_ATTEMPTED,
            'the commits of group "old-etl" could not be read: broker 2 did not answer',
        ),
        ({"fingerprint": "cd" * 32}, Status.STALE, 'group "old-etl" has other commits than the plan saw'),
        (
            {"newest_record": LOST},
            Status.NOT_ATTEMPTED,
            'the activity of group "old-etl" could not be read: broker 2 did not answer',
        ),
        ({"newest_record": (17, 4712)}, Status.STALE, 'the commit log holds a newer record of group "old-etl"'),
    ],
)
def test_a_removal_ends_after_a_change(facts: dict[str, Any], status: Status, detail: str) -> None:
    """A member, a commit (the same offset again is only in the commit log), another type, no group."""
    result = ending_of(removal(), group(**facts))
    assert result is not None
    assert result[0] is status
    assert result[1].startswith(detail)


def test_without_evidence_the_commit_log_is_not_read() -> None:
    """The policy has idleFor: 0s."""
    action = removal(idle_for_ms=0, newest_record=None, last_activity_ms=None)
    assert ending_of(action, group(newest_record=LOST, idle=LOST)) is None
    assert ending_of(action, group(newest_record=(1, 1))) is None


def test_a_missing_group_is_satisfied_only_if_the_list_is_complete() -> None:
    assert ending_of(removal()) == (Status.SATISFIED, "it is not listed any more")
    result = ending_of(removal(), groups_incomplete=LOST)
    assert result is not None
    assert result[0] is Status.NOT_ATTEMPTED


def test_a_group_that_is_protected_now_is_blocked() -> None:
    result = ending_of(removal(), group(), spec={"protect": {"groups": ["old-*"]}})
    assert result is not None
    assert result[0] is Status.BLOCKED


# --- ElectLeader


def payments(**facts: Any) -> PartitionFacts:
    """Return payments[0] as in examples.election: broker 2 leads, broker 1 is preferred and in
    sync.
    """
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
        ({"topic_id": OTHER_ID}, (1, 2, 3), Status.STALE, "the topic was deleted and created again"),
        ({"leader": LOST}, (1, 2, 3), Status.NOT_ATTEMPTED, "the leader of payments[0] could not be read"),
        ({"replicas": LOST}, (1, 2, 3), Status.NOT_ATTEMPTED, "the replicas of payments[0] could not be read"),
        ({"topic_id": LOST}, (1, 2, 3), Status.NOT_ATTEMPTED, "the topic id of payments[0] could not be read"),
    ],
)
def test_a_preferred_election(
    facts: dict[str, Any], brokers: tuple[int, ...], status: Status | None, detail: str
) -> None:
    result = ending_of(election(), payments(**facts), brokers=brokers)
    assert (None if result is None else result[0]) is status
    assert result is None or result[1].startswith(detail)


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
    """It remains only without a leader and without an in-sync replica."""
    action = election(unclean=True)
    assert action.election is Election.UNCLEAN
    result = rechecked(
        action,
        payments(**({"leader": None, "in_sync": (2,)} | facts)),
        brokers=brokers,
        spec={},
    )
    if status is None:
        assert result.remaining == (action,)
        return
    (outcome,) = result.outcomes
    assert outcome.status is status
    assert outcome.detail.startswith(detail)


def test_a_protected_topic_gets_no_unclean_election() -> None:
    facts = payments(leader=None, in_sync=())
    result = ending_of(election(unclean=True), facts, spec={"protect": {"topics": ["payments"]}})
    assert result is not None
    assert result[0] is Status.BLOCKED
    assert ending_of(election(), payments(), spec={"protect": {"topics": ["payments"]}}) is None


def test_an_election_of_a_deleted_topic_is_stale() -> None:
    assert ending_of(election()) == (Status.STALE, "topic payments is gone")


# --- limits and waivers as they stand now


def test_limits_count_the_remaining_actions() -> None:
    """Satisfied actions no longer count."""
    actions = [purge(partition=number) for number in (3, 4)] + [purge("other", 0)]
    facts = snapshot(
        orders(3),
        orders(4, log_start=98_213),
        partition(topic="other", log_start=1000, end=250_000),
        topic(partitions=5, records=10**6),
    )
    result = check_plan(examples.plan(*actions), cluster(limits={"topics": 1}), (), facts, LATER_MS)
    assert len(result.remaining) == 2
    refused = [verdict for verdict in result.limits if not verdict.passed]
    assert "topics" in [verdict.id for verdict in refused]
    facts_after = replace(
        facts,
        partitions={
            **facts.partitions,
            TopicPartition("other", 0): partition(topic="other", log_start=98_213, end=250_000),
        },
    )
    second_result = check_plan(examples.plan(*actions), cluster(limits={"topics": 1}), (), facts_after, LATER_MS)
    assert next(verdict for verdict in second_result.limits if verdict.id == "topics").passed


def test_records_that_expired_do_not_count() -> None:
    """The share counts the records that this apply deletes."""
    facts = (orders(log_start=90_000), topic(partitions=4, records=10_000))
    result = rechecked(purge(), *facts)
    share = next(verdict for verdict in result.limits if verdict.id == "recordsPercentPerTopic")
    assert share.observed == pytest.approx(82.13)
    assert result.remaining == (purge(),)


@pytest.mark.parametrize(
    ("readers", "groups_now", "share"),
    [
        ((), (), 0.0),
        ((reader("tail", 98_213),), (), 0.0),
        ((reader("tail", 98_212),), (), 97.213),
        ((), (group("tail", type=GroupType.SHARE, listed=False),), 97.213),
    ],
    ids=["no other group", "at the target", "behind the target", "of unknown position"],
)
def test_records_that_an_excepted_group_may_miss_by_now_count(
    readers: Any, groups_now: tuple[GroupFacts, ...], share: float
) -> None:
    """The rule consumed_by_named for them when the plan was made, and the group is not checked."""
    action = purge(consumed_by_named=True, named=("billing",), except_groups=("tail",))
    about = orders(readers=(reader("billing", 98_213, topic_id=TOPIC_ID), *readers))
    result = rechecked(action, about, topic(partitions=4, records=100_000), *groups_now)
    assert result.remaining == (action,)
    verdict = next(verdict for verdict in result.limits if verdict.id == "recordsPercentPerTopic")
    assert verdict.observed == pytest.approx(share)


def test_waivers_must_be_valid_at_the_apply() -> None:
    """A waiver that expired since the plan has no effect."""
    facts = snapshot(orders(), topic(partitions=4, records=100_000), cluster_records=10**7, observed_at_ms=LATER_MS)
    for expires, passed in (("2026-11-21T10:00:30Z", False), ("2026-11-21T10:02:00Z", True)):
        allowed = waiver("RetentionFloor/orders-gdpr", "recordsPercentPerTopic", 100, expires=expires)
        result = check_plan(examples.plan(purge()), cluster(), (allowed,), facts, LATER_MS)
        assert next(v for v in result.limits if v.id == "recordsPercentPerTopic").passed is passed


# --- needs


def test_the_recheck_requests_only_the_subjects_of_the_plan() -> None:
    """Offsets and consumers of purges with their named groups, commits of removals, metadata of
    elections.
    """
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
    requested = [
        ([s.text for s in n.topics], n.partitions, n.offsets, n.readers, n.named_groups, n.every_ms, n.instants_ms)
        for n in needs.topics
    ]
    assert requested == [
        (["d"], frozenset({7}), False, False, frozenset(), None, ()),
        (["a"], frozenset({0, 2}), True, True, frozenset({"billing"}), 5, ()),
        (["b", "c"], frozenset({1}), True, True, frozenset(), None, ()),
    ]
    assert [([s.text for s in n.groups], n.activity) for n in needs.groups] == [
        (["old-etl"], True),
        (["without"], False),
    ]
    assert needs.topic_records
    assert needs.cluster_records


def test_a_recheck_of_elections_needs_no_spark() -> None:
    """An empty plan needs no facts."""
    assert not recheck.scan_request(examples.plan(election())).spark
    assert recheck.scan_request(examples.plan()) == recheck.ScanRequest()
    assert not recheck.scan_request(examples.plan(removal())).cluster_records


@pytest.mark.parametrize("name", ["a*b", "[ab]", "regex:.*", "what?", "plain", "line\nbreak"])
def test_a_group_id_that_looks_like_a_pattern_is_requested_exactly(name: str) -> None:
    """Ids are any text; a request for `[ab]` must not select a and b."""
    (want,) = recheck.scan_request(examples.plan(removal(name))).groups
    (selector,) = want.groups
    assert selector.matches(name)
    assert not any(selector.matches(other) for other in ("a", "b", "aXb", "whatX", "regexXX", "") if other != name)


def test_the_outcome_names_its_action() -> None:
    (outcome,) = rechecked(removal()).outcomes
    assert isinstance(outcome.action, DeleteGroup)
    assert outcome.action.address == Address("GroupRemoval", "dead-etl", "old-etl")
    assert (outcome.sends, outcome.removed_max, outcome.code, outcome.read_back) == (0, 0, None, None)
