"""Computes least-privilege grants for three principals (plan, apply, elections), as kafka-acls commands.

Decided here: what is granted by name, by prefix and for all names. A prefix is granted only where no
excepted or protected name has it. Any other pattern becomes its current matches, because ACLs have no
patterns. Sends nothing.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.kafka.permissions import RequiredAccess, Requirement, Role, Selection, requirements
from reconciler.model.scan_request import ScanRequest
from reconciler.model.selector import Selector

ALL = "*"
_GLOB = "*?["


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """A cluster, or topics or groups by name or by prefix."""

    type: str
    name: str = ""
    prefixed: bool = False


Grants = Mapping[Resource, frozenset[str]]
"""Resource → operations, as kafka-acls spells them."""


def grants(required: RequiredAccess, purpose: Role, *, topics: Sequence[str], groups: Sequence[str]) -> Grants:
    """The grants for a principal of that purpose."""
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
    return _without_redundant(granted)


def _without_redundant(granted: Mapping[Resource, set[str]]) -> Grants:
    """Without grants by name that a grant for all names, or for a prefix of the name, covers."""

    def covers(wide: Resource, narrow: Resource) -> bool:
        if wide == narrow or wide.type != narrow.type:
            return False
        return wide.name == ALL or (wide.prefixed and narrow.name != ALL and narrow.name.startswith(wide.name))

    remaining = {
        narrow: frozenset(operations.difference(*(granted[wide] for wide in granted if covers(wide, narrow))))
        for narrow, operations in sorted(granted.items())
    }
    return {resource: operations for resource, operations in remaining.items() if operations}


def commands(principal: str, granted: Grants, *, bootstrap_servers: Sequence[str]) -> tuple[str, ...]:
    """One shell command per set of operations. `admin.properties` holds the administrator's connection."""
    servers = shlex.quote(",".join(bootstrap_servers))
    head = f"kafka-acls --bootstrap-server {servers} --command-config admin.properties --add --allow-principal {shlex.quote(principal)}"
    by_kind: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for resource, operations in granted.items():
        by_kind.setdefault((resource.type, resource.prefixed, tuple(sorted(operations))), []).append(resource.name)
    return tuple(_command(head, *kind, names) for kind, names in by_kind.items())


def _command(head: str, resource: str, prefixed: bool, operations: tuple[str, ...], names: Sequence[str]) -> str:
    words = [head, *(f"--operation {operation}" for operation in operations)]
    if resource == "cluster":
        words.append("--cluster")
    else:
        words += [f"--{resource} {shlex.quote(name)}" for name in names]
    if prefixed:
        words.append("--resource-pattern-type prefixed")
    return " ".join(words)


def _resources(requirement: Requirement, names: Mapping[str, Sequence[str]]) -> Iterator[Resource]:
    """Reads are harmless, so a pattern of theirs that is no prefix gets a grant for all names."""
    kind = requirement.resource
    for selection in requirement.selections:
        for selector in selection.selectors:
            prefix = _prefix(selector)
            if kind == "cluster":
                yield Resource(kind)
            elif prefix and (requirement.operation != "DELETE" or _may_select_all(selection, prefix)):
                yield Resource(kind, prefix, prefixed=True)
            elif requirement.operation == "DELETE":
                narrowed = replace(selection, selectors=(selector,))
                yield from (Resource(kind, name) for name in narrowed.matching(names[kind]))
            else:
                yield Resource(kind, ALL if selector.is_pattern else selector.text)


def _may_select_all(selection: Selection, prefix: str) -> bool:
    """Whether nothing excludes a name with this prefix."""
    hidden = selection.patterns_skip_underscore and prefix.startswith("_")
    return not hidden and all(_disjoint(prefix, excluded) for excluded in selection.excluding)


def _prefix(selector: Selector) -> str:
    """`clicks-` for `clicks-*`; empty for a pattern that is no prefix."""
    text = selector.text
    body = text.removesuffix("*")
    plain = not text.startswith("regex:") and text.endswith("*") and not any(char in body for char in _GLOB)
    return body if plain else ""


def _disjoint(prefix: str, excluded: Selector) -> bool:
    """Whether no excluded name starts with `prefix`."""
    if not excluded.is_pattern:
        return not excluded.text.startswith(prefix)
    if excluded.text.startswith("regex:"):
        return False
    literal = excluded.text[: min(excluded.text.index(char) for char in _GLOB if char in excluded.text)]
    return not (literal.startswith(prefix) or prefix.startswith(literal))
