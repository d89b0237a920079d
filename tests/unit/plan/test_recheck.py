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
from reconciler.model.snapshot import GroupFacts, GroupType, PartitionFacts, TopicFacts
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
COMPACTED = topic(cleanup_policy=frozenset({"compact", "delete"}))
PURGE, REMOVE, ELECT = saved(FLOOR, orders()), saved(OLD, group()), saved(LED, payments())
"""Saved plans: orders[0] is purged up to 90, old-etl removed, and broker 1 elected for payments[0]."""
AWAIT, FORCE = saved(UNREAD_BY, READ), saved(UNCLEAN, LEADERLESS, brokers=(1, 3))
IGNORE, LATE = floor(keep=LAST, consumers="ignore"), orders(readers=(reader("late", 52),))
CLAMP, EVERY = floor(keep=LAST, consumers="clamp"), floor(keep=LAST, every="2m")
SECOND, RISK, PACED = saved(FLOOR, orders(1)), saved(IGNORE, LATE), saved(EVERY, orders())
CLAMPED = saved(CLAMP, orders())


def decide(
    plan: Plan, policies: Policy | Sequence[Policy], *facts: Facts, spec: Any = None, waivers: Any = (), **changes: Any
) -> Recheck:
    """Decide a saved plan again, a minute later, by these policies. `spec`: of the Cluster of now."""
    later = snapshot(*facts, **({"observed_at_ms": LATER_MS} | changes))
    loaded = [policies] if isinstance(policies, Policy) else list(policies)
    return recheck.recheck(plan, cluster(**(spec or {})), loaded, waivers, later)


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
    for at_ms, words in (
        (
            NOW_MS + DAY,
            "the plan expired at 2026-11-22T10:00:00Z, and now it is 2026-11-22T10:00:00Z: nothing was done",
        ),
        (NOW_MS - CLOCKS_APART_MAX_MS - 1, "stamped 2026-11-21T10:00:00Z.* nothing was done; set the clock"),
    ):
        with pytest.raises(PlanUnusable, match=f"{words}.*plan again$"):
            decide(REMOVE, OLD, group(), observed_at_ms=at_ms)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cluster_id": "other"}, "the brokers are other: nothing was done; choose the right manifests"),
        ({"spec": {"clusterId": "other"}}, "Cluster/prod-eu names other: nothing was done"),
    ],
)
def test_a_plan_of_another_cluster_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongCluster, match=words):
        decide(REMOVE, OLD, **changes)


@pytest.mark.parametrize("make", [examples.purge, examples.removal, examples.election])
def test_a_plan_with_two_actions_on_one_subject_is_unusable(make: Any) -> None:
    """Only an edited file has them; duplicates fail a whole request."""
    with pytest.raises(PlanUnusable, match="twice"):
        decide(examples.plan(make(), make(policy="zzz")), ())


# --- what remains


def test_one_partition_may_be_purged_and_get_its_leader() -> None:
    """Two operations on one partition are two subjects; both are sent as saved on unchanged facts."""
    policies: list[Policy] = [FLOOR, LED]
    plan = planned(policies, snapshot(orders(leader=2)))
    assert decide(plan, policies, orders(leader=2)).remaining == plan.actions
    assert {type(action) for action in plan.actions} == {DeleteRecords, ElectLeader}


def test_one_failure_hides_no_other_action() -> None:
    """Each action has its own result, in the order of the plan; the outcome names the saved action."""
    plan = saved(FLOOR, *map(orders, range(3)))
    result = decide(plan, FLOOR, orders(0), orders(1, log_start=LOST), orders(2))
    assert result.remaining == (plan.actions[0], plan.actions[2])
    assert [outcome.action for outcome in result.outcomes] == [plan.actions[1]]


@pytest.mark.parametrize(
    ("plan", "policy", "facts", "target"),
    [
        # `last: 95` was written after the plan of `last: 10`, and apply once deleted up to 90.
        (PURGE, floor(keep={"last": 95}), orders(), 5),
        (PURGE, floor(keep={"last": 2}), orders(), 90),
        # A consumer fell back, under clamp or as a group of unreadBy; it loses nothing.
        (CLAMPED, CLAMP, orders(readers=(reader("slow", 40),)), 40),
        (AWAIT, UNREAD_BY, orders(readers=(reader("billing", 30),)), 30),
        # The interval was too short for a plan a minute ago.
        (PACED, EVERY, orders(last_purge=NOW_MS - MINUTE - 1), 90),
    ],
)
def test_the_lower_of_both_targets_is_sent(plan: Plan, policy: Policy, facts: PartitionFacts, target: int) -> None:
    assert only_purge(decide(plan, policy, facts)).before_offset == target


def test_an_exact_name_still_truncates_a_compacted_topic() -> None:
    """It became `compact,delete` after the plan; only for a pattern that is too much (B214)."""
    purge = only_purge(decide(PURGE, FLOOR, orders(), COMPACTED))
    assert purge.may_have_gaps
    assert replace(purge, may_have_gaps=False) == PURGE.actions[0]


@pytest.mark.parametrize("committed", [60, 52, 90, None])
def test_the_reviewed_position_of_a_group_stays_in_what_is_sent(committed: int | None) -> None:
    """A group whose commits vanished was not seen to catch up: the check right before the request refuses it."""
    facts = orders(readers=() if committed is None else (reader("late", committed),))
    action = only_purge(decide(RISK, IGNORE, facts))
    assert action.guard.accepted == (AcceptedLag("late", 52),)
    observed = Observation.before_request(read_at_ms=LATER_MS, partitions={facts.partition: facts})
    failure = action.recheck(observed)
    if committed is None:
        words = 'group "late" has no commit any more, and the plan accepted it at 52'
        assert failure is not None
        assert (failure.status, failure.detail) == (Status.STALE, words)
    else:
        assert failure is None


def test_what_the_review_saw_of_the_log_stays_in_what_is_sent() -> None:
    """Retention moved the log start to 20. If an unclean election brings records back, the reviewed ones may go."""
    action = only_purge(decide(PURGE, FLOOR, orders(log_start=20, end=150)))
    assert (action.seen.log_start, action.seen.high_watermark, action.before_offset) == (0, 100, 90)


def test_a_longer_idle_time_that_holds_as_well_removes_the_group() -> None:
    assert decide(REMOVE, removal(idleFor="5d"), group()).remaining


# --- how actions end of which nothing is sent

PROTECT = {"spec": {"protect": {"topics": ["*"], "groups": ["*"]}}}
NO_EVIDENCE = removal("old-*").model_copy(update={"spec": removal("old-*").spec.model_copy(update={"idle_for": 0})})
LED_BY_FIRST = [replace(payments(leader=1), partition=TopicPartition("payments", number)) for number in (1, 2)]
OFFSETS = partition(topic="__consumer_offsets", end=250_000)
SYSTEM = examples.plan(examples.purge("__consumer_offsets", 0, policy="gdpr"))
# A plan file may name any policy for any action; a satisfied one of that name proves nothing.
FORGED = examples.plan(replace(PURGE.actions[0], address=Address("LeaderPolicy", "all", "orders", 0)))
LATE_51 = orders(readers=(reader("late", 51),))
SLOW, JUST_PURGED = orders(readers=(reader("slow", 0),)), orders(last_purge=NOW_MS)
IDLE_SHORTER = group(idle=6 * DAY - 2 * MINUTE)
NOT_LISTED: dict[str, Any] = {"topics_incomplete": LOST, "groups_incomplete": LOST}
REACHED, REACHED_OTHER = orders(log_start=90), orders(log_start=90, topic_id=OTHER_ID)
ALL_YOUNG = orders(at={DAY - MINUTE: 0, 2 * DAY - MINUTE: 0})
LOOSER, NOT_DUE = floor(keep={"last": 200}), "nothing is due any more: "
Row = tuple[Plan, Policy | list[Policy], list[Facts], dict[str, Any], str]
ENDINGS: dict[Status, list[Row]] = {
    # The manifests say what is meant now.
    Status.BLOCKED: [
        (PURGE, [], [orders()], {}, "RetentionFloor/gdpr is not in the manifests"),
        (PURGE, removal("orders", name="gdpr"), [orders()], {}, "RetentionFloor/gdpr is not in the manifests"),
        (PURGE, floor("clicks", keep=LAST), [orders()], {}, "(manifests/floors.yaml:9) does not select it any more"),
        (PURGE, floor("ord*", keep=LAST, exceptTopics=["ord*"]), [orders()], {}, "does not select it any more"),
        (PURGE, floor(keep=LAST, partitions=[1]), [orders(), orders(1)], {}, "does not select it any more"),
        (PURGE, FLOOR, [orders()], PROTECT, "protected by Cluster/prod-eu (manifests/cluster.yaml:1): * (B106)"),
        (PURGE, PATTERN, [orders(), COMPACTED], {}, "only a pattern selects it (B214)"),
        (REMOVE, NO_EVIDENCE, [group()], {}, "(B305)"),
        (REMOVE, removal("old-*", exceptGroups=["old-etl"]), [group()], {}, "does not select it any more"),
        (ELECT, leaders("clicks"), [payments()], {}, "does not select it any more"),
        (FORCE, leaders(election="unclean", partitions={"payments": [1]}), [LEADERLESS], {}, "does not select it"),
        (FORGED, LED, [orders()], {}, "LeaderPolicy/all never asks for a record deletion"),
        # No manifest may name the topic; an edited file has such an action.
        (SYSTEM, floor("*", keep={"last": 1}), [OFFSETS], {}, ""),
        (SYSTEM, floor(keep={"last": 1}), [OFFSETS], {}, ""),
    ],
    # Another try may read it. A subject is gone only if the list is complete.
    Status.NOT_ATTEMPTED: [
        (PURGE, FLOOR, [orders(log_start=LOST)], {}, "could not be read"),
        (PURGE, FLOOR, [orders(leader=None)], {}, "(B203)"),
        (PURGE, FLOOR, [], NOT_LISTED, "topic orders is not listed: broker 2 did not answer"),
        (PURGE, PATTERN, [], NOT_LISTED, "the list of topics is incomplete: broker 2 did not answer"),
        (REMOVE, removal("old-*"), [], NOT_LISTED, "the list of groups is incomplete"),
    ],
    # The cluster changed since the plan.
    Status.STALE: [
        (PURGE, FLOOR, [orders(topic_id=OTHER_ID)], {}, f"the topic is {OTHER_ID} now"),
        (PURGE, PATTERN, [], {}, "orders[0] is gone"),
        (SECOND, FLOOR, [orders()], {}, "orders[1] is gone"),
        # Other conditions: tightened, they hold now; loosened, what they allow was not reviewed.
        (RISK, FLOOR, [orders()], {}, "consumers is block, it was ignore in the reviewed plan"),
        (PURGE, IGNORE, [orders()], {}, "consumers is ignore, it was block in the reviewed plan"),
        (RISK, IGNORE, [LATE_51], {}, 'does not let group "late" skip records from 51'),
        (REMOVE, removal(idleFor="2s"), [group()], {}, "idleFor is 2s"),
        (REMOVE, removal(idleFor="6d"), [IDLE_SHORTER], {}, ""),
        (REMOVE, OLD, [group(type=GroupType.CONSUMER)], {}, "of type consumer, it was classic in the reviewed plan"),
        (ELECT, LED, [payments(replicas=(1, 3, 2))], {}, "not those of the reviewed plan"),
        (ELECT, LED, [], {}, "payments[0] is gone"),
    ],
    # For a group or a broker, where a person may have to act; or for the clock of now, which runs by itself.
    Status.WAITING: [
        (CLAMPED, CLAMP, [SLOW], {}, 'group "slow" still needs everything from 0'),
        (FORCE, UNCLEAN, [LEADERLESS], {}, "broker 2"),
        (PACED, EVERY, [JUST_PURGED], {}, "at least 2m apart"),
    ],
    # Done, whatever the policies say: a second run of an interrupted plan continues it, also where
    # the floor would go further now. What is only not due any more is satisfied and not done.
    Status.SATISFIED: [
        (PURGE, FLOOR, [REACHED], PROTECT, "the log start is 90 already"),
        (PURGE, FLOOR, [orders(log_start=95, end=300)], {}, "the log start is 95 already"),
        (PURGE, LOOSER, [REACHED], {}, "the log start is 90 already"),
        (PURGE, floor(name="other", keep=LAST), [REACHED], {}, "the log start is 90 already"),
        (REMOVE, OLD, [], PROTECT, "it is not listed any more"),
        (REMOVE, removal("other"), [], {}, "it is not listed any more"),
        (ELECT, LED, [payments(leader=1)], {}, "broker 1 leads already"),
        (ELECT, leaders("clicks"), [payments(leader=1, replicas=(1, 3))], {}, "broker 1 leads already"),
        (FORCE, UNCLEAN, [payments(leader=3)], {}, "broker 3 leads already"),
        (PURGE, LOOSER, [orders()], {}, f"{NOT_DUE}{LOOSER.address}"),
        (PURGE, floor(keep={"last": 10, "newerThan": "1d"}), [ALL_YOUNG], {}, NOT_DUE),
        (ELECT, leaders(tolerance=100), [payments(), *LED_BY_FIRST], {}, f"{NOT_DUE}{LED.address}"),
        # Another topic of that name shows nothing done.
        (PURGE, FLOOR, [REACHED_OTHER], {}, NOT_DUE),
        (ELECT, LED, [payments(leader=1, topic_id=OTHER_ID)], {}, NOT_DUE),
    ],
}


@pytest.mark.parametrize(("status", "row"), [(status, row) for status, rows in ENDINGS.items() for row in rows])
def test_how_an_action_ends_of_which_nothing_is_sent(status: Status, row: Row) -> None:
    """The outcome names the saved action and says why. No request went out."""
    plan, policies, facts, changes, words = row
    result = decide(plan, policies, *facts, **changes)
    (outcome,) = result.outcomes
    held = status is Status.WAITING and policies is not EVERY
    assert outcome == Outcome(action=plan.actions[0], status=status, detail=outcome.detail, held=held)
    assert outcome.detail
    assert words in outcome.detail
    is_done = status is Status.SATISFIED and NOT_DUE not in outcome.detail
    assert (result.remaining, result.done) == ((), result.outcomes if is_done else ())


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


# --- limits and waivers of now, on what remains

TOPICS, SHARE = "topics", "recordsPercentPerTopic"
BOTH, CLICKS = floor("orders", "clicks", keep=LAST), orders(topic="clicks")
PURGES, ONE_TOPIC = saved(BOTH, orders(), CLICKS), {"spec": {"limits": {"topics": 1}}}
NAMED = floor(keep={"unreadBy": ["billing"]}, exceptGroups=["tail"])
"""A group of unreadBy answered for the records when the plan was made; the excepted group is not checked."""
READ_BY_NAMED, HUNDRED = saved(NAMED, READ), topic(records=100)
LESS, NINETY = floor(keep={"last": 5}), topic(records=90)


def read_by(**committed: int) -> PartitionFacts:
    return orders(readers=tuple(reader(name, offset) for name, offset in committed.items()))


def waived_until(expires: str) -> dict[str, Any]:
    return {"waivers": (waiver("RetentionFloor/gdpr", SHARE, 100, expires=expires),)}


@pytest.mark.parametrize(
    ("plan", "policy", "facts", "changes", "limit", "observed", "passed"),
    [
        (PURGES, BOTH, [orders(), CLICKS], ONE_TOPIC, TOPICS, 2, False),
        # Neither what is done counts, nor records that expired or that a lower target keeps.
        (PURGES, BOTH, [REACHED, CLICKS], ONE_TOPIC, TOPICS, 1, True),
        (PURGE, FLOOR, [orders(), HUNDRED], {}, SHARE, 90, True),
        (PURGE, FLOOR, [orders(log_start=80), HUNDRED], {}, SHARE, 10, True),
        (PURGE, floor(keep={"last": 95}), [orders(), HUNDRED], {}, SHARE, 5, True),
        # Records that an excepted group may miss by now count.
        (READ_BY_NAMED, NAMED, [READ, HUNDRED], {}, SHARE, 0, True),
        (READ_BY_NAMED, NAMED, [read_by(billing=90, tail=90), HUNDRED], {}, SHARE, 0, True),
        (READ_BY_NAMED, NAMED, [read_by(billing=90, tail=89), HUNDRED], {}, SHARE, 90, True),
        (READ_BY_NAMED, NAMED, [READ, group("tail", type=GroupType.SHARE, listed=False), HUNDRED], {}, SHARE, 90, True),
        # A waiver that expired since the plan has no effect.
        (PURGE, LESS, [orders(), NINETY], waived_until("2026-11-21T10:00:30Z"), SHARE, 100, False),
        (PURGE, LESS, [orders(), NINETY], waived_until("2026-11-21T10:02:00Z"), SHARE, 100, True),
    ],
)
def test_limits_count_what_remains(
    plan: Plan,
    policy: Policy,
    facts: list[Facts],
    changes: dict[str, Any],
    limit: str,
    observed: float,
    passed: bool,
) -> None:
    verdicts = {verdict.id: verdict for verdict in decide(plan, policy, *facts, **changes).limits}
    assert (verdicts[limit].observed, verdicts[limit].passed) == (observed, passed)
    consumed = [action.consumed_by_named for action in plan.actions if isinstance(action, DeleteRecords)]
    assert consumed == [policy is NAMED] * len(plan.actions)


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
