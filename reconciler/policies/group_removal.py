"""GroupRemoval: consumer groups that must be gone.

EMPTY is not unused: a consumer that assigns its own partitions looks EMPTY while it works, so
evidence of idleness is required.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field

from reconciler.model.block_reason import BlockReason, known
from reconciler.model.plan import Decision, Satisfied
from reconciler.model.scan_request import GroupRequest, ScanRequest
from reconciler.model.snapshot import ClusterSnapshot, GroupState
from reconciler.operations import Operation
from reconciler.operations.delete_group import DeleteGroup, ObservedGroup, check_absence, check_type
from reconciler.operations.idle_groups import idle_evidence, standalone_doubt, state_elsewhere, topics_of_streams
from reconciler.policies import fields
from reconciler.policies.base import ManifestModel, Policy, Subjects, first_pattern, reviewed_only_schema
from reconciler.policies.fields import optional, required, where
from reconciler.policies.validation import FieldPath, ValidationIssue
from reconciler.text.escape import quoted

_ANY_PATTERN = where("groups", {"contains": {"pattern": fields.PATTERN_TEXT}})
_STREAMS = where("types", {"contains": {"const": "streams"}})
_NEEDS_EVIDENCE = {"properties": {"idleFor": {"not": {"pattern": fields.ZERO_TEXT}}}}
_SPEC_SCHEMA: dict[str, Any] = {
    "allOf": [
        {"if": _ANY_PATTERN, "then": {"required": ["expectAtMost"], **_NEEDS_EVIDENCE}},
        {"if": _STREAMS, "then": _NEEDS_EVIDENCE},
    ]
}


class GroupRemovalSpec(ManifestModel):
    """The body of a GroupRemoval."""

    model_config = ConfigDict(json_schema_extra=_SPEC_SCHEMA)

    groups: fields.Selectors = required(
        "Groups that must be gone: exact names, globs or regex:….", ["old-etl", "regex:^console-consumer-[0-9]+$"]
    )
    except_groups: fields.Selectors | None = optional(
        "Never these, also where groups matches them.", ["console-consumer-1"]
    )
    idle_for: fields.Duration = required(
        "Without any activity in __consumer_offsets for this long; 0s needs no evidence, exact names only.", "3d"
    )
    types: Annotated[
        tuple[Literal["classic", "consumer", "streams"], ...], fields.LIST, AfterValidator(fields.unique)
    ] = optional(
        "Group types that may be removed; share and connect groups never are, streams needs idleFor above 0s.",
        ["classic", "consumer"],
        ("classic", "consumer"),
    )
    expect_at_most: fields.Count | None = optional("Groups matched; required beside a pattern, more is refused.", 200)

    def _issues(self) -> Iterator[ValidationIssue]:
        yield from self._unbounded_pattern("groups", self.groups, self.expect_at_most)
        pattern = first_pattern(self.groups)
        if pattern is not None and self.idle_for == 0:
            message = f"`idleFor: 0s` gives up the evidence, and `{self.groups[pattern].text}` is a pattern"
            yield ValidationIssue("M208", message, ("idleFor",), "name each group, or idleFor: 3d")
        if "streams" in self.types and self.idle_for == 0:
            message = "`idleFor: 0s` gives up the evidence, and only that tells whether a Streams group has members"
            yield ValidationIssue("M208", message, ("idleFor",), "idleFor: 1s, or types without streams")


class GroupRemoval(Policy):
    """Consumer groups that must be gone."""

    model_config = ConfigDict(json_schema_extra=reviewed_only_schema(where("idleFor", {"pattern": fields.ZERO_TEXT})))

    ABSENCE_IS_DESIRED: ClassVar[bool] = True
    OPERATION: ClassVar[type[Operation]] = DeleteGroup

    kind: Literal["GroupRemoval"] = Field(description="Which kind of manifest this is.", examples=["GroupRemoval"])
    spec: GroupRemovalSpec = Field(description="Which groups, and the evidence that they are dead.")

    def reviewed_only(self) -> Iterator[tuple[FieldPath, str, str]]:
        if self.spec.idle_for == 0:
            yield ("spec", "idleFor"), "`idleFor: 0s` removes groups without evidence", "idleFor: 3d, or mode: merge"

    def scan_request(self, observed_at_ms: int) -> ScanRequest:
        """Return a request for commits and, unless `idleFor` is 0s, for the last activity."""
        idle_for_ms = self.spec.idle_for
        request = GroupRequest(
            groups=self.selectors, except_groups=self.excluding, activity=idle_for_ms > 0, idle_for_ms=idle_for_ms
        )
        return ScanRequest(groups=(request,))

    def decide(self, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
        streams = topics_of_streams(snapshot.topics, snapshot.groups)
        for group, exact in subjects.items():
            try:
                yield self._decide(group, snapshot, streams.get(group), exact=exact)
            except BlockReason as error:
                yield error.blocked_or_skipped(self.address_of(group), self.declared_at, exact=exact)

    def _decide(self, group: str, snapshot: ClusterSnapshot, topic: str | None, *, exact: bool) -> Decision:
        """Decide about one group. `topic`: of Kafka Streams that belongs to it."""
        address = self.address_of(group)
        facts = snapshot.groups.get(group)
        if facts is None or facts.listed is not True:
            check_absence(group, facts, snapshot)
            log = "" if snapshot.consumer_offsets_hidden else ", and __consumer_offsets holds nothing of it"
            return Satisfied(address, f"no group {quoted(group)} is listed{log}")
        name = quoted(group)
        type_ = check_type(group, facts, self.spec.types)
        state = known(facts.state, "the state of group", name)
        if state is GroupState.UNKNOWN:
            # ASSIGNING and RECONCILING of the new protocol (KIP-848) are UNKNOWN to the client library.
            reason = (
                f"the state of group {name} is UNKNOWN to the client library: its members may be getting partitions, or "
                "the brokers are older than Kafka 2.6 and tell no states"
            )
            next_step = "stop its members, or remove it from groups if it is in use; then plan again"
            raise BlockReason("B103", reason, next_step=next_step, unread=True)
        if state is not GroupState.EMPTY:
            raise BlockReason("B303", f"group {name} is {state}, not EMPTY: it is in use")
        words, last_activity_ms, newest_record, observations = idle_evidence(
            facts, self.spec.idle_for, snapshot.observed_at_ms, exact=exact
        )
        return DeleteGroup(
            address=address,
            declared_at=self.declared_at,
            reason=f"EMPTY, {words}",
            mode=self.mode,
            group=group,
            idle_for_ms=self.spec.idle_for,
            seen=ObservedGroup(
                type=type_,
                state=state,
                fingerprint=known(facts.fingerprint, "the commits of group", name),
                commits=known(facts.commits, "the number of commits of group", name),
                commit_topics=known(facts.commit_topics, "the number of topics with commits of group", name),
                last_activity_ms=last_activity_ms,
                newest_record=newest_record,
                observations=observations,
            ),
            caveat="; ".join(state_elsewhere(group, facts, topic) or standalone_doubt(facts) or ()),
        )
