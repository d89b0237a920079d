"""GroupRemoval: consumer groups that must be gone. Everything about the kind: fields, needs, and when a group may be removed.

EMPTY is not unused: a consumer that assigns its own partitions looks EMPTY while it works, so evidence of idleness is required.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from reconciler.model.block_reason import BlockReason, quote_group, unknown_fact
from reconciler.model.names import GROUP_KIND, Address
from reconciler.model.plan import Decision, Satisfied
from reconciler.model.scan_request import GroupRequest, ScanRequest
from reconciler.model.snapshot import ClusterSnapshot, GroupFacts, GroupState, GroupType, Unknown
from reconciler.operations.delete_group import DeleteGroup, ObservedGroup
from reconciler.operations.topic_checks import suggestion
from reconciler.policies.base import STRICT, ExactClaim, Policy, WriteAccess, claims_by_name
from reconciler.policies.fields import (
    LIST,
    PATTERN_TEXT,
    Count,
    Duration,
    Selectors,
    format_duration,
    format_instant,
    unique,
)
from reconciler.policies.validation import ValidationIssue, raise_cross_field

_ANY_PATTERN = {"properties": {"groups": {"contains": {"pattern": PATTERN_TEXT}}}, "required": ["groups"]}
_SPEC_SCHEMA: dict[str, Any] = {
    "if": _ANY_PATTERN,
    "then": {"required": ["expectAtMost"], "properties": {"idleFor": {"not": {"pattern": "^0[smhd]$"}}}},
}


class GroupRemovalSpec(BaseModel):
    """The body of a GroupRemoval."""

    model_config = STRICT | {"json_schema_extra": _SPEC_SCHEMA}

    groups: Selectors = Field(
        description="Groups that must be gone: exact names, globs or regex:….",
        examples=[["old-etl", "regex:^console-consumer-[0-9]+$"]],
    )
    except_groups: Selectors | None = Field(
        default=None, description="Never these, whatever groups says.", examples=[["console-consumer-1"]]
    )
    idle_for: Duration = Field(
        description="Without any activity in the commit log for this long; 0s gives up the evidence, exact names only.",
        examples=["3d"],
    )
    types: Annotated[tuple[Literal["classic", "consumer"], ...], LIST, AfterValidator(unique)] = Field(
        default=("classic", "consumer"),
        description="Group types that may be removed; share, streams and connect groups never are.",
        examples=[["classic", "consumer"]],
    )
    expect_at_most: Count | None = Field(
        default=None, description="Groups matched; required beside a pattern, more is refused.", examples=[200]
    )

    @model_validator(mode="after")
    def _rules(self) -> Self:
        raise_cross_field(self._problems())
        return self

    def _problems(self) -> Iterator[ValidationIssue]:
        pattern = next((index for index, selector in enumerate(self.groups) if selector.is_pattern), None)
        if pattern is None:
            return
        text = self.groups[pattern].text
        if self.expect_at_most is None:
            message = f"`{text}` is a pattern and `expectAtMost` is missing"
            hint = "add expectAtMost: how many groups it may match"
            yield ValidationIssue(code="M201", message=message, at=("groups", pattern), hint=hint)
        if self.idle_for == 0:
            message = f"`idleFor: 0s` gives up the evidence, and `{text}` is a pattern"
            yield ValidationIssue(code="M208", message=message, at=("idleFor",), hint="for exact names only")


class GroupRemoval(Policy):
    """Consumer groups that must be gone."""

    kind: Literal["GroupRemoval"] = Field(description="Which kind of manifest this is.", examples=["GroupRemoval"])
    spec: GroupRemovalSpec = Field(description="Which groups, and the evidence that they are dead.")

    def exact_claims(self) -> Iterator[ExactClaim]:
        return claims_by_name("groups", self.spec.groups, self.spec.except_groups)

    def write_access(self) -> WriteAccess:
        return WriteAccess(resource="group", selectors=self.spec.groups, excluding=self.spec.except_groups or ())


Subjects = Mapping[str, bool]
"""Group ids to decide, each with whether an exact selector named it. An exact name may be one that the cluster does not list."""

REMOVABLE = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})
"""The only types that are ever removed: DeleteGroups takes share groups just as easily (KIP-932)."""


def needs(policy: GroupRemoval, observed_at_ms: int) -> ScanRequest:  # noqa: ARG001  every kind is asked alike
    """What this policy wants to know: commits of the groups it selects and, unless it gave that up, when they were last active."""
    spec = policy.spec
    want = GroupRequest(groups=spec.groups, except_groups=spec.except_groups or (), activity=spec.idle_for > 0)
    return ScanRequest(groups=(want,))


def decide(policy: GroupRemoval, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
    """One decision per group. `subjects` are group ids."""
    for group, exact in subjects.items():
        address = Address(GROUP_KIND, policy.metadata.name, group)
        decision = _decide(policy, group, exact, snapshot, address)
        if isinstance(decision, BlockReason):
            yield decision.blocked_or_skipped(address, policy.declared_at, exact=exact)
        else:
            yield decision


def _decide(
    policy: GroupRemoval, group: str, exact: bool, snapshot: ClusterSnapshot, address: Address
) -> Decision | BlockReason:
    facts = snapshot.groups.get(group)
    if facts is None or not facts.listed:
        return absence_block(group, facts, snapshot) or Satisfied(address)
    if isinstance(facts.type, Unknown):
        return unknown_fact(f"the type of group {quote_group(group)}", facts.type)
    if facts.type.value not in policy.spec.types:
        return _wrong_type(group, facts.type, policy.spec.types)
    if isinstance(facts.state, Unknown):
        return unknown_fact(f"the state of group {quote_group(group)}", facts.state)
    if facts.state is GroupState.UNKNOWN:
        return unknown_fact(f"the state of group {quote_group(group)}", Unknown("its coordinator says UNKNOWN"))
    if facts.state is not GroupState.EMPTY:
        return BlockReason(
            code="B303",
            reason=f"group {quote_group(group)} is {facts.state}, not EMPTY: it is in use",
            next_step="stop its members first, or take it out of groups",
        )
    evidence = _evidence(facts, policy.spec.idle_for, snapshot.observed_at_ms, exact=exact)
    if isinstance(evidence, BlockReason):
        return evidence
    if isinstance(facts.fingerprint, Unknown):
        return unknown_fact(f"the commits of group {quote_group(group)}", facts.fingerprint)
    if isinstance(facts.commits, Unknown):
        return unknown_fact(f"the number of commits of group {quote_group(group)}", facts.commits)
    if isinstance(facts.commit_topics, Unknown):
        return unknown_fact(f"the topics that group {quote_group(group)} has commits on", facts.commit_topics)
    return DeleteGroup(
        address=address,
        declared_at=policy.declared_at,
        reason=f"EMPTY, {evidence.words}",
        mode=policy.mode,
        group=group,
        idle_for_ms=policy.spec.idle_for,
        seen=ObservedGroup(
            type=facts.type,
            state=facts.state,
            commits=facts.commits,
            commit_topics=facts.commit_topics,
            fingerprint=facts.fingerprint,
            last_activity_ms=evidence.last_activity_ms,
            newest_record=evidence.newest_record,
        ),
    )


@dataclass(frozen=True, slots=True)
class IdleEvidence:
    """Why a group counts as idle; without times where an exact name gave the evidence up."""

    words: str
    last_activity_ms: int | None = None
    newest_record: tuple[int, int] | None = None


def _evidence(facts: GroupFacts, idle_for_ms: int, observed_at_ms: int, *, exact: bool) -> IdleEvidence | BlockReason:
    """Idle for long enough by what the commit log holds. No evidence is unread, not idle."""
    group = quote_group(facts.group)
    if idle_for_ms == 0:
        if exact:
            # Brokers leave commits on such topics out of their answer, and only the log, which is not asked here, would show them.
            return IdleEvidence(
                "and idleFor 0s asks for no evidence that it is idle; commits on topics that this principal may not describe go, too, and are not counted"
            )
        return BlockReason(
            code="B305",
            reason=f"idleFor 0s gives up the evidence that {group} is idle, and a pattern selected it",
            next_step="name the group exactly, or ask for a time of idleness",
        )
    last = facts.last_activity_ms
    if isinstance(last, Unknown):
        return unknown_fact(f"when group {group} was last active", last)
    if isinstance(facts.newest_record, Unknown):
        return unknown_fact(f"the newest record of group {group} in the commit log", facts.newest_record)
    idle_ms = observed_at_ms - last
    if idle_ms < idle_for_ms:
        return BlockReason(
            code="B304",
            reason=f"group {group} was active at {format_instant(last)}, and idleFor is {format_duration(idle_for_ms)}",
            next_step="wait, or take it out of groups if something still uses it",
        )
    return IdleEvidence(f"no activity since {format_instant(last)}", last, facts.newest_record)


def absence_block(group: str, facts: GroupFacts | None, snapshot: ClusterSnapshot) -> BlockReason | None:
    """None: it is gone, and the listing is proof. Missing rights make a group look absent, and hidden types are never listed.

    Facts of a group that is not listed mean that the commit log or the old list call still know something living of it.
    """
    if facts is not None:
        if isinstance(facts.type, Unknown):
            return unknown_fact(f"the type of group {quote_group(group)}", facts.type)
        if facts.type not in REMOVABLE:
            return _wrong_type(group, facts.type, ())
        why = "is not listed, but the cluster still holds something of it"
    elif snapshot.groups_incomplete is None:
        return None
    else:
        hint = suggestion(group, snapshot.groups)
        why = f"is not listed, but the list is incomplete: {snapshot.groups_incomplete.reason}{hint}"
    return BlockReason(
        code="B301",
        reason=f"group {quote_group(group)} {why}",
        next_step="grant DESCRIBE on the cluster and on the group (`doctor` tells which right is missing), then plan again",
        unread=True,
    )


def _wrong_type(group: str, type_: GroupType, types: Iterable[str]) -> BlockReason:
    if type_ in REMOVABLE:
        return BlockReason(
            code="B302",
            reason=f"{quote_group(group)} is a {type_} group; types allows {' and '.join(types)} only",
            next_step="take it out of groups, or correct types",
        )
    kind = "of a type that the cluster does not tell" if type_ is GroupType.HIDDEN else f"a {type_} group"
    return BlockReason(
        code="B302",
        reason=f"{quote_group(group)} is {kind}; only {' and '.join(sorted(REMOVABLE))} groups are ever removed",
        next_step="take it out of groups",
    )
