"""Compares every action of a plan with a fresh snapshot, before the first request. Pure.

An action remains only if everything that it was decided on still holds; no target moves. `apply/`
checks again right before each request.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from reconciler.errors import PlanUnusable, WrongCluster
from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason
from reconciler.model.garbage import gc_paused
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import LimitVerdict, Plan
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations import OPERATIONS, Operation
from reconciler.operations.observation import Observation, RecheckFailure
from reconciler.plan import limits
from reconciler.plan.conflicts import ConflictIndex
from reconciler.policies import Policy
from reconciler.policies.base import Selection
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


@gc_paused()
def recheck(
    plan: Plan,
    cluster: Cluster,
    policies: Sequence[Policy],
    waivers: Iterable[Waiver],
    snapshot: ClusterSnapshot,
    now_ms: int,
) -> Recheck:
    """Compare plan and snapshot, with the present policies, protections, limits and waivers.

    `snapshot` answers `scan_request(plan)`. Raises WrongCluster, and PlanUnusable for a plan that
    has expired or acts on one subject twice.
    """
    operations = [action for action in plan.actions if isinstance(action, Operation)]
    _check_usable(plan, operations, cluster, snapshot, now_ms)
    observation = Observation(snapshot=snapshot, now_ms=now_ms, complete=True, protection=cluster.protection)
    authorization = _Authorization(operations, policies)
    rechecked = []
    for action in operations:
        failure = action.recheck(observation)
        if failure is None or failure.status not in (Status.SATISFIED, Status.BLOCKED):
            failure = authorization.failure(action) or failure or authorization.subject_failure(action, snapshot)
        rechecked.append((action, failure))
    remaining = tuple(action for action, failure in rechecked if failure is None)
    outcomes = (_outcome(action, failure) for action, failure in rechecked if failure is not None)
    observed = (action.as_observed(observation) for action in remaining)
    return Recheck(remaining, tuple(outcomes), limits.verdicts(observed, cluster, waivers, snapshot))


def _outcome(action: Action, failure: RecheckFailure) -> Outcome:
    """Return the outcome of an action of which nothing is sent, so that it cannot have failed."""
    status = Status.NOT_ATTEMPTED if failure.status is Status.FAILED else failure.status
    return Outcome(action=action, status=status, detail=failure.detail)


class _Authorization:
    """Which actions the loaded policies still allow, whatever the plan file says."""

    def __init__(self, operations: Sequence[Operation], policies: Iterable[Policy]) -> None:
        names = {operation.address.name for operation in operations}
        self._selections = {p.address: Selection(p, p.select_among(names), matched=0) for p in policies}
        index = ConflictIndex(self._selections.values())
        self._block_removal = index.block_removal
        self._conflicts = cache(lambda address: index.conflicts(self._selections[address]))

    def failure(self, operation: Operation) -> RecheckFailure | None:
        """Return why no policy, or more than one, asks for the action; None: one does."""
        name, number, address = operation.address.name, operation.address.partition, operation.address.policy_address
        selection = self._selections.get(address)
        if selection is None:
            return RecheckFailure(Status.BLOCKED, f"{address} is not in the manifests that were loaded")
        policy = selection.policy
        if not isinstance(operation, policy.OPERATION):
            return RecheckFailure(Status.BLOCKED, f"{address} never asks for a {operation.TITLE}")
        claimed = policy.claimed_partitions(name)
        if name not in selection.subjects or not (claimed is None or number in claimed):
            return RecheckFailure(Status.BLOCKED, f"{address} ({policy.declared_at}) does not select it any more")
        conflict = self._conflicts(address).get(name)
        if conflict is not None and (conflict.partitions is None or number in conflict.partitions):
            return RecheckFailure(Status.BLOCKED, conflict.block.reason)
        awaited = self._block_removal(operation.removed_group)
        return None if awaited is None else RecheckFailure(Status.BLOCKED, awaited.reason)

    def subject_failure(self, operation: Operation, snapshot: ClusterSnapshot) -> RecheckFailure | None:
        """Return why the policy does not act on such a subject, which holds otherwise; None: it does."""
        selection, name = self._selections[operation.address.policy_address], operation.address.name
        try:
            selection.policy.check_subject(name, snapshot, exact=selection.subjects[name])
        except BlockReason as error:
            return RecheckFailure(Status.BLOCKED, error.reason)
        return None


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
