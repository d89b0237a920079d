"""ElectLeader: elect the leader of one partition (KIP-183, KIP-460, API key 43, sent to the controller)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from reconciler.model.description import Description, Fact
from reconciler.model.election import Election
from reconciler.model.names import TopicPartition, format_subject
from reconciler.operations.base import Operation
from reconciler.text.formatting import broker_ids, count, span
from reconciler.text.phrase import Phrase, escaped_name, name, sentence, strong

_MOVES_MAX = 4
"""Sorts of moves that a description of many elections names; the others are counted."""


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

    # --- reports

    TITLE: ClassVar[str] = "election"
    DRIFT_TYPE: ClassVar[str] = "leader"
    DRIFT_TEXT: ClassVar[str] = "the preferred replica does not lead"

    @property
    def is_foldable(self) -> bool:
        return not self.irreversible  # each one that is loses data without bound: none is hidden in a sum

    def describe(self) -> Description:
        unclean = ", unclean" if self.irreversible else ""
        replicas = f"replicas {broker_ids(self.seen.replicas)}; in sync {broker_ids(self.seen.in_sync)}"
        return Description(
            sign="!" if self.irreversible else "~",
            subject=(escaped_name(format_subject(self.address)),),
            change=(f"leader {self._move}{unclean} ({replicas})",),
            loss=_LOSS if self.irreversible else (),
            notes=(("because ", sentence(self.reason)),) if self.irreversible else (),
        )

    @classmethod
    def describe_many(cls, actions: Sequence["ElectLeader"]) -> Description:
        moves = sorted(Counter(action._move for action in actions).items(), key=lambda move: (-move[1], move[0]))
        change = ", ".join(f"{move} ({number:,})" for move, number in moves[:_MOVES_MAX])
        if others := moves[_MOVES_MAX:]:
            change += f" and {count(len(others), 'more move')} ({sum(number for _, number in others):,})"
        numbers = span(actions[0].partition.partition, actions[-1].partition.partition)
        return Description(
            sign="~",
            subject=(name(actions[0].partition.topic), f", {len(actions):,} partitions ({numbers})"),
            change=(f"leader {change}",),
        )

    @classmethod
    def total_loss(cls, actions: Sequence["ElectLeader"]) -> str:
        unclean = sum(action.irreversible for action in actions)
        return f"{unclean:,} unclean, loss unbounded" if unclean else ""

    def explain(self) -> tuple[Fact, ...]:
        seen = self.seen
        replicas: Phrase = (
            f"replicas {broker_ids(seen.replicas)}, in sync {broker_ids(seen.in_sync)}; topic id ",
            name(seen.topic_id),
        )
        facts: tuple[Fact, ...] = (
            ("Request", (f"ElectLeaders {self.partition}, {self.election}: leader {self._move}",)),
            ("Facts", replicas),
        )
        if self.irreversible:
            conditions, undo = "same topic id and replicas; still leaderless", "impossible"
            facts = (*facts, ("Loss", _LOSS))
        else:
            conditions = "same topic id and replicas; the first replica is in sync"
            undo = "possible: another election moves the leader back"
        return (*facts, ("Rechecked", (conditions,)), ("Undo", (undo,)))

    @property
    def _move(self) -> str:
        """`2 -> 1`, `none -> any live replica`."""
        before = "none" if self.seen.leader is None else self.seen.leader
        after = "any live replica" if self.leader_wanted is None else self.leader_wanted
        return f"{before} -> {after}"


_LOSS: Phrase = (strong("loss unbounded"), " (records that only the missing replicas hold)")
