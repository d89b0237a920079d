"""One entry of the journal and its line: an intent before a request, an outcome after it.

Where the lines are stored is decided in journal/file.py and kafka/journal_topic.py.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reconciler.model.action import Action
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.text.escape import harmless_json

FORMAT = 1


class Event(StrEnum):
    """INTENT: stored before a request is sent, once per attempt. OUTCOME: what became of the action in that run."""

    INTENT = "intent"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who runs this, and from which commit of the manifests; None: not known."""

    who: str | None = None
    commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One event of one action. `at_ms`: epoch milliseconds. `request`: what the request asks for, in words of the plan file.

    `status`, `detail`, `code`, `read_back`, `sends`, `removed_max`: of an outcome only, as in `Outcome`.
    """

    event: Event
    at_ms: int
    run_id: str
    plan_digest: str
    address: Address
    operation: str
    request: tuple[tuple[str, str | int], ...]
    author: Author = Author()
    status: Status | None = None
    detail: str | None = None
    code: str | None = None
    read_back: str | None = None
    sends: int | None = None
    removed_max: int | None = None

    @property
    def partition(self) -> TopicPartition | None:
        """The partition of a record deletion; None for the other operations."""
        if self.operation != "delete_records":
            return None
        return TopicPartition(self.address.name, self.address.partition)

    def as_json(self) -> dict[str, Any]:
        """The object of one journal line."""
        line: dict[str, Any] = {
            "v": FORMAT,
            "at_ms": self.at_ms,
            "event": self.event.value,
            "run": self.run_id,
            "plan": self.plan_digest,
            "address": [self.address.kind, self.address.policy, self.address.name, self.address.partition],
            "operation": self.operation,
            "request": dict(self.request),
            "who": self.author.who,
            "commit": self.author.commit,
        }
        if self.event is Event.OUTCOME:
            line |= {
                "status": None if self.status is None else self.status.value,
                "detail": self.detail,
                "code": self.code,
                "read_back": self.read_back,
                "sends": self.sends,
                "removed_max": self.removed_max,
            }
        return line


def intents(
    actions: Sequence[Action], *, run_id: str, plan_digest: str, at_ms: int, author: Author
) -> list[JournalEntry]:
    """The entries to store before `actions` are sent."""
    return [
        JournalEntry(
            event=Event.INTENT,
            at_ms=at_ms,
            run_id=run_id,
            plan_digest=plan_digest,
            address=action.address,
            operation=action.OPERATION,
            request=tuple(action.request().items()),
            author=author,
        )
        for action in actions
    ]


def outcomes(
    ended: Sequence[Outcome], *, run_id: str, plan_digest: str, at_ms: int, author: Author
) -> list[JournalEntry]:
    """The entries that say what became of actions."""
    return [
        JournalEntry(
            event=Event.OUTCOME,
            at_ms=at_ms,
            run_id=run_id,
            plan_digest=plan_digest,
            address=outcome.action.address,
            operation=outcome.action.OPERATION,
            request=tuple(outcome.action.request().items()),
            author=author,
            status=outcome.status,
            detail=outcome.detail,
            code=outcome.code,
            read_back=outcome.read_back,
            sends=outcome.sends,
            removed_max=outcome.removed_max,
        )
        for outcome in ended
    ]


def dump(entry: JournalEntry) -> str:
    """One line of ASCII JSON without its newline."""
    return harmless_json(json.dumps(entry.as_json(), ensure_ascii=True, separators=(",", ":")))


def parse(line: str | bytes) -> JournalEntry:
    """The inverse of `dump`. Raises ValueError for anything else."""
    try:
        read = json.loads(line)
        if read["v"] != FORMAT:
            raise ValueError(f"journal format {read['v']!r} is not {FORMAT}: it was written by another version")
        status = read.get("status")
        return JournalEntry(
            event=Event(read["event"]),
            at_ms=int(read["at_ms"]),
            run_id=str(read["run"]),
            plan_digest=str(read["plan"]),
            address=Address(*read["address"]),
            operation=str(read["operation"]),
            request=tuple(read["request"].items()),
            author=Author(who=read["who"], commit=read["commit"]),
            status=None if status is None else Status(status),
            detail=read.get("detail"),
            code=read.get("code"),
            read_back=read.get("read_back"),
            sends=read.get("sends"),
            removed_max=read.get("removed_max"),
        )
    except (KeyError, TypeError, AttributeError) as missing:
        raise ValueError(f"not a journal entry: {missing!r}") from None
