"""Computes least-privilege grants for three principals (plan, apply, elections), as kafka-acls commands.

Decided here: what is granted by name, by prefix and for all names. A prefix is granted only where no
excepted or protected name has it. Any other pattern becomes its current matches, because ACLs have no
patterns. Sends nothing.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.kafka.permissions import RequiredAccess, Requirement, Role, Selection, requirements
from reconciler.model.scan_request import ScanRequest
from reconciler.model.selector import Selector

ALL = "*"
_PREFIX_PATTERN = re.compile(r"(?!regex:)([^*?\[]+)\*")
_LITERAL = re.compile(r"[^*?\[]*")


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """A cluster, or topics or groups by name or by prefix."""

    type: str
    name: str = ""
    prefixed: bool = False

    def covers(self, other: "Resource") -> bool:
        """Whether a grant for all names, or for a prefix, makes the grant for `other` redundant."""
        if self == other or self.type != other.type:
            return False
        return self.name == ALL or (self.prefixed and other.name != ALL and other.name.startswith(self.name))


Grants = Mapping[Resource, frozenset[str]]
"""Resource → operations, as kafka-acls spells them."""


def grants(required: RequiredAccess, purpose: Role, *, topics: Sequence[str], groups: Sequence[str]) -> Grants:
    """The grants for a principal of that purpose, none of which another one covers."""
    if purpose is Role.ELECTIONS:
        # The other policies belong to the other principals.
        metadata_only = tuple(request for request in required.needs.topics if not request.offsets)
        required = replace(required, needs=ScanRequest(topics=metadata_only), purges=(), removals=())
    granted: dict[Resource, set[str]] = {}
    for requirement in requirements(required):
        if requirement.purpose in (Role.PLAN, purpose):
            # DESCRIBE_CONFIGS → DescribeConfigs
            operation = requirement.operation.title().replace("_", "")
            for resource in _resources(requirement, {"topic": topics, "group": groups}):
                granted.setdefault(resource, set()).add(operation)
    necessary = {
        resource: frozenset(operations.difference(*(granted[wide] for wide in granted if wide.covers(resource))))
        for resource, operations in sorted(granted.items())
    }
    return {resource: operations for resource, operations in necessary.items() if operations}


def commands(principal: str, granted: Grants, *, bootstrap_servers: Sequence[str]) -> Iterator[str]:
    """One shell command per set of operations. `admin.properties` holds the administrator's connection."""
    servers = shlex.quote(",".join(bootstrap_servers))
    head = f"kafka-acls --bootstrap-server {servers} --command-config admin.properties --add --allow-principal {shlex.quote(principal)}"
    by_kind: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for resource, operations in granted.items():
        by_kind.setdefault((resource.type, resource.prefixed, tuple(sorted(operations))), []).append(resource.name)
    for (kind, prefixed, sorted_operations), names in by_kind.items():
        words = [head, *(f"--operation {operation}" for operation in sorted_operations)]
        words += ["--cluster"] if kind == "cluster" else [f"--{kind} {shlex.quote(name)}" for name in names]
        yield " ".join([*words, "--resource-pattern-type prefixed"] if prefixed else words)


def _resources(requirement: Requirement, names: Mapping[str, Sequence[str]]) -> Iterator[Resource]:
    """Reads are harmless, so a pattern of theirs that is no prefix gets a grant for all names."""
    kind, is_deletion = requirement.resource, requirement.operation == "DELETE"
    for selection in requirement.selections:
        for selector in selection.selectors:
            prefix = _PREFIX_PATTERN.fullmatch(selector.text)
            if kind == "cluster":
                yield Resource(kind)
            elif prefix and not (is_deletion and _may_except(selection, prefix[1])):
                yield Resource(kind, prefix[1], prefixed=True)
            elif is_deletion:
                narrowed = replace(selection, selectors=(selector,))
                yield from (Resource(kind, name) for name in narrowed.matching(names[kind]))
            else:
                yield Resource(kind, ALL if selector.is_pattern else selector.text)


def _may_except(selection: Selection, prefix: str) -> bool:
    """Whether the selection may leave out a name with this prefix."""

    def may_match(selector: Selector) -> bool:
        literal = _LITERAL.match(selector.text)
        assert literal is not None
        overlaps = literal[0].startswith(prefix) or (selector.is_pattern and prefix.startswith(literal[0]))
        return overlaps or selector.text.startswith("regex:")

    hidden = selection.patterns_skip_underscore and prefix.startswith("_")
    return hidden or any(map(may_match, selection.excluding))
