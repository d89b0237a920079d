"""What every operation says about itself. A class that lacks a method cannot be instantiated.

The planner, the limits, the review and the reports call these methods and know no operation by name.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason
from reconciler.model.description import Description, Fact, SizeChange
from reconciler.model.names import Address, format_address
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.operations.sendable import Sendable
from reconciler.text.formatting import count
from reconciler.text.phrase import Phrase

DAY_MS = 86_400_000
NO_LIMITS: Mapping[str, float] = {}

Total = Callable[[ClusterSnapshot, str], int | Unknown]
"""Returns what a share is taken of, for one bucket, from the facts of the scan."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a Cluster manifest: a share in percent if it has a `total`, otherwise a count.

    `words` complete "groups removed: 3". `waiver_max_ms`: how far ahead a waiver of it may expire.
    `fixed`: a Cluster cannot raise it, so only a waiver does. `remedy`: what to do instead. `of_list`:
    which list of the snapshot its total counts; an incomplete one makes a share look larger.
    """

    field: str
    default: int
    words: str
    total: Total | None = None
    waiver_max_ms: int = 30 * DAY_MS
    fixed: bool = False
    remedy: str = "do less at once"
    of_list: str = ""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Sendable):
    """An action that this program knows how to limit, review and describe, and that policies ask for."""

    HEADING: ClassVar[str] = ""
    """What its actions do, above a list of them: `leaders elected`; empty: the TITLE says it."""
    FIELD_WORDS: ClassVar[Mapping[str, str]] = {}
    """What reviewers call an approved field, by its path or the beginning of it: `topic id`."""
    API: ClassVar[tuple[str, int, int]]
    """Name and key of the request in Kafka's protocol, and the first version that suffices."""
    LIMITS: ClassVar[tuple[Limit, ...]]
    """The limits of a plan that this operation counts towards, in the order of the manifest."""
    REMOVES: ClassVar[bool] = True
    """Whether each request removes something, so that no review may leave the operation out."""
    RESTS_ON_REMOVALS: ClassVar[bool] = False
    """Whether the check before its request has to know which groups the same plan has removed."""

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
    def fold_key(self) -> Hashable:
        """What the actions of its policy have in common that a report may describe in one line: nothing.

        An operation that says another one, such as the topic, has a `describe_many`, too.
        """
        return self.address

    @property
    def unchecked(self) -> str:
        """What the policy accepts without a check, in words; empty: nothing."""
        return ""

    @abstractmethod
    def describe(self) -> Description:
        """Describe the action for any report."""

    @classmethod
    def describe_many(cls, actions: Sequence[Any]) -> Description:
        """Describe actions of one `fold_key`, one or many, in one line below HEADING."""
        (action,) = actions
        description: Description = action.describe()
        return description

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

    @classmethod
    def total_risks(cls, actions: Sequence[Any]) -> tuple[Phrase, ...]:
        """Return what all these actions cost others, a phrase for each, the worst first; empty: nothing known."""
        return ()

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


def beyond_review(reason: str) -> BlockReason:
    """Return the block of what a reviewed plan does not hold."""
    return BlockReason("B108", f"beyond review: {reason}")
