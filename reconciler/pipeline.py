"""The verbs wired together: load → scan → plan → recheck → apply. Reads like the picture in ARCHITECTURE.md; decides nothing itself."""

import json
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from reconciler import __version__, git_source
from reconciler.apply import results
from reconciler.apply.executor import DEFAULTS as DEFAULT_SIZES
from reconciler.apply.executor import apply as send
from reconciler.apply.tuning import BatchLimits as Sizes
from reconciler.errors import JournalUnavailable, Refused, WrongCluster
from reconciler.journal import interrupted as resume
from reconciler.journal.entry import JournalEntry
from reconciler.journal.file import FileJournal
from reconciler.kafka import connect
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.journal import TopicJournal
from reconciler.manifest import files, schema, secrets
from reconciler.manifest.manifest_set import ClusterManifests, ManifestSet
from reconciler.model.action import Mode
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.operations.delete_group import DeleteGroup
from reconciler.plan import limits, plan_file, planner, recheck
from reconciler.plan.review import Reviewed, restrict_to
from reconciler.policies import Cluster
from reconciler.scan import scan
from reconciler.scan.session import SparkTarget

Progress = Callable[[str], None]
DEFAULT_EXPIRY_MS = 24 * 3_600_000
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a verb: the engine, the deadline of each broker call, where progress goes and what time it is."""

    engine: SparkTarget
    timeout_s: float
    progress: Progress
    clock: Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """What became of a plan. `outcomes` in the order in which they ended; `refused`: messages of limits that refuse it now."""

    run_id: str
    plan: Plan
    outcomes: tuple[Outcome, ...]
    refused: tuple[str, ...]
    interrupted: bool
    exit_code: int
    started_at_ms: int
    finished_at_ms: int

    @property
    def header(self) -> results.ResultsHeader:
        """What results.json says about the run as a whole."""
        return results.ResultsHeader(
            run_id=self.run_id,
            plan_digest=plan_file.digest(self.plan),
            cluster=self.plan.cluster,
            cluster_id=self.plan.cluster_id,
            started_at_ms=self.started_at_ms,
            finished_at_ms=self.finished_at_ms,
            interrupted=self.interrupted,
            exit_code=self.exit_code,
            tool_version=__version__,
            refused=self.refused,
        )


def wall_clock_ms() -> int:
    """Epoch milliseconds. Read once per verb and passed on as `observed_at`."""
    return time.time_ns() // 1_000_000


def load(paths: Sequence[Path], *, now_ms: int, cluster: str | None = None) -> ManifestSet:
    """Manifests from files and folders. Raises ManifestsInvalid with every diagnostic of the run."""
    return files.load(paths, now_ms=now_ms, cluster=cluster)


def open_connection(cluster: Cluster, run: RunOptions) -> Connection:
    """A connection whose brokers are the cluster that the manifest names. Raises ClusterUnreachable and WrongCluster."""
    resolved = secrets.resolve(cluster)
    made = Connection(bootstrap_servers=resolved.bootstrap, properties=resolved.properties, timeout_s=run.timeout_s)
    run.progress(f"connecting to {cluster.metadata.name}")
    found = connect.cluster_id(made)
    if found != cluster.spec.cluster_id:
        raise WrongCluster(
            f"Cluster/{cluster.metadata.name} names cluster id {cluster.spec.cluster_id}, the brokers at {made.bootstrap_servers} are "
            f"{found}: nothing was done; correct bootstrapServers or clusterId in {cluster.declared_at}"
        )
    return made


def plan(
    manifests: ClusterManifests,
    run: RunOptions,
    *,
    modes: Collection[Mode] = planner.ALL_MODES,
    targets: Sequence[str] = (),
    reviewed: Reviewed | None = None,
    expires_after_ms: int = DEFAULT_EXPIRY_MS,
) -> Plan:
    """Scan and plan. Reads only. `modes` narrows to policies of these (converge), `reviewed` to what that plan also holds."""
    observed_at_ms = run.clock()
    needs = planner.needs((policy for policy in manifests.policies if policy.mode in modes), observed_at_ms)
    with scan.start_session(needs, run.engine) as start:
        made = open_connection(manifests.cluster, run)
        wants_purges = any(need.last_purge for need in needs.topics)
        purges = (
            git_source.last_purges(git_source.open_journal(manifests.cluster, made))
            if wants_purges
            else Unknown("not asked")
        )
        snapshot = scan.scan(
            needs,
            made,
            observed_at_ms=observed_at_ms,
            last_purges=purges,
            engine=run.engine,
            progress=run.progress,
            timeout_s=run.timeout_s,
            start=start,
        )
    run.progress("planning")
    planned = planner.plan(
        cluster=manifests.cluster,
        policies=manifests.policies,
        waivers=manifests.waivers,
        snapshot=snapshot,
        source=git_source.source(manifests),
        expires_after_ms=expires_after_ms,
        targets=targets,
        modes=modes,
    )
    if reviewed is None:
        return planned
    return limits.with_limits(restrict_to(planned, reviewed), manifests.cluster, manifests.waivers, snapshot)


def apply(
    planned: Plan,
    manifests: ClusterManifests,
    run: RunOptions,
    *,
    dry_run: bool = False,
    stop: Callable[[], bool] = lambda: False,
    on_outcome: Callable[[Outcome], None] = lambda _outcome: None,
    sending: Callable[[], None] = lambda: None,
    sizes: Sizes = DEFAULT_SIZES,
) -> ApplyResult:
    """Recheck every action against a fresh scan, then send what is left. Nothing larger than the plan can come of it.

    `sending`: called before each request, from any thread.
    """
    started_at_ms = run.clock()
    run_id = uuid.uuid4().hex[:12]
    if planned.cluster_id != manifests.cluster.spec.cluster_id:
        raise WrongCluster(
            f"the plan is for cluster id {planned.cluster_id}, Cluster/{manifests.cluster.metadata.name} is "
            f"{manifests.cluster.spec.cluster_id}: nothing was done; choose the right manifests or plan again"
        )
    made = open_connection(manifests.cluster, run)
    kept = git_source.open_journal(manifests.cluster, made, commit=planned.source.commit)
    digest = plan_file.digest(planned)
    # Before the recheck: a journal of years takes its time, and nothing should come between the recheck and the first request.
    begun = git_source.interrupted_actions(kept, digest)
    if interrupted := resume.progress_message(begun):
        run.progress(interrupted)
    checked_at_ms = run.clock()
    checked = _recheck(planned, manifests, run, made, kept)
    refused = tuple(verdict.message for verdict in checked.limits if not verdict.passed)
    rechecked, ending = resume.annotate_interrupted(checked.outcomes, begun)

    def ended() -> Iterator[Outcome]:
        yield from rechecked
        if refused or dry_run:
            why = "a limit refuses the plan as it stands now" if refused else "dry run: would be sent"
            for action in checked.remaining:
                yield Outcome(action=action, status=Status.NOT_ATTEMPTED, detail=why)
            return
        with suppress(JournalUnavailable):  # the first intent will say so, and nothing is sent
            kept.record(ending, run_id=run_id, plan_digest=digest, at_ms=run.clock())
        with closing(KafkaGateway(made, timeout_s=run.timeout_s, cluster_id=planned.cluster_id)) as gateway:
            yield from send(
                checked.remaining,
                gateway=gateway,
                journal=kept,
                run_id=run_id,
                plan_digest=digest,
                clock=run.clock,
                sleep=time.sleep,
                stop=stop,
                progress=run.progress,
                sending=sending,
                gone=[
                    outcome.action.group
                    for outcome in rechecked
                    if isinstance(outcome.action, DeleteGroup) and outcome.status is Status.SATISFIED
                ],
                checked_at_ms=checked_at_ms,
                expires_at_ms=planned.expires_at_ms,
                settings=sizes,
            )

    outcomes = []
    for outcome in ended():
        on_outcome(outcome)
        outcomes.append(outcome)
    code = results.exit_code(outcomes)
    if refused:
        code = Refused.exit_code
    elif dry_run:
        code = 0
    elif stop() and not any(results.may_have_written(outcome) for outcome in outcomes):
        code = EXIT_INTERRUPTED
    return ApplyResult(
        run_id=run_id,
        plan=planned,
        outcomes=tuple(outcomes),
        refused=refused,
        interrupted=stop(),
        exit_code=code,
        started_at_ms=started_at_ms,
        finished_at_ms=run.clock(),
    )


def _recheck(
    planned: Plan, manifests: ClusterManifests, run: RunOptions, made: Connection, kept: FileJournal | TopicJournal
) -> recheck.Recheck:
    run.progress("rechecking every action")
    now_ms = run.clock()
    needs = recheck.needs(planned)
    snapshot: ClusterSnapshot = scan.scan(
        needs,
        made,
        observed_at_ms=now_ms,
        last_purges=git_source.last_purges(kept)
        if any(need.last_purge for need in needs.topics)
        else Unknown("not asked"),
        engine=run.engine,
        progress=run.progress,
        timeout_s=run.timeout_s,
    )
    return recheck.recheck(planned, manifests.cluster, manifests.waivers, snapshot, now_ms=now_ms)


def converge(
    manifests: ClusterManifests,
    run: RunOptions,
    *,
    stop: Callable[[], bool],
    on_plan: Callable[[Plan], None],
    sending: Callable[[], None] = lambda: None,
) -> ApplyResult:
    """Plan, limits and apply in one, for policies in `mode: continuous` only: the review approved the rule, limits bound the run."""
    started_at_ms = run.clock()
    planned = plan(manifests, run, modes=(Mode.CONTINUOUS,))
    on_plan(planned)
    if planned.actions and not planned.refused:
        return apply(planned, manifests, run, stop=stop, sending=sending)
    refused = tuple(verdict.message for verdict in planned.refused)
    return ApplyResult(
        run_id="",
        plan=planned,
        outcomes=(),
        refused=refused,
        interrupted=False,
        exit_code=Refused.exit_code if refused else 0,
        started_at_ms=started_at_ms,
        finished_at_ms=run.clock(),
    )


def journal_entries(
    manifests: ClusterManifests, run: RunOptions, *, address: str | None = None
) -> Iterator[JournalEntry]:
    """What the journal holds, oldest first; `address`: only this address, or those below it."""
    made = open_connection(manifests.cluster, run) if manifests.cluster.spec.journal.topic else None
    kept = git_source.open_journal(manifests.cluster, made)

    def wanted(found: Address) -> bool:
        return address is None or str(found) == address or str(found).startswith(f"{address}/")

    return kept.entries(wanted)


def export(manifests: ClusterManifests, run: RunOptions, out: Path) -> Sequence[Path]:
    """The scan alone, as Parquet files under `out`."""
    observed_at_ms = run.clock()
    needs = planner.needs(manifests.policies, observed_at_ms)
    with scan.start_session(needs, run.engine) as start:
        return scan.export(
            needs,
            open_connection(manifests.cluster, run),
            observed_at_ms=observed_at_ms,
            engine=run.engine,
            progress=run.progress,
            timeout_s=run.timeout_s,
            out=out,
            start=start,
        )


def schemas() -> Mapping[str, str]:
    """File name and text of each JSON Schema under schemas/."""
    others = {"plan.json": plan_file.schema(), "results.json": results.schema()}
    return {**schema.schemas(), **{name: json.dumps(value, indent=2) + "\n" for name, value in others.items()}}
