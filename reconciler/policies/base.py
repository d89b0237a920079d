"""The envelope that every manifest shares: version, metadata, and where it was declared. What a kind means is in its own file."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from pydantic.alias_generators import to_camel

from reconciler.model.action import Mode
from reconciler.model.names import NOWHERE, Address, SourceLocation
from reconciler.policies.fields import Name

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
    """What all kinds have in common; each kind adds `kind` and `spec`."""

    model_config = STRICT

    api_version: Literal["reconciler/v1"] = Field(
        description="The version of the manifest language.", examples=["reconciler/v1"]
    )
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
