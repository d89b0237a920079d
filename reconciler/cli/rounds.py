"""The rounds of `converge` and `watch` on one cluster. They act on manifests only as somebody wrote them.

A loop has a last set, which stays in force until changed manifests are released, are one commit, or
have read the same for a while.
"""

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from pathlib import Path

from reconciler import pipeline
from reconciler.apply.results import UNDONE, may_have_written
from reconciler.cli import common, console, documents, loading
from reconciler.cli.apply import show_applied
from reconciler.cli.settings import Settings
from reconciler.cli.signals import SignalState
from reconciler.errors import ExitCode, JournalUnavailable, ManifestsInvalid, PlanUnusable, ReconcilerError, UsageError
from reconciler.journal.release import manifests_hash
from reconciler.manifest import git
from reconciler.manifest.files import ClusterManifests, ManifestSet
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.plan import Plan
from reconciler.pipeline import ApplyResult
from reconciler.policies.cluster import Cluster
from reconciler.report.metrics import MeasuredRun
from reconciler.report.plan import plan_document
from reconciler.run import Run
from reconciler.text import formatting

SETTLED_S = 30.0
"""How long changed manifests outside of a commit read the same before they come into force."""


@dataclass
class ClusterRounds:
    """One cluster of a loop: the manifests that rounds act on, changed ones that they do not follow yet, and the last round.

    `known`: the manifests that were loaded first, later those in force. `reviewed`: only released ones
    come into force. `in_force`: the last ones that were there before and after a scan. `seen`: the hash of
    changed ones, and since when they read the same. `waits`: why those are not in force.
    `last_purges`: of the rounds of a loop, as in `run.Run`. `blocked`: what the last round could not do,
    and `rank`: the lower, the worse.
    """

    known: ClusterManifests
    settings: Settings
    paths: list[Path]
    reviewed: bool
    in_force: ClusterManifests | None = None
    seen: tuple[str, float] | None = None
    waits: str = ""
    last_purges: dict[TopicPartition, int] | None = None
    last_purge: str = "no purge yet"
    blocked: str = ""
    rank: int = 0
    has_written: bool = False

    def status(self, left_s: float) -> str:
        """Return what is shown between two rounds: what needs a person comes first."""
        waits = f"changed manifests wait: {self.waits}" if self.waits else ""
        next_round = f"next round in {formatting.approximate_duration(max(1, round(left_s)) * 1000)}"
        parts = ", ".join(filter(None, (self.blocked, waits, next_round, self.last_purge)))
        return f"{self.known.cluster.metadata.name}: {parts}"

    def converge(
        self,
        reading: ManifestSet | ReconcilerError,
        signals: SignalState,
        codes: set[int],
        measured: MeasuredRun,
    ) -> Plan:
        """Converge the cluster once with what was read, or with the last set. Raises ReconcilerError.

        Adds the exit code to `codes`; 1 if only a fact could not be read. Counts what was done.
        """
        self.rank, self.blocked = 0, "this round failed"
        manifests = self.select(reading, signals, codes)

        def on_plan(plan: Plan) -> None:
            has_unknown_facts = plan.incomplete or any(decision.unread for decision in plan.blocked)
            if has_unknown_facts:
                codes.add(ExitCode.ERROR)
            is_quiet = self.settings.quiet or self.last_purges is not None
            if plan.actions or plan.refused or has_unknown_facts or not is_quiet:
                documents.emit(self.settings, plan_document(plan))

        with common.open_run(self.settings, manifests, signals, self.last_purges) as run:
            applied = pipeline.converge(run, on_plan=on_plan, confirm=partial(self.confirm, run, manifests, reading))
        unwritten: set[int] = set()
        for verdict in applied.refused:
            console.print_error(verdict.message, code=verdict.id, exit_code=ExitCode.REFUSED)
        if applied.outcomes:
            show_applied(applied, self.settings, unwritten, self.paths)
        codes.add(applied.header.exit_code or max(unwritten, default=ExitCode.DONE))
        measured.count(applied.plan, applied.outcomes, applied.refused)
        self.last_purge = _describe_purge(applied) or self.last_purge
        refused, blocked = ", ".join(verdict.id for verdict in applied.refused), len(applied.plan.blocked)
        undone = sum(outcome.status in UNDONE for outcome in applied.outcomes)
        first = (f"refused by {refused}, " if refused else "") + (f"{undone:,} not done, " if undone else "")
        self.rank, self.blocked = 1 if first else 2 if blocked else 3, f"{first}{blocked:,} blocked"
        self.has_written = self.has_written or any(map(may_have_written, applied.outcomes))
        return applied.plan

    def select(self, reading: ManifestSet | ReconcilerError, signals: SignalState, codes: set[int]) -> ClusterManifests:
        """Return what this round acts on. Raises ReconcilerError where there is nothing."""
        name, waits, self.waits = self.known.cluster.metadata.name, self.waits, ""
        if self.reviewed and self.in_force is not None and not self._is_released(self.in_force, signals):
            self.in_force = None
        if isinstance(reading, ManifestsInvalid):
            self.seen = "", time.monotonic()
            return _select_valid(name, self.in_force, reading, codes)
        try:
            if isinstance(reading, ReconcilerError):
                raise reading
            present = reading.for_cluster(name)
        except UsageError as error:
            raise UsageError(
                f"{error}: nothing is done until it is back; start the loop again for another cluster"
            ) from None
        reason = self._reason_to_wait(present, signals)
        if not reason:
            return present
        if self.in_force is None:
            raise _not_in_force(name, reason)
        self.waits = reason
        if reason != waits:
            console.print_stderr(
                f"{name}: the changed manifests are not in force yet: {reason}; until then only policies that are the "
                "same act, with what either set protects, and what the changed ones select is left alone"
            )
        return self.in_force.while_pending(present)

    def _reason_to_wait(self, present: ClusterManifests, signals: SignalState) -> str:
        """Return why the manifests may not be as somebody wrote them; empty: they are."""
        present_hash = manifests_hash(present.files)
        if self.in_force is not None and manifests_hash(self.in_force.files) == present_hash:
            self.seen = None
            return ""
        if self.reviewed:
            return "" if self._is_released(present, signals) else _describe_unreleased(present.cluster)
        if reason := git.find_reason_to_wait(self.paths, (Path(file.path) for file in present.files)):
            self.seen = None  # what is read now is not a reading of what somebody wrote
            return reason
        is_first, now_s = self.in_force is None, time.monotonic()
        if self.seen is None or self.seen[0] != present_hash:
            # About the first reading of all, the second one decides, after the scan.
            self.seen = present_hash, -math.inf if is_first and self.seen is None else now_s
        sources = git.git_sources(present.files, self.paths)
        is_unchanged = not any(source.dirty for source in sources)
        is_commit = is_unchanged and len(sources) == 1 and sources[0].commit is not None
        by_time = is_first or is_unchanged
        settled = is_commit or (by_time and now_s - self.seen[1] >= SETTLED_S)
        with suppress(JournalUnavailable):  # such a journal releases nothing
            settled = settled or self._is_released(present, signals)
        if settled:
            return ""
        if by_time:
            return f"they have not read the same for {SETTLED_S:.0f} s"
        return "the commit has other files than these, or git could not list them; commit them, or release them with apply --release"

    def _is_released(self, manifests: ClusterManifests, signals: SignalState) -> bool:
        """Return whether the newest release is of these manifests, by the journal of those in force."""
        with common.open_run(self.settings, self.in_force or manifests, signals) as run:
            return pipeline.is_released(run, manifests)

    def confirm(self, run: Run, manifests: ClusterManifests, reading: ManifestSet | ReconcilerError) -> None:
        """Bring what was selected of a reading into force, after the scan of `run`.

        Raises PlanUnusable if the reading was not complete, or if others have been released since.
        """
        loading.confirm_unchanged(self.paths, getattr(reading, "contents", None))
        if self.reviewed and not pipeline.is_released(run, manifests):
            raise _not_in_force(manifests.cluster.metadata.name, _describe_unreleased(manifests.cluster))
        if isinstance(reading, ManifestSet) and any(manifests is part for part in reading.by_cluster):
            self.in_force = self.known = manifests
            self.seen = None


def _describe_purge(applied: ApplyResult) -> str:
    """Return when the round removed records, and how many; empty: it removed none."""
    purged = [outcome for outcome in applied.outcomes if outcome.status is Status.APPLIED and outcome.removed_max]
    if not purged:
        return ""
    records = formatting.count(sum(outcome.removed_max for outcome in purged), "record")
    partitions = formatting.count(len(purged), "partition")
    return f"last purge {formatting.format_time(applied.header.finished_at_ms)} ({partitions}, at most {records})"


def _select_valid(
    name: str, in_force: ClusterManifests | None, error: ManifestsInvalid, codes: set[int]
) -> ClusterManifests:
    """Return the last set with what is protected now, if that can be read."""
    declared = [cluster for cluster in error.clusters if cluster.metadata.name == name]
    if not declared or in_force is None:
        raise ReconcilerError(
            f"the manifests are invalid now, and what Cluster/{name} protects cannot be read: nothing is done until "
            "it can be read"
            if in_force
            else "the manifests are invalid now: nothing is done until they are valid"
        )
    console.print_error(
        f"{name}: the manifests are invalid now: the last valid ones stay in force, with what Cluster/{name} "
        "protects now",
        code=type(error).__name__,
    )
    codes.add(error.exit_code)
    # A Cluster that is declared twice is invalid, also under two names, and either one may protect more.
    same_id = (cluster for cluster in error.clusters if cluster.spec.cluster_id == in_force.cluster.spec.cluster_id)
    return reduce(ClusterManifests.with_protections, chain(declared, same_id), in_force)


def _not_in_force(name: str, reason: str) -> PlanUnusable:
    return PlanUnusable(f"the manifests of {name} are not in force yet: {reason}; nothing was done")


def _describe_unreleased(cluster: Cluster) -> str:
    topic = cluster.spec.journal.topic
    place = f"the topic {topic}" if topic else "a file, which a fresh checkout does not have"
    return (
        f"not released: the newest release in the journal of {cluster.address} ({place}) is of other manifests, or "
        "there is none; merge these with a review, and let `apply --release` of their plan release them"
    )
