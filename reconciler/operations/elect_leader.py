"""ElectLeader: elect the leader of one partition (KIP-183, KIP-460, API key 43).

The request goes to the controller. A broker's "done" can mean that another replica was chosen: only
the leader that the metadata shows counts.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason, contradiction, known, unknown_fact
from reconciler.model.bounds import Int32, NonEmpty
from reconciler.model.description import Description, Fact, LeaderMove
from reconciler.model.names import Address, TopicPartition, format_subject
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Election, Gateway, ItemResult
from reconciler.model.snapshot import ClusterSnapshot, PartitionFacts, Unknown
from reconciler.operations.attempt import Attempt
from reconciler.operations.base import DAY_MS, NO_LIMITS, Limit, LimitUsage, Operation, beyond_review
from reconciler.operations.error_meanings import ErrorMeaning, ErrorTable, Response, ResponseAction, Right
from reconciler.operations.observation import Observation, RecheckFailure, present
from reconciler.operations.sendable import Effect, RunContext
from reconciler.text.formatting import broker_ids, count, count_partitions
from reconciler.text.phrase import Phrase, escaped_name, name, sentence, strong

_MOVES_MAX = 4
"""Sorts of moves that a description of many elections names; it counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLeadership:
    """Who led the partition when it was scanned. `leader` None: leaderless."""

    topic_id: NonEmpty
    leader: Int32 | None
    replicas: tuple[Int32, ...]
    in_sync: tuple[Int32, ...]


def observe_leadership(partition: TopicPartition, facts: PartitionFacts | None) -> ObservedLeadership:
    """Return the metadata of a partition. Raises BlockReason where not all of it is known."""
    if facts is None:
        raise unknown_fact(f"{partition}", Unknown("the scan has no facts about it"))
    observed = ObservedLeadership(
        topic_id=known(facts.topic_id, "the topic id of", partition),
        leader=known(facts.leader, "the leader of", partition),
        replicas=known(facts.replicas, "the replicas of", partition),
        in_sync=known(facts.in_sync, "the in-sync replicas of", partition),
    )
    if not observed.replicas:
        raise contradiction(f"{partition} has no replicas")
    return observed


ELECTIONS = Limit("elections", 1000, "leaders elected")
UNCLEAN_ELECTIONS = Limit(
    "unclean_elections", 0, "leaders elected out of sync, which loses records", waiver_max_ms=DAY_MS, fixed=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeader(Operation):
    """Elect the preferred leader, or any live replica of a leaderless partition.

    `leader_wanted`: the first replica; None for an unclean election, which alone is irreversible.
    """

    OPERATION: ClassVar[str] = "elect_leader"
    TITLE: ClassVar[str] = "election"
    HEADING: ClassVar[str] = "leaders elected"
    FIELD_WORDS: ClassVar[Mapping[str, str]] = {
        "request.election": "kind of election",
        "approved.topic_id": "topic id",
        "approved.replicas": "replica",
        "approved.leader_wanted": "leader to elect",
    }
    API: ClassVar[tuple[str, int, int]] = ("ElectLeaders", 43, 1)  # version 0 has no election type (KIP-460)
    LIMITS: ClassVar[tuple[Limit, ...]] = (ELECTIONS, UNCLEAN_ELECTIONS)
    BATCH_SIZE: ClassVar[int] = 5_000
    """A broker refuses a request that would change more than 10,000 leaders. The metadata takes as
    long to show the leaders of five batches as of one.
    """
    APPLIED: ClassVar[str] = "leader elected, shown by the metadata"
    SATISFIED: ClassVar[str] = "the leader is already the one wanted"
    ERRORS: ClassVar[ErrorTable] = {
        # A broker sends the request again where the controller's answer is lost, so the election may be this one
        # (NodeToControllerRequestThread.handleResponse): no answer tells it from another client's.
        ErrorMeaning.ALREADY_DONE: frozenset({"ELECTION_NOT_NEEDED"}),
        ErrorMeaning.NOT_READY: frozenset({"LEADER_NOT_AVAILABLE"}),
        ErrorMeaning.RETRY: frozenset({"NOT_CONTROLLER", "REQUEST_TIMED_OUT", "BROKER_NOT_AVAILABLE"}),
        ErrorMeaning.STALE: frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"}),
        ErrorMeaning.REFUSED: frozenset({"CLUSTER_AUTHORIZATION_FAILED"}),
        ErrorMeaning.WAITING: frozenset({"PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE"}),
        # More elections than the broker accepts in one request.
        ErrorMeaning.HALVE: frozenset({"POLICY_VIOLATION"}),
    }
    RIGHT: ClassVar[Right] = Right("ALTER", "cluster")

    partition: TopicPartition
    election: Election
    leader_wanted: Int32 | None
    seen: ObservedLeadership

    REMOVES: ClassVar[bool] = False

    @property
    def irreversible(self) -> bool:
        return self.election is Election.UNCLEAN

    def request(self) -> Mapping[str, str | int]:
        return {"topic": self.partition.topic, "partition": self.partition.partition, "election": self.election.value}

    def figure(self) -> LeaderMove:
        return LeaderMove(self.seen.leader, self.leader_wanted)

    # --- plan file

    def approved(self) -> Mapping[str, object]:
        seen = self.seen
        return {"topic_id": seen.topic_id, "replicas": seen.replicas, "leader_wanted": self.leader_wanted}

    def impact(self) -> Mapping[str, object]:
        return {"records_removed_max": 0 if self.election is Election.PREFERRED else None}

    def __post_init__(self) -> None:
        self.check_subject(self.partition.topic, self.partition.partition)
        if self.election is Election.PREFERRED:
            if self.seen.replicas[:1] != (self.leader_wanted,):
                raise ValueError("leader_wanted is not the first of the replicas, as a preferred election has it")
        elif self.leader_wanted is not None or self.seen.leader is not None:
            raise ValueError("an unclean election is for a partition without a leader, and cannot choose the next one")

    # --- reports

    DRIFT_TYPE: ClassVar[str] = "leader"
    DRIFT_TEXT: ClassVar[str] = "the preferred replica does not lead"

    @property
    def fold_key(self) -> Address | None:
        return self.address if self.irreversible else None  # loss without bound is never hidden in a sum

    def describe(self) -> Description:
        unclean = ", unclean" if self.irreversible else ""
        replicas = f"replicas {broker_ids(self.seen.replicas)}; in sync {broker_ids(self.seen.in_sync)}"
        because: Phrase = (", because ", sentence(self.reason)) if self.irreversible else ()
        return Description(
            subject=(escaped_name(format_subject(self.address)),),
            change=(f"leader {self.move}{unclean} ({replicas})", *because),
            loss=_LOSS if self.irreversible else (),
        )

    @classmethod
    def describe_many(cls, actions: Sequence["ElectLeader"]) -> Description:
        """Describe the elections of one policy by their moves, the most frequent first."""
        first, topics = actions[0], {action.partition.topic for action in actions}
        if len(actions) == 1:
            subject: Phrase = (escaped_name(format_subject(first.address)),)
            change = first.move
        else:
            of_topics: Phrase = (name(first.partition.topic),) if len(topics) == 1 else (count(len(topics), "topic"),)
            subject = (f"{len(actions):,} partitions of ", *of_topics)
            moves = sorted(Counter(action.move for action in actions).items(), key=lambda move: (-move[1], move[0]))
            shown = _MOVES_MAX if len(moves) > _MOVES_MAX + 1 else len(moves)  # one is as short as its count
            change = ", ".join(f"{number:,} {move}" for move, number in moves[:shown])
            if omitted := moves[shown:]:
                change += f", {sum(number for _, number in omitted):,} in {count(len(omitted), 'more move')}"
        return Description(subject=subject, change=(change,))

    @classmethod
    def count_effects(cls, addresses: Collection[Address]) -> str:
        partitions = count_partitions(len(addresses), len({address.name for address in addresses}))
        return f"{'leader' if len(addresses) == 1 else 'leaders'} of {partitions} elected"

    @classmethod
    def total_loss(cls, actions: Sequence["ElectLeader"], _observed: Mapping[str, float] = NO_LIMITS) -> str:
        unclean = sum(action.irreversible for action in actions)
        return f"{unclean:,} unclean, loss unbounded" if unclean else ""

    def explain(self) -> Iterator[Fact]:
        replicas = f"replicas {broker_ids(self.seen.replicas)}, in sync {broker_ids(self.seen.in_sync)}"
        condition, undo = "the first replica is in sync", "possible: another election moves the leader back"
        yield "Request", (f"ElectLeaders {self.partition}, {self.election}: leader {self.move}",)
        yield "Facts", (f"{replicas}; topic id ", name(self.seen.topic_id))
        if self.irreversible:
            yield "Loss", _LOSS
            condition, undo = "still leaderless", "impossible"
        yield "Rechecked", (f"same topic id and replicas; {condition}",)
        yield "Undo", (undo,)

    @property
    def move(self) -> str:
        """`from broker 2 to 1`, `from none to any live replica`."""
        before = "none" if self.seen.leader is None else f"broker {self.seen.leader}"
        after = "any live replica" if self.leader_wanted is None else self.leader_wanted
        return f"from {before} to {after}"

    # --- plan

    def limit_usage(self) -> Iterator[LimitUsage]:
        yield LimitUsage(ELECTIONS)
        if self.election is Election.UNCLEAN:
            yield LimitUsage(UNCLEAN_ELECTIONS)

    def restrict_to(self, reviewed: Action | None) -> Self | BlockReason:
        if not isinstance(reviewed, ElectLeader) or reviewed.partition != self.partition:
            return beyond_review("new: the reviewed plan does not elect its leader")
        before, now = reviewed.seen, self.seen
        if reviewed.election is not self.election:
            return beyond_review(f"the reviewed election is {reviewed.election}, this one is {self.election}")
        if before.topic_id != now.topic_id:
            return beyond_review(
                f"the reviewed plan is about topic id {before.topic_id}, the topic is {now.topic_id} now"
            )
        if before.replicas != now.replicas:  # the first one is the leader of a preferred election
            replicas = f"{broker_ids(now.replicas)}, they were {broker_ids(before.replicas)}"
            return beyond_review(f"the replicas are {replicas} in the reviewed plan")
        return self

    # --- recheck

    def done_reason(self, snapshot: ClusterSnapshot) -> str | None:
        facts = snapshot.partitions.get(self.partition)
        if facts is None or facts.topic_id != self.seen.topic_id or not self._is_wanted(facts.leader):
            return None
        return f"broker {facts.leader} leads already"

    def check(self, observation: Observation) -> None:
        """Test that topic and replicas are the same, and that the election is still right."""
        now = observe_leadership(self.partition, observation.partition(self.partition, self.seen.topic_id))
        if self._is_wanted(now.leader):
            raise RecheckFailure(Status.SATISFIED, f"broker {now.leader} leads already")
        if now.replicas != self.seen.replicas:
            change = f"{broker_ids(now.replicas)} now, they were {broker_ids(self.seen.replicas)}"
            raise RecheckFailure(Status.STALE, f"the replicas are {change}")
        if self.leader_wanted is not None and self.leader_wanted not in now.in_sync:
            raise RecheckFailure(Status.STALE, f"broker {self.leader_wanted} is not alive and in sync now")

    # --- apply

    def note_effect(self, _outcome: Outcome, context: RunContext) -> None:
        if self.leader_wanted is not None:
            context.leaders[self.partition] = self.leader_wanted

    @classmethod
    def batches(cls, attempts: Sequence[Attempt], size: int) -> list[list[Sequence[Attempt]]]:
        """Return one lane: there is one controller."""
        lane = [batch for lane in super(ElectLeader, cls).batches(attempts, size) for batch in lane]
        return [lane] if lane else []

    def batch_key(self, _attempt: Attempt) -> str:
        return self.election

    @classmethod
    def observe(cls, actions: Sequence["ElectLeader"], context: RunContext) -> Observation:
        read_at_ms = context.clock()
        partitions = context.gateway.read_partitions([action.partition for action in actions], offsets=False)
        return Observation(observed_at_ms=read_at_ms, partitions=present(partitions))

    @classmethod
    def call_gateway(cls, actions: Sequence["ElectLeader"], gateway: Gateway) -> Mapping[TopicPartition, ItemResult]:
        return gateway.elect_leaders(actions[0].election, [action.partition for action in actions])

    @classmethod
    def observe_effect(
        cls, actions: Sequence["ElectLeader"], responses: Mapping[TopicPartition, Response], context: RunContext
    ) -> Observation:
        """Read the partitions until they show all expected leaders, or the time is up."""
        by_partition = {action.partition: action for action in actions}
        partitions: dict[TopicPartition, PartitionFacts | None] = {}
        pending = list(by_partition)
        for _ in context.polls():
            partitions.update(context.gateway.read_partitions(pending, offsets=False))
            awaited = [at for at in pending if responses[at].answer in (ResponseAction.DONE, ResponseAction.READ_BACK)]
            there = present({at: partitions[at] for at in awaited})
            pending = [at for at, facts in there.items() if not by_partition[at]._is_wanted(facts.leader)]
            if not pending:
                break
        return Observation(observed_at_ms=context.clock(), partitions=present(partitions))

    def effect(self, observation: Observation) -> Effect:
        facts = observation.partitions.get(self.partition)
        if facts is None:
            return Effect("gone", "the partition is gone")
        if isinstance(facts.leader, Unknown):
            return Effect(None, "the metadata shows nothing that could be read")
        leader = "leaderless" if facts.leader is None else f"leader {facts.leader}"
        reached = facts.topic_id == self.seen.topic_id and self._is_wanted(facts.leader)
        return Effect(leader, None if reached else f"the metadata shows {leader}")

    def _is_wanted(self, leader: int | Unknown | None) -> bool:
        return isinstance(leader, int) and self.leader_wanted in (None, leader)


_LOSS: Phrase = (strong("loss unbounded"), " (records that only the missing replicas hold)")
