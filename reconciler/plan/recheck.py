"""Decides the subjects of a saved plan again, on facts of now, and keeps what both decisions hold. Pure.

`plan/planner.py` alone decides what may happen, and `restrict_to` makes it smaller. `apply/` checks
again right before each request.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.model.block_reason import BlockReason, Origin, origin_of
from reconciler.model.names import Address, format_address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import (
    Blocked,
    Decision,
    LimitVerdict,
    Plan,
    Satisfied,
    Skipped,
    Waiting,
    asked_lookups,
)
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot, Lookups
from reconciler.operations import Operation
from reconciler.plan import limits, planner
from reconciler.plan.expiry_and_cluster import check_usable
from reconciler.plan.rules import RuleSet
from reconciler.plan.targets import with_parents
from reconciler.policies import Policy
from reconciler.text.escape import NEXT

_STATUS_OF = {
    Origin.MANIFESTS: Status.BLOCKED,
    Origin.UNREAD: Status.NOT_ATTEMPTED,
    Origin.CLUSTER: Status.STALE,
}


@dataclass(frozen=True, slots=True)
class Recheck:
    """What may be sent of a saved plan, in its order, and the outcomes of the other actions.

    `remaining`: each within the saved action of its address. `done`: those of `outcomes` whose desired
    state the cluster shows. `limits`: of what remains, on facts of now. `asked`: lookups of records
    without which some actions are not decided.
    """

    remaining: tuple[Operation, ...]
    outcomes: tuple[Outcome, ...]
    done: tuple[Outcome, ...]
    limits: tuple[LimitVerdict, ...]
    asked: Lookups


def scan_request(saved: Plan, policies: Iterable[Policy], now_ms: int) -> ScanRequest:
    """Return the facts that deciding the saved actions again needs.

    Where no policy asks for an action any more, its subject is read all the same: it may be done.
    """
    by_address, candidates = {policy.address: policy for policy in policies}, [a.address for a in saved.actions]
    topics, groups = defaultdict[str, set[int]](set), set[str]()
    for at, addresses in planner.by_policy(candidates).items():
        policy = by_address.get(at)
        selected = policy.select_among({address.name for address in addresses}) if policy else {}
        for address in addresses:
            if policy and address.name in selected and policy.claims(address):
                continue
            if address.is_of_group:
                groups.add(address.name)
            else:
                topics[address.name].add(address.partition)
    orphans = ScanRequest(
        topics=tuple(
            TopicRequest(
                topics=(Selector.literal(topic),),
                partitions=None if -1 in numbers else frozenset(numbers),  # -1: the topic as a whole
                offsets=True,
            )
            for topic, numbers in sorted(topics.items())
        ),
        groups=(GroupRequest(groups=tuple(map(Selector.literal, sorted(groups)))),) if groups else (),
    )
    return ScanRequest.union([planner.scan_request(by_address.values(), now_ms, candidates=candidates), orphans])


def recheck(saved: Plan, rules: RuleSet, snapshot: ClusterSnapshot) -> Recheck:
    """Decide again with the policies, protections, limits, waivers and facts of now, within `saved`.

    `snapshot` answers `scan_request(saved, rules.policies, snapshot.observed_at_ms)`. Raises WrongCluster, and
    PlanUnusable for a plan that has expired or is of the future. Of several actions on one subject, as an edited
    file may have, at most one remains: two policies that ask for one operation on it conflict.
    """
    operations, cluster = [action for action in saved.actions if isinstance(action, Operation)], rules.cluster
    cluster_ids = {"the brokers are": snapshot.cluster_id, f"{cluster.address} names": cluster.spec.cluster_id}
    check_usable(saved, snapshot.observed_at_ms, cluster_ids)
    asked = frozenset(action.address for action in operations)
    _selections, decided = planner.decide(rules, snapshot, addresses=asked)
    decisions = {decision.address: decision for decision in decided}
    by_address = {policy.address: policy for policy in rules.policies}
    bounded, remaining, outcomes, done = list[Operation](), list[Operation](), list[Outcome](), list[Outcome]()
    for action in operations:
        if (reason := action.done_reason(snapshot)) is not None:
            done.append(Outcome(action=action, status=Status.SATISFIED, detail=reason))
            outcomes.append(done[-1])
            continue
        decision = _decision(action, decisions, by_address.get(action.address.policy_address), snapshot)
        if isinstance(decision, Outcome):
            outcomes.append(decision)
        else:
            bounded.append(decision)
            remaining.append(decision.within(action))
    verdicts = limits.verdicts(bounded, rules, snapshot)
    lookups = asked_lookups(decisions.values())
    return Recheck(tuple(remaining), tuple(outcomes), tuple(done), verdicts, lookups)


def _decision(
    action: Operation, decisions: Mapping[Address, Decision], policy: Policy | None, snapshot: ClusterSnapshot
) -> Operation | Outcome:
    """Return what the new decision about an action's subject leaves of the action, or how it ends."""

    def ended(status: Status, detail: str, *, held: bool = False) -> Outcome:
        return Outcome(action=action, status=status, detail=detail, held=held)

    if policy is None:
        return ended(Status.BLOCKED, f"{action.address.policy_address} is not in the manifests that were loaded")
    if not isinstance(action, policy.OPERATION):
        return ended(Status.BLOCKED, f"{policy.address} never asks for a {action.TITLE}")
    place = f"{policy.address} ({policy.declared_at})"
    # What blocks the topic or the policy of a subject blocks the subject.
    match decision := next((decisions[at] for at in with_parents(action.address) if at in decisions), None):
        case Operation():
            bounded = decision.restrict_to(action)
            return ended(Status.STALE, bounded.reason) if isinstance(bounded, BlockReason) else bounded
        case Satisfied():
            return ended(Status.SATISFIED, f"nothing is due any more: {place} is satisfied")
        case Waiting():
            return ended(Status.WAITING, decision.reason, held=decision.until_ms is None)
        case Blocked() | Skipped():
            is_unread = isinstance(decision, Blocked) and decision.unread
            status = Status.NOT_ATTEMPTED if is_unread else _STATUS_OF[origin_of(decision.code)]
            step = ""
            if isinstance(decision, Blocked) and status is Status.NOT_ATTEMPTED:
                # The saved plan goes on: results say themselves that the same command runs again.
                step = f"{NEXT}{decision.next_step.removesuffix(', then plan again')}"
            return ended(status, f"{decision.reason} ({decision.code}){step}")
    if not (policy.select_among({action.address.name}) and policy.claims(action.address)):
        return ended(Status.BLOCKED, f"{place} does not select it any more")
    _names, incomplete = snapshot.listed(policy.SUBJECTS)
    if incomplete is None:
        return ended(Status.STALE, f"{format_address(action.address)} is gone")
    reason = f"the list of {policy.SUBJECTS} is incomplete: {incomplete.reason}"
    return ended(Status.NOT_ATTEMPTED, f"it is not listed, but {reason}")
