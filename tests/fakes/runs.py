"""Builds actions as planned for a fake cluster, and applies them with a fake clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.apply.context import ApplyContext, Tuning
from reconciler.apply.executor import apply
from reconciler.apply.results import ResultsHeader
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.model.action import Action
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome
from reconciler.model.ports import Election, Gateway
from reconciler.model.snapshot import fingerprint
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from tests.fakes.cluster import FakeCluster
from tests.strategies import examples

START_MS = 1_800_000_000_000
HEADER = ResultsHeader(
    run_id="run-1",
    plan_digest="sha256:plan",
    cluster="prod-eu",
    cluster_id="5L6g3nShT-eMCtK--X86sw",
    started_at_ms=1_800_000_000_000,
    finished_at_ms=1_800_000_001_500,
    interrupted=False,
    exit_code=0,
    tool_version="0.1.0",
)


def last_purges(journal: ActionJournal) -> dict[TopicPartition, int]:
    """Return the times of the newest purges in the whole journal, whatever the clock says."""
    return dict(journal.last_purges(every_ms=10**15, now_ms=10**15))


class FakeClock:
    """Epoch milliseconds that only `sleep` advances."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


@dataclass
class RunResult:
    outcomes: list[Outcome]
    journal: ActionJournal

    @property
    def only(self) -> Outcome:
        (outcome,) = self.outcomes
        return outcome


def new_journal(folder: Path = Path()) -> ActionJournal:
    """Return the journal of the runs in a folder; without one, in the working directory."""
    return ActionJournal(JournalFile(folder / "journal.jsonl"))


def context(
    gateway: Gateway,
    folder: Path = Path(),
    *,
    journal: ActionJournal | None = None,
    clock: FakeClock | None = None,
    removed_groups: Sequence[str] = (),
    **fields: Any,
) -> ApplyContext:
    """A run with the journal of `folder` and a fake clock. `fields`: of ApplyContext."""
    clock = clock or FakeClock()
    defaults = {"run_id": "run-1", "plan_digest": "sha256:plan", "tuning": Tuning()}
    return ApplyContext(
        gateway=gateway,
        journal=journal or new_journal(folder),
        clock=clock,
        sleep=clock.sleep,
        removed_groups=set(removed_groups),
        **{**defaults, **fields},
    )


def run(gateway: Gateway, actions: Sequence[Action], folder: Path = Path(), **of_context: Any) -> RunResult:
    """Apply the actions. `of_context`: as of `context`."""
    of_run = context(gateway, folder, **of_context)
    return RunResult(list(apply(actions, of_run)), of_run.journal)


def intercept(
    target: object,
    method: str,
    before: Callable[[], object] = int,
    *,
    after: Callable[[], object] = int,
    change: Callable[[Any], object] = lambda answer: answer,
) -> list[tuple[Any, ...]]:
    """Run something before, or after, each call of a method, or change its answer.

    Returns the arguments of each call so far, the present one included.
    """
    original, calls = getattr(target, method), list[tuple[Any, ...]]()

    def call(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        before()
        answer = change(original(*arguments, **options))
        after()
        return answer

    setattr(target, method, call)
    return calls


def silence_after_consumers(cluster: FakeCluster, broker: int) -> None:
    """Let the broker go silent once the consumers were read."""
    intercept(cluster, "read_consumers", after=lambda: setattr(cluster, "silent", {broker}))


def purge(cluster: FakeCluster, at: TopicPartition, before_offset: int, **guard: Any) -> DeleteRecords:
    """A deletion as planned for the present cluster; `guard` are fields of the preconditions."""
    partition = cluster.partition(at)
    return examples.purge(
        at.topic,
        at.partition,
        policy="floor",
        before_offset=before_offset,
        topic_id=cluster.topics[at.topic].topic_id,
        log_start=partition.log_start,
        end=partition.high_watermark,
        leader=partition.leader or 0,
        replicas=partition.replicas,
        in_sync=tuple(sorted(partition.in_sync)),
        consumed_by_named=bool(guard.get("named")),
        **guard,
    )


def removal(cluster: FakeCluster, group: str, *, idle_for_ms: int = 0) -> DeleteGroup:
    """A group removal as planned for the present cluster; with `idle_for_ms`, on evidence of idleness."""
    commits = cluster.groups[group].commits
    return examples.removal(
        group,
        policy="dead",
        idle_for_ms=idle_for_ms,
        type=cluster.groups[group].type,
        commits=len(commits),
        commit_topics=len({at.topic for at in commits}),
        fingerprint=fingerprint((at.topic, at.partition, offset) for at, offset in commits.items()),
        last_activity_ms=START_MS - idle_for_ms if idle_for_ms else None,
        newest_record=cluster.newest_record(group) if idle_for_ms else None,
    )


def election(cluster: FakeCluster, at: TopicPartition, kind: Election = Election.PREFERRED) -> ElectLeader:
    """An election as planned for the present cluster."""
    partition = cluster.partition(at)
    return examples.election(
        at.topic,
        at.partition,
        policy="leaders",
        election=kind,
        leader_wanted=partition.replicas[0] if kind is Election.PREFERRED else None,
        topic_id=cluster.topics[at.topic].topic_id,
        leader=partition.leader,
        replicas=partition.replicas,
        in_sync=tuple(sorted(partition.in_sync)),
    )


def wide_cluster(partitions: int = 300, groups: int = 40) -> tuple[FakeCluster, list[Action]]:
    """Return a cluster with a wide topic and groups, and actions of every operation on it."""
    cluster = FakeCluster()
    cluster.create_topic("wide", partitions)
    cluster.create_topic("narrow")
    cluster.produce("wide", dict.fromkeys(range(partitions), 10))
    ats = [TopicPartition("wide", number) for number in range(partitions)]
    names = [f"group-{number}" for number in range(groups)]
    for name in names:
        cluster.commit(name, {TopicPartition("narrow", 0): 3})
    for at in ats[::3]:
        cluster.partition(at).replicas = (*cluster.partition(at).replicas[1:], cluster.partition(at).replicas[0])
    actions: list[Action] = [purge(cluster, at, 7) for at in ats]
    actions += [removal(cluster, name) for name in names]
    return cluster, [*actions, *(election(cluster, at) for at in ats[::3])]


def shows_effect(cluster: FakeCluster, action: Action) -> bool:
    match action:
        case DeleteRecords():
            return cluster.partition(action.partition).log_start == action.before_offset
        case DeleteGroup():
            return action.group not in cluster.groups
        case ElectLeader():
            return cluster.partition(action.partition).leader == action.leader_wanted
    raise AssertionError(action)
