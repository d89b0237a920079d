"""What every operation says about itself. A class that lacks a method cannot be instantiated.

The planner, the limits, the review, the recheck, the applier and the reports call these methods and
know no operation by name.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason
from reconciler.model.description import Description, Fact, SizeChange
from reconciler.model.names import Address, TopicPartition, format_address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, ItemResult
from reconciler.model.snapshot import ClusterSnapshot, Consumers, GroupFacts, Unknown
from reconciler.operations.attempt import Attempt, ErrorTable, Response, ResponseAction, Right, StepResult, interpret
from reconciler.operations.observation import Observation, RecheckFailure
from reconciler.text.formatting import count

Subject = TopicPartition | str
"""What a request names: a partition, or a group."""


DAY_MS = 86_400_000
NO_LIMITS: Mapping[str, float] = {}

Total = Callable[[ClusterSnapshot, str], int | Unknown]
"""Returns what a share is taken of, for one bucket, from the facts of the scan."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a Cluster manifest: a share in percent if it has a `total`, otherwise a count.

    `words` complete "groups removed: 3". `waiver_max_ms`: how far ahead a waiver of it may expire.
    `fixed`: a Cluster cannot raise it, so only a waiver does. `remedy`: what to do instead.
    """

    field: str
    default: int
    words: str
    total: Total | None = None
    waiver_max_ms: int = 30 * DAY_MS
    fixed: bool = False
    remedy: str = "do less at once"

    @property
    def id(self) -> str:
        """Its name in manifests, such as `groupsPercent`."""
        first, *words = self.field.split("_")
        return first + "".join(map(str.capitalize, words))

    @property
    def is_percent(self) -> bool:
        return self.total is not None


class LimitUsage(NamedTuple):
    """How much one action counts towards one limit.

    `bucket`: what is bound on its own, such as one topic; empty: the whole plan. `name`: set where
    the limit counts distinct names and not amounts.
    """

    limit: Limit
    amount: int = 1
    bucket: str = ""
    name: str = ""


class Effect(NamedTuple):
    """What the cluster shows, None: not read; and why that is not as desired, None: it is."""

    read_back: str | None
    missing: str | None


class RunContext(Protocol):
    """What an operation needs of a run of the applier. Times are epoch milliseconds.

    `removed_groups`: groups that this run has removed, or found removed. `effect_wait_ms`: how long
    to wait until the cluster shows the effect of a request. `commit_log_ends`: up to where the recheck
    has read each partition of the commit log. `known_groups`: the groups of the recheck.
    """

    @property
    def gateway(self) -> Gateway: ...

    @property
    def removed_groups(self) -> Collection[str]: ...

    @property
    def effect_wait_ms(self) -> int: ...

    @property
    def commit_log_ends(self) -> Mapping[int, int]: ...

    @property
    def known_groups(self) -> Mapping[str, GroupFacts]: ...

    def clock(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...

    def consumers(self) -> Consumers:
        """Return all groups and what they consume, at most a few seconds old."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Action):
    """An action that this program knows how to limit, review, recheck, send and verify."""

    TITLE: ClassVar[str]
    """What progress and reports call one action of this operation: `record deletion`."""
    HEADING: ClassVar[str] = ""
    """What its actions do, above a list of them: `leaders elected`; empty: the TITLE says it."""
    FIELD_WORDS: ClassVar[Mapping[str, str]] = {}
    """What reviewers call an approved field, by its path or the beginning of it: `topic id`."""
    API: ClassVar[tuple[str, int, int]]
    """Name and key of the request in Kafka's protocol, and the first version that suffices."""
    LIMITS: ClassVar[tuple[Limit, ...]]
    """The limits of a plan that this operation counts towards, in the order of the manifest."""
    BATCH_SIZE: ClassVar[int]
    """Subjects in one request, at most."""
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
    REMOVES: ClassVar[bool] = True
    """Whether each request removes something, so that no review may leave the operation out."""
    RESTS_ON_REMOVALS: ClassVar[bool] = False
    """Whether the check before its request has to know which groups the same plan has removed."""

    @property
    def subject(self) -> Subject:
        """What the request names. A plan holds one action of an operation for a subject."""
        name, partition = self.address.name, self.address.partition
        return name if partition < 0 else TopicPartition(name, partition)

    # --- plan file

    DERIVED: ClassVar[tuple[str, ...]] = ("OPERATION", "irreversible", "request", "approved", "impact")
    """What the plan file shows beside the fields."""

    @abstractmethod
    def approved(self) -> Mapping[str, object]:
        """Return every value that `restrict_to` tests for equality, and that an approval binds.

        The plan's digest covers them in this order: another order or name changes every digest.
        """

    @abstractmethod
    def impact(self) -> Mapping[str, object]:
        """Return the most it costs. The plan adds up `records_removed_max`; None: unbounded."""

    def check_subject(self, name: str, partition: int = -1) -> None:
        """Raise ValueError where the address names another subject than the request."""
        if self.address.name != name or self.address.partition != partition:
            raise ValueError(f"the address {format_address(self.address)} names another subject than the request")

    # --- reports

    DRIFT_TYPE: ClassVar[str]
    """What the action would correct; a value in drift reports: `records`."""
    DRIFT_TEXT: ClassVar[str]
    """The same in words: `records below the floor are still there`."""

    @property
    def is_foldable(self) -> bool:
        """Whether a report may only count the action in its topic: never, but for a FoldableOperation."""
        return False

    @abstractmethod
    def describe(self) -> Description:
        """Describe the action for any report."""

    @classmethod
    def count_effects(cls, addresses: Collection[Address]) -> str:
        """Say what the actions at these addresses do: `records of 12 partitions of 3 topics deleted`."""
        return count(len(addresses), cls.TITLE)

    @classmethod
    def total_loss(cls, actions: Sequence[Any], observed: Mapping[str, float] = NO_LIMITS) -> str:
        """Return what all these actions lose at most; empty: their number says all.

        `observed`: what the limits of their plan count, by the limits' ids; unknown ones are absent.
        """
        return ""

    @abstractmethod
    def explain(self) -> Iterable[Fact]:
        """Return request, facts, arithmetic and recheck of the action, for readers who check it."""

    def compare_size(self, old: Action) -> SizeChange | None:
        """Compare with the action at the same address in an older plan.

        None: the size is the same, or an approved value differs, too.
        """
        return None

    # --- plan

    @abstractmethod
    def limit_usage(self) -> Iterator[LimitUsage]:
        """Return how much this action counts towards which limits."""

    @abstractmethod
    def restrict_to(self, reviewed: Action | None) -> Self | BlockReason:
        """Return the part that the `reviewed` action at its address also holds, or why nothing."""

    # --- recheck

    @abstractmethod
    def done_reason(self, snapshot: ClusterSnapshot) -> str | None:
        """Return what shows that the desired state of this action is there; None: nothing does."""

    def within(self, saved: Self) -> Self:
        """Return this action, which `restrict_to` has bounded, under the conditions that `saved` was reviewed with."""
        return self

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

    def proves_absence(self, outcome: Outcome) -> bool:
        """Whether `removed_group` is gone by this outcome, and no other group has its name since."""
        return True

    @property
    def elected_leader(self) -> int | None:
        """The broker that leads the partition once this action is applied; None: it is not known."""
        return None

    # --- apply

    @classmethod
    def batches(cls, attempts: Sequence[Attempt[Any]], size: int) -> list[list[Sequence[Attempt[Any]]]]:
        """Return at most LANES parallel lanes for each key, of batches of up to `size` subjects."""
        by_key: dict[Any, list[Attempt[Any]]] = {}
        for attempt in attempts:
            by_key.setdefault(attempt.action.batch_key(attempt), []).append(attempt)
        lanes: list[list[Sequence[Attempt[Any]]]] = []
        for _, same in sorted(by_key.items()):
            batches: list[Sequence[Attempt[Any]]] = [same[at : at + size] for at in range(0, len(same), size)]
            lanes += [batches[first :: cls.LANES] for first in range(min(cls.LANES, len(batches)))]
        return lanes

    def batch_key(self, attempt: Attempt[Any]) -> int | str:
        """Return what the subjects of one request have in common, such as their leader."""
        return 0

    @classmethod
    def connect(cls, gateway: Gateway) -> None:
        """Open the connections for the requests of this thread, without waiting for them."""

    @classmethod
    @abstractmethod
    def observe(cls, actions: Sequence[Any], context: RunContext) -> Observation:
        """Read the facts that may have changed since the recheck."""

    def prepare(self, attempt: Attempt[Any], observation: Observation) -> Attempt[Any]:
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

    def verify(self, attempt: Attempt[Any], response: Response, observation: Observation) -> StepResult:
        """Return what the response to a request and the cluster afterwards make of the attempt."""
        attempt, effect = attempt.after_response(response), self.effect(observation)
        if (status := _STATUS_OF.get(response.answer)) is not None:
            return attempt.outcome(status, response.text or response.code, read_back=effect.read_back)
        if effect.missing is not None:
            return attempt.retry_later(effect.missing)
        return self.reached(attempt, observation)

    def after_confirmation(
        self, attempt: Attempt[Any], failure: RecheckFailure | None, observation: Observation
    ) -> StepResult | None:
        """Return what a later recheck makes of an attempt that a broker called done, if any."""
        return None

    def reached(self, attempt: Attempt[Any], observation: Observation) -> Outcome:
        """End the attempt: the cluster shows the desired state."""
        status, detail = (Status.APPLIED, self.APPLIED) if attempt.possible else (Status.SATISFIED, self.SATISFIED)
        return attempt.outcome(status, detail, read_back=self.effect(observation).read_back)


class FoldableOperation(Operation):
    """An operation of which a report may describe many actions of one topic in one item.

    `FOLDS_TOPICS`: also those of all topics of one policy.
    """

    __slots__ = ()

    FOLDS_TOPICS: ClassVar[bool] = False

    @property
    @abstractmethod
    def is_foldable(self) -> bool:
        """Whether a report may only count the action in its topic."""

    @classmethod
    @abstractmethod
    def describe_many(cls, actions: Sequence[Any]) -> Description:
        """Describe foldable actions, one or many, in one line below HEADING."""


_STATUS_OF = {
    ResponseAction.STALE: Status.STALE,
    ResponseAction.WAITING: Status.WAITING,
    ResponseAction.FAILED: Status.FAILED,
    ResponseAction.HALVE: Status.FAILED,
}
"""The outcome after answers that leave nothing to read back."""


def beyond_review(reason: str) -> BlockReason:
    """Return the block of what a reviewed plan does not hold."""
    return BlockReason("B108", f"beyond review: {reason}")
