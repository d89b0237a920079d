"""Deciding a saved plan again, on facts and by manifests of now: what remains, and how the rest ends.

What the planner decides about facts is tested with the policies. Here are its decisions within a saved plan.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from reconciler.errors import PlanUnusable, WrongCluster
from reconciler.model.block_reason import BLOCK_CODES, Origin
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Blocked, Plan, Skipped
from reconciler.model.scan_request import ScanRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import GroupFacts, GroupState, GroupType, PartitionFacts, TopicFacts
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.operations.observation import Observation
from reconciler.plan import planner, recheck
from reconciler.plan.expiry_and_cluster import CLOCKS_APART_MAX_MS
from reconciler.plan.recheck import Recheck
from reconciler.plan.targets import with_parents
from reconciler.policies import Policy
from tests.strategies import examples
from tests.strategies.facts import (
    DAY,
    LOST,
    MINUTE,
    NOW_MS,
    OTHER_ID,
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
    waiver,
)
from tests.strategies.planner_inputs import PlannerInput, later_days

LATER_MS = NOW_MS + MINUTE
LAST = {"last": 10}
Facts = PartitionFacts | TopicFacts | GroupFacts


def orders(number: int = 0, **facts: Any) -> PartitionFacts:
    """A partition with offsets 0 to 100, all younger than a day, for the planner of both instants."""
    return partition(number, **({"at": {DAY: 0, DAY - MINUTE: 0}} | facts))


def payments(**facts: Any) -> PartitionFacts:
    """A partition that broker 2 leads, and broker 1 should."""
    return partition(topic="payments", **({"leader": 2} | facts))


def saved(policy: Policy, *facts: Facts, **changes: Any) -> Plan:
    return planned(policy, snapshot(*facts, **changes))


FLOOR, OLD, LED = floor(keep=LAST), removal(), leaders()
PATTERN = floor("o*", keep=LAST)
UNCLEAN = leaders(election="unclean", partitions={"payments": [0]})
LEADERLESS = payments(leader=None, in_sync=(2,))
UNREAD_BY = floor(keep={"unreadBy": ["billing"]})
READ = orders(readers=(reader("billing", 90),))
PURGE, REMOVE, ELECT = saved(FLOOR, orders()), saved(OLD, group()), saved(LED, payments())
"""Saved plans: orders[0] is purged up to 90, old-etl removed, and broker 1 elected for payments[0]."""
AWAIT, FORCE = saved(UNREAD_BY, READ), saved(UNCLEAN, LEADERLESS, brokers=(1, 3))


def decide(
    plan: Plan, policies: Policy | Sequence[Policy], *facts: Facts, spec: Any = None, waivers: Any = (), **changes: Any
) -> Recheck:
    """Decide a saved plan again, a minute later, by these policies. `spec`: of the Cluster of now."""
    later = snapshot(*facts, **({"observed_at_ms": LATER_MS} | changes))
    loaded = [policies] if isinstance(policies, Policy) else list(policies)
    return recheck.recheck(plan, cluster(**(spec or {})), loaded, waivers, later)


def ending(result: Recheck) -> Outcome:
    """Return the outcome of the only action, of which nothing is sent."""
    (outcome,) = result.outcomes
    assert result.remaining == ()
    said = {name: getattr(outcome, name) for name in ("action", "status", "detail", "held")}
    assert outcome == Outcome(**said), "no request went out"
    assert outcome.detail, "every end says why"
    return outcome


def only_purge(result: Recheck) -> DeleteRecords:
    (action,) = result.remaining
    assert result.outcomes == ()
    assert isinstance(action, DeleteRecords)
    return action


# --- the plan as a whole


def test_a_plan_is_usable_from_its_scan_to_its_expiry() -> None:
    """Both comparisons are exact to the millisecond. Clocks of two machines may be a minute apart.

    A plan made by a clock two days ahead once removed a group that had committed seconds before.
    """
    for at_ms in (NOW_MS - CLOCKS_APART_MAX_MS, NOW_MS + DAY - 1):
        assert decide(REMOVE, OLD, group(), observed_at_ms=at_ms).remaining
    with pytest.raises(PlanUnusable) as expired:
        decide(REMOVE, OLD, group(), observed_at_ms=NOW_MS + DAY)
    assert str(expired.value) == (
        "the plan expired at 2026-11-22T10:00:00Z, and now it is 2026-11-22T10:00:00Z: nothing was done; plan again"
    )
    with pytest.raises(PlanUnusable) as ahead:
        decide(REMOVE, OLD, group(), observed_at_ms=NOW_MS - CLOCKS_APART_MAX_MS - 1)
    assert "stamped 2026-11-21T10:00:00Z" in str(ahead.value)
    assert str(ahead.value).endswith("nothing was done; set the clock that is wrong, then plan again")


def test_a_plan_of_another_cluster_is_refused() -> None:
    """Either the brokers or the manifest belong to another cluster."""
    with pytest.raises(WrongCluster, match="the brokers are other: nothing was done; choose the right manifests"):
        decide(REMOVE, OLD, cluster_id="other")
    with pytest.raises(WrongCluster, match="Cluster/prod-eu names other: nothing was done"):
        decide(REMOVE, OLD, spec={"clusterId": "other"})


@pytest.mark.parametrize("make", [examples.purge, examples.removal, examples.election])
def test_a_plan_with_two_actions_on_one_subject_is_unusable(make: Any) -> None:
    """Only an edited file has them; duplicates fail a whole request."""
    with pytest.raises(PlanUnusable, match="twice"):
        decide(examples.plan(make(), make(policy="zzz")), ())


def test_one_partition_may_be_purged_and_get_its_leader() -> None:
    """Two operations on one partition are two subjects; both are sent as saved on unchanged facts."""
    policies: list[Policy] = [FLOOR, LED]
    plan = planned(policies, snapshot(orders(leader=2)))
    assert decide(plan, policies, orders(leader=2)).remaining == plan.actions
    assert {type(action) for action in plan.actions} == {DeleteRecords, ElectLeader}


def test_an_exact_name_still_truncates_a_compacted_topic() -> None:
    """It became `compact,delete` after the plan; only for a pattern that is too much (B214)."""
    purge = only_purge(decide(PURGE, FLOOR, orders(), COMPACTED))
    assert purge.may_have_gaps
    assert replace(purge, may_have_gaps=False) == PURGE.actions[0]


def test_one_failure_hides_no_other_action() -> None:
    """Each action has its own result, in the order of the plan."""
    plan = saved(FLOOR, *map(orders, range(3)))
    result = decide(plan, FLOOR, orders(0), orders(1, log_start=LOST), orders(2))
    assert result.remaining == (plan.actions[0], plan.actions[2])
    assert [outcome.action for outcome in result.outcomes] == [plan.actions[1]]


# --- how actions end of which nothing is sent

PROTECT = {"spec": {"protect": {"topics": ["*"], "groups": ["*"]}}}
COMPACTED = topic(cleanup_policy=frozenset({"compact", "delete"}))
BY_PATTERN = removal("old-*")
NO_EVIDENCE = BY_PATTERN.model_copy(update={"spec": BY_PATTERN.spec.model_copy(update={"idle_for": 0})})
Row = tuple[Plan, Policy | list[Policy], list[Facts], dict[str, Any], str]

BLOCKED: list[Row] = [
    (PURGE, [], [orders()], {}, "RetentionFloor/gdpr is not in the manifests"),
    (PURGE, removal("orders", name="gdpr"), [orders()], {}, "RetentionFloor/gdpr is not in the manifests"),
    (PURGE, floor("clicks", keep=LAST), [orders()], {}, "(manifests/floors.yaml:9) does not select it any more"),
    (PURGE, floor("ord*", keep=LAST, exceptTopics=["ord*"]), [orders()], {}, "does not select it any more"),
    (PURGE, floor(keep=LAST, partitions=[1]), [orders(), orders(1)], {}, "does not select it any more"),
    (PURGE, [FLOOR, floor("o*", name="new", keep=LAST)], [orders()], {}, "both claim topic orders (B105)"),
    (PURGE, FLOOR, [orders()], PROTECT, "protected by Cluster/prod-eu (manifests/cluster.yaml:1): * (B106)"),
    (PURGE, PATTERN, [orders(), COMPACTED], {}, "only a pattern selects it (B214)"),
    (REMOVE, NO_EVIDENCE, [group()], {}, "(B305)"),
    (REMOVE, removal("old-*", exceptGroups=["old-etl"]), [group()], {}, "does not select it any more"),
    (ELECT, leaders("clicks"), [payments()], {}, "does not select it any more"),
    (FORCE, leaders(election="unclean", partitions={"payments": [1]}), [LEADERLESS], {}, "does not select it"),
]
UNREAD: list[Row] = [
    (PURGE, FLOOR, [orders(log_start=LOST)], {}, "could not be read"),
    (PURGE, FLOOR, [topic()], {}, "(B103)"),
    (PURGE, FLOOR, [], {"topics_incomplete": LOST}, "topic orders is not listed: broker 2 did not answer"),
    (PURGE, PATTERN, [], {"topics_incomplete": LOST}, "the list of topics is incomplete: broker 2 did not answer"),
    (REMOVE, OLD, [], {"groups_incomplete": LOST}, "(B301)"),
    (REMOVE, removal("old-*"), [], {"groups_incomplete": LOST}, "the list of groups is incomplete"),
    (REMOVE, OLD, [group(state=LOST)], {}, "(B103)"),
    (ELECT, LED, [payments(leader=LOST)], {}, "(B103)"),
]
IGNORE, LATE = floor(keep=LAST, consumers="ignore"), orders(readers=(reader("late", 52),))
SECOND_PARTITION, RISK = saved(FLOOR, orders(1)), saved(IGNORE, LATE)
STALE: list[Row] = [
    (PURGE, FLOOR, [orders(topic_id=OTHER_ID)], {}, f"the topic is {OTHER_ID} now"),
    (PURGE, FLOOR, [], {}, "(B101)"),
    (PURGE, PATTERN, [], {}, "orders[0] is gone"),
    (SECOND_PARTITION, FLOOR, [orders()], {}, "orders[1] is gone"),
    # Other conditions: tightened, they hold now; loosened, nobody has reviewed what they allow.
    (RISK, FLOOR, [orders()], {}, "consumers is block, it was ignore in the reviewed plan"),
    (PURGE, IGNORE, [orders()], {}, "consumers is ignore, it was block in the reviewed plan"),
    (REMOVE, removal(idleFor="2s"), [group()], {}, "idleFor is 2s"),
    (REMOVE, OLD, [group(state=GroupState.STABLE)], {}, "(B303)"),
    (REMOVE, OLD, [group(type=GroupType.CONSUMER)], {}, "of type consumer, it was classic in the reviewed plan"),
    (ELECT, LED, [payments(replicas=(1, 3, 2))], {}, "not those of the reviewed plan"),
    (ELECT, LED, [], {}, "payments[0] is gone"),
]


@pytest.mark.parametrize(
    ("status", "row"),
    [
        (status, row)
        for status, rows in ((Status.BLOCKED, BLOCKED), (Status.NOT_ATTEMPTED, UNREAD), (Status.STALE, STALE))
        for row in rows
    ],
)
def test_how_an_action_ends_of_which_nothing_is_sent(status: Status, row: Row) -> None:
    """The manifests say what is meant now. Nothing rests on what is not known, which another try may read, and a
    subject is gone only if the list is complete. Otherwise the cluster changed since the plan.
    """
    plan, policies, facts, changes, words = row
    outcome = ending(decide(plan, policies, *facts, **changes))
    assert outcome.status is status, outcome.detail
    assert words in outcome.detail


BY_ORIGIN = {
    Origin.MANIFESTS: Status.BLOCKED,
    Origin.UNREAD: Status.NOT_ATTEMPTED,
    Origin.CLUSTER: Status.STALE,
}


@settings(max_examples=max(400, settings.default.max_examples))
@given(later_days())
def test_what_the_planner_blocks_now_ends_by_its_code(days: tuple[PlannerInput, PlannerInput]) -> None:
    """The facts are the planner's: nothing else decides about them, and the outcome has its reason."""
    first_day, later = days
    plan = first_day.plan()
    asked = frozenset(action.address for action in plan.actions)
    _selections, decided = planner.decide(later.cluster, later.policies, later.snapshot, addresses=asked)
    now = {decision.address: decision for decision in decided}
    result = later.recheck(plan)
    for outcome in result.outcomes:
        decision = next((now[at] for at in with_parents(outcome.action.address) if at in now), None)
        if isinstance(decision, Blocked | Skipped) and outcome not in result.done:
            is_unread = isinstance(decision, Blocked) and decision.unread
            status = Status.NOT_ATTEMPTED if is_unread else BY_ORIGIN[BLOCK_CODES[decision.code].origin]
            assert (outcome.status, outcome.detail) == (status, f"{decision.reason} ({decision.code})")


def test_each_code_has_its_origin() -> None:
    """It decides between blocked, not attempted and stale; all others are of the cluster."""
    by_origin: dict[Origin, set[str]] = {}
    for code, text in BLOCK_CODES.items():
        by_origin.setdefault(text.origin, set()).add(code)
    of_manifests = " ".join(sorted(by_origin.pop(Origin.MANIFESTS)))
    assert of_manifests == "B105 B106 B107 B201 B210 B214 B215 B302 B305 B306"
    assert by_origin.pop(Origin.UNREAD) == {"B103", "B104", "B109", "B203"}
    assert by_origin.keys() == {Origin.CLUSTER}


CLAMP, EVERY = floor(keep=LAST, consumers="clamp"), floor(keep=LAST, every="2m")
SLOW, JUST_PURGED = orders(readers=(reader("slow", 0),)), orders(last_purge=NOW_MS)


@pytest.mark.parametrize(
    ("plan", "policy", "facts", "brokers", "held", "words"),
    [
        (saved(CLAMP, orders()), CLAMP, SLOW, (1, 2, 3), True, 'group "slow" still needs everything from 0'),
        (FORCE, UNCLEAN, LEADERLESS, (1, 2, 3), True, "broker 2"),
        (saved(EVERY, orders()), EVERY, JUST_PURGED, (1, 2, 3), False, "at least 2m apart"),
    ],
)
def test_an_action_may_wait(
    plan: Plan, policy: Policy, facts: PartitionFacts, brokers: tuple[int, ...], held: bool, words: str
) -> None:
    """For a group or a broker, where somebody may have to act; or for the clock of now, which runs by itself."""
    outcome = ending(decide(plan, policy, facts, brokers=brokers))
    assert (outcome.status, outcome.held) == (Status.WAITING, held), outcome.detail
    assert words in outcome.detail


def test_the_clock_of_now_ends_the_interval() -> None:
    """The purge was too early for a plan a minute ago."""
    plan, purged = saved(EVERY, orders()), orders(last_purge=NOW_MS - MINUTE - 1)
    assert not planned(EVERY, snapshot(purged)).actions
    assert only_purge(decide(plan, EVERY, purged)).before_offset == 90


def test_an_address_of_another_kind_gives_no_right() -> None:
    """A plan file may name any policy for any action; a satisfied one of that name proves nothing."""
    action = replace(PURGE.actions[0], address=Address("LeaderPolicy", "all", "orders", 0))
    outcome = ending(decide(examples.plan(action), LED, orders()))
    assert (outcome.status, outcome.detail) == (Status.BLOCKED, "LeaderPolicy/all never asks for a record deletion")


def test_no_plan_file_truncates_a_system_topic() -> None:
    """Also if an edited file has such an action; no manifest may name the topic."""
    facts = partition(topic="__consumer_offsets", end=250_000)
    forged = examples.plan(examples.purge("__consumer_offsets", 0, policy="gdpr"))
    for policy in (floor("*", keep={"last": 1}), floor(keep={"last": 1})):
        assert ending(decide(forged, policy, facts)).status is Status.BLOCKED


# --- policies of now, tightened or loosened


@pytest.mark.parametrize(
    ("plan", "policy", "facts"),
    [
        (PURGE, floor(keep={"last": 200}), orders()),
        (ELECT, leaders(tolerance=100), payments()),
    ],
)
def test_what_is_not_due_any_more_is_satisfied_and_not_done(plan: Plan, policy: Policy, facts: PartitionFacts) -> None:
    """The run ends with 0, and notes no effect: the target is not reached and no leader elected."""
    others = [replace(facts, partition=TopicPartition("payments", number), leader=1) for number in (1, 2)]
    result = decide(plan, policy, facts, *(others if facts.partition.topic == "payments" else ()))
    assert ending(result).status is Status.SATISFIED
    assert ending(result).detail.startswith(f"nothing is due any more: {policy.address}")
    assert result.done == ()


@pytest.mark.parametrize(
    ("keep", "target"), [({"last": 95}, 5), ({"last": 2}, 90), ({"last": 10, "newerThan": "1d"}, 0)]
)
def test_the_lower_of_both_targets_is_sent(keep: dict[str, Any], target: int) -> None:
    """`last: 95` was written after the plan of `last: 10`, and apply once deleted up to the old target."""
    result = decide(PURGE, floor(keep=keep), orders())
    assert [action.before_offset for action in result.remaining if isinstance(action, DeleteRecords)] == (
        [target] if target else []
    )


def test_a_consumer_that_fell_back_lowers_the_target() -> None:
    """Under clamp, or as a group of unreadBy; it loses nothing."""
    assert only_purge(decide(saved(CLAMP, orders()), CLAMP, orders(readers=(reader("slow", 40),)))).before_offset == 40
    back = orders(readers=(reader("billing", 30),))
    assert only_purge(decide(AWAIT, UNREAD_BY, back)).before_offset == 30


def test_idleness_is_computed_with_the_clock_of_now() -> None:
    """A longer idleFor that holds as well removes the group."""
    assert decide(REMOVE, removal(idleFor="5d"), group()).remaining
    assert ending(decide(REMOVE, removal(idleFor="6d"), group(idle=6 * DAY - 2 * MINUTE))).status is Status.STALE


@pytest.mark.parametrize(("committed", "accepted"), [(60, 52), (52, 52), (51, None), (90, 52), (None, 52)])
def test_the_reviewed_position_of_a_group_stays_in_what_is_sent(committed: int | None, accepted: int | None) -> None:
    """An accepted group may not fall further behind, and one whose commits vanished was not seen to catch up:
    the check right before the request refuses it.
    """
    facts = orders(readers=() if committed is None else (reader("late", committed),))
    result = decide(RISK, IGNORE, facts)
    if accepted is None:
        assert 'does not let group "late" skip records from 51' in ending(result).detail
        return
    action = only_purge(result)
    assert action.guard.accepted == (AcceptedLag("late", accepted),)
    failure = action.recheck(Observation.before_request(read_at_ms=LATER_MS, partitions={facts.partition: facts}))
    assert (failure is not None) == (committed is None)
    assert failure is None or (failure.status, failure.detail) == (
        Status.STALE,
        'group "late" has no commit any more, and the plan accepted it at 52',
    )


def test_what_the_review_saw_of_the_log_stays_in_what_is_sent() -> None:
    """Retention moved the log start to 20. If an unclean election brings records back, the reviewed ones may go."""
    action = only_purge(decide(PURGE, FLOOR, orders(log_start=20, end=150)))
    assert (action.seen.log_start, action.seen.high_watermark, action.before_offset) == (0, 100, 90)


# --- done first

REACHED = orders(log_start=90)


@pytest.mark.parametrize(
    ("plan", "policy", "facts", "detail"),
    [
        (PURGE, FLOOR, REACHED, "the log start is 90 already"),
        (PURGE, FLOOR, orders(log_start=95, end=300), "the log start is 95 already"),
        (PURGE, floor(keep={"last": 200}), REACHED, "the log start is 90 already"),
        (PURGE, floor(name="other", keep=LAST), REACHED, "the log start is 90 already"),
        (REMOVE, OLD, None, "it is not listed any more"),
        (REMOVE, removal("other"), None, "it is not listed any more"),
        (ELECT, LED, payments(leader=1), "broker 1 leads already"),
        (ELECT, leaders("clicks"), payments(leader=1, replicas=(1, 3)), "broker 1 leads already"),
        (FORCE, UNCLEAN, payments(leader=3), "broker 3 leads already"),
    ],
)
def test_what_is_done_is_satisfied_whatever_the_policies_say(
    plan: Plan, policy: Policy, facts: Facts | None, detail: str
) -> None:
    """A second run of an interrupted plan continues it, also where the floor would go further now."""
    result = decide(plan, policy, *([] if facts is None else [facts]), spec={"protect": {"groups": ["old-*"]}})
    assert (ending(result).status, ending(result).detail) == (Status.SATISFIED, detail)
    assert result.done == result.outcomes


@pytest.mark.parametrize(
    ("plan", "policy", "facts"),
    [
        (PURGE, FLOOR, orders(log_start=90, topic_id=OTHER_ID)),
        (ELECT, LED, payments(leader=1, topic_id=OTHER_ID)),
    ],
)
def test_another_topic_of_that_name_shows_nothing_done(plan: Plan, policy: Policy, facts: Facts) -> None:
    """Its policy may be satisfied; the action of the plan was not carried out."""
    result = decide(plan, policy, facts)
    assert (ending(result).status, result.done) == (Status.SATISFIED, ())


# --- limits and waivers of now, on what remains


def share(result: Recheck) -> float | None:
    return next(verdict.observed for verdict in result.limits if verdict.id == "recordsPercentPerTopic")


def test_limits_count_what_remains() -> None:
    """Not what is done, nor records that expired or that a lower target keeps."""
    policy, clicks = floor("orders", "clicks", keep=LAST), orders(topic="clicks")
    plan = saved(policy, orders(), clicks)
    for facts, passed in (((orders(), clicks), False), ((orders(log_start=90), clicks), True)):
        verdicts = decide(plan, policy, *facts, spec={"limits": {"topics": 1}}).limits
        assert next(verdict for verdict in verdicts if verdict.id == "topics").passed is passed
    size = topic(records=100)
    assert share(decide(PURGE, FLOOR, orders(), size)) == 90
    assert share(decide(PURGE, FLOOR, orders(log_start=80), size)) == 10
    assert share(decide(PURGE, floor(keep={"last": 95}), orders(), size)) == 5


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ((READ,), 0),
        ((orders(readers=(reader("billing", 90), reader("tail", 90))),), 0),
        ((orders(readers=(reader("billing", 90), reader("tail", 89))),), 90),
        ((READ, group("tail", type=GroupType.SHARE, listed=False)), 90),
    ],
    ids=["no other group", "at the target", "behind the target", "of unknown position"],
)
def test_records_that_an_excepted_group_may_miss_by_now_count(facts: tuple[Facts, ...], expected: float) -> None:
    """A group of unreadBy answered for them when the plan was made, and the excepted group is not checked."""
    policy = floor(keep={"unreadBy": ["billing"]}, exceptGroups=["tail"])
    plan = saved(policy, READ)
    assert [action.consumed_by_named for action in plan.actions if isinstance(action, DeleteRecords)] == [True]
    result = decide(plan, policy, *facts, topic(records=100))
    assert (len(result.remaining), share(result)) == (1, expected)


def test_waivers_must_be_valid_now() -> None:
    """A waiver that expired since the plan has no effect."""
    for expires, passed in (("2026-11-21T10:00:30Z", False), ("2026-11-21T10:02:00Z", True)):
        allowed = waiver("RetentionFloor/gdpr", "recordsPercentPerTopic", 100, expires=expires)
        result = decide(PURGE, floor(keep={"last": 5}), orders(), topic(records=90), waivers=(allowed,))
        verdict = next(verdict for verdict in result.limits if verdict.id == "recordsPercentPerTopic")
        assert (verdict.observed, verdict.passed) == (100, passed)


# --- what is read


def test_only_the_subjects_of_the_plan_are_read_by_the_policies_of_now() -> None:
    """With the instants of now; elections need no Spark.

    What no policy asks for any more is read by its name alone, since it may be done.
    """
    policies: list[Policy] = [floor("*", keep={"newerThan": "1h"}), removal("*"), LED]
    facts = snapshot(orders(at={0: 0, 3_600_000: 90, DAY + 3_600_000: 0}, leader=2), group("[ab]"), group("a", idle=0))
    plan = planned(policies, facts)
    request = recheck.scan_request(plan, policies, LATER_MS)
    assert [part.only for part in request.topics if part.offsets] == [{"orders": frozenset({0})}]
    assert {instant for part in request.topics for instant in part.instants_ms} == {
        LATER_MS - 3_600_000,
        LATER_MS - DAY - 3_600_000,
    }
    assert [(part.only, part.activity) for part in request.groups] == [(frozenset({"[ab]"}), True)]
    orphans = recheck.scan_request(plan, [], LATER_MS)
    assert [(part.topics, part.partitions) for part in orphans.topics] == [((Selector.literal("orders"),), {0})]
    assert [part.groups for part in orphans.groups] == [(Selector.literal("[ab]"),)]
    assert (orphans.readers, orphans.cluster_records) == (False, False)
    assert not any(part.activity for part in orphans.groups)
    assert not recheck.scan_request(ELECT, policies, LATER_MS).spark
    assert recheck.scan_request(examples.plan(), policies, LATER_MS) == ScanRequest()


def test_the_outcome_names_the_saved_action() -> None:
    """So that results, journal and plan agree."""
    plan = REMOVE
    (outcome,) = decide(plan, OLD).outcomes
    assert isinstance(outcome.action, DeleteGroup)
    assert (outcome.action,) == plan.actions
