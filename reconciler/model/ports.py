"""The two seams around the outside world that apply/ works through: Gateway (the cluster) and Journal (the record of what was done).

Implemented by kafka/ for real; a contract suite holds the fake of the tests to the same behaviour.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from reconciler.model.action import Action
from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome
from reconciler.model.snapshot import GroupState, GroupType, Unknown


class ResponseAction(StrEnum):
    """What a broker's answer for one item asks of the applier. One table, kafka/codes.py, maps error codes to these."""

    DONE = "done"
    READ_BACK = "read_back"
    RETRY = "retry"
    STALE = "stale"
    WAITING = "waiting"
    FAILED = "failed"
    HALVE = "halve"
    """The batch was too large: nothing of it was done, send halves."""


@dataclass(frozen=True, slots=True)
class ItemResult:
    """One item's answer: what to do, the error's name (`NONE` for success) and its text.

    `no_effect`: this request certainly changed nothing. A timeout does not say that, nor does every refusal. `sent`: false where no request
    ever left this machine.
    """

    answer: ResponseAction
    code: str
    text: str = ""
    no_effect: bool = False
    sent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNow:
    """A partition as it stands right now; `exists` False: provably gone. Log start and end only where they were asked for."""

    exists: bool
    topic_id: str | Unknown
    leader: int | Unknown | None
    replicas: tuple[int, ...] | Unknown
    in_sync: tuple[int, ...] | Unknown
    log_start: int | Unknown
    high_watermark: int | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNow:
    """A group as it stands right now. `listed` False: absent from a listing that is provably complete; Unread: cannot tell."""

    listed: bool | Unknown
    type: GroupType | Unknown
    state: GroupState | Unknown
    fingerprint: str | Unknown


class Gateway(Protocol):
    """The cluster, to the applier. Every call answers for every item it was given, within its deadline, and never raises for one item.

    An empty request answers empty without touching the network. No call creates anything. Retrying is the applier's business.
    """

    def cluster_id(self) -> str: ...

    def partitions_now(
        self, partitions: Iterable[TopicPartition], *, offsets: bool
    ) -> Mapping[TopicPartition, PartitionNow]: ...

    def committed(
        self, wanted: Mapping[str, Sequence[TopicPartition]]
    ) -> Mapping[tuple[str, TopicPartition], int | Unknown | None]:
        """Position of each group on each partition; None: no commit."""
        ...

    def groups_now(self, groups: Sequence[str]) -> Mapping[str, GroupNow]: ...

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemResult]:
        """DeleteRecords for partitions of one leader. Raises ValueError for a target below 1: -1 is never sent."""
        ...

    def delete_groups(self, groups: Sequence[str]) -> Mapping[str, ItemResult]: ...

    def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ItemResult]:
        """ElectLeaders for exactly these partitions; never null, which would mean every partition of the cluster."""
        ...

    def refresh(self) -> None:
        """Forget cached leaders and coordinators before a retry."""
        ...


class Journal(Protocol):
    """Append-only: intent before each request, outcome after. Raises JournalUnavailable; an intent not stored is a request not sent."""

    def record_intents(self, actions: Sequence[Action], *, run_id: str, plan_digest: str, at_ms: int) -> None: ...

    def record(self, outcomes: Sequence[Outcome], *, run_id: str, plan_digest: str, at_ms: int) -> None: ...

    def last_purges(self, *, but_of: str | None = None) -> Mapping[TopicPartition, int]:
        """Epoch ms of the newest purge of each partition that is not proven unsent, but for those of the run `but_of`. No journal yet: empty."""
        ...
