"""What every operation says about itself. A class that lacks a method cannot be instantiated.

The planner, the limits, the review, the recheck and the applier ask an action these questions and
know no operation by name.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason
from reconciler.model.description import Description, Fact, SizeChange
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, ItemResult, ResponseAction
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations.attempt import Attempt, StepResult
from reconciler.operations.limit import Limit, LimitUsage
from reconciler.operations.observation import Observation, RecheckFailure

Subject = TopicPartition | str
"""What a request names: a partition, or a group."""


class RunContext(Protocol):
    """What an operation needs of a run of the applier. Times are epoch milliseconds."""

    @property
    def gateway(self) -> Gateway: ...

    @property
    def removed_groups(self) -> Collection[str]:
        """Groups that this run has removed, or found removed."""
        ...

    @property
    def effect_wait_ms(self) -> int:
        """How long to wait until the cluster shows the effect of a request."""
        ...

    def clock(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...

    def purges_of_other_runs(self) -> Mapping[TopicPartition, int]:
        """Return when each partition was last purged by another run. Raises JournalUnavailable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Action):
    """An action that this program knows how to limit, review, recheck, send and verify."""

    NOUN: ClassVar[str]
    """What progress and reports call several of them: `record deletions`."""
    API: ClassVar[tuple[str, int, int]]
    """Name and key of the request in Kafka's protocol, and the first version that suffices."""
    LIMITS: ClassVar[tuple[Limit, ...]]
    """The limits of a plan that this operation counts towards, in the order of the manifest."""
    BATCH_SIZE: ClassVar[int]
    """Subjects in one request, at most."""
    LANES: ClassVar[int] = 1
    """Batches under way at once, for each broker that `batches` tells apart."""
    APPLIED: ClassVar[str]
    """What an outcome says where this run brought the desired state about."""
    SATISFIED: ClassVar[str]
    """What an outcome says where the desired state was there already."""

    @property
    @abstractmethod
    def subject(self) -> Subject:
        """What the request names. A plan holds one action of an operation for a subject."""

    # --- plan file

    DERIVED: ClassVar[tuple[str, ...]] = ("OPERATION", "irreversible", "request", "approved", "impact")
    """What the plan file shows beside the fields."""

    @abstractmethod
    def approved(self) -> Mapping[str, object]:
        """Return what an approval binds besides address and request: every value that recheck tests for equality.

        The plan's digest covers these values in this order. Another order or name makes every digest another.
        """

    @abstractmethod
    def impact(self) -> Mapping[str, object]:
        """Return the upper bound of what the action costs, by the field names of the plan file.

        `records_removed_max`, where there is one, is summed up over a plan; None: unbounded.
        """

    def check_subject(self, name: str, partition: int = -1) -> None:
        """Raise ValueError where the address names another subject than the request."""
        if self.address.name != name or self.address.partition != partition:
            raise ValueError(f"the address {str(self.address)!a} names another subject than the request")

    # --- reports

    TITLE: ClassVar[str]
    """What reports call one action of this operation: `record deletion`."""
    DRIFT_TYPE: ClassVar[str]
    """What is wrong with a subject that the action would correct; a value in drift reports: `records`."""
    DRIFT_TEXT: ClassVar[str]
    """The same in words: `records below the floor are still there`."""

    @property
    def is_foldable(self) -> bool:
        """Whether a report may hide the action in the sum of its topic. True needs `describe_many`."""
        return False

    @abstractmethod
    def describe(self) -> Description:
        """Describe the action for any report."""

    @classmethod
    def describe_many(cls, actions: Sequence[Any]) -> Description:
        """Describe many foldable actions of one topic as one."""
        raise NotImplementedError(f"actions of {cls.OPERATION} are not foldable")

    @classmethod
    def total_loss(cls, actions: Sequence[Any]) -> str:
        """Return what all these actions lose at most, beyond their number; empty: nothing to add."""
        return ""

    @abstractmethod
    def explain(self) -> tuple[Fact, ...]:
        """Return request, facts, arithmetic and recheck of the action, for one who wants to check it."""

    def compare_size(self, old: Action) -> SizeChange | None:
        """Compare with the action at the same address in an older plan.

        None: the size is the same, or more than the size differs.
        """
        return None

    # --- plan

    @abstractmethod
    def limit_usage(self) -> Iterator[LimitUsage]:
        """Return how much this action counts towards which limits."""

    @abstractmethod
    def restrict_to(self, reviewed: Action | None) -> Self | BlockReason:
        """Return the part of this action that `reviewed` also holds, or why nothing of it is left.

        `reviewed`: the action at the same address in a reviewed plan; None: it holds none.
        """

    # --- recheck

    @classmethod
    @abstractmethod
    def scan_request(cls, actions: Iterable[Any]) -> ScanRequest:
        """Return the facts that the recheck of these actions needs."""

    @abstractmethod
    def recheck(self, observation: Observation) -> RecheckFailure | None:
        """Return why the action does not hold on these facts; None: it holds.

        The one rule book, for the recheck of the whole plan and for the look before each request.
        """

    def usable_error(self) -> str | None:
        """Return why no file that this program wrote can hold the action; None: it may."""
        return None

    def as_observed(self, snapshot: ClusterSnapshot) -> Self:
        """Return the action as the limits count it on this snapshot, which the recheck has passed."""
        return self

    @property
    def removed_group(self) -> str | None:
        """The group that is gone once this action is applied; None: none."""
        return None

    # --- apply

    @classmethod
    def batches(cls, attempts: Sequence[Attempt[Any]], size: int) -> list[list[Sequence[Attempt[Any]]]]:
        """Return lanes of batches. Lanes run side by side, the batches of one lane one after another."""
        return split_into_lanes(attempts, size, cls.LANES)

    @classmethod
    @abstractmethod
    def observe(cls, actions: Sequence[Any], context: RunContext) -> Observation:
        """Read the facts that may have changed since the recheck. Raises JournalUnavailable."""

    @classmethod
    def recheck_after_intents(cls, actions: Sequence[Any], context: RunContext) -> Mapping[Any, RecheckFailure]:
        """Return, by subject, why requests may not go out now that all their intents are stored.

        Raises JournalUnavailable.
        """
        return {}

    def prepare(self, attempt: Attempt[Any], observation: Observation) -> Attempt[Any]:
        """Return the attempt with what has to be remembered from the look before the request."""
        return attempt

    @classmethod
    @abstractmethod
    def send(cls, actions: Sequence[Any], gateway: Gateway) -> Mapping[Any, ItemResult]:
        """Send one request for these actions and return the result of each by its subject."""

    @classmethod
    def observe_effect(
        cls, actions: Sequence[Any], results: Mapping[Any, ItemResult], context: RunContext
    ) -> Observation:
        """Read the cluster after a request."""
        return cls.observe(actions, context)

    @abstractmethod
    def is_reached(self, observation: Observation) -> bool:
        """Whether the cluster shows the desired state."""

    @abstractmethod
    def read_back(self, observation: Observation) -> str | None:
        """Return what the cluster shows, as a short text; None: it could not be read."""

    @abstractmethod
    def not_reached(self, observation: Observation) -> str:
        """Return why the desired state is not shown, for an outcome's text."""

    def verify(self, attempt: Attempt[Any], result: ItemResult, observation: Observation) -> StepResult:
        """Return what the result of a request and the cluster afterwards make of the attempt."""
        attempt = attempt.after_response(result)
        read_back = self.read_back(observation)
        match result.answer:
            case ResponseAction.DONE | ResponseAction.READ_BACK | ResponseAction.RETRY:
                if self.is_reached(observation):
                    return self.reached(attempt, observation)
                return attempt.retry_later(self.not_reached(observation))
            case ResponseAction.STALE:
                status = Status.STALE
            case ResponseAction.WAITING:
                status = Status.WAITING
            case ResponseAction.FAILED | ResponseAction.HALVE:
                status = Status.FAILED
        return attempt.outcome(status, result.text or result.code, read_back=read_back)

    def after_done(
        self, attempt: Attempt[Any], failure: RecheckFailure | None, observation: Observation
    ) -> StepResult | None:
        """Return what becomes of an attempt that the broker had called done; None: it goes on.

        `failure`: the result of the recheck in a later round.
        """
        return None

    def reached(self, attempt: Attempt[Any], observation: Observation) -> Outcome:
        """End the attempt: the desired state is shown, by this run's doing or by another's."""
        status, detail = (Status.APPLIED, self.APPLIED) if attempt.possible else (Status.SATISFIED, self.SATISFIED)
        return attempt.outcome(status, detail, read_back=self.read_back(observation))


def split_into_lanes(attempts: Sequence[Attempt[Any]], size: int, count: int) -> list[list[Sequence[Attempt[Any]]]]:
    """Return the attempts as batches of at most `size`, dealt out to at most `count` lanes."""
    batches = [attempts[at : at + size] for at in range(0, len(attempts), size)]
    return [lane for lane in (batches[first::count] for first in range(count)) if lane]


def beyond_review(reason: str) -> BlockReason:
    """Return the block of what a reviewed plan does not hold."""
    return BlockReason(
        code="B108",
        reason=f"beyond review: {reason}",
        next_step="it comes with the next reviewed plan",
    )
