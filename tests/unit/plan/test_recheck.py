"""Deciding a saved plan again, on facts and by manifests of now: what remains, and how the rest ends.

What the planner decides about facts is tested with the policies, and what a review allows in test_review.py.
"""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.errors import PlanUnusable, WrongCluster
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import SCAN_AHEAD_MAX_MS, Plan
from reconciler.model.scan_request import ScanRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import GroupFacts, LookupKind, PartitionFacts, RecordLookup, TopicFacts, Unknown
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.observation import Observation
from reconciler.plan import recheck
from reconciler.plan.rules import RuleSet
from reconciler.policies import Policy
from reconciler.text.escape import NEXT
from tests.strategies import examples
from tests.strategies.facts import (
    DAY,
    HOUR,
    LOST,
    MINUTE,
    NOW_MS,
    OTHER_ID,
    OldRecords,
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

LATER_MS = NOW_MS + MINUTE
Facts = PartitionFacts | TopicFacts | GroupFacts


def orders(number: int = 0, **facts: Any) -> PartitionFacts:
    """A partition with offsets 0 to 100, all younger than a day, for the planner of both instants."""
    return partition(number, **({"at": {DAY: 0, DAY - MINUTE: 0}} | facts))


def read_by(**committed: int) -> PartitionFacts:
    return orders(readers=tuple(reader(name, offset) for name, offset in committed.items()))


def payments(number: int = 0, **facts: Any) -> PartitionFacts:
    """A partition that broker 2 leads, and broker 1 should."""
    return partition(number, topic="payments", **({"leader": 2} | facts))


def saved(policy: Policy | list[Policy], *facts: Facts, **changes: Any) -> Plan:
    return planned(policy, snapshot(*facts, **changes))


def decide(
    plan: Plan, policies: Policy | list[Policy], *facts: Facts, spec: Any = None, waivers: Any = (), **changes: Any
) -> recheck.Recheck:
    """Decide a saved plan again, a minute later, by these policies. `spec`: of the Cluster of now."""
    later = snapshot(*facts, **({"observed_at_ms": LATER_MS} | changes))
    loaded = [policies] if isinstance(policies, Policy) else policies
    return recheck.recheck(plan, RuleSet(cluster(**(spec or {})), loaded, waivers), later)


LAST = {"last": 10}
FLOOR, OLD, LED, PATTERN = floor(keep=LAST), removal(), leaders(), floor("o*", keep=LAST)
IGNORE, CLAMP = (floor(keep=LAST, consumers=lag) for lag in ("ignore", "clamp"))
EVERY, UNREAD_BY = floor(keep=LAST, every="2m"), floor(keep={"unreadBy": ["billing"]}, exceptGroups=["tail"])
UNCLEAN = leaders(election="unclean", partitions={"payments": [0]})
READ, LEADERLESS = read_by(billing=90), payments(leader=None, in_sync=(2,))
COMPACTED = topic(cleanup_policy=frozenset({"compact", "delete"}))
PURGE, REMOVE, ELECT = saved(FLOOR, orders()), saved(OLD, group()), saved(LED, payments())
"""Saved plans: orders[0] is purged up to 90, old-etl removed, and broker 1 elected for payments[0]."""
AWAIT, FORCE = saved(UNREAD_BY, READ), saved(UNCLEAN, LEADERLESS, brokers=(1, 3))
RISK, CLAMPED, PACED = saved(IGNORE, read_by(late=52)), saved(CLAMP, orders()), saved(EVERY, orders())


# --- the plan as a whole

EARLIEST_MS, EXPIRY = NOW_MS - SCAN_AHEAD_MAX_MS, "2026-11-22T10:00:00Z"


@pytest.mark.parametrize(
    ("plan", "changes", "error", "words"),
    [
        (REMOVE, {"observed_at_ms": NOW_MS + DAY}, PlanUnusable, f"expired at {EXPIRY}, and now it is {EXPIRY}: "),
        # A plan made by a clock two days ahead once removed a group that had committed seconds before.
        (REMOVE, {"observed_at_ms": EARLIEST_MS - 1}, PlanUnusable, "stamped 2026-11-21T10:00:00Z.*set the clock"),
        (REMOVE, {"cluster_id": "other"}, WrongCluster, "the brokers are other: .*choose the right manifests"),
        (REMOVE, {"spec": {"clusterId": "other"}}, WrongCluster, "Cluster/prod-eu names other: "),
    ],
)
def test_a_plan_that_is_refused(plan: Plan, changes: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"{words}.*plan again$") as refusal:
        decide(plan, OLD, group(), **changes)
    assert ": nothing was done; " in str(refusal.value)


@pytest.mark.parametrize("at_ms", [EARLIEST_MS, NOW_MS + DAY - 1])
def test_a_plan_is_usable_from_its_scan_to_its_expiry(at_ms: int) -> None:
    """Exact to the millisecond; clocks may be a minute apart. A longer idle time that holds removes the group, too."""
    assert decide(REMOVE, OLD, group(), observed_at_ms=at_ms).remaining == REMOVE.actions
    assert decide(REMOVE, removal(idleFor="5d"), group(), observed_at_ms=at_ms).remaining


@pytest.mark.parametrize(
    ("plan", "policy", "facts"), [(PURGE, FLOOR, orders()), (REMOVE, OLD, group()), (ELECT, LED, payments())]
)
def test_of_an_edited_plan_that_acts_on_one_subject_twice_one_action_remains_at_most(
    plan: Plan, policy: Policy, facts: Facts
) -> None:
    """Duplicates fail a whole request. A policy that is gone asks for nothing, and two that are there conflict."""
    (action,), twin = plan.actions, policy.with_suffix("-twin")
    again = replace(action, address=replace(action.address, policy=twin.metadata.name))
    twice = replace(plan, decisions=(action, again))
    assert decide(twice, policy, facts).remaining == (action,)
    both = decide(twice, [policy, twin], facts)
    assert both.remaining == ()
    assert all("(B105)" in outcome.detail for outcome in both.outcomes)


# --- what remains


def test_each_action_has_its_own_result() -> None:
    """In the order of the plan: one failure hides no other action, and two operations on one partition are two subjects."""
    policies: list[Policy] = [FLOOR, LED]
    plan = saved(policies, orders(leader=2), orders(1), orders(2))
    elected, first, unread, last = plan.actions
    result = decide(plan, policies, orders(leader=2), orders(1, log_start=LOST), orders(2))
    assert result.remaining == (elected, first, last)
    assert [outcome.action for outcome in result.outcomes] == [unread]


@pytest.mark.parametrize(
    ("plan", "policy", "facts", "target", "last_look"),
    [
        # `last: 95` was written after the plan of `last: 10`, and apply once deleted up to 90.
        (PURGE, floor(keep={"last": 95}), [orders()], 5, ""),
        (PURGE, floor(keep={"last": 2}), [orders()], 90, ""),
        # A consumer fell back, under clamp or as a group of unreadBy; it loses nothing.
        (CLAMPED, CLAMP, [read_by(slow=40)], 40, ""),
        (AWAIT, UNREAD_BY, [read_by(billing=30)], 30, ""),
        # The interval was too short for a plan a minute ago.
        (PACED, EVERY, [orders(last_purge=NOW_MS - MINUTE - 1)], 90, ""),
        # An exact name still truncates a topic that became `compact,delete`; for a pattern that is too much (B214).
        (PURGE, FLOOR, [orders(), COMPACTED], 90, ""),
        # Retention moved the log start. If an unclean election brings records back, the reviewed ones may go.
        (PURGE, FLOOR, [orders(log_start=20, end=150)], 90, ""),
        # The reviewed position stays: a group whose commits vanished was not seen to catch up.
        *((RISK, IGNORE, [read_by(late=committed)], 90, "") for committed in (52, 60, 90)),
        (RISK, IGNORE, [orders()], 90, 'stale: group "late" has no commit any more, and the plan accepted it at 52'),
    ],
)
def test_the_lower_of_both_targets_is_sent_under_the_conditions_of_the_review(
    plan: Plan, policy: Policy, facts: list[Facts], target: int, last_look: str
) -> None:
    """The check right before the request compares them with the same facts."""
    result = decide(plan, policy, *facts)
    (action,), (reviewed,) = result.remaining, plan.actions
    assert isinstance(action, DeleteRecords)
    assert isinstance(reviewed, DeleteRecords)
    assert (action.before_offset, action.guard, result.outcomes) == (target, reviewed.guard, ())
    assert (action.seen.log_start, action.seen.high_watermark) == (0, 100)
    partitions = {fact.partition: fact for fact in facts if isinstance(fact, PartitionFacts)}
    failure = action.recheck(Observation(observed_at_ms=LATER_MS, partitions=partitions))
    assert (f"{failure.status}: {failure.detail}" if failure else "") == last_look


# --- how actions end of which nothing is sent

PROTECT = {"spec": {"protect": {"topics": ["*"], "groups": ["*"]}}}
SYSTEM = examples.plan(examples.purge("__consumer_offsets", 0, policy="gdpr"))
# A plan file may name any policy for any action; a satisfied one of that name proves nothing.
FORGED = examples.plan(replace(PURGE.actions[0], address=Address("LeaderPolicy", "all", "orders", 0)))
NOT_LISTED: dict[str, Any] = {"topics_incomplete": LOST, "groups_incomplete": LOST}
UNREADABLE = orders(
    at={DAY - MINUTE: 90, 2 * DAY - MINUTE: 90},
    lookups=OldRecords({RecordLookup(LookupKind.LAST, 0, 90): Unknown("no right")}),
)
REACHED, YOUNG = orders(log_start=90), orders(at={DAY - MINUTE: 0, 2 * DAY - MINUTE: 0})
LOOSER, NOT_DUE, UNSELECTED = floor(keep={"last": 200}), "nothing is due any more: ", "does not select it any more"
Row = tuple[Plan, Policy | list[Policy], list[Facts], dict[str, Any], str]
ENDINGS: dict[Status, list[Row]] = {
    # The manifests say what is meant now.
    Status.BLOCKED: [
        (PURGE, [], [orders()], {}, "RetentionFloor/gdpr is not in the manifests"),
        (PURGE, removal("orders", name="gdpr"), [orders()], {}, "RetentionFloor/gdpr is not in the manifests"),
        (PURGE, floor("clicks", keep=LAST), [orders()], {}, f"(manifests/floors.yaml:9) {UNSELECTED}"),
        (PURGE, floor("ord*", keep=LAST, exceptTopics=["ord*"]), [orders()], {}, UNSELECTED),
        (PURGE, floor(keep=LAST, partitions=[1]), [orders(), orders(1)], {}, UNSELECTED),
        (PURGE, FLOOR, [orders()], PROTECT, "protected by Cluster/prod-eu (manifests/cluster.yaml:1): * (B106)"),
        (PURGE, PATTERN, [orders(), COMPACTED], {}, "only a pattern selects it (B214)"),
        (REMOVE, removal("old-*", exceptGroups=["old-etl"]), [group()], {}, UNSELECTED),
        (ELECT, leaders("clicks"), [payments()], {}, UNSELECTED),
        (FORCE, leaders(election="unclean", partitions={"payments": [1]}), [LEADERLESS], {}, UNSELECTED),
        (FORGED, LED, [orders()], {}, "LeaderPolicy/all never asks for a record deletion"),
        # No manifest may name the topic; an edited file has such an action.
        (SYSTEM, floor("*", keep=LAST), [partition(topic="__consumer_offsets", end=250_000)], {}, UNSELECTED),
    ],
    # Another try may read it. A subject is gone only if the list is complete.
    Status.NOT_ATTEMPTED: [
        (PURGE, FLOOR, [orders(log_start=LOST)], {}, "could not be read"),
        (PURGE, FLOOR, [orders(leader=None, replicas=(2,))], {}, "start one of its replicas (broker 2)"),
        (PURGE, floor(keep={"newerThan": "1d"}), [UNREADABLE], {}, "(B216). Next: see that the principal may READ"),
        (PURGE, FLOOR, [], NOT_LISTED, "topic orders is not listed: broker 2 did not answer"),
        (PURGE, PATTERN, [], NOT_LISTED, "the list of topics is incomplete: broker 2 did not answer"),
        (REMOVE, removal("old-*"), [], NOT_LISTED, "the list of groups is incomplete"),
    ],
    # The cluster changed since the plan.
    Status.STALE: [
        (PURGE, FLOOR, [orders(topic_id=OTHER_ID)], {}, f"the topic is {OTHER_ID} now"),
        (PURGE, PATTERN, [], {}, "orders[0] is gone"),
        (saved(FLOOR, orders(1)), FLOOR, [orders()], {}, "orders[1] is gone"),
        (ELECT, LED, [], {}, "payments[0] is gone"),
        # Other conditions: tightened, they hold now; loosened, what they allow was not reviewed.
        (RISK, FLOOR, [orders()], {}, "consumers is block, it was ignore in the reviewed plan"),
        (PURGE, IGNORE, [orders()], {}, "consumers is ignore, it was block in the reviewed plan"),
        (REMOVE, removal(idleFor="2s"), [group()], {}, "idleFor is 2s"),
        (REMOVE, removal(idleFor="6d"), [group(idle=6 * DAY - 2 * MINUTE)], {}, "(B304)"),
    ],
    # For a group or a broker, where a person may have to act; or for the clock of now, which runs by itself.
    Status.WAITING: [
        (CLAMPED, CLAMP, [read_by(slow=0)], {}, 'group "slow" still needs everything from 0'),
        (FORCE, UNCLEAN, [LEADERLESS], {}, "broker 2"),
        (PACED, EVERY, [orders(last_purge=NOW_MS)], {}, "at least 2m apart"),
    ],
    # Done, whatever the policies say: a second run of an interrupted plan continues it, also where
    # the floor would go further now. What is only not due any more is satisfied and not done.
    Status.SATISFIED: [
        (PURGE, FLOOR, [REACHED], PROTECT, "the log start is 90 already"),
        (PURGE, FLOOR, [orders(log_start=95, end=300)], {}, "the log start is 95 already"),
        (PURGE, floor(name="other", keep=LAST), [REACHED], {}, "the log start is 90 already"),
        (REMOVE, OLD, [], PROTECT, "not listed any more"),
        (ELECT, LED, [payments(leader=1)], {}, "broker 1 leads already"),
        (ELECT, leaders("clicks"), [payments(leader=1, replicas=(1, 3))], {}, "broker 1 leads already"),
        (FORCE, UNCLEAN, [payments(leader=3)], {}, "broker 3 leads already"),
        (PURGE, LOOSER, [orders()], {}, f"{NOT_DUE}{LOOSER.address}"),
        (PURGE, floor(keep={"last": 10, "newerThan": "1d"}), [YOUNG], {}, NOT_DUE),
        (ELECT, leaders(tolerance=100), [payments(), *(payments(n, leader=1) for n in (1, 2))], {}, NOT_DUE),
        # Another topic of that name shows nothing done.
        (PURGE, FLOOR, [orders(log_start=90, topic_id=OTHER_ID)], {}, NOT_DUE),
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
    assert words in outcome.detail
    # What could not be read can be mended; the results say themselves that the same command runs again.
    assert NEXT not in outcome.detail or status is Status.NOT_ATTEMPTED
    assert "plan again" not in outcome.detail
    is_done = status is Status.SATISFIED and NOT_DUE not in outcome.detail
    assert (result.remaining, result.done) == ((), result.outcomes if is_done else ())


# --- limits and waivers of now, on what remains

TOPICS, SHARE = "topics", "recordsPercentPerTopic"
BOTH, CLICKS = floor("orders", "clicks", keep=LAST), orders(topic="clicks")
PURGES, ONE_TOPIC = saved(BOTH, orders(), CLICKS), {"spec": {"limits": {"topics": 1}}}
LESS, HUNDRED, NINETY = floor(keep={"last": 5}), topic(records=100), topic(records=90)
WAIVERS = [waiver("RetentionFloor/gdpr", SHARE, 100, expires=f"2026-11-21T10:0{minute}:00Z") for minute in (1, 2)]


@pytest.mark.parametrize(
    ("plan", "policy", "facts", "changes", "limit", "observed", "passed"),
    [
        # Neither what is done counts, nor records that expired or that a lower target keeps.
        (PURGES, BOTH, [REACHED, CLICKS], ONE_TOPIC, TOPICS, 1, True),
        (PURGE, FLOOR, [orders(log_start=80), HUNDRED], {}, SHARE, 10, True),
        (PURGE, floor(keep={"last": 95}), [orders(), HUNDRED], {}, SHARE, 5, True),
        # A group of unreadBy answers for the records, and not for those that an excepted group may miss by now.
        (AWAIT, UNREAD_BY, [READ, HUNDRED], {}, SHARE, 0, True),
        (AWAIT, UNREAD_BY, [read_by(billing=90, tail=89), HUNDRED], {}, SHARE, 90, True),
        # A waiver that expired since the plan has no effect.
        (PURGE, LESS, [orders(), NINETY], {"waivers": WAIVERS[:1]}, SHARE, 100, False),
        (PURGE, LESS, [orders(), NINETY], {"waivers": WAIVERS[1:]}, SHARE, 100, True),
    ],
)
def test_limits_count_what_remains(
    plan: Plan, policy: Policy, facts: list[Facts], changes: Any, limit: str, observed: float, passed: bool
) -> None:
    verdicts = {verdict.id: verdict for verdict in decide(plan, policy, *facts, **changes).limits}
    assert (verdicts[limit].observed, verdicts[limit].passed) == (observed, passed)


# --- what is read


def test_only_the_subjects_of_the_plan_are_read_by_the_policies_of_now() -> None:
    """With the instants of now. What no policy asks for any more is read by its name alone, since it may be done."""
    policies: list[Policy] = [floor("*", keep={"newerThan": "1h"}), removal("*"), LED]
    plan = saved(policies, orders(at={0: 0, HOUR: 90, DAY + HOUR: 0}, leader=2), group("[ab]"), group("a", idle=0))
    request = recheck.scan_request(plan, policies, LATER_MS)
    (purge,) = (part for part in request.topics if part.offsets)
    assert (purge.only, set(purge.instants_ms)) == ({"orders": {0}}, {LATER_MS - HOUR, LATER_MS - DAY - HOUR})
    assert [(part.only, part.activity) for part in request.groups] == [({"[ab]"}, True)]
    orphans = recheck.scan_request(plan, [], LATER_MS)
    assert [(part.topics, part.partitions) for part in orphans.topics] == [((Selector.literal("orders"),), {0})]
    assert [(part.groups, part.activity) for part in orphans.groups] == [((Selector.literal("[ab]"),), False)]
    assert (orphans.readers, orphans.cluster_records) == (False, False)
    assert not recheck.scan_request(ELECT, policies, LATER_MS).spark
    assert recheck.scan_request(examples.plan(), policies, LATER_MS) == ScanRequest()
