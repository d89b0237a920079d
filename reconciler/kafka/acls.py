"""The grants that let one principal plan, another apply, a third elect, and none of them anything more: text for kafka-acls.

Decided here: what is granted by name, by prefix and for all. A prefix is granted only where no excepted or protected name lies
under it; any other pattern becomes the names that it matches now, since ACLs know no patterns. Nothing is sent anywhere.
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


def grants(wanted: RequiredAccess, purpose: Role, *, topics: Sequence[str], groups: Sequence[str]) -> Grants:
    """What a principal of that purpose needs: everything that planning needs, since apply looks again before it writes."""
    found: dict[Resource, set[str]] = {}

    def grant(operation: str, resources: Iterable[Resource]) -> None:
        for resource in resources:
            found.setdefault(resource, set()).add(operation)

    for operation, resource in _to_read(wanted, elections_only=purpose is Role.ELECTIONS):
        grant(operation, [resource])
    if purpose is Role.APPLY:
        grant("Delete", _to_write("topic", wanted.purges, topics))
        grant("Delete", _to_write("group", wanted.removals, groups))
    if purpose is Role.ELECTIONS:
        grant("Alter", [Resource("cluster")])
    if purpose is not Role.PLAN and wanted.journal_topic:
        grant("Read", [Resource("topic", wanted.journal_topic)])
        grant("Write", [Resource("topic", wanted.journal_topic)])
    return _without_repetition(found)


def _without_repetition(found: Mapping[Resource, set[str]]) -> Grants:
    """Nothing is granted by name that is granted for all, or for a prefix of the name."""

    def covers(wide: Resource, narrow: Resource) -> bool:
        if wide == narrow or wide.type != narrow.type:
            return False
        return wide.name == ALL or (wide.prefixed and narrow.name != ALL and narrow.name.startswith(wide.name))

    left = {
        narrow: frozenset(operations.difference(*(found[wide] for wide in found if covers(wide, narrow))))
        for narrow, operations in sorted(found.items())
    }
    return {resource: operations for resource, operations in left.items() if operations}


def commands(principal: str, granted: Grants, *, bootstrap_servers: Sequence[str]) -> tuple[str, ...]:
    """One line for the shell per set of operations. The administrator's own connection is in `admin.properties`."""
    servers = shlex.quote(",".join(bootstrap_servers))
    head = f"kafka-acls --bootstrap-server {servers} --command-config admin.properties --add --allow-principal {shlex.quote(principal)}"
    alike: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for resource, operations in granted.items():
        alike.setdefault((resource.type, resource.prefixed, tuple(sorted(operations))), []).append(resource.name)
    return tuple(_command(head, *kind, names) for kind, names in alike.items())


def _command(head: str, resource: str, prefixed: bool, operations: tuple[str, ...], names: Sequence[str]) -> str:
    words = [head, *(f"--operation {operation}" for operation in operations)]
    if resource == "cluster":
        words.append("--cluster")
    else:
        words += [f"--{resource} {shlex.quote(name)}" for name in names]
    if prefixed:
        words.append("--resource-pattern-type prefixed")
    return " ".join(words)


def _to_read(wanted: RequiredAccess, *, elections_only: bool) -> Iterator[tuple[str, Resource]]:
    yield "Describe", Resource("cluster")
    needs = wanted.needs
    read = [need for need in needs.topics if not (elections_only and need.offsets)]
    for resource in _read(selector for need in read for selector in need.topics):
        yield "Describe", resource
    if elections_only:
        return
    if needs.cluster_records:
        yield "Describe", Resource("topic", ALL)
    for resource in _read(selector for need in needs.topics if need.offsets for selector in need.topics):
        yield "DescribeConfigs", resource
    if needs.readers:
        yield "Describe", Resource("group", ALL)
    for resource in _read((selector for need in needs.groups for selector in need.groups), type="group"):
        yield "Describe", resource
    if needs.commit_log:
        yield "Read", Resource("topic", COMMIT_LOG_TOPIC)
    if wanted.purge_clock and wanted.journal_topic:
        yield "Read", Resource("topic", wanted.journal_topic)


def _read(selectors: Iterable[Selector], type: str = "topic") -> Iterator[Resource]:  # noqa: A002
    """Reading loses nothing, so a pattern that is no prefix may see them all."""
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
        for name in _narrowed(selection, exact).among(names):
            yield Resource(type, name)
        for pattern in patterns:
            prefix = _prefix(pattern)
            hidden = selection.patterns_skip_underscore and prefix.startswith("_")
            if prefix and not hidden and all(_apart(prefix, excluded) for excluded in selection.excluding):
                yield Resource(type, prefix, prefixed=True)
            else:
                for name in _narrowed(selection, (pattern,)).among(names):
                    yield Resource(type, name)


def _narrowed(selection: Selection, selectors: tuple[Selector, ...]) -> Selection:
    return Selection(
        selectors=selectors,
        excluding=selection.excluding,
        patterns_skip_underscore=selection.patterns_skip_underscore,
    )


def _prefix(selector: Selector) -> str:
    """`clicks-` for `clicks-*`; empty where the pattern is not just a prefix."""
    text = selector.text
    body = text.removesuffix("*")
    plain = not text.startswith("regex:") and text.endswith("*") and not any(char in body for char in _GLOB)
    return body if plain else ""


def _apart(prefix: str, excluded: Selector) -> bool:
    """Whether no name can begin with `prefix` and be excluded."""
    if not excluded.is_pattern:
        return not excluded.text.startswith(prefix)
    if excluded.text.startswith("regex:"):
        return False
    literal = excluded.text[: min(excluded.text.index(char) for char in _GLOB if char in excluded.text)]
    return not (literal.startswith(prefix) or prefix.startswith(literal))
