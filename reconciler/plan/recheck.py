"""Compares every action of a plan with a fresh snapshot, before the first request. Pure.

An action remains only if everything that it was decided on still holds; no target moves. `apply/`
checks again right before each request.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.errors import PlanUnusable, WrongCluster
from reconciler.model.action import Action
from reconciler.model.outcome import Outcome
from reconciler.model.plan import LimitVerdict, Plan
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations import OPERATIONS, Operation
from reconciler.operations.observation import Observation
from reconciler.plan import limits
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver
from reconciler.text.formatting import format_instant


@dataclass(frozen=True, slots=True)
class Recheck:
    """Actions that still hold, in the plan's order, outcomes of the others, and the limits now."""

    remaining: tuple[Action, ...]
    outcomes: tuple[Outcome, ...]
    limits: tuple[LimitVerdict, ...]


def scan_request(plan: Plan) -> ScanRequest:
    """Return what the recheck needs: the plan's partitions, and all groups that may read them."""
    return ScanRequest.union(
        operation.scan_request([action for action in plan.actions if isinstance(action, operation)])
        for operation in OPERATIONS
    )


def recheck(plan: Plan, cluster: Cluster, waivers: Iterable[Waiver], snapshot: ClusterSnapshot, now_ms: int) -> Recheck:
    """Compare plan and snapshot, with the present protections, limits and waivers.

    `snapshot` answers `scan_request(plan)`. Raises WrongCluster, and PlanUnusable for a plan that
    has expired or acts on one subject twice.
    """
    operations = [action for action in plan.actions if isinstance(action, Operation)]
    _check_usable(plan, operations, cluster, snapshot, now_ms)
    observation = Observation(snapshot=snapshot, now_ms=now_ms, complete=True, protection=cluster.protection)
    rechecked = [(action, action.recheck(observation)) for action in operations]
    remaining = tuple(action for action, failure in rechecked if failure is None)
    outcomes = (Outcome(action=a, status=failure.status, detail=failure.detail) for a, failure in rechecked if failure)
    observed = (action.as_observed(snapshot) for action in remaining)
    return Recheck(remaining, tuple(outcomes), limits.verdicts(observed, cluster, waivers, snapshot))


def _check_usable(
    plan: Plan, operations: Iterable[Operation], cluster: Cluster, snapshot: ClusterSnapshot, now_ms: int
) -> None:
    actual = {"the brokers are": snapshot.cluster_id, f"{cluster.address} names": cluster.spec.cluster_id}
    for source, cluster_id in actual.items():
        if cluster_id != plan.cluster_id:
            raise WrongCluster(
                f"the plan is for cluster id {plan.cluster_id}, {source} {cluster_id}: nothing was done; choose the "
                "right manifests or plan again"
            )
    if now_ms >= plan.expires_at_ms:
        raise PlanUnusable(
            f"the plan expired at {format_instant(plan.expires_at_ms)}, and now it is {format_instant(now_ms)}: "
            "nothing was done; plan again"
        )
    subjects = set()
    for action in operations:
        if (key := (type(action), action.subject)) in subjects:
            raise PlanUnusable(
                f"the plan acts on {action.subject} twice ({action.address}): nothing was done; plan again"
            )
        subjects.add(key)
