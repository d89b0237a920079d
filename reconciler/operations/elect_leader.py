"""ElectLeader: elect the leader of one partition (KIP-183, KIP-460, API key 43, sent to the controller)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.operations.base import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLeadership:
    """Who led the partition when it was scanned. `leader` None: leaderless."""

    topic_id: str
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeader(Operation):
    """Elect the preferred leader, or any live replica of a leaderless partition (KIP-183, KIP-460).

    `leader_wanted` is the first replica for a preferred election and None for an unclean one. Only unclean is irreversible.
    """

    OPERATION: ClassVar[str] = "elect_leader"

    partition: TopicPartition
    election: Election
    leader_wanted: int | None
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
