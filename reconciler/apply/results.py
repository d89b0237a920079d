"""Writes results.json, what became of each action, and chooses the exit code that sums it up."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from reconciler.atomic_file import write_file
from reconciler.codec import Codec, Schema, compare, document, is_newer
from reconciler.model.bounds import InstantMs, Int64, Total
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset

FORMAT_VERSION = "2.0"
SCHEMA_ID = "urn:kafka-reconciler:schema:results:2"
EXIT_PARTLY = 5
_UNDONE = {Status.FAILED: 1, Status.NOT_ATTEMPTED: 1, Status.BLOCKED: 3, Status.STALE: 4}
"""Exit code of a run that wrote nothing, by the worst status, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsHeader:
    """What became of a plan: the run, the process's `exit_code`, and the limits and protections
    that refuse the plan by now.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """What became of one action: why in words, the broker's error name, and what the cluster showed
    afterwards (null: not read).

    `sends` and all that follow: as in `Outcome`.
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


_HEADER = Codec(ResultsHeader)
_ROW = Codec(ResultRow)
_OF_OUTCOME = (
    "status",
    "detail",
    "code",
    "read_back",
    "sends",
    "possible",
    "removed_max",
    "low_watermark",
    "removed_offsets",
)


def exit_code(outcomes: Collection[Outcome]) -> int:
    """0: all is done, or waits for a clock. 5: something may have been written, and something was not done.

    Nothing written: 1 where anything failed or was not attempted, else 3: blocked, else 4: stale, or
    held back by a group or a broker.
    """
    statuses = {Status.STALE if outcome.held else outcome.status for outcome in outcomes}
    undone = [code for status, code in _UNDONE.items() if status in statuses]
    if undone and any(map(may_have_written, outcomes)):
        return EXIT_PARTLY
    return undone[0] if undone else 0


def may_have_written(outcome: Outcome) -> bool:
    """Whether the cluster may have changed: applied, or sent and not shown to be without effect."""
    unknown = outcome.sends > 0 and outcome.read_back is None
    return outcome.status is Status.APPLIED or outcome.possible or outcome.removed_max > 0 or unknown


def lines(outcomes: Iterable[Outcome], header: ResultsHeader) -> Iterator[str]:
    """Yield the document: the header, then one outcome per line, sorted by address."""
    ended = sorted(outcomes, key=lambda outcome: outcome.action.address)
    tally = Counter(outcome.status for outcome in ended)
    summary = {status.value: tally[status] for status in Status}
    rows = map(_ROW.encode, map(_row, ended))
    return document(_HEADER.fields(header) | {"summary": summary, "outcomes": rows})


def write(path: Path, outcomes: Iterable[Outcome], header: ResultsHeader) -> None:
    """Write the document whole or not at all. Raises OSError where the folder cannot be written."""
    write_file(path, lines(outcomes, header), mode=0o644)


def parse(text: str) -> tuple[ResultsHeader, list[ResultRow]]:
    """Return the header and the rows of a document, also of a reformatted one. Raises ValueError."""
    fields = json.loads(text)
    if not isinstance(fields, dict) or fields.get("kind") != "Results":
        raise ValueError("it is no JSON object of kind Results")
    newer = is_newer(str(fields.get("format_version")), FORMAT_VERSION)
    if not isinstance(rows := fields.pop("outcomes", None), list):
        raise ValueError("it lacks outcomes")
    return _HEADER.validate(json.dumps(fields)), [_parse_row(json.dumps(row), newer=newer) for row in rows]


def _parse_row(text: str, *, newer: bool) -> ResultRow:
    row = _ROW.validate(text)
    compare(text, _ROW.encode(row), newer=newer, exact=False)
    return row


def schema() -> Schema:
    """Return the JSON Schema of the document (schemas/results.json)."""
    described = _HEADER.schema(SCHEMA_ID, "Results", outcomes=_ROW)
    counts = {"type": "object", "properties": {status.value: {"type": "integer", "minimum": 0} for status in Status}}
    described["properties"] |= {"summary": counts, "outcomes": described["properties"].pop("outcomes")}
    described["required"].insert(-1, "summary")
    return described


def _row(outcome: Outcome) -> ResultRow:
    action = outcome.action
    copied = {name: getattr(outcome, name) for name in _OF_OUTCOME}
    return ResultRow(address=action.address, operation=action.OPERATION, request=action.request(), **copied)
