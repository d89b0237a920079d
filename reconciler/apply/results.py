"""Writes results.json, what became of each action, and chooses the exit code that sums it up."""

import errno
import fcntl
import json
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from reconciler.atomic_file import write_bytes
from reconciler.codec import Codec, Schema, document, is_newer, read_json
from reconciler.errors import ExitCode, UsageError
from reconciler.model.bounds import OMIT_DEFAULT, InstantMs, Int64, Total
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from reconciler.text.escape import NEXT
from reconciler.text.validation import error_reason

FORMAT_VERSION = "2.0"
SCHEMA_ID = "urn:kafka-reconciler:schema:results:2"
DRY_RUN = f"dry run: would be sent{NEXT}apply without the dry run"
"""The detail of an action that a dry run would have sent."""
UNDONE = {Status.FAILED: 1, Status.NOT_ATTEMPTED: 1, Status.BLOCKED: 3, Status.STALE: 4}
"""Exit code of a run that wrote nothing, by the worst status, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsHeader:
    """What became of a plan: the run, the process's `exit_code`, and the limits and protections
    that refuse the plan now.

    `who`: the author of the run, as in the journal; `commit`: of the plan's manifests; None: not known, or
    they were changed. `blocked`: how many partitions, topics and groups the plan blocks, so that nothing was
    asked for them. None: not known, as in a file of an earlier version.
    """

    format_version: str = FORMAT_VERSION
    kind: Literal["Results"] = "Results"
    schema: str = field(default=SCHEMA_ID, metadata={"name": "$schema"})
    tool_version: str
    run_id: str
    plan_digest: str
    cluster: str
    cluster_id: str
    started_at_ms: InstantMs
    finished_at_ms: InstantMs
    interrupted: bool
    exit_code: int
    refused: tuple[str, ...] = ()
    who: str | None = field(default=None, metadata=OMIT_DEFAULT)
    commit: str | None = field(default=None, metadata=OMIT_DEFAULT)
    blocked: Mapping[str, Total] | None = field(default=None, metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """What became of one action: why in words, the broker's error name, and what the cluster showed
    afterwards (null: not read).

    `sends` and all that follow: as in `Outcome`; `caveat`: of the action.
    """

    address: Address
    operation: str
    request: Mapping[str, str | int]
    status: Status
    detail: str
    code: str | None
    read_back: str | None
    sends: int
    possible: bool
    removed_max: Total
    low_watermark: Int64 | None
    removed_offsets: tuple[CommittedOffset, ...] | None
    caveat: str = field(default="", metadata=OMIT_DEFAULT)
    also_counted_by: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)


_HEADER = Codec(ResultsHeader)
_ROW = Codec(ResultRow)
_OF_OUTCOME = {part.name for part in fields(ResultRow)} & {part.name for part in fields(Outcome)}


def dry_run_detail(unread: str) -> str:
    """Return the detail of an action that a dry run would have sent. `unread`: why the journal cannot be read."""
    return f"dry run: would be sent if the journal stores its intent, but {unread}" if unread else DRY_RUN


def exit_code(outcomes: Collection[Outcome], *, interrupted: bool = False) -> int:
    """0: all is done, or waits for a clock. 5: something may have been written, and something was not done.

    Nothing written: 130 where a signal ended the run, else 1 where anything failed or was not attempted,
    else 3: blocked, else 4: stale, or held back by a group or a broker.
    """
    has_written = any(map(may_have_written, outcomes))
    if interrupted and not has_written:
        return ExitCode.INTERRUPTED
    statuses = {Status.STALE if outcome.held else outcome.status for outcome in outcomes}
    undone = [code for status, code in UNDONE.items() if status in statuses]
    if undone and has_written:
        return ExitCode.PARTLY
    return undone[0] if undone else 0


def may_have_written(outcome: Outcome | ResultRow) -> bool:
    """Whether the cluster may have changed: applied, or sent and not shown to be without effect."""
    unknown = outcome.sends > 0 and outcome.read_back is None
    return outcome.status is Status.APPLIED or outcome.possible or outcome.removed_max > 0 or unknown


def lines(outcomes: Iterable[Outcome], header: ResultsHeader, earlier: Iterable[ResultRow] = ()) -> Iterator[str]:
    """Yield the document: the header, then one outcome per line, sorted by address.

    `earlier`: rows of earlier runs of the plan. Of two rows of a subject, the one stays that says
    more of what the plan did to the cluster; both, where both wrote and asked for something else.
    """
    kept = defaultdict[Address, list[ResultRow]](list)
    for row in earlier:
        kept[row.address].append(row)
    for row in map(as_row, outcomes):
        rows = kept[row.address]
        if rows and _evidence(row) < _evidence(rows[-1]):
            continue
        if rows and (rows[-1].request == row.request or not may_have_written(rows[-1])):
            rows.pop()
        rows.append(row)
    written = [row for address in sorted(kept) for row in kept[address]]
    tally = Counter(row.status for row in written)
    summary = {status.value: tally[status] for status in Status}
    return document(_HEADER.fields(header) | {"summary": summary, "outcomes": map(_ROW.encode, written)})


def _evidence(entry: ResultRow) -> tuple[bool, bool, bool]:
    """Return whether it has the offsets of a group that is gone, whether anything was written, and whether its run tried.

    A client that repeats a request is told that there is no such group: *satisfied*, with offsets.
    """
    has_written = may_have_written(entry)
    is_gone = has_written or entry.status is Status.SATISFIED
    return is_gone and entry.removed_offsets is not None, has_written, entry.status is not Status.DEFERRED


def read_earlier(path: Path, plan_digest: str) -> list[ResultRow]:
    """Return the rows of earlier runs of the plan; none for no file, an empty one, or a device.

    Raises UsageError for any other file: it may be the undo of another plan.
    """
    try:
        text = path.read_text(encoding="utf-8-sig") if path.is_file() else ""
        header, rows = parse(text) if text else (None, [])
    except (OSError, ValueError) as error:
        raise _unusable(path, f"is not a results file that can be continued: {error_reason(error)}") from None
    if header is not None and header.plan_digest != plan_digest:
        undo = "which may hold the offsets of groups that it removed"
        raise _unusable(path, f"has the results of another plan, {header.plan_digest}, {undo}")
    if header is not None and is_newer(header.format_version, FORMAT_VERSION):
        raise _unusable(path, f"has format {header.format_version}, this program writes {FORMAT_VERSION}")
    return rows


def place_of_undo(path: Path) -> Path | None:
    """Return where results are moved to that hold offsets of removed groups; None: they hold none.

    Raises OSError for results that cannot be read.
    """
    try:
        header, rows = parse(path.read_text(encoding="utf-8-sig"))
        place = path.with_name(f"{path.stem}-{header.run_id}{path.suffix}")
    except ValueError as error:
        raise FileExistsError(errno.EEXIST, f"it has results that cannot be read: {error_reason(error)}") from None
    return place if any(row.removed_offsets for row in rows) else None


def _unusable(path: Path, reason: str) -> UsageError:
    return UsageError(f"{path} {reason}: nothing was done; choose another file")


def write(path: Path, outcomes: Iterable[Outcome], header: ResultsHeader) -> Path:
    """Write the document whole or not at all, with what earlier runs of the plan did.

    Returns its place: beside the file, if something else was written there since the check.
    Raises OSError where the folder cannot be written.
    """
    with _locked(path.resolve().parent):
        try:
            earlier = read_earlier(path, header.plan_digest)
        except UsageError:
            path, earlier = path.with_name(f"{path.stem}-{header.run_id}{path.suffix}"), []
        write_bytes(path, map(str.encode, lines(outcomes, header, earlier)), mode=0o644)
    return path


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let two runs that end together write one after another, where the file system can."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # a folder may be writable, and not readable
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def parse(text: str) -> tuple[ResultsHeader, list[ResultRow]]:
    """Return the header and the rows of a document, also of a reformatted one. Raises ValueError."""
    values = read_json(text)
    if not isinstance(values, dict) or values.get("kind") != "Results":
        raise ValueError("it is not a JSON object of kind Results")
    newer = is_newer(str(values.get("format_version")), FORMAT_VERSION)
    if not isinstance(rows := values.pop("outcomes", None), list):
        raise ValueError("it lacks outcomes")
    return _HEADER.validate(json.dumps(values)), [
        _ROW.decode(json.dumps(row), newer=newer, exact=False) for row in rows
    ]


def schema() -> Schema:
    """Return the JSON Schema of the document (schemas/results.json)."""
    described = _HEADER.schema(SCHEMA_ID, "Results", outcomes=_ROW)
    counts = {"type": "object", "properties": {status.value: {"type": "integer", "minimum": 0} for status in Status}}
    described["properties"] |= {"summary": counts, "outcomes": described["properties"].pop("outcomes")}
    described["required"].insert(-1, "summary")
    return described


def as_row(outcome: Outcome | ResultRow) -> ResultRow:
    """Return the row of an outcome in a results file; one that was read from a file is a row already."""
    if isinstance(outcome, ResultRow):
        return outcome
    action = outcome.action
    copied = {name: getattr(outcome, name) for name in _OF_OUTCOME}
    return ResultRow(
        address=action.address, operation=action.OPERATION, request=action.request(), caveat=action.caveat, **copied
    )
