"""Reports which subjects of a cluster drift, and since when; as JSON.

The plan's `observed_at` is the only clock. Waiting and skipped subjects never drift, nor does a
moving floor within its `driftAfter`. A subject that could not be read is unread; the report
remembers what it was when it was last read.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal

from reconciler import operations
from reconciler.codec import Codec, compare, document, is_newer, shorten
from reconciler.errors import ExitCode
from reconciler.model.action import Mode
from reconciler.model.bounds import OMIT_DEFAULT, InstantMs, NonEmpty, Total
from reconciler.model.description import OffsetMove
from reconciler.model.names import Address, count_by_sort
from reconciler.model.plan import Blocked, Plan, Unmatched, section_of
from reconciler.operations.base import Operation
from reconciler.plan.targets import with_parents

FORMAT_VERSION = "1.3"
BLOCKED, UNREAD = "blocked", "unread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One subject that drifts or could not be read. Raises ValueError for an unknown `sort`.

    `sort`: what is wrong: BLOCKED, UNREAD, or the DRIFT_TYPE of the operation that would correct
    it. `code`: of a blocked or unread subject. `detail`: the plan's reason, which may move with
    every run. `since_ms`: when the subject was first reported so, without a break.
    `drift_since_ms`, of an unread subject only: since when it drifted when it was last read; None:
    it did not, or that is not known. `removed_max`: by `record` or `offset`, how many its correction
    would remove at most; None: not known, as where it is blocked, or there is nothing to count.
    """

    address: Address
    sort: str
    code: NonEmpty | None
    detail: str
    next_step: str
    since_ms: InstantMs
    drift_since_ms: InstantMs | None = None
    removed_max: Mapping[str, Total] | None = field(default=None, metadata=OMIT_DEFAULT)

    def __post_init__(self) -> None:
        sorts = {*(operation.DRIFT_TYPE for operation in operations.OPERATIONS), BLOCKED, UNREAD}
        if self.sort not in sorts:
            raise ValueError(f"sort is {shorten(self.sort)}, expected one of {', '.join(sorted(sorts))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTally:
    """One policy's decisions, counted. `pending`: actions that are not drift (yet).

    `owner`: of its manifest; empty: none is written, or the report is of an earlier version.
    `unmatched`: 1 where the plan warns about the manifest, however often, else 0.
    """

    policy: Address
    drift: int = 0
    unread: int = 0
    pending: int = 0
    waiting: int = 0
    skipped: int = 0
    satisfied: int = 0
    unmatched: int = 0
    owner: str = field(default="", metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """One cluster's drift. `subjects` drift, `unread` could not be read; both sorted by address.

    `incomplete`: what the plan could not read at all. `unmatched`: warnings, which are not drift.
    `refused`: ids of the limits that refuse the plan. `waiting`, `satisfied`: how many partitions,
    topics and groups wait or are skipped, and how many are as desired by all policies;
    None: not known, as in a report of an earlier version.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("in_sync",)

    cluster: NonEmpty
    cluster_id: NonEmpty
    observed_at_ms: InstantMs
    refused: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    unmatched: tuple[Unmatched, ...] = ()
    tallies: tuple[PolicyTally, ...] = field(default=(), metadata={"name": "policies"})
    subjects: tuple[Subject, ...] = field(default=(), metadata={"name": "drift"})
    unread: tuple[Subject, ...] = ()
    waiting: Mapping[str, Total] | None = field(default=None, metadata=OMIT_DEFAULT)
    satisfied: Mapping[str, Total] | None = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def has_unknowns(self) -> bool:
        """Whether something that the policies need could not be read."""
        return bool(self.unread or self.incomplete)

    @property
    def in_sync(self) -> bool:
        """Whether nothing drifts and everything could be read."""
        return not self.subjects and not self.has_unknowns


def report(plan: Plan, previous: Iterable[DriftReport] = ()) -> DriftReport:
    """Return what drifts in `plan`. The previous report of the cluster id dates old drift."""
    before = _subjects_before(previous, plan.cluster_id)
    now_ms = plan.observed_at_ms
    subjects: dict[Address, Subject] = {}
    counts: defaultdict[Address, Counter[str]] = defaultdict(Counter)
    addresses: defaultdict[str, list[Address]] = defaultdict(list)
    for decision in plan.decisions:
        state = section_of(decision)
        if isinstance(decision, Operation) and not decision.drift:
            state = "pending"
        elif isinstance(decision, Operation | Blocked):
            state = UNREAD if state == UNREAD else "drift"
            subjects[decision.address] = _carry_over(_subject(decision, now_ms), before, now_ms)
        counts[decision.address.policy_address][state] += 1
        addresses[state].append(decision.address)
    for warning in plan.unmatched:
        counts[warning.policy]["unmatched"] = 1
    unread = {address: subject for address, subject in subjects.items() if subject.sort == UNREAD}
    decided = {decision.address for decision in plan.decisions}
    for address in before:
        # a subject below an unread topic or policy keeps what the previous report said
        parent = next((unread[parent] for parent in with_parents(address) if parent in unread), None)
        if parent is not None and address not in decided:
            subjects[address] = _carry_over(replace(parent, address=address), before, now_ms)
    ordered = sorted(subjects.values(), key=lambda subject: subject.address)
    owners = plan.owners
    waiting = [*addresses["pending"], *addresses["waiting"], *addresses["skipped"]]
    others = [*addresses["drift"], *addresses[UNREAD], *waiting]
    return DriftReport(
        cluster=plan.cluster,
        cluster_id=plan.cluster_id,
        observed_at_ms=now_ms,
        subjects=tuple(subject for subject in ordered if subject.sort != UNREAD),
        unread=tuple(subject for subject in ordered if subject.sort == UNREAD),
        incomplete=plan.incomplete,
        unmatched=plan.unmatched,
        refused=tuple(verdict.id for verdict in plan.refused),
        tallies=tuple(
            PolicyTally(policy=policy, owner=owners.get(policy, ""), **counts[policy]) for policy in sorted(counts)
        ),
        waiting=+count_by_sort(waiting),
        satisfied=+count_by_sort(addresses["satisfied"], others),
    )


def unreachable_report(
    cluster: str, cluster_id: str, reason: str, *, observed_at_ms: int, previous: Iterable[DriftReport] = ()
) -> DriftReport:
    """Return the report of a cluster that could not be planned. What drifted before is unread now."""
    before = _subjects_before(previous, cluster_id)
    next_step = "see why the cluster could not be read"
    unread = (
        replace(before[address], sort=UNREAD, code="B103", detail=reason, next_step=next_step, removed_max=None)
        for address in sorted(before)
    )
    return DriftReport(
        cluster=cluster,
        cluster_id=cluster_id,
        observed_at_ms=observed_at_ms,
        unread=tuple(_carry_over(subject, before, observed_at_ms) for subject in unread),
        incomplete=(reason,),
    )


def exit_code(reports: Sequence[DriftReport]) -> int:
    """Return 2 where anything drifts, else 1 where too little could be seen to tell, else 0."""
    if any(report.subjects for report in reports):
        return ExitCode.ACTIONS
    return ExitCode.ERROR if any(report.has_unknowns for report in reports) else ExitCode.DONE


def _subjects_before(previous: Iterable[DriftReport], cluster_id: str) -> dict[Address, Subject]:
    before = next((old for old in previous if old.cluster_id == cluster_id), None)
    return {subject.address: subject for subject in (*before.subjects, *before.unread)} if before else {}


def _subject(decision: Operation | Blocked, now_ms: int) -> Subject:
    """Return what is wrong with a subject, as of now."""
    subject = partial(Subject, address=decision.address, detail=decision.reason, since_ms=now_ms)
    if isinstance(decision, Blocked):
        return subject(sort=section_of(decision), code=decision.code, next_step=decision.next_step)
    overdue = "converge should have done this: see its last run"
    next_step = overdue if decision.mode is Mode.CONTINUOUS else "apply a reviewed plan"
    move = decision.figure()
    removed_max = {move.noun: move.removed} if isinstance(move, OffsetMove) else None
    return subject(sort=decision.DRIFT_TYPE, code=None, next_step=next_step, removed_max=removed_max)


def _carry_over(subject: Subject, before: Mapping[Address, Subject], now_ms: int) -> Subject:
    """Return the subject dated by `before`: a run without a broker must not make old drift new."""
    if (old := before.get(subject.address)) is None:
        return subject
    drifted_ms = old.drift_since_ms if old.sort == UNREAD else old.since_ms
    if subject.sort != UNREAD:
        return subject if drifted_ms is None else replace(subject, since_ms=min(drifted_ms, now_ms))
    since_ms = min(old.since_ms, now_ms) if old.sort == UNREAD else now_ms
    return replace(subject, since_ms=since_ms, drift_since_ms=drifted_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """The JSON document, for `--previous` and other tools. One subject per line, for `diff`."""

    format_version: str = FORMAT_VERSION
    kind: Literal["DriftReport"] = "DriftReport"
    clusters: tuple[DriftReport, ...]


_CODEC = Codec(_Document)


def dumps(reports: Sequence[DriftReport]) -> str:
    """Return the JSON document of these reports, clusters in the order given."""
    fields = _CODEC.fields(_Document(clusters=tuple(reports)))
    clusters = ("".join(document(cluster)).rstrip("\n") for cluster in fields["clusters"])
    return "".join(document(fields | {"clusters": clusters}))


def parse(text: str) -> tuple[DriftReport, ...]:
    """Return what `dumps` wrote. A newer minor version may hold more fields. Raises ValueError."""
    value = _CODEC.validate(text)
    newer = is_newer(value.format_version, FORMAT_VERSION)
    compare(text, _CODEC.encode(value), newer=newer, exact=False)
    return value.clusters
