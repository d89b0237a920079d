"""Calls the steps in order: scan → plan → recheck → apply. Decides nothing itself."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from reconciler import __version__
from reconciler.apply import restore, results
from reconciler.apply.context import ApplyContext, Tuning
from reconciler.apply.executor import apply as send_actions
from reconciler.apply.restore import Removal, Unwritable
from reconciler.clock import steady_clock, wall_clock_ms
from reconciler.errors import ExitCode, JournalUnavailable, PlanUnusable, Refused, ScanFailed, UsageError
from reconciler.journal import journal
from reconciler.journal.entry import JournalEntry
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.journal.release import Approval, manifests_hash
from reconciler.kafka.groups import observe_groups
from reconciler.kafka.journal_topic import check_stamps
from reconciler.kafka.records import look_up
from reconciler.kafka.session import KafkaSession
from reconciler.manifest import git
from reconciler.manifest.files import ClusterManifests, read_contents
from reconciler.model.action import Action, Mode
from reconciler.model.garbage import gc_paused
from reconciler.model.names import Address, TopicPartition, count_by_sort
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import LimitVerdict, Plan, Source
from reconciler.model.progress import Progress
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import (
    NOT_ASKED,
    ClusterSnapshot,
    GroupObservation,
    GroupState,
    Unknown,
)
from reconciler.operations import OPERATIONS, Operation
from reconciler.operations.idle_groups import UNREAD
from reconciler.plan import limits, plan_file, planner, recheck, rules
from reconciler.plan.expiry_and_cluster import check_cluster_id, check_usable
from reconciler.plan.plan_file import SavedPlan
from reconciler.plan.review import restrict_to
from reconciler.plan.targets import check_targets, find_candidates, find_targets, matches
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine, EngineName, check_packages
from reconciler.scan.select import select_groups
from reconciler.text.escape import NEXT, display_name
from reconciler.text.formatting import count, format_instant
from reconciler.text.suggest import suggestion

D = TypeVar("D", bound=Any)
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """What became of a plan. `outcomes`: in the order in which the actions ended.

    `refused`: the limits that refused it, before or after the fresh scan.
    """

    plan: Plan
    outcomes: Sequence[Outcome]
    header: results.ResultsHeader
    refused: tuple[LimitVerdict, ...] = ()


def plan(
    run: Run,
    *,
    modes: Collection[Mode] = planner.ALL_MODES,
    targets: Sequence[str] = (),
    candidates: Collection[Address] | None = None,
    reviewed: SavedPlan | None = None,
    expires_after_ms: int = planner.DAY_MS,
) -> Plan:
    """Scan and plan policies of `modes`, bounded by `reviewed` (a reviewed plan). Reads only.

    `targets` (as in `find_targets`; each needs a decision) or `candidates` (as in `planner.plan`) make the
    scan smaller, too. Raises UsageError, before the scan for a target that means nothing.
    """
    manifests = run.manifests
    targeted = find_targets(targets, manifests.policies)
    if targeted:
        candidates = frozenset[Address]().union(*targeted.values())
    planned_policies = [policy for policy in manifests.policies if policy.mode in modes]
    now_ms = wall_clock_ms()
    needed = planner.scan_request(planned_policies, now_ms, candidates=candidates)
    if candidates is None:  # a narrowed plan says nothing of guards
        needed = replace(needed, group_names=bool(manifests.cluster.spec.protect.groups))
    snapshot = scan(run, needed, now_ms)
    run.progress("planning")
    source = _source_of(manifests)

    decide = partial(
        planner.plan, manifests, source=source, expires_after_ms=expires_after_ms, candidates=candidates, modes=modes
    )
    planned, snapshot = decide_with_lookups(run.session, snapshot, decide, run.progress)
    if targeted:
        planned = check_targets(targeted, planned, snapshot)
    if modes == planner.ALL_MODES:  # a plan that no one reviews says nothing of later runs
        changes = () if manifests.base is None else rules.rule_changes(manifests.rules, manifests.base)
        continuous = rules.continuous_policies(manifests.rules, manifests.base)
        planned = replace(planned, continuous=continuous, rule_changes=changes)
    if reviewed is None:
        return planned
    bounded = restrict_to(planned, reviewed)  # does less than the limits have counted
    return replace(bounded, limits=limits.verdicts(bounded.decisions, manifests, snapshot))


def _source_of(manifests: ClusterManifests) -> Source:
    """Return the source of manifests that were read before a scan; dirty also if there are others by now."""
    source = git.git_source(manifests.files, manifests.roots)
    # A checkout of another commit during the scan is clean, and its commit is not theirs.
    moved = source.commit is not None and read_contents(manifests.roots) != manifests.contents
    return replace(source, dirty=source.dirty or moved)


def check_approval(planned: Plan, expect_digest: str | None) -> None:
    """Raise PlanUnusable for another plan or one of another time, Refused for a plan beyond a limit.

    `expect_digest` None: the caller has seen the plan itself.
    """
    digest = plan_file.digest(planned)
    if expect_digest is not None and expect_digest != digest:
        raise PlanUnusable(
            f"the plan's digest is {digest}, and the expected one is {expect_digest or 'empty'}: nothing was done; apply "
            "the plan that was approved"
        )
    check_usable(planned, wall_clock_ms(), {})
    if planned.refused:
        raise Refused(limits.refusal(planned.refused))


def apply(
    planned: Plan,
    run: Run,
    *,
    dry_run: bool = False,
    tuning: Tuning | None = None,
    operations: Collection[type[Operation]] = OPERATIONS,
    release: bool = False,
    needs_stamps: bool = False,
    confirm: Callable[[], None] = lambda: None,
) -> ApplyResult:
    """Decide the actions of these operations again with a fresh scan, then send what remains of them.

    Other actions are left to another run of the same plan. `release`: release the manifests to later
    runs before the first request. `needs_stamps`: as in `ApplyContext`; `confirm`: as in `converge`.
    Raises WrongCluster, and PlanUnusable for a plan of another time, also where it expires before its release, and
    for a release of manifests that the plan was not calculated from, or that others have been released after.
    """
    cluster, own = run.manifests.cluster, tuple(operations)
    check_usable(planned, wall_clock_ms(), {f"{cluster.address} is": cluster.spec.cluster_id})
    if release:
        _check_release(planned, run)
    run.journal.set_commit(planned.source.unchanged_commit)
    # Before the recheck: an old journal takes time, and the first request follows the recheck.
    interrupted, held_back = _earlier_runs(planned, run, own)
    clock = steady_clock()
    checked_at_ms = clock()
    checked, snapshot = _decide_again(_rechecked_part(planned, own), run, checked_at_ms)
    checked = _without(checked, held_back)
    remaining = [action for action in checked.remaining if isinstance(action, own)]
    ended = (outcome for outcome in checked.outcomes if isinstance(outcome.action, own))
    unsent = [journal.annotate_interrupted(outcome, interrupted) for outcome in ended]
    others = (action for action in planned.actions if not isinstance(action, own))
    deferred = [Outcome(action=action, status=Status.DEFERRED, detail="left to another run") for action in others]
    refused = tuple(verdict for verdict in checked.limits if not verdict.passed)
    if refused or dry_run:
        detail = limits.refusal(refused) if refused else results.dry_run_detail(run.journal.unread)
        kept = [Outcome(action=action, status=Status.NOT_ATTEMPTED, detail=detail) for action in remaining]
        return _result(planned, run, [*unsent, *kept, *deferred], refused=refused)
    context = replace(
        _context(run, plan_file.digest(planned)),
        clock=clock,
        checked_at_ms=checked_at_ms,
        expires_ms={
            "the plan": planned.expires_at_ms,
            **{f"Waiver/{used.name}": used.expires_ms for verdict in checked.limits for used in verdict.waivers},
        },
        known_groups=snapshot.groups,
        consumer_offsets_ends=snapshot.consumer_offsets_ends,
        needs_stamps=needs_stamps,
        tuning=tuning or Tuning(),
    )
    context.note_effects(checked.done)
    confirm()
    if release and not run.stop():
        check_usable(planned, wall_clock_ms(), {})  # the scan took time, and no request checks this one
        _check_release(planned, run)
        run.journal.record_release(manifests_hash(run.manifests.files), run_id=run.run_id, at_ms=wall_clock_ms())
    # What an interrupted run began has ended: its intents would stay open for ever.
    closed = [outcome for outcome in unsent if outcome.action.address in interrupted]
    with suppress(JournalUnavailable):  # the first intent will fail, too, and nothing is sent then
        run.journal.record(closed, run_id=run.run_id, plan_digest=context.plan_digest, at_ms=wall_clock_ms())
    sent = journal.note_other_claims(
        [*unsent, *_send(remaining, planned, run, context)],
        run.journal,
        context.plan_digest,
        run.run_id,
        since_ms=planned.observed_at_ms,
    )
    outcomes = [*sent, *deferred]
    return _result(planned, run, outcomes, code=results.exit_code(outcomes, interrupted=run.stop()))


def _context(run: Run, plan_digest: str) -> ApplyContext:
    return ApplyContext(
        gateway=run.gateway,
        journal=run.journal,
        run_id=run.run_id,
        plan_digest=plan_digest,
        clock=steady_clock(),
        sleep=time.sleep,
        stop=run.stop,
        progress=run.progress,
        sending=run.sending,
    )


def _check_release(planned: Plan, run: Run) -> None:
    if planned.targets:
        raise PlanUnusable(
            "--release: the plan is of --target only, so nobody has seen what the other manifests do, and its approval does "
            "not release them: nothing was done; apply it without --release, or plan without --target"
        )
    loaded, now_ms = manifests_hash(run.manifests.files), wall_clock_ms()
    if loaded != manifests_hash(planned.source.manifests):
        raise PlanUnusable(
            f"--release: the manifests of {run.manifests.cluster.address} are not those that the plan was calculated "
            "from, so its approval does not release them: nothing was done; plan these manifests (in a workflow of "
            "`init`, re-run all its jobs), and have that plan approved"
        )
    if (newest := run.journal.find_release(now_ms)) is None or newest.manifests == loaded:
        return
    # A time later than now says nothing: a clock was wrong, and it moved the releases after it, too.
    at_ms = newest.released_at_ms if newest.released_at_ms <= now_ms else newest.at_ms
    if planned.observed_at_ms < at_ms <= now_ms:
        raise PlanUnusable(
            f"--release: other manifests of {run.manifests.cluster.address} were released at "
            f"{format_instant(at_ms)}, after the scan of this plan ({format_instant(planned.observed_at_ms)}), "
            "so its approval does not replace them: nothing was done; plan the manifests of now, and have that plan approved"
        )


def _earlier_runs(
    planned: Plan, run: Run, operations: tuple[type[Operation], ...]
) -> tuple[Mapping[Address, JournalEntry], Mapping[Address, tuple[Status, str]]]:
    """Return the intents of these operations that earlier runs of the plan left, and which removals they hold back.

    One removal was reviewed: where a run has found the group gone, a group of this name is another one
    now. So may each be, where the journal cannot be read.
    """
    digest, names = plan_file.digest(planned), {operation.OPERATION for operation in operations}
    try:
        opened = run.journal.open_intents(digest, since_ms=planned.observed_at_ms)
        removed = run.journal.removed_groups(digest, since_ms=planned.observed_at_ms)
    except JournalUnavailable as error:
        _LOG.warning("which actions an interrupted run may have sent is unknown: %s", error)
        unknown = Status.NOT_ATTEMPTED, f"whether a run of this plan has removed the group before is unknown: {error}"
        return {}, {action.address: unknown for action in planned.actions if action.address.is_of_group}
    intents = {address: intent for address, intent in opened.items() if intent.operation in names}
    if intents:
        run.progress(journal.progress_message(intents))
    end = f"has found the group gone, and it was restored or created again since{NEXT}plan again six minutes later"
    return intents, {address: (Status.STALE, f"run {run_id} {end}") for address, run_id in removed.items()}


def _without(checked: recheck.Recheck, held_back: Mapping[Address, tuple[Status, str]]) -> recheck.Recheck:
    """Return the recheck with an outcome for each action that is held back."""
    reasons = [(action, held_back[action.address]) for action in checked.remaining if action.address in held_back]
    ended = [Outcome(action=action, status=status, detail=detail) for action, (status, detail) in reasons]
    remaining = tuple(action for action in checked.remaining if action.address not in held_back)
    return replace(checked, remaining=remaining, outcomes=(*checked.outcomes, *ended))


def _decide_again(needed: Plan, run: Run, now_ms: int) -> tuple[recheck.Recheck, ClusterSnapshot]:
    run.progress("rechecking every action")
    manifests = run.manifests
    # A plan has few subjects: the start of Spark would take longer than the reading.
    engine = run.engine if run.engine.name is EngineName.INLINE else replace(run.engine, name=EngineName.AUTO)
    request = replace(recheck.scan_request(needed, manifests.policies, now_ms), commit_records=True)
    snapshot = scan(run, request, now_ms, engine=engine)
    return decide_with_lookups(run.session, snapshot, partial(recheck.recheck, needed, manifests), run.progress)


def _send(actions: Sequence[Action], planned: Plan, run: Run, context: ApplyContext) -> Iterator[Outcome]:
    """Yield one outcome for each action, with what the plan asked for where less was sent."""
    saved = {action.address: action.request() for action in planned.actions}
    if actions and not run.stop():
        run.progress(f"sending requests for {count(len(actions), 'action')}")
    for outcome in run.note_purges(send_actions(actions, context)):
        asked, sent = saved[outcome.action.address], outcome.action.request()
        less = [f"{name} {value}, {asked[name]} in the plan" for name, value in sent.items() if value != asked[name]]
        yield replace(outcome, detail="; ".join([outcome.detail, *less])) if less else outcome


def _rechecked_part(planned: Plan, operations: tuple[type[Operation], ...]) -> Plan:
    """Return the plan with the actions of these operations, and those on whose effects they rest."""
    needs_removals = any(operation.RESTS_ON_REMOVALS for operation in operations)
    actions = (action for action in planned.actions if isinstance(action, Operation))
    return replace(
        planned,
        decisions=tuple(a for a in actions if isinstance(a, operations) or (needs_removals and a.removed_group)),
    )


def converge(run: Run, *, on_plan: Callable[[Plan], None], confirm: Callable[[], None] = lambda: None) -> ApplyResult:
    """Plan and apply `mode: continuous`: a review approved its rules, limits bound each run.

    `confirm`: called after each scan; raises if the manifests are not the present ones any more. Raises
    JournalUnavailable for a journal topic that the brokers do not stamp.
    """
    if topic := run.manifests.cluster.spec.journal.topic:
        check_stamps(run.session, topic)
    planned = plan(run, modes=(Mode.CONTINUOUS,))
    confirm()
    on_plan(planned)
    if planned.actions and not planned.refused:
        return apply(planned, run, needs_stamps=bool(topic), confirm=confirm)
    return _result(planned, run, (), refused=planned.refused)


def is_released(run: Run, manifests: ClusterManifests) -> bool:
    """Return whether the newest release in the run's journal is of these manifests.

    Raises JournalUnavailable, also for a journal file that git may have delivered with the manifests.
    """
    release = run.journal.newest_release(now_ms=wall_clock_ms())
    if release is not None:
        _check_untracked(run.journal, "releases nothing")
    return release is not None and release.manifests == manifests_hash(manifests.files)


def _check_untracked(action_journal: ActionJournal, effect: str) -> None:
    """Raise JournalUnavailable for a journal file that git may have delivered with the manifests."""
    store = action_journal.store
    if isinstance(store, JournalFile) and store.path.exists() and not git.is_outside_of_git(store.path):
        raise JournalUnavailable(
            f"the journal {store} {effect}: git has it, or does not say that it is untracked, and a commit "
            "could bring entries along; add .reconciler/ to .gitignore, or name a topic in spec.journal"
        )


def journal_entries(
    run: Run, *, address: str | None = None, run_id: str | None = None, since_ms: int = 0
) -> list[JournalEntry | Approval]:
    """Return the journal's entries, oldest first.

    `address`: only what it means, and what is below. `run_id`: only this run, or the only one that begins
    so. `since_ms`: only runs that stored something since. Raises UsageError for a run that is not in
    the journal, and for an address that neither the journal nor a policy knows.
    """
    entries = list(run.journal.history())
    runs = {entry.run_id: entry.at_ms for entry in entries}  # the last one is the newest
    if run_id is not None:
        begun = [known for known in runs if known.startswith(run_id)]
        if len(begun) != 1:
            state = f"{count(len(begun), 'run')} of the journal begin so" if begun else "the journal has no such run"
            hint = suggestion(run_id, runs, before="; ", otherwise="; `reconciler journal` lists the runs")
            raise UsageError(f"--run {display_name(run_id)}: {state}{hint}")
        (run_id,) = begun
    if address is not None:
        of_actions = [entry for entry in entries if isinstance(entry, JournalEntry)]
        entries = [entry for entry in of_actions if matches(address, entry.address)]
        if not entries:
            _refuse_unknown(address, run.manifests, (entry.address for entry in of_actions))
    return [entry for entry in entries if run_id in (None, entry.run_id) and runs[entry.run_id] >= since_ms]


def _refuse_unknown(address: str, manifests: ClusterManifests, recorded: Iterable[Address]) -> None:
    """Raise UsageError for an address of no entry, unless an entry is about its topic, or a policy names it.

    A pattern proves nothing: `*` selects every misspelt name.
    """
    names = {entry.name for entry in recorded}
    selectors = chain.from_iterable(policy.selectors for policy in manifests.policies)
    exact = {selector.name for selector in selectors if selector.name is not None}
    with suppress(UsageError):
        candidates = find_candidates(address, manifests.policies) or ()
        if any(not candidate.name or candidate.name in names | exact for candidate in candidates):
            return
    next_step = "; `reconciler journal --full` prints the addresses"
    hint = suggestion(address.rpartition("/")[2].partition("[")[0], names | exact, before="; ", otherwise=next_step)
    raise UsageError(f"--address {display_name(address)}: the journal has no entry about it{hint}")


def plan_restore(run: Run, removal: Removal) -> Unwritable:
    """Return which offsets of a removal may not be written back now. Reads only. Raises WrongCluster."""
    if removal.cluster_id is not None:
        check_cluster_id(run.manifests.cluster, removal.cluster_id, "the results are of")
    run.progress("checking the group and its partitions")
    return restore.find_unwritable(removal, run.gateway)


def restore_group(run: Run, removal: Removal, unwritable: Unwritable) -> Mapping[TopicPartition, Outcome]:
    """Write the other offsets of a removal back that still may be. Raises WrongCluster, JournalUnavailable."""
    run.progress("writing the offsets back")
    return restore.restore(removal, unwritable, _context(run, journal.restore_of(removal.plan_digest)))


def scan_policies(run: Run) -> ClusterSnapshot:
    """Read what planning reads, without the times of deletions, which no export holds. Raises ScanFailed."""
    now_ms = wall_clock_ms()
    needed = planner.scan_request(run.manifests.policies, now_ms)
    topics = tuple(replace(topics, every_ms=None) for topics in needed.topics)
    return scan(run, replace(needed, topics=topics), now_ms)


def scan(run: Run, request: ScanRequest, observed_at_ms: int, *, engine: Engine | None = None) -> ClusterSnapshot:
    """Read what `request` asks for at this time, and connect while Spark starts.

    `engine` None: that of the run. Raises ScanFailed, also in an installation without its packages.
    """
    engine = engine or run.engine
    check_packages(request, engine)
    from reconciler.scan import read_chunks, scan

    asked = replace(
        request,
        external=run.manifests.reader_requests,
        without_consumer_offsets=run.manifests.cluster.hides_consumer_offsets,
    )
    with read_chunks.started(asked, engine):
        session = run.session
        clocks = [part.every_ms for part in asked.topics if part.every_ms is not None]
        last_purges = _last_purges(run, max(clocks), observed_at_ms) if clocks else NOT_ASKED
        snapshot = scan.scan(
            asked,
            session,
            observed_at_ms=observed_at_ms,
            last_purges=last_purges,
            engine=engine,
            progress=run.progress,
        )
    return _with_observations(run, asked, snapshot) if snapshot.consumer_offsets_hidden else snapshot


def _with_observations(run: Run, request: ScanRequest, snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot with what was and is observed of EMPTY groups that must be idle."""
    idle_for_ms = max((part.idle_for_ms for part in request.groups), default=0)
    selected = select_groups((part for part in request.groups if part.idle_for_ms), snapshot.groups)
    empty = sorted(name for name in selected if snapshot.groups[name].state is GroupState.EMPTY)
    if not empty:
        return snapshot
    present = observe_groups(run.session, empty, clock=wall_clock_ms)
    since_ms = snapshot.observed_at_ms - idle_for_ms * 2  # the first one, and those before it
    try:
        _check_untracked(run.journal, "proves nothing")
        before = run.journal.observations(empty, cluster_id=snapshot.cluster_id, since_ms=since_ms)
    except JournalUnavailable as error:
        present, before = dict.fromkeys(empty, Unknown(str(error))), {}
    groups = dict(snapshot.groups)
    for name, seen in present.items():
        observations = seen if isinstance(seen, Unknown) else (*before[name], seen)
        groups[name] = replace(groups[name], observations=observations)
    return replace(snapshot, groups=groups)


def observe(run: Run) -> Mapping[str, GroupObservation | Unknown] | None:
    """Record in the journal how the groups look that must be idle.

    Returns None where plans need no observations. Raises JournalUnavailable, and ScanFailed where the
    list of groups is incomplete: such a scan shows nothing.
    """
    cluster = run.manifests.cluster
    request = planner.scan_request(run.manifests.policies, wall_clock_ms())
    parts = [part for part in request.groups if part.idle_for_ms]
    if not cluster.hides_consumer_offsets or not parts:
        return None
    listed = run.gateway.list_groups()
    if isinstance(listed, Unknown):
        raise ScanFailed(f"nothing was recorded, because groups may be missing: {listed.reason}")
    names = sorted(select_groups(parts, (name for name, facts in listed.items() if facts.listed is True)))
    run.progress(f"observing {count(len(names), 'group')}")
    seen = observe_groups(run.session, names, clock=wall_clock_ms)
    at_ms = wall_clock_ms()
    run.journal.record_observations(
        (
            GroupObservation(at_ms=at_ms, group=group, type=UNREAD[0], state=UNREAD[1])
            if isinstance(of, Unknown)
            else of
            for group, of in seen.items()
        ),
        cluster_id=cluster.spec.cluster_id,
        run_id=run.run_id,
    )
    return seen


@gc_paused()
def decide_with_lookups(
    session: KafkaSession,
    snapshot: ClusterSnapshot,
    decide: Callable[[ClusterSnapshot], D],
    progress: Progress,
) -> tuple[D, ClusterSnapshot]:
    """Decide, and again with answers while decisions ask about records. Returns what they rest on, too.

    Ends, because no lookup is asked twice. In this process: one client reads thousands of records in a second.
    """
    decided = decide(snapshot)
    while asked := decided.asked:
        progress(f"looking up records of {count(len(asked), 'partition')}")
        partitions = dict(snapshot.partitions)
        for partition, answers in look_up(session, asked, snapshot.partitions).items():
            facts = partitions[partition]
            partitions[partition] = replace(facts, lookups={**facts.lookups, **answers})
        snapshot = replace(snapshot, partitions=partitions)
        decided = decide(snapshot)
    return decided, snapshot


def _last_purges(run: Run, every_ms: int, now_ms: int) -> Mapping[TopicPartition, int] | Unknown:
    if run.last_purges is not None:  # a time later than now counts as none: the clock was set back
        return {partition: at_ms for partition, at_ms in run.last_purges.items() if at_ms <= now_ms}
    try:
        return run.journal.last_purges(every_ms=every_ms, now_ms=now_ms)
    except JournalUnavailable as error:
        return Unknown(str(error))


def _result(
    planned: Plan,
    run: Run,
    outcomes: Sequence[Outcome],
    *,
    refused: tuple[LimitVerdict, ...] = (),
    code: int = ExitCode.DONE,
) -> ApplyResult:
    header = results.ResultsHeader(
        tool_version=__version__,
        run_id=run.run_id,
        plan_digest=plan_file.digest(planned),
        cluster=planned.cluster,
        cluster_id=planned.cluster_id,
        started_at_ms=run.started_at_ms,
        finished_at_ms=wall_clock_ms(),
        interrupted=run.stop(),
        exit_code=int(ExitCode.REFUSED if refused else code),
        refused=tuple(verdict.message for verdict in refused),
        who=journal.whoami(),
        commit=planned.source.unchanged_commit,
        blocked=+count_by_sort(decision.address for decision in planned.blocked),
    )
    return ApplyResult(plan=planned, outcomes=outcomes, header=header, refused=refused)
