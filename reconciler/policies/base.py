"""What all kinds share: the envelope of every manifest, and what every policy answers.

What one kind means is in its own file.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from pydantic.alias_generators import to_camel

from reconciler.model.action import Mode
from reconciler.model.names import NOWHERE, Address, SourceLocation
from reconciler.model.selector import Selector
from reconciler.policies.fields import Name
from reconciler.policies.validation import FieldPath, ValidationIssue

STRICT = ConfigDict(
    strict=True,
    frozen=True,
    extra="forbid",
    alias_generator=to_camel,
    validate_by_name=True,
    validate_by_alias=True,
    hide_input_in_errors=True,
)
"""Of every model of the manifest language. YAML is validated by alias only; tests and code may use Python names."""


class ClusterMetadata(BaseModel):
    """The metadata of a Cluster: who this manifest is."""

    model_config = STRICT

    name: Name = Field(description="The name of this manifest; unique per kind and cluster.")
    owner: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Who answers for it; shown in the plan.", examples=["team-orders"]
    )
    reason: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Why it exists; shown in the plan.", examples=["erase after 30 days"]
    )


class Metadata(BaseModel):
    """The metadata of every other kind: who this manifest is, and which cluster it is about."""

    model_config = STRICT

    name: Name = Field(description="The name of this manifest; unique per kind and cluster.")
    cluster: Name | None = Field(
        default=None,
        description="The Cluster manifest that this one belongs to; may be left out where the set holds exactly one.",
        examples=["prod-eu"],
    )
    owner: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Who answers for it; shown in the plan.", examples=["team-orders"]
    )
    reason: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Why it exists; shown in the plan.", examples=["erase after 30 days"]
    )


MODE_FIELD: Mode = Field(
    default=Mode.MERGE,
    strict=False,
    description="merge: applied from a reviewed plan only. continuous: also by scheduled applies and watch.",
    examples=["merge"],
)
"""`mode`, the same in every kind that desires a state."""


class Envelope(BaseModel):
    """What all kinds have in common; each kind narrows `kind` and adds `spec`."""

    model_config = STRICT

    api_version: Literal["reconciler/v1"] = Field(
        description="The version of the manifest language.", examples=["reconciler/v1"]
    )
    kind: str = Field(description="Which kind of manifest this is.")
    metadata: ClusterMetadata | Metadata = Field(description="Who this manifest is.")

    _declared_at: SourceLocation = PrivateAttr(default=NOWHERE)

    @property
    def declared_at(self) -> SourceLocation:
        """Where the document begins."""
        return self._declared_at

    def declared(self, place: SourceLocation) -> Self:
        """A copy that knows where it was declared."""
        copy = self.model_copy()
        copy._declared_at = place
        return copy

    @property
    def address(self) -> Address:
        return Address(type(self).__name__, self.metadata.name)

    def problems_at(self, now_ms: int) -> Iterable[ValidationIssue]:  # noqa: ARG002  no rule about time by default
        """Return what is wrong at this moment and may be right at another; paths are below the manifest."""
        return ()


@dataclass(frozen=True, slots=True)
class ExactClaim:
    """A topic or group that a policy names exactly, and where. `partitions` None: all of it."""

    subject: str
    partitions: Sequence[int] | None
    path: FieldPath


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAccess:
    """A right that apply needs: DELETE on the selected topics or groups, or ALTER on the cluster."""

    resource: Literal["topic", "group", "cluster"]
    selectors: Sequence[Selector] = ()
    excluding: Sequence[Selector] = ()
    patterns_skip_underscore: bool = False


class Policy(Envelope, ABC):
    """A manifest that states desired state."""

    metadata: Metadata = Field(description="Who this manifest is, and which cluster it is about.")
    mode: Mode = MODE_FIELD

    @abstractmethod
    def exact_claims(self) -> Iterator[ExactClaim]:
        """Yield the subjects that the manifest names exactly and does not except."""

    @abstractmethod
    def write_access(self) -> WriteAccess:
        """Return the right that applying this policy needs."""

    @property
    def every_ms(self) -> int | None:
        """Least time between two purges of a subject, in milliseconds; None: no clock."""
        return None


def claims_by_name(
    field: str,
    selectors: Sequence[Selector],
    excluding: Sequence[Selector] | None,
    partitions: Sequence[int] | None = None,
) -> Iterator[ExactClaim]:
    """Yield a claim for each exact name in `spec.field` that no selector of `excluding` matches."""
    for index, selector in enumerate(selectors):
        if not selector.is_pattern and not any(other.matches(selector.text) for other in excluding or ()):
            yield ExactClaim(selector.text, partitions, ("spec", field, index))
