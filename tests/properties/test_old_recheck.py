"""Deciding a saved plan again, compared with the rule book before it, which is kept for one release.

What remains now, the old rules leave as well, at the same target or a lower one. Where they would send and
the planner does not, the reason is one of a closed list.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from random import Random

from hypothesis import given

from reconciler.model.outcome import Outcome, Status
from reconciler.operations import Operation
from reconciler.operations.delete_records import DeleteRecords
from tests.repeats import at_least, repeats
from tests.strategies import old_recheck
from tests.strategies.planner_inputs import PlannerInput, later_day, later_days, two_days

NOT_DUE, GUARD, IDLE_FOR = "nothing is due any more", "beyond review: a condition", "beyond review: idleFor"
_CONDITIONS = tuple(f"beyond review: {field} is " for field in ("consumers", "unreadBy", "exceptGroups", "every"))
Reason = tuple[Status, str]

OF_FACTS: frozenset[Reason] = frozenset(
    {
        (Status.SATISFIED, NOT_DUE),  # a rule keeps more now, or the tolerance covers the leaders
        (Status.STALE, "B204"),  # a group is behind the floor of now, which is above the saved target
        (Status.BLOCKED, "B215"),  # the topic is kept for ever now, which the old rules did not know
        (Status.STALE, "B304"),  # the group was active by other evidence than its newest record
        (Status.NOT_ATTEMPTED, "B103"),  # a fact that only the rule needs, such as an offset of an instant
        (Status.NOT_ATTEMPTED, "B104"),  # the same, and it is below zero
        (Status.NOT_ATTEMPTED, "B213"),  # positions were read up to the saved target, and the floor is higher
    }
)
"""Where the manifests are the same: the old rules compared facts, and never asked what the policy decides."""
OF_MANIFESTS: frozenset[Reason] = OF_FACTS | {
    (Status.BLOCKED, "B107"),  # expectAtMost was not counted again
    (Status.BLOCKED, "B210"),  # `since` is in the future now
    (Status.BLOCKED, "B302"),  # `types` leaves the group out
    (Status.STALE, "B211"),  # exceptGroups no longer has a group that no position tells of
    (Status.STALE, GUARD),  # consumers, unreadBy, exceptGroups or every are others than reviewed
    (Status.STALE, IDLE_FOR),  # a shorter idleFor than reviewed
    (Status.WAITING, "clock"),  # `every` is longer now
    (Status.WAITING, "held"),  # `clamp` now, and a group stands at the log start
}
"""Where a policy or the Cluster was edited since the plan."""


@dataclass(frozen=True)
class Comparison:
    """How many actions both rule books leave, how many only the new one, lower; and why the new one leaves less."""

    agreed: int
    lowered: int
    reasons: tuple[Reason, ...]


def compare(first: PlannerInput, later: PlannerInput) -> Comparison:
    """Decide the plan of the first day by both rule books, and compare what they leave."""
    plan = first.plan()
    saved = {action.address: action for action in plan.actions if isinstance(action, Operation)}
    old = {action.address for action in old_recheck.remaining(plan, later)}
    checked = later.recheck(plan)
    lowered = 0
    for action in checked.remaining:
        bound = saved[action.address]
        if isinstance(bound, DeleteRecords):
            assert isinstance(action, DeleteRecords)
            assert action.before_offset <= bound.before_offset
            lowered += action.before_offset < bound.before_offset and action.address not in old
            bound = replace(bound, before_offset=action.before_offset)
        assert old_recheck.allows(bound, later), f"the old rules refuse {bound}"
        assert action.request() == bound.request()
        assert approved(action) == approved(bound)
    outcomes = {outcome.action.address: outcome for outcome in checked.outcomes}
    now = {action.address for action in checked.remaining}
    return Comparison(len(now & old), lowered, tuple(reason_of(outcomes[at]) for at in sorted(old - now)))


def approved(action: Operation) -> dict[str, object]:
    """Return what an approval binds, without what may get stricter: positions of groups, and evidence of idleness."""
    fields = {name: value for name, value in action.approved().items() if name not in ("idle_for_ms", "newest_record")}
    if isinstance(action, DeleteRecords):
        fields["guard"] = replace(action.guard, accepted=())
    return fields


def reason_of(outcome: Outcome) -> Reason:
    """Return the status, and the code or the class of the reason."""
    if outcome.status is Status.WAITING:
        return outcome.status, "held" if outcome.held else "clock"
    code = re.search(r"\((B\d{3})\)$", outcome.detail)
    if outcome.detail.startswith(_CONDITIONS):
        return outcome.status, GUARD
    words = (NOT_DUE, IDLE_FOR)
    return outcome.status, code[1] if code else next(filter(outcome.detail.startswith, words), outcome.detail)


@at_least(400)
@given(two_days)
def test_on_other_facts_the_planner_sends_no_more_than_the_old_rules(days: tuple[PlannerInput, PlannerInput]) -> None:
    """The manifests are the same."""
    assert set(compare(*days).reasons) <= OF_FACTS


@at_least(400)
@given(later_days)
def test_by_other_manifests_the_planner_sends_no_more_than_the_old_rules(
    days: tuple[PlannerInput, PlannerInput],
) -> None:
    """Some policies or the Cluster were edited, and the clock runs."""
    first, later = days
    unchanged = (first.cluster, first.policies) == (later.cluster, later.policies)
    assert set(compare(first, later).reasons) <= (OF_FACTS if unchanged else OF_MANIFESTS)


def test_both_rule_books_agree_and_differ_often() -> None:
    """Without it the properties would hold for nothing."""
    seeds = repeats(600, 1500)
    results = [compare(*later_day(Random(seed))) for seed in range(seeds)]
    reasons = Counter(reason for result in results for reason in result.reasons)
    assert sum(result.agreed for result in results) >= seeds / 5
    assert sum(result.lowered for result in results) >= seeds / 500
    assert sum(reasons.values()) >= seeds / 30
    assert len(reasons) >= 6
