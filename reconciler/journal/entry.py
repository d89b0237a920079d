"""Entries of the journal, and their lines: JSON in ASCII, the entries of one batch in one line.

An entry is an intent before a request or an outcome after it. Readers take every format since 2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import chain, groupby
from typing import Any, Literal

from reconciler.codec import Codec
from reconciler.errors import JournalUnavailable
from reconciler.journal.observed import ObservationLine
from reconciler.journal.release import Approval, Release, ReviewedTree
from reconciler.model.action import Action
from reconciler.model.bounds import EpochMs, Int64, Total
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from reconciler.text.validation import error_reason

FORMAT: Literal[3] = 3
_OF_OUTCOME = ("status", "detail", "code", "read_back", "sends", "removed_max", "low_watermark")
_LINE_MAX = 256 * 1024
"""Bytes of a line with several actions. One action alone has fewer: names have 32,767 bytes at most."""
_DETAIL_MAX = 2_000
"""Characters of an outcome's detail that the journal keeps."""

RemovedOffsets = Mapping[Address, tuple[CommittedOffset, ...]]
"""The commits that the removal of each group removes, by the address of the action."""


class Event(StrEnum):
    """INTENT: stored before each attempt to send. OUTCOME: what became of the action in the run."""

    INTENT = "intent"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One event of one action, as `reconciler journal` prints it, and a line of format 2.

    `at_ms`: epoch milliseconds; where the store knows when it was stored, that time. `request`: as
    in the plan file. `who`: the author of the run; `commit`: of the manifests; None: not known, or changed.
    `in_flight_ms`: of an intent of an earlier version. `status` and all that follow: of an outcome
    only, as in `Outcome`. `removed_offsets`: of an intent only, commits that the request removes, and
    those that an earlier version restored; a large number is in several entries, and each of them has
    `removed_offsets_total`, the number of all.
    """

    v: Literal[2] = 2
    at_ms: EpochMs
    event: Event
    run_id: str = field(metadata={"name": "run"})
    plan_digest: str = field(metadata={"name": "plan"})
    address: Address
    operation: str
    request: Mapping[str, str | int]
    who: str | None = None
    commit: str | None = None
    run_url: str | None = None
    approver: str | None = None
    in_flight_ms: Total | None = None
    status: Status | None = None
    detail: str | None = None
    code: str | None = None
    read_back: str | None = None
    sends: int | None = None
    removed_max: Total | None = None
    low_watermark: Int64 | None = None
    removed_offsets: tuple[CommittedOffset, ...] | None = None
    removed_offsets_total: Total | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """What the entries of one line do not have in common."""

    address: Address
    request: Mapping[str, str | int]
    status: Status | None = None
    detail: str | None = None
    code: str | None = None
    read_back: str | None = None
    sends: int | None = None
    removed_max: Total | None = None
    low_watermark: Int64 | None = None
    removed_offsets: tuple[CommittedOffset, ...] | None = None
    removed_offsets_total: Total | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """Entries of one batch: a line of the journal. It begins with its format and its time."""

    v: Literal[3] = FORMAT
    at_ms: EpochMs
    event: Event
    run_id: str = field(metadata={"name": "run"})
    plan_digest: str = field(metadata={"name": "plan"})
    operation: str
    who: str | None = None
    commit: str | None = None
    run_url: str | None = None
    approver: str | None = None
    in_flight_ms: Total | None = None
    actions: tuple[BatchItem, ...]


def create(event: Action | Outcome, removed_offsets: RemovedOffsets | None = None, **run: Any) -> JournalEntry:
    """Return the intent of an action, or the entry of an outcome. `run`: fields of the call."""
    action = event.action if isinstance(event, Outcome) else event
    of_outcome: dict[str, Any] = {}
    if isinstance(event, Outcome):
        of_outcome = {name: getattr(event, name) for name in _OF_OUTCOME} | {"detail": event.detail[:_DETAIL_MAX]}
    return JournalEntry(
        event=Event.OUTCOME if of_outcome else Event.INTENT,
        address=action.address,
        operation=action.OPERATION,
        request=action.request(),
        removed_offsets=(removed_offsets or {}).get(action.address),
        **of_outcome,
        **run,
    )


Record = JournalEntry | Approval | ObservationLine
"""What a line of the journal holds: one of these, or a batch of entries."""

_FORMATS: Mapping[bytes, type[Any]] = {
    b'{"v":2,': JournalEntry,
    b'{"v":3,': BatchLine,
    b'{"v":4,': ReviewedTree,
    b'{"v":5,': Release,
    b'{"v":6,': ObservationLine,
}
"""What a line holds, by how it begins."""
_CODECS: Mapping[type[Any], Codec[Any]] = {kind: Codec(kind, omit_none=True) for kind in _FORMATS.values()}
_BATCH = _CODECS[BatchLine]
_ITEM = Codec(BatchItem, omit_none=True)
_IN_BOTH = tuple(f.name for f in fields(BatchItem))
_IN_COMMON = tuple(f.name for f in fields(BatchLine) if f.name not in ("v", "actions"))


def dump(record: Record) -> str:
    """Return one record as a line of ASCII JSON without its newline; what is not known is left out."""
    return _CODECS[type(record)].encode(record)


def dump_batch(entries: Sequence[JournalEntry]) -> Iterator[str]:
    """Yield the entries of one run as lines of up to 256 KiB, those of a batch together.

    A longer line has one action. Raises JournalUnavailable for a text that JSON cannot hold.
    """
    try:
        for common, same in groupby(entries, lambda entry: {name: getattr(entry, name) for name in _IN_COMMON}):
            begin = _BATCH.encode(BatchLine(**common, actions=())).removesuffix("]}")
            items, size = list[str](), len(begin)
            for item in chain.from_iterable(map(_items, same)):
                size += len(item) + len(",")
                if items and size + len("]}") > _LINE_MAX:
                    yield f"{begin}{','.join(items)}]}}"
                    items, size = [], len(begin) + len(item) + len(",")
                items.append(item)
            yield f"{begin}{','.join(items)}]}}"
    except ValueError as error:
        raise JournalUnavailable(
            f"an entry cannot be stored in the journal: {error}; nothing is sent without it"
        ) from None


def _items(entry: JournalEntry) -> Iterator[str]:
    """Yield the parts of an entry as JSON: many offsets do not fit into one line."""
    item = _ITEM.encode(BatchItem(**{name: getattr(entry, name) for name in _IN_BOTH}))
    offsets = entry.removed_offsets or ()
    if len(item) <= _LINE_MAX or len(offsets) < 2:
        yield item
        return
    middle = len(offsets) // 2
    for part in (offsets[:middle], offsets[middle:]):
        total = entry.removed_offsets_total or len(offsets)
        yield from _items(replace(entry, removed_offsets=part, removed_offsets_total=total))


def parse(line: bytes, *kinds: type[Any]) -> Sequence[Any]:
    """Return the records of a line, if they are of these kinds. Raises ValueError for what no version has written.

    A line of other kinds is not read, unless it is, or may hide, an approval.
    """
    begin = line[:7]
    form = _FORMATS.get(begin, BatchLine)  # as which a line of a later version is refused
    kind = JournalEntry if form is BatchLine else form
    may_hide = Release in kinds and (begin not in _FORMATS or b'"released_at_ms":' in line)
    if not (kind in kinds or form in (Release, ReviewedTree) or may_hide):
        return ()
    try:
        record = _CODECS[form].decode(line.decode("ascii"))
    except ValueError as error:
        raise ValueError(
            f"no journal entry of format {FORMAT}, perhaps of another version: {error_reason(error)}"
        ) from None
    if kind not in kinds:
        return ()
    if not isinstance(record, BatchLine):
        return (record,)
    common = {name: getattr(record, name) for name in _IN_COMMON}
    return [JournalEntry(**common, **{name: getattr(item, name) for name in _IN_BOTH}) for item in record.actions]
