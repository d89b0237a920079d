"""Derives the drift of a cluster from a plan: which subjects drift, and since when.

The plan's `observed_at` is the only clock. Waiting and skipped subjects never drift, nor does a
moving floor within its `driftAfter`. A subject that could not be read neither drifts nor is in sync:
it is unread, and the report remembers what it was when it was last read.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, assert_never, cast

from reconciler import operations
from reconciler.model.action import Action, Mode
from reconciler.model.bounds import InstantMs, NonEmpty
from reconciler.model.names import Address
from reconciler.model.plan import Blocked, Plan, Satisfied, Skipped, Waiting
from reconciler.operations.base import Operation

EXIT_IN_SYNC = 0
EXIT_UNSEEN = 1
EXIT_DRIFT = 2

UNREAD_CODE = "B103"


BLOCKED = "blocked"
UNREAD = "unread"


def drift_types() -> frozenset[str]:
    """What can be wrong with a subject: what an operation would correct, or that it is blocked or unread."""
    return frozenset({*(operation.DRIFT_TYPE for operation in operations.OPERATIONS), BLOCKED, UNREAD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One subject that drifts or could not be read. Raises ValueError for an unknown `sort`.

    `sort`: one of `drift_types`; also a label of the metrics. `code`: of a blocked or unread subject.
    `detail`: the plan's reason, which may move with every run. `since_ms`: when the subject was first
    reported so, without a break. `drift_since_ms`, of an unread subject only: since when it drifted
    when it was last read; None: it did not drift, or that is not known.
    """

    address: Address
    sort: str
    code: NonEmpty | None
    detail: str
    next_step: str
    since_ms: InstantMs
    drift_since_ms: InstantMs | None = None

    def __post_init__(self) -> None:
        if self.sort not in drift_types():
            raise ValueError(f"sort is {ascii(self.sort)[:80]}, expected one of {', '.join(sorted(drift_types()))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTally:
    """One policy's decisions, counted. `pending`: actions that are not drift (yet)."""

    policy: Address
    drift: int = 0
    unread: int = 0
    pending: int = 0
    waiting: int = 0
    skipped: int = 0
    satisfied: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """One cluster's drift. `subjects` drift, `unread` could not be told; both sorted by address.

    `incomplete`: what the plan could not read at all; `refused`: ids of the limits that refuse the plan as it stands.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("in_sync",)

    cluster: NonEmpty
    cluster_id: NonEmpty
    observed_at_ms: InstantMs
    refused: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    tallies: tuple[PolicyTally, ...] = field(default=(), metadata={"name": "policies"})
    subjects: tuple[Subject, ...] = field(default=(), metadata={"name": "drift"})
    unread: tuple[Subject, ...] = ()

    @property
    def unseen(self) -> bool:
        """Whether something that the policies need could not be read."""
        return bool(self.unread or self.incomplete)

    @property
    def in_sync(self) -> bool:
        """Nothing drifts and everything was seen."""
        return not self.subjects and not self.unseen


def report(plan: Plan, previous: Iterable[DriftReport] = ()) -> DriftReport:
    """What drifts in `plan`; `since` is carried over from the previous report of the same cluster id, if one is there."""
    before = next((old for old in previous if old.cluster_id == plan.cluster_id), None)
    drifted = {old.address: old.since_ms for old in before.subjects} if before else {}
    unseen = {old.address: old for old in before.unread} if before else {}
    now_ms = plan.observed_at_ms
    subjects: list[Subject] = []
    unread: list[Subject] = []
    counts: dict[Address, dict[str, int]] = {}
    for decision in plan.decisions:
        policy = counts.setdefault(decision.address.policy_address, {})
        address = decision.address
        match decision:
            case Action() if not decision.drift:
                state = "pending"
            case Action():
                state = "drift"
                subjects.append(_of_action(decision, since_ms=_drift_since(address, drifted, unseen, now_ms)))
            case Blocked() if decision.unread:
                state = "unread"
                known = unseen.get(address)
                unread.append(
                    _of_blocked(
                        decision,
                        since_ms=min(known.since_ms, now_ms) if known else now_ms,
                        drift_since_ms=known.drift_since_ms if known else drifted.get(address),
                    )
                )
            case Blocked():
                state = "drift"
                subjects.append(_of_blocked(decision, since_ms=_drift_since(address, drifted, unseen, now_ms)))
            case Satisfied():
                state = "satisfied"
            case Waiting():
                state = "waiting"
            case Skipped():
                state = "skipped"
            case _:
                assert_never(decision)
        policy[state] = policy.get(state, 0) + 1
    if before is not None:
        unread += _hidden(before, {decision.address for decision in plan.decisions}, unread, now_ms)
    return DriftReport(
        cluster=plan.cluster,
        cluster_id=plan.cluster_id,
        observed_at_ms=now_ms,
        subjects=tuple(subjects),
        unread=tuple(sorted(unread, key=lambda subject: subject.address)),
        incomplete=plan.incomplete,
        refused=tuple(verdict.id for verdict in plan.refused),
        tallies=tuple(PolicyTally(policy=policy, **counts[policy]) for policy in sorted(counts)),
    )


def _hidden(before: DriftReport, told: Container[Address], unread: Iterable[Subject], now_ms: int) -> list[Subject]:
    """What was reported before and lies below a topic or policy that is unread as a whole by now: not forgotten, only out of sight."""
    wholes = {subject.address: subject for subject in unread}
    found = []
    for old in (*before.subjects, *before.unread):
        above = (Address(old.address.kind, old.address.policy, old.address.name), old.address.policy_address)
        whole = next((wholes[address] for address in above if address in wholes), None)
        if whole is None or old.address in told:
            continue
        drifted = old.since_ms if old.sort != UNREAD else old.drift_since_ms
        since_ms = now_ms if old.sort != UNREAD else min(old.since_ms, now_ms)
        found.append(replace(whole, address=old.address, since_ms=since_ms, drift_since_ms=drifted))
    return found


def unreachable_report(
    cluster: str, cluster_id: str, why: str, *, observed_at_ms: int, previous: Iterable[DriftReport] = ()
) -> DriftReport:
    """The report of a cluster that could not be planned at all: nothing is known, and what drifted before is not forgotten."""
    before = next((old for old in previous if old.cluster_id == cluster_id), None)
    drifted = before.subjects if before else ()
    unseen = [*(before.unread if before else ())]
    for subject in drifted:
        unseen.append(
            Subject(
                address=subject.address,
                sort=UNREAD,
                code=UNREAD_CODE,
                detail=why,
                next_step="see why the cluster could not be read",
                since_ms=observed_at_ms,
                drift_since_ms=subject.since_ms,
            )
        )
    return DriftReport(
        cluster=cluster,
        cluster_id=cluster_id,
        observed_at_ms=observed_at_ms,
        unread=tuple(sorted(unseen, key=lambda subject: subject.address)),
        incomplete=(why,),
    )


def exit_code(reports: Sequence[DriftReport]) -> int:
    """2 where anything drifts, else 1 where too little could be seen to tell, else 0."""
    if any(report.subjects for report in reports):
        return EXIT_DRIFT
    return EXIT_UNSEEN if any(report.unseen for report in reports) else EXIT_IN_SYNC


def _drift_since(address: Address, drifted: dict[Address, int], unseen: dict[Address, Subject], now_ms: int) -> int:
    # A broker that is away for one run must not make an old drift look new.
    known = drifted.get(address)
    if known is None and address in unseen:
        known = unseen[address].drift_since_ms
    return now_ms if known is None else min(known, now_ms)


def _of_action(action: Action, *, since_ms: int) -> Subject:
    match action.mode:
        case Mode.CONTINUOUS:
            next_step = "converge should have done this: see its last run"
        case Mode.MERGE:
            next_step = "apply a reviewed plan"
        case _:
            assert_never(action.mode)
    return Subject(
        address=action.address,
        sort=cast(Operation, action).DRIFT_TYPE,
        code=None,
        detail=action.reason,
        next_step=next_step,
        since_ms=since_ms,
    )


def _of_blocked(blocked: Blocked, *, since_ms: int, drift_since_ms: int | None = None) -> Subject:
    return Subject(
        address=blocked.address,
        sort=UNREAD if blocked.unread else BLOCKED,
        code=blocked.code,
        detail=blocked.reason,
        next_step=blocked.next_step,
        since_ms=since_ms,
        drift_since_ms=drift_since_ms,
    )
