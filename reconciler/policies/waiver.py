"""Waiver: an expiring exception to one limit, for one policy. There is no force flag."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from reconciler.operations.base import DAY_MS, Limit
from reconciler.policies import POLICIES
from reconciler.policies.base import Envelope, ManifestModel, Metadata
from reconciler.policies.cluster import CONNECTION, LIMITS, Cluster
from reconciler.policies.fields import NAME_TEXT, Instant, matches_pattern, required, where
from reconciler.policies.validation import ValidationIssue
from reconciler.text.formatting import format_instant

LIMITS_OF: Mapping[str, tuple[Limit, ...]] = {
    **{policy.__name__: policy.OPERATION.LIMITS for policy in POLICIES},
    Cluster.__name__: (CONNECTION,),
}
"""By kind of policy: the limits that bound it. A Cluster has that of its connection."""
_LIMITS = {limit.id: limit for limit in (*LIMITS, CONNECTION)}
_PERCENT_IDS = [limit.id for limit in _LIMITS.values() if limit.is_percent]
_COUNT_IDS = [limit.id for limit in _LIMITS.values() if not limit.is_percent]
_POLICY_TEXT = f"({'|'.join(LIMITS_OF)})/{NAME_TEXT}"

if TYPE_CHECKING:
    LimitName = str
else:
    LimitName = Literal[tuple(_LIMITS)]


def _if(name: str, condition: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    return {"if": where(name, condition), "then": {"properties": then}}


_KINDS = [
    _if("policy", {"pattern": f"^{kind}/"}, {"limit": {"enum": [limit.id for limit in limits]}})
    for kind, limits in LIMITS_OF.items()
]
_PERCENT = _if("limit", {"enum": _PERCENT_IDS}, {"value": {"maximum": 100}})
_COUNT = _if("limit", {"enum": _COUNT_IDS}, {"value": {"multipleOf": 1}})


class WaiverSpec(ManifestModel):
    """The body of a Waiver."""

    model_config = ConfigDict(json_schema_extra={"allOf": [*_KINDS, _PERCENT, _COUNT]})

    policy: Annotated[
        str,
        AfterValidator(matches_pattern(_POLICY_TEXT, "KIND/NAME, such as RetentionFloor/clicks")),
        Field(json_schema_extra={"pattern": f"^{_POLICY_TEXT}$"}),
    ] = required(
        "The policy whose actions may pass the limit, or the Cluster that may connect elsewhere: KIND/NAME.",
        "RetentionFloor/clicks",
    )
    limit: LimitName = required("Which limit of the Cluster.", "recordsPercentPerTopic")
    value: Annotated[float, Field(ge=0, allow_inf_nan=False)] = required(
        "The limit for this policy's actions only; the rest of the plan keeps the Cluster's.", 100
    )
    expires: Instant = required(
        "When it ends: at most 30 days ahead, for uncleanElections at most 24 hours.", "2026-12-01T00:00:00Z"
    )

    @property
    def longest_ms(self) -> int:
        """How far ahead such a waiver may expire."""
        return _LIMITS[self.limit].waiver_max_ms

    def _issues(self) -> Iterator[ValidationIssue]:
        kind = self.policy.partition("/")[0]
        limits = [limit.id for limit in LIMITS_OF[kind]]
        if self.limit not in limits:
            message, hint = f"the limit `{self.limit}` does not bind a {kind}", f"its limits: {', '.join(limits)}"
            yield ValidationIssue("M215", message, ("limit",), hint)
        if self.limit in _PERCENT_IDS and self.value > 100:
            yield ValidationIssue("M119", "more than 100 percent", ("value",), "0 to 100")
        if self.limit in _COUNT_IDS and not self.value.is_integer():
            yield ValidationIssue("M119", f"the limit `{self.limit}` is a count", ("value",), "a whole number")


class Waiver(Envelope):
    """An expiring, addressed exception to a limit."""

    kind: Literal["Waiver"] = Field(description="Which kind of manifest this is.", examples=["Waiver"])
    metadata: Metadata = Field(description="The name of this manifest, its owner, its reason and its cluster.")
    spec: WaiverSpec = Field(description="Which limit, for which policy, up to what, until when.")

    def problems_at(self, now_ms: int) -> Iterator[ValidationIssue]:
        path = ("spec", "expires")
        if self.spec.expires <= now_ms:
            message = f"this waiver expired at {format_instant(self.spec.expires)} and has no effect"
            yield ValidationIssue("M402", message, path, "remove it")
        if self.spec.expires > now_ms + self.spec.longest_ms:
            longest = "24 hours" if self.spec.longest_ms == DAY_MS else "30 days"
            message = f"a waiver of `{self.spec.limit}` may last {longest} at most"
            yield ValidationIssue("M210", message, path, "choose an earlier instant")
