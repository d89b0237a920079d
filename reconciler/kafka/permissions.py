"""Which of the needed rights the caller holds, told by the brokers themselves: nothing is tried that could change anything.

Brokers answer a description with the operations that the caller may use. Not here: which principal gets which right, which is in
acls.py. A right that could not be asked for is Unread, never held and never missing.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from reconciler.kafka.connect import Connection
from reconciler.kafka.futures import Deadline, call_with_retry, code_of, done_unless, reason_of
from reconciler.kafka.group_offsets import NO_ANSWER
from reconciler.kafka.topics import COMMIT_LOG_TOPIC, batched
from reconciler.kafka.worker_process import ClientPool, WorkerPool
from reconciler.model.scan_request import ScanRequest
from reconciler.model.selector import Selector, select
from reconciler.model.snapshot import Unknown

_PER_CALL = 500
_TRIES = 2
_NO_INTENT = "no intent can be stored, so apply sends nothing"
_NOT_TAKEN_UP = "what an interrupted run had begun cannot be read: the next one does not tell of it"
_GROUPS_ASKED = 2_000
"""Groups whose rights are asked for one by one; rights are granted by name or prefix, so more would tell no more."""


class Role(StrEnum):
    """What a right is needed for. ELECTIONS stands apart: the right it needs can grant every other."""

    PLAN = "plan"
    APPLY = "apply"
    ELECTIONS = "elections"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Names that some policies are about. `excluding`: excepted or protected."""

    selectors: tuple[Selector, ...]
    excluding: tuple[Selector, ...] = ()
    patterns_skip_underscore: bool = False

    def among(self, names: Iterable[str]) -> tuple[str, ...]:
        """The selected of these names, sorted; exact names are in, whether they are among them or not."""
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
    """What the manifests want of a cluster: facts to plan with, and subjects that apply may write to."""

    needs: ScanRequest
    purges: tuple[Selection, ...] = ()
    removals: tuple[Selection, ...] = ()
    elections: bool = False
    journal_topic: str | None = None

    @property
    def purge_clock(self) -> bool:
        """Whether some policy has an `every`, whose clock is the journal."""
        return any(need.last_purge for need in self.needs.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """One needed right over some resources of one type. `missing` and `unread` are names; for the cluster, its one name is ``.

    `total`: resources asked for. `breaks`: what does not work where it is missing.
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
        """Whether every one of them is held, as far as this could be asked for at all."""
        return not self.missing and not self.unread


Operations = Mapping[str, frozenset[str] | Unknown]


def check(
    connection: Connection, client: AdminClient, wanted: RequiredAccess, *, topics: Sequence[str], groups: Sequence[str]
) -> tuple[tuple[Permission, ...], tuple[str, ...]]:
    """Each needed right, and sentences about rights that the caller holds beyond planning. `topics`, `groups`: those it can see."""
    read = _selected((Selection(selectors=n.topics, excluding=n.except_topics) for n in wanted.needs.topics), topics)
    floors = _selected(
        (Selection(selectors=n.topics, excluding=n.except_topics) for n in wanted.needs.topics if n.offsets), topics
    )
    purged = _selected(wanted.purges, topics)
    removed = _selected(wanted.removals, groups)
    described = _selected(
        (Selection(selectors=n.groups, excluding=n.except_groups) for n in wanted.needs.groups), groups
    )
    readers = tuple(sorted(groups)) if wanted.needs.readers else ()
    asked_groups = tuple(sorted({*described, *removed, *readers[:_GROUPS_ASKED]}))
    special = [COMMIT_LOG_TOPIC] if wanted.needs.commit_log else []
    journal = [wanted.journal_topic] if wanted.journal_topic else []
    cluster = _cluster(connection, client)
    by_topic = _topics(connection, client, sorted({*read, *purged, *special, *journal}))
    by_group = _groups(connection, asked_groups)

    def right(purpose: Role, operation: str, resource: str, names: Iterable[str], breaks: str) -> Permission:
        operations = {"cluster": cluster, "topic": by_topic, "group": by_group}[resource]
        return _right(purpose, operation, resource, tuple(names), operations, breaks)

    rights = [
        right(
            Role.PLAN,
            "DESCRIBE",
            "cluster",
            ("",),
            "brokers leave groups out without saying so, so nothing may rest on a group's absence: floors and removals are blocked",
        ),
        right(Role.PLAN, "DESCRIBE", "topic", read, "these topics cannot be seen: whatever selects them is blocked"),
        right(
            Role.PLAN,
            "DESCRIBE_CONFIGS",
            "topic",
            floors,
            "nobody can tell whether these topics are compacted: their floors are blocked",
        ),
        right(
            Role.PLAN,
            "DESCRIBE",
            "group",
            asked_groups,
            "where these groups stand cannot be read: floors on their topics are blocked, and so is their removal",
        ),
        right(
            Role.PLAN,
            "READ",
            "topic",
            special,
            "when groups were last active cannot be read, nor groups that no list shows: removals and floors are blocked",
        ),
        right(
            Role.PLAN,
            "READ",
            "topic",
            journal if wanted.purge_clock else (),
            "the purge clock cannot be read: policies with `every` are blocked",
        ),
        right(Role.APPLY, "DELETE", "topic", purged, "apply cannot delete these topics' records"),
        right(Role.APPLY, "DELETE", "group", removed, "apply cannot remove these groups"),
        right(Role.APPLY, "READ", "topic", () if wanted.purge_clock else journal, _NOT_TAKEN_UP),
        right(Role.APPLY, "WRITE", "topic", journal, _NO_INTENT),
    ]
    if wanted.elections:
        rights.append(right(Role.ELECTIONS, "ALTER", "cluster", ("",), "apply cannot elect leaders"))
        rights.append(right(Role.ELECTIONS, "READ", "topic", journal, _NOT_TAKEN_UP))
        rights.append(right(Role.ELECTIONS, "WRITE", "topic", journal, _NO_INTENT))
    return tuple(each for each in rights if each.total), tuple(_beyond(cluster, by_topic, by_group, journal))


def _selected(selections: Iterable[Selection], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({name for selection in selections for name in selection.among(names)}))


def _right(
    purpose: Role, operation: str, resource: str, names: tuple[str, ...], operations: Operations, breaks: str
) -> Permission:
    missing = []
    unread = []
    asked = tuple(name for name in names if name in operations)  # nothing is told about what does not exist
    for name in asked:
        match operations[name]:
            case Unknown(reason):
                unread.append((name, reason))
            case held if operation not in held:
                missing.append(name)
    return Permission(
        purpose=purpose,
        operation=operation,
        resource=resource,
        total=len(asked),
        missing=tuple(missing),
        unread=tuple(unread),
        breaks=breaks,
    )


def _beyond(cluster: Operations, topics: Operations, groups: Operations, journal: Sequence[str]) -> Iterable[str]:
    held = cluster[""]
    if not isinstance(held, Unknown) and "ALTER" in held:
        yield "ALTER on the cluster: this principal can grant itself, and anyone, everything"
    for operation in ("DELETE", "WRITE", "ALTER"):
        found = [
            t for t, ops in topics.items() if not isinstance(ops, Unknown) and operation in ops and t not in journal
        ]
        if found:
            yield f"{operation} on {len(found)} of {len(topics)} topics asked for"
    found = [g for g, ops in groups.items() if not isinstance(ops, Unknown) and "DELETE" in ops]
    if found:
        yield f"DELETE on {len(found)} of {len(groups)} groups asked for"


def _cluster(connection: Connection, client: AdminClient) -> Operations:
    def call(wanted: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        return {
            name: client.describe_cluster(include_authorized_operations=True, request_timeout=limit_s)
            for name in wanted
        }

    answers = call_with_retry(
        client, [""], call, enough=done_unless(KafkaError.CLUSTER_AUTHORIZATION_FAILED), timeout_s=connection.timeout_s
    )
    return {name: _operations(answer) for name, answer in answers.items()}


def _topics(connection: Connection, client: AdminClient, names: Sequence[str]) -> Operations:
    def call(wanted: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        answers: dict[str, Future[Any]] = {}
        for part in batched(wanted, _PER_CALL):
            answers |= client.describe_topics(
                TopicCollection(list(part)), include_authorized_operations=True, request_timeout=limit_s
            )
        return answers

    enough = done_unless(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART)
    return _existing(call_with_retry(client, names, call, enough=enough, timeout_s=connection.timeout_s))


def _groups(connection: Connection, names: Sequence[str]) -> Operations:
    if not names:
        return {}
    children = WorkerPool(connection)
    try:
        for _ in range(_TRIES):
            found = children.call(_by_coordinators, tuple(names), timeout_s=connection.timeout_s)
            if found is not None:
                return found
    finally:
        children.close()
    return dict.fromkeys(names, NO_ANSWER)


def _by_coordinators(clients: ClientPool, names: Sequence[str], deadline: Deadline) -> Operations:
    def call(wanted: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        answers: dict[str, Future[Any]] = {}
        for part in batched(wanted, _PER_CALL):
            answers |= clients.first.describe_consumer_groups(
                list(part), include_authorized_operations=True, request_timeout=limit_s
            )
        return answers

    enough = done_unless(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.GROUP_ID_NOT_FOUND)
    return _existing(call_with_retry(clients.first, names, call, enough=enough, timeout_s=deadline.left_s))


def _existing(answers: Mapping[str, Future[Any]]) -> Operations:
    def gone(answer: Future[Any]) -> bool:
        return answer.done() and code_of(answer.exception()) in _ABSENT

    return {name: _operations(answer) for name, answer in answers.items() if not gone(answer)}


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
        return Unknown("no broker answered in time")
    failure = answer.exception()
    if failure is not None:
        if code_of(failure) in _DENIED:
            return frozenset()
        return Unknown(reason_of(failure))
    # None, for the cluster: the caller may not describe it, and so holds nothing that implies DESCRIBE.
    held: Sequence[AclOperation] = answer.result().authorized_operations or ()
    return frozenset(operation.name for operation in held)
