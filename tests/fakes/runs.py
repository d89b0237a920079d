"""Actions as a plan would hold them for a cluster in memory, a clock that only sleeping moves, and one call that applies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.apply.applier import apply
from reconciler.apply.journal import FileJournal
from reconciler.apply.settings import Settings
from reconciler.model.action import (
    AcceptedReader,
    Action,
    Consumers,
    DeleteGroup,
    DeleteRecords,
    Election,
    ElectLeader,
    Guard,
    Mode,
    SeenGroup,
    SeenLeadership,
    SeenPartition,
)
from reconciler.model.fingerprint import fingerprint
from reconciler.model.names import NOWHERE, Address, TopicPartition
from reconciler.model.outcome import Outcome
from reconciler.model.ports import Gateway, Journal
from reconciler.model.snapshot import GroupState
from tests.fakes.cluster import FakeCluster

START_MS = 1_800_000_000_000


class Ticker:
    """Epoch milliseconds that only `sleep` moves."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


@dataclass
class Applied:
    outcomes: list[Outcome]
    journal: Journal

    @property
    def only(self) -> Outcome:
        (outcome,) = self.outcomes
        return outcome


def run(
    gateway: Gateway,
    actions: Sequence[Action],
    folder: Path,
    *,
    journal: Journal | None = None,
    clock: Ticker | None = None,
    stop: Callable[[], bool] = lambda: False,
    settings: Settings | None = None,
    run_id: str = "run-1",
    gone: Sequence[str] = (),
    checked_at_ms: int | None = None,
    expires_at_ms: int | None = None,
) -> Applied:
    """Apply with a file journal in `folder` and a clock of its own."""
    clock = clock or Ticker()
    journal = journal or FileJournal(folder / "journal.jsonl")
    ended = apply(
        actions,
        gateway=gateway,
        journal=journal,
        run_id=run_id,
        plan_digest="sha256:plan",
        clock=clock,
        sleep=clock.sleep,
        stop=stop,
        settings=settings or Settings(),
        gone=gone,
        checked_at_ms=checked_at_ms,
        expires_at_ms=expires_at_ms,
    )
    return Applied(list(ended), journal)


def purge(
    cluster: FakeCluster,
    at: TopicPartition,
    before_offset: int,
    *,
    named: Sequence[str] = (),
    accepted: Sequence[AcceptedReader] = (),
    except_groups: Sequence[str] = (),
    every_ms: int | None = None,
) -> DeleteRecords:
    """As planned against the cluster of now."""
    partition = cluster.partition(at)
    return DeleteRecords(
        address=Address("RetentionFloor", "floor", at.topic, at.partition),
        declared_at=NOWHERE,
        reason="test",
        mode=Mode.MERGE,
        partition=at,
        before_offset=before_offset,
        seen=SeenPartition(
            topic_id=cluster.topics[at.topic].topic_id,
            log_start=partition.log_start,
            stable_end=partition.high_watermark,
            high_watermark=partition.high_watermark,
            leader=partition.leader or 0,
            replicas=partition.replicas,
            in_sync=tuple(sorted(partition.in_sync)),
        ),
        guard=Guard(
            consumers=Consumers.BLOCK,
            named=tuple(named),
            accepted=tuple(accepted),
            except_groups=tuple(except_groups),
            every_ms=every_ms,
        ),
        vouched=bool(named),
        drift=True,
    )


def removal(cluster: FakeCluster, group: str) -> DeleteGroup:
    found = cluster.groups[group]
    return DeleteGroup(
        address=Address("GroupRemoval", "dead", group),
        declared_at=NOWHERE,
        reason="test",
        mode=Mode.MERGE,
        group=group,
        idle_for_ms=0,
        seen=SeenGroup(
            type=found.type,
            state=GroupState.EMPTY,
            commits=len(found.commits),
            commit_topics=len({at.topic for at in found.commits}),
            fingerprint=fingerprint((at.topic, at.partition, offset) for at, offset in found.commits.items()),
            last_activity_ms=None,
            newest_record=None,
        ),
    )


def election(cluster: FakeCluster, at: TopicPartition, kind: Election = Election.PREFERRED) -> ElectLeader:
    partition = cluster.partition(at)
    return ElectLeader(
        address=Address("LeaderPolicy", "leaders", at.topic, at.partition),
        declared_at=NOWHERE,
        reason="test",
        mode=Mode.MERGE,
        partition=at,
        election=kind,
        leader_wanted=partition.replicas[0] if kind is Election.PREFERRED else None,
        seen=SeenLeadership(
            topic_id=cluster.topics[at.topic].topic_id,
            leader=partition.leader,
            replicas=partition.replicas,
            in_sync=tuple(sorted(partition.in_sync)),
        ),
    )
