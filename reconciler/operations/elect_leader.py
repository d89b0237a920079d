"""ElectLeader: elect the leader of one partition (KIP-183, KIP-460, API key 43, sent to the controller)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from reconciler.model.bounds import Int32, NonEmpty
from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.operations.base import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLeadership:
    """Who led the partition when it was scanned. `leader` None: leaderless."""

    topic_id: NonEmpty
    leader: Int32 | None
    replicas: tuple[Int32, ...]
    in_sync: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeader(Operation):
    """Elect the preferred leader, or any live replica of a leaderless partition (KIP-183, KIP-460).

    `leader_wanted` is the first replica for a preferred election and None for an unclean one. Only unclean is irreversible.
    """

    OPERATION: ClassVar[str] = "elect_leader"

    partition: TopicPartition
    election: Election
    leader_wanted: Int32 | None
    seen: ObservedLeadership

    @property
    def irreversible(self) -> bool:
        return self.election is not Election.PREFERRED

    def request(self) -> Mapping[str, str | int]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "election": self.election.value,
        }

    def approved(self) -> Mapping[str, object]:
        return {
            "topic_id": self.seen.topic_id,
            "replicas": self.seen.replicas,
            "leader_wanted": self.leader_wanted,
        }

    def impact(self) -> Mapping[str, object]:
        return {"records_removed_max": 0 if self.election is Election.PREFERRED else None}

    def __post_init__(self) -> None:
        self.check_subject(self.partition.topic, self.partition.partition)
        if self.election is Election.PREFERRED:
            if self.seen.replicas[:1] != (self.leader_wanted,):
                raise ValueError("leader_wanted is not the first of the replicas, as a preferred election has it")
        elif self.leader_wanted is not None or self.seen.leader is not None:
            raise ValueError("an unclean election is for a partition without a leader, and cannot choose the next one")
