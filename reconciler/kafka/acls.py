"""Computes least-privilege grants for three principals (plan, apply, elections), as kafka-acls commands.

Decided here: what is granted by name, by prefix and for all names. A prefix is granted only where no
excepted or protected name has it. Any other pattern becomes its current matches, because ACLs have no
patterns. Sends nothing.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.kafka.permissions import RequiredAccess, Role, Selection
from reconciler.kafka.topics import COMMIT_LOG_TOPIC
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
    """The grants for a principal of that purpose. Apply needs those of plan, too: it rechecks every action."""
    granted: dict[Resource, set[str]] = {}

    def grant(operation: str, resources: Iterable[Resource]) -> None:
        for resource in resources:
            granted.setdefault(resource, set()).add(operation)

    for operation, resource in _to_read(required, elections_only=purpose is Role.ELECTIONS):
        grant(operation, [resource])
    if purpose is Role.APPLY:
        grant("Delete", _to_write("topic", required.purges, topics))
        grant("Delete", _to_write("group", required.removals, groups))
    if purpose is Role.ELECTIONS:
        grant("Alter", [Resource("cluster")])
    if purpose is not Role.PLAN and required.journal_topic:
        grant("Read", [Resource("topic", required.journal_topic)])
        grant("Write", [Resource("topic", required.journal_topic)])
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


def _to_read(required: RequiredAccess, *, elections_only: bool) -> Iterator[tuple[str, Resource]]:
    yield "Describe", Resource("cluster")
    request = required.needs
    read = [need for need in request.topics if not (elections_only and need.offsets)]
    for resource in _read(selector for need in read for selector in need.topics):
        yield "Describe", resource
    if elections_only:
        return
    if request.cluster_records:
        yield "Describe", Resource("topic", ALL)
    for resource in _read(selector for need in request.topics if need.offsets for selector in need.topics):
        yield "DescribeConfigs", resource
    if request.readers:
        yield "Describe", Resource("group", ALL)
    for resource in _read((selector for need in request.groups for selector in need.groups), type="group"):
        yield "Describe", resource
    if request.commit_log:
        yield "Read", Resource("topic", COMMIT_LOG_TOPIC)
    if required.purge_clock and required.journal_topic:
        yield "Read", Resource("topic", required.journal_topic)


def _read(selectors: Iterable[Selector], type: str = "topic") -> Iterator[Resource]:  # noqa: A002
    """Reads are harmless, so a pattern that is no prefix gets a grant for all names."""
    for selector in selectors:
        if not selector.is_pattern:
            yield Resource(type, selector.text)
        elif prefix := _prefix(selector):
            yield Resource(type, prefix, prefixed=True)
        else:
            yield Resource(type, ALL)


def _to_write(type: str, selections: Iterable[Selection], names: Sequence[str]) -> Iterator[Resource]:  # noqa: A002
    for selection in selections:
        exact = tuple(s for s in selection.selectors if not s.is_pattern)
        patterns = tuple(s for s in selection.selectors if s.is_pattern)
        for name in _narrowed(selection, exact).matching(names):
            yield Resource(type, name)
        for pattern in patterns:
            prefix = _prefix(pattern)
            hidden = selection.patterns_skip_underscore and prefix.startswith("_")
            if prefix and not hidden and all(_disjoint(prefix, excluded) for excluded in selection.excluding):
                yield Resource(type, prefix, prefixed=True)
            else:
                for name in _narrowed(selection, (pattern,)).matching(names):
                    yield Resource(type, name)


def _narrowed(selection: Selection, selectors: tuple[Selector, ...]) -> Selection:
    return Selection(
        selectors=selectors,
        excluding=selection.excluding,
        patterns_skip_underscore=selection.patterns_skip_underscore,
    )


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
