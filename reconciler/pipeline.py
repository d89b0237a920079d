"""Wires the verbs together: load → scan → plan → recheck → apply. Decides nothing itself."""

import json
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from reconciler import __version__, git_source
from reconciler.apply import results
from reconciler.apply.context import ApplyContext, Tuning
from reconciler.apply.executor import apply as send_actions
from reconciler.errors import JournalUnavailable, Refused, WrongCluster
from reconciler.journal import journal
from reconciler.journal.entry import JournalEntry
from reconciler.journal.journal import ActionJournal
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.kafka.session import KafkaSession
from reconciler.manifest import files, schema, secrets
from reconciler.manifest.manifest_set import ClusterManifests, ManifestSet
from reconciler.model.action import Mode
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import NOT_ASKED, Unknown
from reconciler.operations import Operation
from reconciler.plan import limits, plan_file, planner, recheck
from reconciler.plan.plan_file import SavedPlan
from reconciler.plan.review import restrict_to
from reconciler.policies.cluster import Cluster
from reconciler.scan import export as parquet
from reconciler.scan import scan
from reconciler.scan.session import SparkTarget

Progress = Callable[[str], None]
DEFAULT_EXPIRY_MS = 24 * 3_600_000
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a verb: Spark's target, the timeout of each broker call, the progress output, the clock."""

    engine: SparkTarget
    timeout_s: float
    progress: Progress
    clock: Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """The result of applying a plan. `refused`: messages of the limits that refuse it now.

    `outcomes`: in the order in which the actions ended.
    """

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
        """The header of results.json."""
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
    """Epoch milliseconds. A verb reads it once and passes it on as `observed_at`."""
    return time.time_ns() // 1_000_000


def load(paths: Sequence[Path], *, now_ms: int, cluster: str | None = None) -> ManifestSet:
    """Manifests from files and folders. Raises ManifestsInvalid with every diagnostic of the run."""
    return files.load(paths, now_ms=now_ms, cluster=cluster)


def open_session(cluster: Cluster, run: RunOptions) -> KafkaSession:
    """Connect to the cluster that the manifest names. Raises ClusterUnreachable and WrongCluster."""
    resolved = secrets.resolve(cluster)
    connection = Connection(
        bootstrap_servers=resolved.bootstrap, properties=resolved.properties, timeout_s=run.timeout_s
    )
    run.progress(f"connecting to {cluster.metadata.name}")
    session = KafkaSession.open(connection)
    if session.cluster_id != cluster.spec.cluster_id:
        raise WrongCluster(
            f"Cluster/{cluster.metadata.name} names cluster id {cluster.spec.cluster_id}, the brokers at "
            f"{connection.bootstrap_servers} are {session.cluster_id}: nothing was done; correct bootstrapServers or clusterId in "
            f"{cluster.declared_at}"
        )
    return session


def plan(
    manifests: ClusterManifests,
    run: RunOptions,
    *,
    modes: Collection[Mode] = planner.ALL_MODES,
    targets: Sequence[str] = (),
    reviewed: SavedPlan | None = None,
    expires_after_ms: int = DEFAULT_EXPIRY_MS,
    session: KafkaSession | None = None,
) -> Plan:
    """Scan and plan. Reads only.

    `modes`: only policies of these modes. `reviewed`: only what that plan contains, too. `session`: of the
    cluster; None: the plan opens its own.
    """
    observed_at_ms = run.clock()
    request = planner.scan_request((policy for policy in manifests.policies if policy.mode in modes), observed_at_ms)
    with (
        scan.start_session(request, run.engine) as start,
        _open_unless(session, manifests.cluster, run) as kafka,
    ):
        snapshot = scan.scan(
            request,
            kafka,
            observed_at_ms=observed_at_ms,
            last_purges=_last_purges(request, _open_journal(manifests.cluster, kafka)),
            engine=run.engine,
            progress=run.progress,
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
    tuning: Tuning | None = None,
    session: KafkaSession | None = None,
) -> ApplyResult:
    """Recheck every action against a fresh scan, then send the remaining ones. Never does more than the plan.

    `sending`: called before each request, from any thread. `session`: of the cluster; None: apply opens
    its own.
    """
    started_at_ms = run.clock()
    run_id = uuid.uuid4().hex[:12]
    if planned.cluster_id != manifests.cluster.spec.cluster_id:
        raise WrongCluster(
            f"the plan is for cluster id {planned.cluster_id}, Cluster/{manifests.cluster.metadata.name} is "
            f"{manifests.cluster.spec.cluster_id}: nothing was done; choose the right manifests or plan again"
        )
    outcomes: list[Outcome] = []
    with _open_unless(session, manifests.cluster, run) as kafka:
        action_journal = _open_journal(manifests.cluster, kafka, commit=planned.source.commit)
        digest = plan_file.digest(planned)
        # Before the recheck: an old journal takes time, and nothing should delay the first request after it.
        intents = journal.interrupted_actions(action_journal, digest)
        if message := journal.progress_message(intents):
            run.progress(message)
        checked_at_ms = run.clock()
        checked = _recheck(planned, manifests, run, kafka, action_journal)
        refused = tuple(verdict.message for verdict in checked.limits if not verdict.passed)
        rechecked, ended_intents = journal.annotate_interrupted(checked.outcomes, intents)

        def run_actions() -> Iterator[Outcome]:
            yield from rechecked
            if refused or dry_run:
                detail = "a limit refuses the plan as it stands now" if refused else "dry run: would be sent"
                for action in checked.remaining:
                    yield Outcome(action=action, status=Status.NOT_ATTEMPTED, detail=detail)
                return
            with suppress(JournalUnavailable):  # the first intent will fail, too, and nothing is sent then
                action_journal.record_outcomes(ended_intents, run_id=run_id, plan_digest=digest, at_ms=run.clock())
            groups = [
                outcome.action.removed_group
                for outcome in rechecked
                if outcome.status is Status.SATISFIED and isinstance(outcome.action, Operation)
            ]
            context = ApplyContext(
                gateway=KafkaGateway(kafka, cluster_id=planned.cluster_id),
                journal=action_journal,
                run_id=run_id,
                plan_digest=digest,
                clock=run.clock,
                sleep=time.sleep,
                stop=stop,
                progress=run.progress,
                sending=sending,
                tuning=tuning or Tuning(),
                checked_at_ms=checked_at_ms,
                expires_at_ms=planned.expires_at_ms,
                removed_groups={group for group in groups if group is not None},
            )
            yield from send_actions(checked.remaining, context)

        for outcome in run_actions():
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
    planned: Plan, manifests: ClusterManifests, run: RunOptions, session: KafkaSession, action_journal: ActionJournal
) -> recheck.Recheck:
    run.progress("rechecking every action")
    now_ms = run.clock()
    request = recheck.scan_request(planned)
    snapshot = scan.scan(
        request,
        session,
        observed_at_ms=now_ms,
        last_purges=_last_purges(request, action_journal),
        engine=run.engine,
        progress=run.progress,
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
    """Plan and apply in one, for policies in `mode: continuous` only.

    The review approved the rules, and the limits bound each run.
    """
    started_at_ms = run.clock()
    with closing(open_session(manifests.cluster, run)) as session:
        planned = plan(manifests, run, modes=(Mode.CONTINUOUS,), session=session)
        on_plan(planned)
        if planned.actions and not planned.refused:
            return apply(planned, manifests, run, stop=stop, sending=sending, session=session)
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
    """The journal's entries, oldest first. `address`: only this address, or those below it."""

    def matches(candidate: Address) -> bool:
        return address is None or str(candidate) == address or str(candidate).startswith(f"{address}/")

    if not manifests.cluster.spec.journal.topic:
        yield from _open_journal(manifests.cluster, None).entries(matches)
        return
    with closing(open_session(manifests.cluster, run)) as session:
        yield from _open_journal(manifests.cluster, session).entries(matches)


def export(manifests: ClusterManifests, run: RunOptions, out: Path) -> Sequence[Path]:
    """Write the snapshot of a scan as Parquet files under `out`."""
    observed_at_ms = run.clock()
    request = planner.scan_request(manifests.policies, observed_at_ms)
    with (
        scan.start_session(request, run.engine) as start,
        closing(open_session(manifests.cluster, run)) as session,
    ):
        snapshot = scan.scan(
            request,
            session,
            observed_at_ms=observed_at_ms,
            last_purges=NOT_ASKED,
            engine=run.engine,
            progress=run.progress,
            start=start,
        )
    return parquet.write(snapshot, out)


@contextmanager
def _open_unless(session: KafkaSession | None, cluster: Cluster, run: RunOptions) -> Iterator[KafkaSession]:
    """The caller's session, or one for the block."""
    if session is not None:
        yield session
        return
    with closing(open_session(cluster, run)) as opened:
        yield opened


def _open_journal(cluster: Cluster, session: KafkaSession | None, *, commit: str | None = None) -> ActionJournal:
    """The journal that the Cluster manifest names: a topic, or a local file."""
    topic = cluster.spec.journal.topic
    store = JournalTopic(session, topic) if session is not None and topic else None
    return journal.open_journal(cluster.metadata.name, store, commit=commit)


def _last_purges(request: ScanRequest, action_journal: ActionJournal) -> Mapping[TopicPartition, int] | Unknown:
    requested = any(part.last_purge for part in request.topics)
    return journal.last_purges(action_journal) if requested else NOT_ASKED


def schemas() -> Mapping[str, str]:
    """File name and text of each JSON Schema in schemas/."""
    others = {"plan.json": plan_file.schema(), "results.json": results.schema()}
    return {**schema.schemas(), **{name: json.dumps(value, indent=2) + "\n" for name, value in others.items()}}
