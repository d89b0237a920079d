"""Reads which of the required permissions the caller holds. Reads only.

Brokers answer a description with the operations that the caller may use. A permission that could not
be read is Unknown, neither held nor missing. Which principal needs which permission: acls.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation, AdminClient

from reconciler.kafka.futures import Deadline, batched, call_with_retry, code_of, done_unless, reason_of
from reconciler.kafka.group_offsets import NO_ANSWER
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import COMMIT_LOG_TOPIC, NO_BROKER_ANSWER, is_final_answer, send_descriptions
from reconciler.kafka.worker_process import ClientPool
from reconciler.model.scan_request import ScanRequest
from reconciler.model.selector import Selector, select
from reconciler.model.snapshot import Unknown

_PER_CALL = 500
_TRIES = 2
_NO_INTENT = "no intent can be stored, so apply sends nothing"
_NO_HISTORY = "the actions of an interrupted run cannot be read: the next run does not report them"
_MAX_GROUPS = 2_000
"""Groups whose permissions are read. They are granted by name or prefix, so more groups tell no more."""


class Role(StrEnum):
    """The purpose of a permission. ELECTIONS stands apart: its permission can grant every other."""

    PLAN = "plan"
    APPLY = "apply"
    ELECTIONS = "elections"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Names that some policies select. `excluding`: excepted or protected names."""

    selectors: tuple[Selector, ...]
    excluding: tuple[Selector, ...] = ()
    patterns_skip_underscore: bool = False

    def matching(self, names: Iterable[str]) -> tuple[str, ...]:
        """The selected names, sorted. Exact names are selected even if they are not in `names`."""
        exact = {selector.text for selector in self.selectors if not selector.is_pattern}
        return tuple(
            select(
                {*names, *exact},
                self.selectors,
                excluding=self.excluding,
                patterns_skip_underscore=self.patterns_skip_underscore,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredAccess:
    """What the manifests require of a cluster: facts for plans, and subjects that apply may change."""

    needs: ScanRequest
    purges: tuple[Selection, ...] = ()
    removals: tuple[Selection, ...] = ()
    elections: bool = False
    journal_topic: str | None = None

    @property
    def purge_clock(self) -> bool:
        """Whether some policy has an `every`, which reads the journal."""
        return any(request.last_purge for request in self.needs.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """One required permission for resources of one type.

    `missing` and `unread` are names; the cluster's name is empty. `total`: number of resources.
    `breaks`: what does not work without the permission.
    """

    purpose: Role
    operation: str
    resource: str
    total: int
    missing: tuple[str, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    breaks: str

    @property
    def held(self) -> bool:
        """Whether the permission is held for every resource."""
        return not self.missing and not self.unread


Operations = Mapping[str, frozenset[str] | Unknown]


def check(
    session: KafkaSession, required: RequiredAccess, *, topics: Sequence[str], groups: Sequence[str]
) -> tuple[tuple[Permission, ...], tuple[str, ...]]:
    """Each required permission, and sentences about permissions beyond those that planning needs.

    `topics`, `groups`: the names that the caller can see.
    """
    request = required.needs
    read = _selected((Selection(selectors=n.topics, excluding=n.except_topics) for n in request.topics), topics)
    floors = _selected(
        (Selection(selectors=n.topics, excluding=n.except_topics) for n in request.topics if n.offsets), topics
    )
    purged = _selected(required.purges, topics)
    removed = _selected(required.removals, groups)
    described = _selected((Selection(selectors=n.groups, excluding=n.except_groups) for n in request.groups), groups)
    consumers = tuple(sorted(groups)) if request.readers else ()
    read_groups = tuple(sorted({*described, *removed, *consumers[:_MAX_GROUPS]}))
    commit_log = [COMMIT_LOG_TOPIC] if request.commit_log else []
    journal = [required.journal_topic] if required.journal_topic else []
    cluster = _cluster(session)
    by_topic = _topics(session, sorted({*read, *purged, *commit_log, *journal}))
    by_group = _groups(session, read_groups)

    def permission(purpose: Role, operation: str, resource: str, names: Iterable[str], breaks: str) -> Permission:
        operations = {"cluster": cluster, "topic": by_topic, "group": by_group}[resource]
        return _permission(purpose, operation, resource, tuple(names), operations, breaks)

    permissions = [
        permission(
            Role.PLAN,
            "DESCRIBE",
            "cluster",
            ("",),
            "brokers leave groups out without an error, so a group's absence proves nothing: floors and removals are blocked",
        ),
        permission(
            Role.PLAN, "DESCRIBE", "topic", read, "these topics cannot be seen: policies that select them are blocked"
        ),
        permission(
            Role.PLAN,
            "DESCRIBE_CONFIGS",
            "topic",
            floors,
            "it is unknown whether these topics are compacted: their floors are blocked",
        ),
        permission(
            Role.PLAN,
            "DESCRIBE",
            "group",
            read_groups,
            "the positions of these groups cannot be read: floors on their topics are blocked, and so is their removal",
        ),
        permission(
            Role.PLAN,
            "READ",
            "topic",
            commit_log,
            "the last activity of groups cannot be read, nor groups that no list shows: removals and floors are blocked",
        ),
        permission(
            Role.PLAN,
            "READ",
            "topic",
            journal if required.purge_clock else (),
            "the purge clock cannot be read: policies with `every` are blocked",
        ),
        permission(Role.APPLY, "DELETE", "topic", purged, "apply cannot delete these topics' records"),
        permission(Role.APPLY, "DELETE", "group", removed, "apply cannot remove these groups"),
        permission(Role.APPLY, "READ", "topic", () if required.purge_clock else journal, _NO_HISTORY),
        permission(Role.APPLY, "WRITE", "topic", journal, _NO_INTENT),
    ]
    if required.elections:
        permissions += [
            permission(Role.ELECTIONS, "ALTER", "cluster", ("",), "apply cannot elect leaders"),
            permission(Role.ELECTIONS, "READ", "topic", journal, _NO_HISTORY),
            permission(Role.ELECTIONS, "WRITE", "topic", journal, _NO_INTENT),
        ]
    return tuple(p for p in permissions if p.total), tuple(_beyond(cluster, by_topic, by_group, journal))


def _selected(selections: Iterable[Selection], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({name for selection in selections for name in selection.matching(names)}))


def _permission(
    purpose: Role, operation: str, resource: str, names: tuple[str, ...], operations: Operations, breaks: str
) -> Permission:
    missing = []
    unread = []
    existing = tuple(name for name in names if name in operations)
    for name in existing:
        match operations[name]:
            case Unknown(reason):
                unread.append((name, reason))
            case held if operation not in held:
                missing.append(name)
    return Permission(
        purpose=purpose,
        operation=operation,
        resource=resource,
        total=len(existing),
        missing=tuple(missing),
        unread=tuple(unread),
        breaks=breaks,
    )


def _beyond(cluster: Operations, topics: Operations, groups: Operations, journal: Sequence[str]) -> Iterable[str]:
    held = cluster[""]
    if not isinstance(held, Unknown) and "ALTER" in held:
        yield "ALTER on the cluster: this principal can grant every permission to itself and to others"
    for operation in ("DELETE", "WRITE", "ALTER"):
        count = sum(
            operation in held
            for topic, held in topics.items()
            if not isinstance(held, Unknown) and topic not in journal
        )
        if count:
            yield f"{operation} on {count} of {len(topics)} topics"
    count = sum("DELETE" in held for held in groups.values() if not isinstance(held, Unknown))
    if count:
        yield f"DELETE on {count} of {len(groups)} groups"


def _cluster(session: KafkaSession) -> Operations:
    def send(client: AdminClient, names: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        described = client.describe_cluster(include_authorized_operations=True, request_timeout=limit_s)
        return dict.fromkeys(names, described)

    answers = session.read([""], send, is_final=done_unless(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    return {name: _operations(answer) for name, answer in answers.items()}


def _topics(session: KafkaSession, names: Sequence[str]) -> Operations:
    def send(client: AdminClient, part: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        return send_descriptions(client, part, limit_s, permissions=True)

    return _existing(session.read(names, send, is_final=is_final_answer))


def _groups(session: KafkaSession, names: Sequence[str]) -> Operations:
    if not names:
        return {}
    for _ in range(_TRIES):
        answer = session.readers.call(_groups_in_worker, tuple(names), timeout_s=session.timeout_s)
        if answer is not None:
            return answer
    return dict.fromkeys(names, NO_ANSWER)


def _groups_in_worker(clients: ClientPool, names: Sequence[str], deadline: Deadline) -> Operations:
    def send(client: AdminClient, part: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        answers: dict[str, Future[Any]] = {}
        for groups in batched(part, _PER_CALL):
            answers |= client.describe_consumer_groups(
                list(groups), include_authorized_operations=True, request_timeout=limit_s
            )
        return answers

    is_final = done_unless(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.GROUP_ID_NOT_FOUND)
    return _existing(call_with_retry(clients.client, names, send, is_final=is_final, deadline=deadline))


def _existing(answers: Mapping[str, Future[Any]]) -> Operations:
    """Without the topics and groups that do not exist."""
    return {
        name: _operations(answer)
        for name, answer in answers.items()
        if not (answer.done() and code_of(answer.exception()) in _ABSENT)
    }


_ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})
_DENIED = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)


def _operations(answer: Future[Any]) -> frozenset[str] | Unknown:
    if not answer.done():
        return NO_BROKER_ANSWER
    error = answer.exception()
    if error is not None:
        return frozenset() if code_of(error) in _DENIED else Unknown(reason_of(error))
    # None, for the cluster: the caller may not describe it, and so holds nothing that implies DESCRIBE.
    held: Sequence[AclOperation] = answer.result().authorized_operations or ()
    return frozenset(operation.name for operation in held)
