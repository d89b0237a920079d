"""What all kinds share: the envelope of every manifest, and what every policy answers.

What one kind means is in its own file. A policy that lacks a method cannot be instantiated.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator
from pydantic.alias_generators import to_camel

from reconciler.model.action import Mode
from reconciler.model.block_reason import BlockReason, known
from reconciler.model.names import NOWHERE, Address, SourceLocation, TopicPartition, subjects_of
from reconciler.model.plan import Decision
from reconciler.model.scan_request import ScanRequest
from reconciler.model.selector import Selector, SelectorSet, select
from reconciler.model.snapshot import ClusterSnapshot, TopicFacts
from reconciler.operations import Operation
from reconciler.operations.touchable import Protection
from reconciler.policies.fields import LIST, Name, optional, required, where
from reconciler.policies.validation import FieldPath, ValidationIssue, raise_if_any
from reconciler.text.formatting import count


class ManifestModel(BaseModel):
    """A part of a manifest. YAML is validated by alias only; code may use Python names."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,
        defer_build=True,
    )

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        raise_if_any(self._issues(), "broken_rules")
        return self

    def _issues(self) -> Iterable[ValidationIssue]:
        """Return what is wrong with fields that are right by themselves."""
        return ()

    def settings(self, *, explicit: bool = False) -> Mapping[str, tuple[str, ...]]:
        """Return the values of all fields by path, as texts. `explicit`: of those that the manifest writes."""
        document = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=explicit)
        return dict(_flatten(document, ""))

    @staticmethod
    def _unbounded_pattern(
        field: str, selectors: Sequence[Selector], expect_at_most: int | None
    ) -> Iterator[ValidationIssue]:
        """Yield the problem of a pattern without `expectAtMost`."""
        index = first_pattern(selectors)
        if index is not None and expect_at_most is None:
            message = f"`{selectors[index].text}` is a pattern and `expectAtMost` is missing"
            yield ValidationIssue("M201", message, (field, index), f"add expectAtMost: how many {field} it may match")


def _flatten(value: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(inner, f"{path}.{key}".removeprefix("."))
    else:
        values = value if isinstance(value, list) else [value]
        yield path, tuple(f"{item:.15g}" if isinstance(item, float) else str(item) for item in values)


def first_pattern(selectors: Sequence[Selector]) -> int | None:
    """Return the index of the first pattern; None: all selectors are exact names."""
    return next((index for index, selector in enumerate(selectors) if selector.is_pattern), None)


_Text = Annotated[str, Field(min_length=1)]


class ClusterMetadata(ManifestModel):
    """The metadata of a Cluster: its name, its owner and its reason."""

    name: Name = Field(description="The name of this manifest; unique per kind and cluster.")
    owner: _Text | None = optional("The team that is responsible for it; shown in the plan.", "team-orders")
    reason: _Text | None = optional("Why it exists; shown in the plan.", "erase after 30 days")
    expect_none: Annotated[tuple[_Text, ...], LIST] | None = optional(
        "Selectors of protect, exceptTopics and exceptGroups that match nothing yet: no warning names them.",
        ["console-consumer-*"],
    )


class Metadata(ClusterMetadata):
    """The metadata of every other kind: the same, and its cluster."""

    cluster: Name | None = optional(
        "The Cluster manifest that this one belongs to; may be left out where the set holds exactly one.", "prod-eu"
    )


Guards = Mapping[str, tuple[str, tuple[Selector, ...]]]
"""Selectors of guards by field, each with `topics` or `groups`."""


class Envelope(ManifestModel):
    """What all kinds have in common; each kind narrows `kind` and adds `spec`."""

    api_version: Literal["reconciler/v1"] = required("The version of the manifest language.", "reconciler/v1")
    kind: str = Field(description="Which kind of manifest this is.")
    metadata: ClusterMetadata = Field(description="The name of this manifest, its owner and its reason.")

    _declared_at: SourceLocation = PrivateAttr(default=NOWHERE)

    @property
    def declared_at(self) -> SourceLocation:
        """Where the document begins."""
        return self._declared_at

    def with_location(self, place: SourceLocation) -> Self:
        copy = self.model_copy()
        copy._declared_at = place
        return copy

    def with_suffix(self, suffix: str) -> Self:
        metadata = self.metadata.model_copy(update={"name": f"{self.metadata.name}{suffix}"})
        return self.model_copy(update={"metadata": metadata})

    @property
    def address(self) -> Address:
        return Address(type(self).__name__, self.metadata.name)

    @property
    def guards(self) -> Guards:
        """The selectors that keep something away from the program, by field."""
        return {}

    def problems_at(self, now_ms: int) -> Iterable[ValidationIssue]:
        """Return what is wrong at this moment only. Paths begin at the manifest."""
        return ()


def reviewed_only_schema(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema that refuses `mode: continuous` with a spec that matches this one."""
    return {"if": where("mode", {"const": Mode.CONTINUOUS.value}), "then": {"properties": {"spec": {"not": spec}}}}


Subjects = Mapping[str, bool]
"""Topics or groups in order, each with whether an exact selector named it. The cluster may not list an exact name."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What one policy selects on this cluster. `matched`: how many of the names are listed."""

    policy: "Policy"
    subjects: Subjects
    matched: int


@dataclass(frozen=True, slots=True)
class ExactClaim:
    """A topic or group that a policy names exactly, and where. `partitions` None: all of it."""

    subject: str
    partitions: Collection[int] | None
    path: FieldPath


class Policy(Envelope, ABC):
    """A manifest that states desired state.

    Its `spec` has `topics` and `exceptTopics`, or the same for groups; perhaps `expectAtMost`.
    """

    SUBJECTS: ClassVar[str]
    """What it selects, as its field is called: `topics`, or `groups` of a kind whose name begins with Group."""
    PATTERNS_SKIP_UNDERSCORE: ClassVar[bool] = False
    """Whether no pattern selects a name with a leading `_`."""
    ABSENCE_IS_DESIRED: ClassVar[bool] = False
    """Whether it has done its work where it selects nothing."""
    OPERATION: ClassVar[type[Operation]]
    """The operation that its actions are."""

    metadata: Metadata = Field(description="The name of this manifest, its owner, its reason and its cluster.")
    mode: Mode = optional(
        "merge: applied from a reviewed plan only. continuous: also by converge and watch.",
        "merge",
        Mode.MERGE,
        strict=False,
    )
    spec: Any

    # --- manifest

    def _issues(self) -> Iterator[ValidationIssue]:
        if self.mode is Mode.CONTINUOUS:
            for field, message, hint in self.reviewed_only():
                yield ValidationIssue("M216", f"`mode: continuous` acts without a review, and {message}", field, hint)

    def reviewed_only(self) -> Iterator[tuple[FieldPath, str, str]]:
        """Yield what needs a review each time: the field, what it does, and what to write instead."""
        yield from ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.SUBJECTS = subjects_of(cls.__name__)

    @property
    def selectors(self) -> tuple[Selector, ...]:
        return getattr(self.spec, self.SUBJECTS) or ()

    @property
    def excluding(self) -> tuple[Selector, ...]:
        """The selectors of what it leaves out although `selectors` match it."""
        return getattr(self.spec, f"except_{self.SUBJECTS}", None) or ()

    @property
    def guards(self) -> Guards:
        return {f"except{self.SUBJECTS.capitalize()}": (self.SUBJECTS, self.excluding)}

    @property
    def expect_at_most(self) -> int | None:
        """How many names it may match; more and nothing of the policy is done. None: any number."""
        return getattr(self.spec, "expect_at_most", None)

    @property
    def every_ms(self) -> int | None:
        """Least time between two purges of a subject, in milliseconds; None: no clock."""
        return None

    @property
    def awaited_groups(self) -> tuple[str, ...]:
        """Groups whose commits the policy waits for, and which no other policy may remove."""
        return ()

    @property
    def waits_for_consumers(self) -> bool | None:
        """Whether it holds records for consumers that are behind; None: it deletes no records."""
        return None

    @property
    def compares_subjects(self) -> bool:
        """Whether a decision depends on the facts of the policy's other subjects."""
        return False

    def claimed_partitions(self, name: str) -> frozenset[int] | None:
        """Return the partition numbers it claims of a topic; None: all of them, or a group."""
        return None

    def claims(self, address: Address) -> bool:
        claimed = self.claimed_partitions(address.name)
        return claimed is None or address.partition in claimed

    def without_actions(self, suffix: str = "") -> Self:
        """Return a copy that no run without a review carries out. `suffix`: of its name."""
        return self.with_suffix(suffix).model_copy(update={"mode": Mode.MERGE})

    def exact_claims(self) -> Iterator[ExactClaim]:
        """Yield the subjects that the manifest names exactly and does not except."""
        excluded = SelectorSet(self.excluding)
        for index, selector in enumerate(self.selectors):
            name = selector.name
            if name is not None and not excluded.matches(name):
                yield ExactClaim(name, self.claimed_partitions(name), ("spec", self.SUBJECTS, index))

    # --- plan

    @abstractmethod
    def scan_request(self, observed_at_ms: int) -> ScanRequest:
        """Return the facts that deciding this policy needs, the wholes of its limits included."""

    @abstractmethod
    def decide(self, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
        """Yield one decision for each subject, or for each selected partition of a topic."""

    def protection_of(self, name: str, protection: Protection) -> BlockReason | None:
        return protection.of_group(name) if self.SUBJECTS == "groups" else protection.of_topic(name)

    def select(self, snapshot: ClusterSnapshot) -> Selection:
        """Resolve the policy's selectors against the names that the cluster lists."""
        listed, _incomplete = snapshot.listed(self.SUBJECTS)
        exact = {selector.name for selector in self.selectors if selector.name is not None}
        # A policy of exact names only does not walk through every name of the cluster.
        names = exact if first_pattern(self.selectors) is None else {*listed, *exact}
        subjects = self.select_among(names)
        return Selection(self, subjects, matched=sum(name in listed for name in subjects))

    def select_among(self, names: Collection[str]) -> Subjects:
        """Resolve the policy's selectors against these names."""
        skip = self.PATTERNS_SKIP_UNDERSCORE
        return select(names, self.selectors, excluding=self.excluding, patterns_skip_underscore=skip)

    def partitions(self, facts: TopicFacts) -> Iterator[tuple[TopicPartition, BlockReason | None]]:
        """Yield the selected partitions, and the block of each missing one. Raises BlockReason."""
        partitions = known(facts.partitions, "the number of partitions of", facts.name)
        selected = self.claimed_partitions(facts.name)
        for number in range(partitions) if selected is None else sorted(selected):
            missing = None
            if number >= partitions:
                reason = f"{facts.name} has {count(partitions, 'partition')}, so none with number {number}"
                missing = BlockReason("B102", reason)
            yield TopicPartition(facts.name, number), missing

    def address_of(self, name: str, partition: int = -1) -> Address:
        return Address(type(self).__name__, self.metadata.name, name, partition)
