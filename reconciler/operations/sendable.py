"""What the executor needs of whatever writes to Kafka: batches, facts, check, request, verification."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, ClassVar, NamedTuple

from reconciler.model.action import Action, Subject
from reconciler.model.block_reason import BlockReason
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, ItemResult
from reconciler.model.snapshot import Consumers, GroupFacts
from reconciler.operations.attempt import Attempt, StepResult
from reconciler.operations.error_meanings import ErrorTable, Response, ResponseAction, Right, interpret
from reconciler.operations.observation import Observation, RecheckFailure


class Effect(NamedTuple):
    """What the cluster shows, None: not read; and why that is not as desired, None: it is."""

    read_back: str | None
    missing: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(ABC):
    """What an operation needs of a run of the applier. Times are epoch milliseconds.

    `removed_groups`: groups that this run has removed, or found removed. `leaders`: the leader of each partition
    for which it held an election. `consumer_offsets_ends`: up to where the recheck has read each partition of
    `__consumer_offsets`. `known_groups`: those of the recheck, which read the types that no list call tells.
    `announced`: set once a request of this run may have gone out.
    """

    gateway: Gateway
    clock: Callable[[], int]
    announced: Event = field(default_factory=Event)
    removed_groups: set[str] = field(default_factory=set)
    leaders: dict[Subject, int] = field(default_factory=dict)
    known_groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    consumer_offsets_ends: Mapping[int, int] = field(default_factory=dict)

    @abstractmethod
    def polls(self) -> Iterator[None]:
        """Yield for each reading of an effect: at once, then after pauses, until the time for it is up."""

    @abstractmethod
    def consumers(self) -> Consumers:
        """Return all groups and what they consume of the run's topics, at most a minute old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sendable(Action):
    """An action that the executor checks right before its request, sends and verifies."""

    TITLE: ClassVar[str]
    """What progress and reports call one action of this operation: `record deletion`."""
    BATCH_SIZE: ClassVar[int]
    """Subjects in one request, at most."""
    BATCH_WEIGHT: ClassVar[int] = 0
    """Most weight of a request with several subjects."""
    LANES: ClassVar[int] = 1
    """Batches under way at once, for each `batch_key`."""
    APPLIED: ClassVar[str]
    """What an outcome says where this run reached the desired state."""
    SATISFIED: ClassVar[str]
    """What an outcome says where the desired state was there already."""
    ERRORS: ClassVar[ErrorTable]
    """What the errors of the request mean, besides COMMON_ERRORS."""
    RIGHT: ClassVar[Right]
    """The right that the request needs."""

    @abstractmethod
    def check(self, observation: Observation) -> None:
        """Raise RecheckFailure or BlockReason unless it holds right before its request."""

    def recheck(self, observation: Observation) -> RecheckFailure | None:
        """Return why the action does not hold on these facts; None: it holds."""
        try:
            self.check(observation)
        except BlockReason as error:
            return RecheckFailure(Status.FAILED if error.unread else Status.STALE, error.reason)
        except RecheckFailure as error:
            return error
        return None

    @property
    def removed_group(self) -> str | None:
        """The group that is gone once this action is applied; None: none."""
        return None

    def note_effect(self, outcome: Outcome, context: RunContext) -> None:
        """Remember for the rest of the run what an outcome, APPLIED or SATISFIED, brought about."""

    # --- apply

    @classmethod
    def batches(cls, attempts: Sequence[Attempt], size: int) -> list[list[Sequence[Attempt]]]:
        """Return at most LANES parallel lanes for each key, of batches of up to `size` subjects and BATCH_WEIGHT."""
        by_key: dict[Any, list[Attempt]] = {}
        for attempt in attempts:
            by_key.setdefault(attempt.action.batch_key(attempt), []).append(attempt)
        lanes: list[list[Sequence[Attempt]]] = []
        for _, same in sorted(by_key.items()):
            batches, weight = list[Any](), 0
            for attempt in same:
                weight += attempt.action.weight
                if not batches or len(batches[-1]) == size or weight > cls.BATCH_WEIGHT:
                    batches.append([])
                    weight = attempt.action.weight
                batches[-1].append(attempt)
            lanes += [batches[first :: cls.LANES] for first in range(min(cls.LANES, len(batches)))]
        return lanes

    @property
    def weight(self) -> int:
        """How much of a request's BATCH_WEIGHT the subject takes."""
        return 0

    def batch_key(self, attempt: Attempt) -> int | str:
        """Return what the subjects of one request have in common, such as their leader."""
        return 0

    @classmethod
    def connect(cls, gateway: Gateway) -> None:
        """Open the connections for the requests of this thread, without waiting for them."""

    @classmethod
    @abstractmethod
    def observe(cls, actions: Sequence[Any], context: RunContext) -> Observation:
        """Read the facts that may have changed since the recheck."""

    def step_before_request(self, attempt: Attempt, observation: Observation) -> StepResult | None:
        """Return what becomes of an attempt that does not hold right before its request; None: it holds."""
        failure = self.recheck(observation)
        if failure is None:
            return None
        if failure.status is Status.SATISFIED:
            return self.reached(attempt, observation)
        if failure.status is Status.FAILED:  # a fact that was not read may be read in the next round
            return attempt.retry_later(failure.detail)
        return attempt.outcome(failure.status, failure.detail, read_back=self.effect(observation).read_back)

    def prepare(self, attempt: Attempt, observation: Observation) -> Attempt:
        """Return the attempt with what the facts before the request say about it."""
        return attempt

    @classmethod
    @abstractmethod
    def call_gateway(cls, actions: Sequence[Any], gateway: Gateway) -> Mapping[Any, ItemResult]:
        """Make one request for these actions and return the result of each by its subject."""

    @classmethod
    def send(cls, actions: Sequence[Any], gateway: Gateway) -> Mapping[Any, Response]:
        """Make one request and return what its results mean, by subject."""
        results = cls.call_gateway(actions, gateway)
        return {subject: interpret(result, cls.ERRORS, cls.RIGHT) for subject, result in results.items()}

    @classmethod
    def observe_effect(
        cls, actions: Sequence[Any], responses: Mapping[Any, Response], context: RunContext
    ) -> Observation:
        """Read the cluster after a request."""
        return cls.observe(actions, context)

    @abstractmethod
    def effect(self, observation: Observation) -> Effect:
        """Return what the cluster shows of the desired state."""

    def verify(self, attempt: Attempt, response: Response, observation: Observation) -> StepResult:
        """Return what the response to a request and the cluster afterwards make of the attempt."""
        attempt, effect = attempt.after_response(response), self.effect(observation)
        if (status := _STATUS_OF.get(response.answer)) is not None:
            return attempt.outcome(status, response.text or response.code, read_back=effect.read_back)
        if effect.missing is not None:
            return attempt.retry_later(effect.missing)
        return self.reached(attempt, observation)

    def reached(self, attempt: Attempt, observation: Observation) -> Outcome:
        """End the attempt: the cluster shows the desired state."""
        status, detail = (Status.APPLIED, self.APPLIED) if attempt.possible else (Status.SATISFIED, self.SATISFIED)
        return attempt.outcome(status, detail, read_back=self.effect(observation).read_back)


_STATUS_OF = {
    ResponseAction.STALE: Status.STALE,
    ResponseAction.WAITING: Status.WAITING,
    ResponseAction.FAILED: Status.FAILED,
    ResponseAction.HALVE: Status.FAILED,
}
"""The outcome after answers that leave nothing to read back."""
