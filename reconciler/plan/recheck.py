"""Compares every action of a plan with a fresh snapshot, before the first request. Pure.

An action remains only if everything that it was decided on still holds; no target moves. The applier
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
from reconciler.operations.base import Subject
from reconciler.operations.observation import Observation
from reconciler.plan import limits
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver
from reconciler.text.formatting import format_instant


@dataclass(frozen=True, slots=True)
class Recheck:
    """`remaining`: actions that still hold, in the plan's order. `outcomes`: how the others ended; nothing was sent.

    `limits`: their verdicts on what remains. The caller ends the run where one is not passed.
    """

    remaining: tuple[Action, ...]
    outcomes: tuple[Outcome, ...]
    limits: tuple[LimitVerdict, ...]


def scan_request(plan: Plan) -> ScanRequest:
    """Return what the recheck needs: of partitions only the plan's, of groups all that may read them."""
    return ScanRequest.union(
        operation.scan_request([action for action in plan.actions if isinstance(action, operation)])
        for operation in OPERATIONS
    )


def recheck(plan: Plan, cluster: Cluster, waivers: Iterable[Waiver], snapshot: ClusterSnapshot, now_ms: int) -> Recheck:
    """Compare plan and snapshot, with protections, limits and waivers of the manifests as they are now.

    `snapshot` answers `scan_request(plan)`. Raises WrongCluster, and PlanUnusable for a plan that has
    expired or acts on one subject twice.
    """
    _check_usable(plan, cluster, snapshot, now_ms)
    observation = Observation(snapshot=snapshot, now_ms=now_ms, complete=True, protection=cluster.protection)
    remaining: list[Operation] = []
    outcomes: list[Outcome] = []
    for action in _operations(plan):
        failure = action.recheck(observation)
        if failure is None:
            remaining.append(action)
        else:
            outcomes.append(Outcome(action=action, status=failure.status, detail=failure.detail))
    observed = (action.as_observed(snapshot) for action in remaining)
    return Recheck(tuple(remaining), tuple(outcomes), limits.verdicts(observed, cluster, waivers, snapshot))


def _operations(plan: Plan) -> list[Operation]:
    return [action for action in plan.actions if isinstance(action, Operation)]


def _check_usable(plan: Plan, cluster: Cluster, snapshot: ClusterSnapshot, now_ms: int) -> None:
    for cluster_id, where in (
        (snapshot.cluster_id, "the brokers are"),
        (cluster.spec.cluster_id, f"{cluster.address} names"),
    ):
        if cluster_id != plan.cluster_id:
            raise WrongCluster(
                f"the plan is for cluster id {plan.cluster_id}, {where} {cluster_id}: nothing was done; choose the right "
                "manifests or plan again"
            )
    if now_ms >= plan.expires_at_ms:
        raise PlanUnusable(
            f"the plan expired at {format_instant(plan.expires_at_ms)}, and now it is {format_instant(now_ms)}: "
            "nothing was done; plan again"
        )
    subjects: set[tuple[type[Operation], Subject]] = set()
    for action in _operations(plan):
        subject = (type(action), action.subject)
        if subject in subjects:
            raise PlanUnusable(f"the plan acts on {subject[1]} twice ({action.address}): nothing was done; plan again")
        subjects.add(subject)
