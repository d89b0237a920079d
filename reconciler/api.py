"""The Python library: plan, apply, drift, suggest and scan of one cluster, as data.

A face over pipeline.py beside the command line. It prints nothing, handles no signal and ends no
process. docs/library.md says which names and fields stay.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler import pipeline
from reconciler.apply import results
from reconciler.clock import wall_clock_ms
from reconciler.companions.suggest.findings import Suggestions
from reconciler.companions.suggest.rules import DEFAULT_IDLE_FOR_MS
from reconciler.errors import (
    ClusterUnreachable,
    JournalUnavailable,
    ManifestsInvalid,
    PlanUnusable,
    ReconcilerError,
    Refused,
    ScanFailed,
    UsageError,
    WrongCluster,
)
from reconciler.manifest import files
from reconciler.manifest.files import ManifestSet
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan, section_of
from reconciler.model.progress import Progress, no_progress
from reconciler.operations import Operation
from reconciler.pipeline import ApplyResult
from reconciler.plan import drift as drift_reports
from reconciler.plan import plan_file
from reconciler.plan.drift import DriftReport
from reconciler.plan.planner import LONGEST_EXPIRY_MS
from reconciler.run import Run, connect_as_environment
from reconciler.scan.engine_choice import Engine, EngineName

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "load",
    "Reconciler",
    "Engine",
    "Plan",
    "ApplyResult",
    "Outcome",
    "Status",
    "DriftReport",
    "Suggestions",
    "Facts",
    "digest",
    "save",
    "open_plan",
    "table",
    "ReconcilerError",
    "ManifestsInvalid",
    "ClusterUnreachable",
    "WrongCluster",
    "ScanFailed",
    "JournalUnavailable",
    "PlanUnusable",
    "Refused",
    "UsageError",
]

logging.getLogger("reconciler").addHandler(logging.NullHandler())  # without one, Python prints warnings to stderr
_DAY = timedelta(days=1)
_MS = timedelta(milliseconds=1)


def load(
    paths: str | Path | Iterable[str | Path] = files.DEFAULT_FOLDER,
    *,
    cluster: str | None = None,
    timeout_s: float = 30.0,
    progress: Progress = no_progress,
) -> "Reconciler":
    """Check the manifests of one cluster, and return what acts on it.

    `cluster`: its name; None: the only one. `timeout_s`: of each call to a broker. `progress`: called
    with each step, from any thread. Raises ManifestsInvalid, whose `diagnostics` are all errors, and
    UsageError for an unknown cluster.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    # The current folder may change until the next call, and must not choose other manifests then.
    absolute = tuple(Path(path).absolute() for path in given)
    name = _read(absolute).for_cluster(cluster).cluster.metadata.name
    return Reconciler(paths=absolute, cluster=name, timeout_s=timeout_s, progress=progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a scan has read of a cluster; docs/tables.md describes the columns of its tables.

    A null has its reason in the column `unread`. `incomplete`: list → why it may lack rows.
    """

    cluster_id: str
    observed_at_ms: int
    incomplete: dict[str, str]
    partitions: "pa.Table"
    commits: "pa.Table"
    groups: "pa.Table"
    topics: "pa.Table"
    scans: "pa.Table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """One cluster and its manifests, which each method reads again: a protection of now counts.

    `engine` of the methods: `inline`, `auto`, `spark`, an `Engine`, or None, which is what the Cluster
    says. All raise ReconcilerError, whose `exit_code` is that of the command line. Any thread may call
    them; with Spark, one at a time in a process.
    """

    paths: tuple[Path, ...]
    cluster: str
    timeout_s: float = 30.0
    progress: Progress = no_progress

    def plan(
        self,
        *,
        engine: str | Engine | None = None,
        targets: Sequence[str] = (),
        within: Path | str | None = None,
        expires_after: timedelta = _DAY,
    ) -> Plan:
        """Return what would change, and what not. Reads only.

        `targets`: addresses or subjects to plan alone. `within`: a reviewed plan file that bounds it.
        """
        if not timedelta(0) < expires_after <= LONGEST_EXPIRY_MS * _MS:
            raise UsageError(f"expires_after is {expires_after}: expected more than 0, and at most 366 days")
        reviewed = None if within is None else plan_file.open_plan(Path(within))
        with self._run(engine) as run:
            return pipeline.plan(run, targets=targets, reviewed=reviewed, expires_after_ms=expires_after // _MS)

    def apply(
        self,
        plan: Plan,
        *,
        expect_digest: str,
        engine: str | Engine | None = None,
        dry_run: bool = False,
        stop: Callable[[], bool] = lambda: False,
    ) -> ApplyResult:
        """Decide the plan again with the manifests and facts of now, and send what both hold.

        `expect_digest`: the digest that was approved. `stop`: asked before each request; True ends the
        run, with an outcome for each action. Raises PlanUnusable for another plan or an expired one,
        Refused for a plan beyond a limit. What fails for one subject is an outcome.
        """
        pipeline.check_approval(plan, expect_digest)
        with self._run(engine, stop) as run:
            return pipeline.apply(plan, run, dry_run=dry_run)

    def drift(self, *, engine: str | Engine | None = None, previous: DriftReport | None = None) -> DriftReport:
        """Return what differs from the manifests. Reads only. `previous`: dates drift that it has."""
        with self._run(engine) as run:
            return drift_reports.report(pipeline.plan(run), previous=() if previous is None else (previous,))

    def suggest(
        self, *, engine: str | Engine | None = EngineName.AUTO, idle_for: timedelta = DEFAULT_IDLE_FOR_MS * _MS
    ) -> Suggestions:
        """Return policies that the manifests could have. Reads only.

        `idle_for`: without activity for so long, the removal of a group is suggested.
        """
        if idle_for <= timedelta(0):
            raise UsageError(f"idle_for is {idle_for}: would need no evidence that a group is idle; such as 3 days")
        from reconciler.companions.suggest.find import find_suggestions

        with self._run(engine) as run:
            return find_suggestions(run, idle_for_ms=idle_for // _MS, ignored=())

    def scan(self, *, engine: str | Engine | None = None) -> Facts:
        """Return the facts that the policies need, as tables. Reads only."""
        with self._run(engine) as run:
            snapshot = pipeline.scan_policies(run)
        from reconciler.companions.sources import export  # needs pyarrow, which a scan has asked for

        described = export.describe_run(snapshot)
        named = {name: described[name] for name in ("cluster_id", "observed_at_ms", "incomplete")}
        return Facts(**named, **export.tables(snapshot))

    def _run(self, engine: str | Engine | None, stop: Callable[[], bool] = lambda: False) -> Run:
        manifests = _read(self.paths).for_cluster(self.cluster)
        manifests = connect_as_environment(manifests, lambda path: _read((path,)))
        if not isinstance(engine, Engine):
            name = engine or manifests.cluster.spec.scan.engine
            if name not in set(EngineName):
                raise UsageError(f"there is no engine {name}: expected one of {', '.join(EngineName)}")
            engine = Engine(name=EngineName(name))
        return Run(manifests=manifests, engine=engine, timeout_s=self.timeout_s, progress=self.progress, stop=stop)


def _read(paths: Sequence[Path]) -> ManifestSet:
    return files.load(paths, now_ms=wall_clock_ms())


def digest(plan: Plan) -> str:
    """Return what an approval names: sha256 over the actions, their conditions and the manifests."""
    return plan_file.digest(plan)


def save(document: Plan | ApplyResult, path: Path | str) -> Path:
    """Write a plan for `apply`, or results beside those of earlier runs of the plan.

    Returns the place of the file: results of another plan are never overwritten. Raises OSError; of a
    plan ReconcilerError, and UsageError in the place of another file.
    """
    if isinstance(document, Plan):
        plan_file.write(document, Path(path))
        return Path(path)
    return results.write(Path(path), document.outcomes, document.header)


def open_plan(path: Path | str) -> Plan:
    """Return the plan of a file. Raises PlanUnusable where the file does not hold what was saved."""
    return plan_file.read(Path(path))


def table(document: Plan | ApplyResult | DriftReport) -> "pa.Table":
    """Return the decisions of a plan, outcomes of an apply or subjects of a drift report, one a row.

    `partition` is null for a group, a topic or a policy; `records_removed_max` where no number bounds it.
    """
    import pyarrow as pa

    if isinstance(document, Plan):
        rows = [_decision_row(decision) for decision in document.decisions]
        columns: Sequence[str] = ("section", "operation", "code", "reason", "next_step")
        numbers: Sequence[str] = ("records_removed_max",)
    elif isinstance(document, ApplyResult):
        rows = [_row(row.address, asdict(row)) for row in map(results.as_row, document.outcomes)]
        columns, numbers = ("status", "operation", "detail", "code", "read_back"), ("sends", "removed_max")
    else:
        rows = [_row(subject.address, asdict(subject)) for subject in (*document.subjects, *document.unread)]
        columns, numbers = ("sort", "code", "detail", "next_step"), ("since_ms",)
    texts = [pa.field(name, pa.string()) for name in ("kind", "policy", "subject", *columns)]
    fields = [*texts[:3], pa.field("partition", pa.int32()), *texts[3:], *(pa.field(n, pa.int64()) for n in numbers)]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _decision_row(decision: Any) -> dict[str, Any]:
    values = {name: getattr(decision, name, None) for name in ("code", "reason", "next_step")}
    if isinstance(decision, Operation):
        removed = decision.impact().get("records_removed_max", 0)
        values |= {
            "operation": decision.OPERATION,
            "records_removed_max": removed if isinstance(removed, int) else None,
        }
    return _row(decision.address, {"section": section_of(decision), **values})


def _row(address: Address, values: dict[str, Any]) -> dict[str, Any]:
    partition = address.partition if address.partition >= 0 else None
    return {**values, "kind": address.kind, "policy": address.policy, "subject": address.name, "partition": partition}
