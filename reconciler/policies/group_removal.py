"""GroupRemoval: consumer groups that must be gone. Everything about the kind: fields, needs, and when a group may be removed.

EMPTY is not unused: a consumer that assigns its own partitions looks EMPTY while it works, so evidence of idleness is required.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from reconciler.model.block_reason import BlockReason, quote_group, unknown_fact
from reconciler.model.plan import Decision, Satisfied
from reconciler.model.scan_request import GroupRequest, ScanRequest
from reconciler.model.snapshot import ClusterSnapshot, GroupFacts, GroupState, Unknown
from reconciler.operations import Operation
from reconciler.operations.delete_group import DeleteGroup, ObservedGroup, absence_block, wrong_type
from reconciler.operations.protection import Protection
from reconciler.policies.base import STRICT, ExactClaim, Policy, Selection, Subjects, WriteAccess, claims_by_name
from reconciler.policies.fields import LIST, PATTERN_TEXT, Count, Duration, Selectors, unique
from reconciler.policies.validation import ValidationIssue, raise_cross_field
from reconciler.text.formatting import format_duration, format_instant

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
        raise_cross_field(self._issues())
        return self

    def _issues(self) -> Iterator[ValidationIssue]:
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

    SUBJECTS: ClassVar[str] = "groups"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"groups"})
    OPERATION: ClassVar[type[Operation]] = DeleteGroup

    kind: Literal["GroupRemoval"] = Field(description="Which kind of manifest this is.", examples=["GroupRemoval"])
    spec: GroupRemovalSpec = Field(description="Which groups, and the evidence that they are dead.")

    def exact_claims(self) -> Iterator[ExactClaim]:
        return claims_by_name("groups", self.spec.groups, self.spec.except_groups)

    def write_access(self) -> WriteAccess:
        return WriteAccess(resource="group", selectors=self.spec.groups, excluding=self.spec.except_groups or ())

    def scan_request(self, observed_at_ms: int) -> ScanRequest:
        """Commits of the selected groups and, unless the policy gave that up, when they were last active."""
        spec = self.spec
        request = GroupRequest(groups=spec.groups, except_groups=spec.except_groups or (), activity=spec.idle_for > 0)
        return ScanRequest(groups=(request,))

    def select(self, snapshot: ClusterSnapshot) -> Selection:
        # The group "" exists for clients without one; it has no address, and nothing here ever touches it.
        return self._select(snapshot.groups.keys() - {""}, self.spec.groups, self.spec.except_groups)

    def protection_of(self, name: str, protection: Protection) -> BlockReason | None:
        return protection.of_group(name)

    @property
    def expect_at_most(self) -> int | None:
        return self.spec.expect_at_most

    def decide(self, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
        """One decision for each group."""
        for group, exact in subjects.items():
            decision = self._decide(group, snapshot, exact=exact)
            if isinstance(decision, BlockReason):
                yield decision.blocked_or_skipped(self.address_of(group), self.declared_at, exact=exact)
            else:
                yield decision

    def _decide(self, group: str, snapshot: ClusterSnapshot, *, exact: bool) -> Decision | BlockReason:
        address = self.address_of(group)
        facts = snapshot.groups.get(group)
        if facts is None or facts.listed is not True:
            return absence_block(group, facts, snapshot) or Satisfied(address)
        if isinstance(facts.type, Unknown):
            return unknown_fact(f"the type of group {quote_group(group)}", facts.type)
        if facts.type.value not in self.spec.types:
            return wrong_type(group, facts.type, self.spec.types)
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
        evidence = _evidence(facts, self.spec.idle_for, snapshot.observed_at_ms, exact=exact)
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
            declared_at=self.declared_at,
            reason=f"EMPTY, {evidence.words}",
            mode=self.mode,
            group=group,
            idle_for_ms=self.spec.idle_for,
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
