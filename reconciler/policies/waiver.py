"""Waiver: an expiring exception to one limit, for one policy's actions only. The only way past a limit; there is no force flag."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from reconciler.operations.limit import DAY_MS, Limit
from reconciler.policies import POLICIES
from reconciler.policies.base import STRICT, Envelope, Metadata
from reconciler.policies.cluster import LIMITS
from reconciler.policies.fields import NAME_TEXT, Instant, matches_pattern
from reconciler.policies.validation import ValidationIssue, raise_cross_field
from reconciler.text.formatting import format_instant

LIMITS_OF: Mapping[str, tuple[Limit, ...]] = {policy.__name__: policy.OPERATION.LIMITS for policy in POLICIES}
"""By kind of policy: the limits that bound it."""
_LIMITS = {limit.id: limit for limit in LIMITS}
_POLICY_TEXT = f"({'|'.join(LIMITS_OF)})/{NAME_TEXT}"

if TYPE_CHECKING:
    LimitName = str
else:
    LimitName = Literal[tuple(_LIMITS)]


def _limit_of_kind(kind: str, limits: tuple[Limit, ...]) -> dict[str, object]:
    condition = {"properties": {"policy": {"pattern": f"^{kind}/"}}, "required": ["policy"]}
    return {"if": condition, "then": {"properties": {"limit": {"enum": [limit.id for limit in limits]}}}}


def _value_of_limits(limits: Iterable[Limit], value: dict[str, object]) -> dict[str, object]:
    condition = {"properties": {"limit": {"enum": [limit.id for limit in limits]}}, "required": ["limit"]}
    return {"if": condition, "then": {"properties": {"value": value}}}


_SCHEMA: dict[str, Any] = {
    "allOf": [
        *(_limit_of_kind(kind, limits) for kind, limits in LIMITS_OF.items()),
        _value_of_limits((limit for limit in LIMITS if limit.is_percent), {"maximum": 100}),
        _value_of_limits((limit for limit in LIMITS if not limit.is_percent), {"multipleOf": 1}),
    ]
}


class WaiverSpec(BaseModel):
    """The body of a Waiver."""

    model_config = STRICT | {"json_schema_extra": _SCHEMA}

    policy: Annotated[
        str,
        AfterValidator(matches_pattern(_POLICY_TEXT, "KIND/NAME, such as RetentionFloor/clicks")),
        Field(json_schema_extra={"pattern": f"^{_POLICY_TEXT}$"}),
    ] = Field(description="The policy whose actions may pass the limit: KIND/NAME.", examples=["RetentionFloor/clicks"])
    limit: LimitName = Field(description="Which limit of the Cluster.", examples=["recordsPercentPerTopic"])
    value: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        description="The limit for this policy's actions only; the rest of the plan keeps the Cluster's.",
        examples=[100],
    )
    expires: Instant = Field(
        description="When it ends: at most 30 days ahead, for uncleanElections at most 24 hours.",
        examples=["2026-12-01T00:00:00Z"],
    )

    @property
    def longest_ms(self) -> int:
        """How far ahead such a waiver may expire."""
        return _LIMITS[self.limit].waiver_max_ms

    @model_validator(mode="after")
    def _rules(self) -> Self:
        raise_cross_field(self._issues())
        return self

    def _issues(self) -> Iterator[ValidationIssue]:
        kind = self.policy.partition("/")[0]
        limits = [limit.id for limit in LIMITS_OF[kind]]
        if self.limit not in limits:
            known = ", ".join(limits)
            message = f"the limit `{self.limit}` does not bind a {kind}"
            yield ValidationIssue(code="M215", message=message, at=("limit",), hint=f"a {kind} is bound by {known}")
        if _LIMITS[self.limit].is_percent:
            if self.value > 100:
                yield ValidationIssue(code="M119", message="more than 100 percent", at=("value",), hint="0 to 100")
        elif not self.value.is_integer():
            message = f"the limit `{self.limit}` is a count"
            yield ValidationIssue(code="M119", message=message, at=("value",), hint="a whole number")


class Waiver(Envelope):
    """An expiring, addressed exception to a limit."""

    kind: Literal["Waiver"] = Field(description="Which kind of manifest this is.", examples=["Waiver"])
    metadata: Metadata = Field(description="Who this manifest is, and which cluster it is about.")
    spec: WaiverSpec = Field(description="Which limit, for which policy, up to what, until when.")

    def problems_at(self, now_ms: int) -> Iterator[ValidationIssue]:
        if self.spec.expires <= now_ms:
            message = f"this waiver expired at {format_instant(self.spec.expires)} and has no effect"
            yield ValidationIssue(code="M402", message=message, at=("spec", "expires"), hint="remove it")
        if self.spec.expires > now_ms + self.spec.longest_ms:
            message = f"a waiver of `{self.spec.limit}` may last {'24 hours' if self.spec.longest_ms == DAY_MS else '30 days'} at most"
            yield ValidationIssue(
                code="M210", message=message, at=("spec", "expires"), hint="choose an earlier instant"
            )
