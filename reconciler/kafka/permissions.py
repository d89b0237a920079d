"""Which permissions the manifests require, which of them are held, and their grants. Reads only.

Brokers answer a description with the operations that the caller may use. A permission that could
not be read is Unknown, neither held nor missing. Grants are for three principals (plan, apply,
elections), as kafka-acls commands. A prefix is granted only where no excepted or protected name has
it; any other pattern becomes its current matches, because ACLs have no patterns.
"""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable, ProgramFailed
from reconciler.kafka.api_versions import DESCRIBE_GROUPS, find_untold
from reconciler.kafka.coordinators import NO_ANSWER
from reconciler.kafka.futures import DENIED, GONE, Deadline, failed_with, failure_of
from reconciler.kafka.group_listing import CLUSTER_RIGHTS
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC, send_descriptions
from reconciler.model.scan_request import PositionKind, ScanRequest
from reconciler.model.selector import Selector, may_share_name, select
from reconciler.model.snapshot import Unknown

ALL = "*"
_PREFIX_PATTERN = re.compile(r"(?!regex:)([^*?\[]+)\*")
_PER_CALL = 500
_TRIES = 2
_MAX_NAMES = 2_000
"""Number of names whose permissions are read, where every name is selected."""


class Role(StrEnum):
    """The purpose of a permission. ELECTIONS stands apart: its permission can grant every other."""

    PLAN = "plan"
    APPLY = "apply"
    ELECTIONS = "elections"


@dataclass(frozen=True, slots=True, kw_only=True)
class NameSelection:
    """Names that some policies select. `excluding`: excepted or protected names."""

    selectors: tuple[Selector, ...]
    excluding: tuple[Selector, ...] = ()
    patterns_skip_underscore: bool = False

    def matching(self, names: Iterable[str]) -> tuple[str, ...]:
        """The selected names, sorted. Exact names are selected even if they are not in `names`."""
        exact = {selector.name for selector in self.selectors if selector.name is not None}
        # Exact names only: the names of the cluster do not matter.
        names = {*names, *exact} if len(exact) < len(self.selectors) else exact
        skip = self.patterns_skip_underscore
        return tuple(select(names, self.selectors, excluding=self.excluding, patterns_skip_underscore=skip))


EVERY = NameSelection(selectors=(Selector("*"),))
"""Every name; also the selection of a cluster."""


@dataclass(frozen=True, slots=True)
class Permission:
    """An operation that a principal needs on resources. `breaks`: what fails without it.

    From `check`: the number of resources, the names without the permission, and the names (with a
    reason) whose permissions could not be read. The cluster's name is empty.
    """

    purpose: Role
    operation: str
    resource: str
    selections: Sequence[NameSelection] = ()
    breaks: str = ""
    total: int = 0
    missing: tuple[str, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()

    @property
    def exact_names(self) -> tuple[str, ...]:
        """The selected names, sorted, if no selector is a pattern; empty: one is."""
        if any(selector.is_pattern for selection in self.selections for selector in selection.selectors):
            return ()
        return self.names(())

    def names(self, visible: Sequence[str]) -> tuple[str, ...]:
        """The selected of the visible names, sorted, and of `EVERY` only the first ones."""
        names: set[str] = set()
        for selection in self.selections:
            names.update(sorted(visible)[:_MAX_NAMES] if selection == EVERY else selection.matching(visible))
        return tuple(sorted(names))


class RequiredRequest(NamedTuple):
    """A request of the program. `first`: its least sufficient version. `breaks`: what fails without it."""

    purpose: Role
    name: str
    key: int
    first: int
    breaks: str


def planning_requests(needs: ScanRequest) -> tuple[RequiredRequest, ...]:
    """Return the requests that read these facts, by name."""
    with_fetch = needs.consumer_offsets or any(part.records for part in needs.topics)
    no_position = "the positions of groups cannot be read: floors on their topics are blocked, and so is their removal"
    no_record = "neither __consumer_offsets nor records can be read: floors and removals are blocked"
    no_config = "it is unknown whether topics are compacted: their floors are blocked"
    rows = (
        (with_fetch, "Fetch", 1, 4, no_record),
        (needs.offsets, "ListOffsets", 2, 2, "the ends of partitions cannot be read: floors are blocked"),
        (bool(needs.topics), "Metadata", 3, 10, "topics have no id: floors and elections are blocked"),
        (needs.group_facts, "OffsetFetch", 9, 1, no_position),
        (needs.group_facts, "FindCoordinator", 10, 0, no_position),
        (needs.readers, "DescribeGroups", 15, 0, "what members read is not known: floors on their topics are blocked"),
        (needs.readers, "ListGroups", 16, 0, "groups are not known: floors are blocked"),
        (bool(needs.groups), "ListGroups", 16, 4, "the states of groups are not told: removals are blocked"),
        (needs.offsets, "DescribeConfigs", 32, 1, no_config),
    )
    return tuple(RequiredRequest(Role.PLAN, *row[1:]) for row in rows if row[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredAccess:
    """What the manifests require: facts for plans, and `changes`, what the requests of apply need."""

    needs: ScanRequest
    changes: tuple[Permission, ...] = ()
    journal_topic: str | None = None
    requests: tuple[RequiredRequest, ...] = ()
    """Of planning and of applying."""
    rights: tuple[tuple[str, str], ...] = ()
    """Operation and resource of the right that each request of apply needs."""


def requirements(required: RequiredAccess) -> list[Permission]:
    """All permissions that the manifests require. Applying also needs those of planning."""
    plan, apply, elections = Role
    request = required.needs
    topics = [NameSelection(selectors=n.topics, excluding=n.except_topics) for n in request.topics]
    asked = list(zip(request.topics, topics, strict=True))
    floors = [selection for n, selection in asked if n.offsets]
    with_records = [
        replace(selection, patterns_skip_underscore=n.patterns_skip_underscore) for n, selection in asked if n.records
    ]
    groups = [NameSelection(selectors=n.groups, excluding=n.except_groups) for n in request.groups]
    journal = _exactly(required.journal_topic) if required.journal_topic else []
    of_elections = journal if any(change.purpose is elections for change in required.changes) else []
    with_observations = request.without_consumer_offsets and any(part.idle_for_ms for part in request.groups)
    # Brokers leave commits on other topics out of the answer for a group.
    every_topic = [EVERY] if request.cluster_records or request.groups else []
    needs_log = request.consumer_offsets and not request.without_consumer_offsets
    syncs = (reader.at for reader in request.external if reader.kind is PositionKind.MIRROR_MAKER_SYNCS)
    # A policy with `every` reads the journal, and so does one that rests on observations.
    has_clock = with_observations or any(part.every_ms is not None for part in request.topics)
    # What does not work without each of them.
    no_listing = "brokers leave groups out without an error, so a group's absence proves nothing: floors and removals are blocked"
    no_topic = "these topics cannot be seen: policies that select them are blocked"
    no_config = "it is unknown whether these topics are compacted: their floors are blocked"
    no_group = (
        "the positions of these groups cannot be read: floors on their topics are blocked, and so is their removal"
    )
    no_consumer_offsets = (
        "the last activity of groups cannot be read, nor groups that no list shows: removals and floors are blocked"
    )
    no_record = "records cannot be looked up: rules by time are blocked, and a group counts as behind until it commits the floor"
    no_position = "positions of external readers cannot be read: floors on their topics are blocked"
    no_clock = (
        "observations of groups cannot be read: removals with idleFor above 0s are blocked"
        if with_observations
        else "the purge clock cannot be read: policies with `every` are blocked"
    )
    no_intent = "no intent can be stored, so apply sends nothing"
    no_history = "the actions of an interrupted run cannot be read: the next run does not report them"
    return [
        Permission(plan, "DESCRIBE", "cluster", [EVERY], no_listing),
        Permission(plan, "DESCRIBE", "topic", [*topics, *every_topic], no_topic),
        Permission(plan, "DESCRIBE_CONFIGS", "topic", floors, no_config),
        Permission(plan, "DESCRIBE", "group", [*groups, EVERY] if request.readers else groups, no_group),
        Permission(plan, "READ", "topic", _exactly(CONSUMER_OFFSETS_TOPIC) if needs_log else [], no_consumer_offsets),
        Permission(plan, "READ", "topic", journal if has_clock else [], no_clock),
        Permission(plan, "READ", "topic", with_records, no_record),
        Permission(plan, "READ", "topic", _exactly(*syncs), no_position),
        *required.changes,
        Permission(apply, "READ", "topic", [] if has_clock else journal, f"{no_history}, and removes no group"),
        Permission(apply, "WRITE", "topic", journal, no_intent),
        Permission(elections, "READ", "topic", of_elections, no_history),
        Permission(elections, "WRITE", "topic", of_elections, no_intent),
    ]


def _exactly(*names: str) -> list[NameSelection]:
    return [NameSelection(selectors=(Selector.literal(name),)) for name in names]


Operations = Mapping[str, frozenset[str] | Unknown]


def check(
    session: KafkaSession,
    required: RequiredAccess,
    *,
    topics: Sequence[str],
    groups: Sequence[str],
    with_unanswered: bool = True,
) -> tuple[tuple[Permission, ...], tuple[str, ...]]:
    """Return each required permission on the visible names, and sentences about all beyond planning.

    `with_unanswered` False: without names that no answer came for, where a silent broker is known:
    its silence says nothing of a right. Raises ClusterUnreachable.
    """
    visible = {"cluster": [""], "topic": topics, "group": groups}
    rows = [(permission, permission.names(visible[permission.resource])) for permission in requirements(required)]
    names: dict[str, set[str]] = {resource: set() for resource in visible}
    for permission, selected in rows:
        names[permission.resource].update(selected)
    untold = find_untold(session.api_versions(), "rights", *CLUSTER_RIGHTS)
    describe_topics = partial(send_descriptions, permissions=True)
    by_resource = {
        "cluster": _operations(session.read(sorted(names["cluster"]), _send_cluster), untold),
        "topic": _operations(session.read(sorted(names["topic"]), describe_topics), untold),
        "group": _read_groups(session, sorted(names["group"])),
    }
    permissions: list[Permission] = []
    for permission, selected in rows:
        operations = by_resource[permission.resource]
        existing = [(name, operations[name]) for name in selected if name in operations]
        if not with_unanswered:
            existing = [(name, fact) for name, fact in existing if not (isinstance(fact, Unknown) and fact.unanswered)]
        unread = tuple((name, fact.reason) for name, fact in existing if isinstance(fact, Unknown))
        missing = (
            name for name, fact in existing if not isinstance(fact, Unknown) and permission.operation not in fact
        )
        if existing:
            permissions.append(replace(permission, total=len(existing), missing=tuple(missing), unread=unread))
    return tuple(permissions), tuple(_beyond(by_resource, required))


def _beyond(by_resource: Mapping[str, Operations], required: RequiredAccess) -> Iterator[str]:
    journal = required.journal_topic
    cluster = by_resource["cluster"].get("", frozenset())
    if not isinstance(cluster, Unknown) and "ALTER" in cluster:
        yield "ALTER on the cluster: this principal can grant every permission to itself and to others"
    of_requests = [right for right in required.rights if right[1] != "cluster"]
    for operation, resource in dict.fromkeys([*of_requests, ("WRITE", "topic"), ("ALTER", "topic")]):
        count = sum(
            operation in operations
            for name, operations in by_resource[resource].items()
            if not isinstance(operations, Unknown) and (resource, name) != ("topic", journal)
        )
        if count:
            yield f"{operation} on {count} of {len(by_resource[resource])} {resource}s"


def _send_cluster(client: AdminClient, names: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
    return dict.fromkeys(names, client.describe_cluster(include_authorized_operations=True, request_timeout=limit_s))


def _read_groups(session: KafkaSession, names: Sequence[str]) -> Operations:
    if not names:
        return {}
    request = names, find_untold(session.api_versions(), "rights", "DescribeGroups", DESCRIBE_GROUPS, 3)
    try:
        answer = session.call_worker(_groups_in_worker, request, timeout_s=session.timeout_s, tries=_TRIES)
    except (ClusterUnreachable, ProgramFailed) as error:
        return dict.fromkeys(names, Unknown(str(error)))
    return dict.fromkeys(names, NO_ANSWER) if answer is None else answer


def _groups_in_worker(
    session: KafkaSession, request: tuple[Sequence[str], Unknown | None], deadline: Deadline
) -> Operations:
    names, untold = request

    def send(client: AdminClient, part: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        answers: dict[str, Future[Any]] = client.describe_consumer_groups(
            list(part), include_authorized_operations=True, request_timeout=limit_s
        )
        return answers

    # A group on whose topics a right is missing need not lack one itself.
    denied = DENIED - {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    return _operations(session.read(names, send, per_call=_PER_CALL, deadline=deadline), untold, denied)


def _operations(
    answers: Mapping[str, Future[Any]], untold: Unknown | None, denied: Collection[int] = DENIED
) -> Operations:
    """The caller's operations on each resource, without topics and groups that do not exist.

    `untold`: why an answer without operations does not mean that there are none. `denied`: errors that mean it.
    """
    operations: dict[str, frozenset[str] | Unknown] = {}
    for name, answer in answers.items():
        failure = failure_of(answer)
        if failure is None:
            # None, for the cluster: the caller may not describe it, and holds nothing.
            authorized = answer.result().authorized_operations or ()
            operations[name] = frozenset(operation.name for operation in authorized)
            if not authorized and untold is not None:
                operations[name] = untold
        elif not failed_with(answer, GONE):
            operations[name] = frozenset() if failed_with(answer, denied) else failure
    return operations


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
    """The grants for a principal of that purpose, without those that another one covers."""
    if purpose is Role.ELECTIONS:
        # The other policies belong to the other principals.
        metadata_only = tuple(request for request in required.needs.topics if not request.offsets)
        required = replace(required, needs=ScanRequest(topics=metadata_only))
    granted: dict[Resource, set[str]] = {}
    for permission in requirements(required):
        if permission.purpose in (Role.PLAN, purpose):
            # DESCRIBE_CONFIGS → DescribeConfigs
            operation = permission.operation.title().replace("_", "")
            for resource in _resources(permission, {"topic": topics, "group": groups}):
                granted.setdefault(resource, set()).add(operation)
    necessary = {
        resource: frozenset(operations.difference(*(granted[wide] for wide in granted if wide.covers(resource))))
        for resource, operations in sorted(granted.items())
    }
    return {resource: operations for resource, operations in necessary.items() if operations}


def commands(principal: str, granted: Grants, *, bootstrap_servers: Sequence[str]) -> Iterator[str]:
    """One shell command per set of operations, with the administrator's properties file."""
    servers = shlex.quote(",".join(bootstrap_servers))
    head = f"kafka-acls --bootstrap-server {servers} --command-config admin.properties --add --allow-principal {shlex.quote(principal)}"
    by_kind: dict[tuple[str, bool, tuple[str, ...]], list[str]] = {}
    for resource, operations in granted.items():
        by_kind.setdefault((resource.type, resource.prefixed, tuple(sorted(operations))), []).append(resource.name)
    for (kind, prefixed, sorted_operations), names in by_kind.items():
        words = [head, *(f"--operation {operation}" for operation in sorted_operations)]
        words += ["--cluster"] if kind == "cluster" else [f"--{kind} {shlex.quote(name)}" for name in names]
        yield " ".join([*words, "--resource-pattern-type prefixed"] if prefixed else words)


def _resources(permission: Permission, names: Mapping[str, Sequence[str]]) -> Iterator[Resource]:
    """A pattern that is not a prefix gets a grant for all names to describe, and its matches otherwise."""
    kind, is_wide = permission.resource, permission.operation.startswith("DESCRIBE")
    for selection in permission.selections:
        for selector in selection.selectors:
            prefix = _PREFIX_PATTERN.fullmatch(selector.text)
            if kind == "cluster":
                yield Resource(kind)
            elif prefix and (is_wide or not _may_except(selection, selector)):
                yield Resource(kind, prefix[1], prefixed=True)
            elif not is_wide:
                narrowed = replace(selection, selectors=(selector,))
                yield from (Resource(kind, name) for name in narrowed.matching(names[kind]))
            else:
                yield Resource(kind, ALL if selector.is_pattern else selector.text)


def _may_except(selection: NameSelection, selector: Selector) -> bool:
    """Whether the selection may leave out a name that its selector selects."""
    hidden = selection.patterns_skip_underscore and selector.text.startswith("_")
    return hidden or any(may_share_name(selector, other) for other in selection.excluding)
