"""One line of the journal, and what follows from all of them: the purge clock, and what an interrupted run had begun.

Both journals, file and topic, keep these lines. Where they are kept, and how safely, is theirs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from reconciler import codec
from reconciler.errors import JournalUnavailable
from reconciler.model.action import Action
from reconciler.model.bounds import EpochMs, Total
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status

FORMAT: Literal[2] = 2


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

    v: Literal[2] = FORMAT
    at_ms: EpochMs
    event: Event
    run_id: str = field(metadata={"name": "run"})
    plan_digest: str = field(metadata={"name": "plan"})
    address: Address
    operation: str
    request: Mapping[str, str | int]
    who: str | None = None
    commit: str | None = None
    status: Status | None = None
    detail: str | None = None
    code: str | None = None
    read_back: str | None = None
    sends: int | None = None
    removed_max: Total | None = None

    @property
    def purged(self) -> TopicPartition | None:
        """The partition of a record deletion; None for the other operations."""
        if self.operation != "delete_records":
            return None
        return TopicPartition(self.address.name, self.address.partition)


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
            request=action.request(),
            who=author.who,
            commit=author.commit,
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
            request=outcome.action.request(),
            who=author.who,
            commit=author.commit,
            status=outcome.status,
            detail=outcome.detail,
            code=outcome.code,
            read_back=outcome.read_back,
            sends=outcome.sends,
            removed_max=outcome.removed_max,
        )
        for outcome in ended
    ]


_CODEC = codec.Codec(JournalEntry, omit_none=True)


def dump(entry: JournalEntry) -> str:
    """Return one line of ASCII JSON without its newline; what is not known is left out.

    Raises JournalUnavailable for a text that JSON cannot hold: without its intent nothing may be sent.
    """
    try:
        return _CODEC.encode(entry)
    except ValueError as error:
        raise JournalUnavailable(
            f"an entry cannot be stored in the journal: {error}; nothing is sent without it"
        ) from None


def parse(line: str | bytes) -> JournalEntry:
    """Return the entry that `dump` wrote. Raises ValueError for anything else."""
    text = line.decode("ascii") if isinstance(line, bytes) else line
    try:
        return _CODEC.decode(text.rstrip("\n"))
    except ValueError as error:
        read = codec.parse(text)
        version = read.get("v", FORMAT) if isinstance(read, dict) else FORMAT
        if version != FORMAT:
            raise ValueError(f"journal format {version!a} is not {FORMAT}: it was written by another version") from None
        raise ValueError(f"not a journal entry: {error}") from None


class PurgeClock:
    """The purge clock over entries in the order in which they were stored; feed it as they come.

    A purge counts from its outcome, which is stored after the request was answered, and from its intent as long as there is none. An outcome
    that proves that nothing was sent takes it back: no answer, or a refusal, is no such proof.
    """

    def __init__(self) -> None:
        self._intents: dict[TopicPartition, dict[str, int]] = {}

    def update(self, entries: Iterable[JournalEntry]) -> None:
        for entry in entries:
            partition = entry.purged
            if partition is None:
                continue
            if entry.event is Event.INTENT:
                runs = self._intents.setdefault(partition, {})
                runs[entry.run_id] = max(entry.at_ms, runs.get(entry.run_id, entry.at_ms))
            elif entry.sends == 0:
                self._intents.get(partition, {}).pop(entry.run_id, None)
            else:
                self._settle(partition, entry)

    def last_purges(self, *, but_of: str | None = None) -> dict[TopicPartition, int]:
        """Epoch ms of the newest purge of each partition, but for those of the run `but_of`."""
        others = (
            (partition, [at for run, at in runs.items() if run != but_of]) for partition, runs in self._intents.items()
        )
        return {partition: max(times) for partition, times in others if times}

    def _settle(self, partition: TopicPartition, ended: JournalEntry) -> None:
        """Forget runs that ended before this one began: a watch on the purge clock makes one every few seconds."""
        runs = self._intents.get(partition, {})
        began = runs.get(ended.run_id, ended.at_ms)
        left = {run: at for run, at in runs.items() if at >= began}
        self._intents[partition] = left | {ended.run_id: max(began, ended.at_ms)}


def open_intents(entries: Iterable[JournalEntry], plan_digest: str) -> dict[Address, JournalEntry]:
    """The newest intent of each action of that plan that no later outcome ended, of its run or of one that took it up again."""
    begun: dict[Address, dict[str, JournalEntry]] = {}
    for entry in entries:
        if entry.plan_digest != plan_digest:
            continue
        runs = begun.setdefault(entry.address, {})
        if entry.event is Event.INTENT:
            runs.pop(entry.run_id, None)
            runs[entry.run_id] = entry
        elif entry.sends == 0 and entry.status in _FOUND_NOTHING:
            runs.pop(entry.run_id, None)
        else:
            runs.clear()
    return {address: list(runs.values())[-1] for address, runs in begun.items() if runs}


_FOUND_NOTHING = (Status.NOT_ATTEMPTED, Status.WAITING)
"""Ends that tell nothing about what another run had begun."""
