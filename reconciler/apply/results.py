"""results.json: what became of each action, and the exit code that sums it up.

The file is written whole or not at all. `schema()` describes it; the outcomes themselves are made in the applier.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from reconciler.model.outcome import Outcome, Status
from reconciler.text.escape import harmless_json

FORMAT_VERSION = "1.0"
SCHEMA_ID = "urn:kafka-reconciler:schema:results:1"
EXIT_DONE, EXIT_ERROR, EXIT_REFUSED, EXIT_STALE, EXIT_PARTLY = 0, 1, 3, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsHeader:
    """What the results are of. Times are epoch milliseconds; `exit_code` is the process's."""

    run_id: str
    plan_digest: str
    cluster: str
    cluster_id: str
    started_at_ms: int
    finished_at_ms: int
    interrupted: bool
    exit_code: int
    tool_version: str
    refused: tuple[str, ...] = ()


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """0: all applied, satisfied or waiting. 5: something was, or may have been, written and something was not done.

    Nothing written: 1 where anything failed or was not attempted, else 3 where anything is blocked, else 4 where anything is stale, else 0.
    """
    tally: Counter[Status] = Counter()
    wrote = False
    for outcome in outcomes:
        tally[outcome.status] += 1
        wrote = wrote or may_have_written(outcome)
    if wrote:
        left = sum(tally[status] for status in (Status.STALE, Status.BLOCKED, Status.FAILED, Status.NOT_ATTEMPTED))
        return EXIT_PARTLY if left else EXIT_DONE
    if tally[Status.FAILED] or tally[Status.NOT_ATTEMPTED]:
        return EXIT_ERROR
    if tally[Status.BLOCKED]:
        return EXIT_REFUSED
    return EXIT_STALE if tally[Status.STALE] else EXIT_DONE


def may_have_written(outcome: Outcome) -> bool:
    """Whether the cluster may be different for it: applied, or sent and not shown to be without effect."""
    if outcome.status is Status.APPLIED or outcome.possible or outcome.removed_max > 0:
        return True
    return outcome.sends > 0 and outcome.read_back is None


def dumps(outcomes: Iterable[Outcome], header: ResultsHeader) -> str:
    """The document as text: header first, then one outcome per line in address order."""
    return "".join(_lines(outcomes, header))


def write(path: Path, outcomes: Iterable[Outcome], header: ResultsHeader) -> None:
    """Write the document whole or not at all. Raises OSError where the folder cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(_lines(outcomes, header))
            file.flush()
            os.fsync(file.fileno())
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def schema() -> dict[str, Any]:
    """The JSON Schema of the document (schemas/results.json)."""
    made = _Document.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **made}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)


class _Tool(_Strict):
    version: str


class _Cluster(_Strict):
    name: str
    cluster_id: str


class _Line(_Strict):
    """What became of one action."""

    address: str
    operation: Literal["delete_records", "delete_group", "elect_leader"]
    request: dict[str, str | int]
    status: Status
    detail: str = Field(description="why, in words")
    code: str | None = Field(description="the broker's error name, where there was one")
    read_back: str | None = Field(description="what the cluster showed afterwards; null: not read")
    sends: int = Field(ge=0, description="how often the request went out")
    possible: bool = Field(description="a request may have been carried out, whatever the status")
    removed_max: int = Field(ge=0, description="upper bound of the records removed by this run")


class _Document(_Strict):
    """What became of a plan."""

    format_version: str = Field(description="a minor version adds fields; refuse an unknown major")
    kind: Literal["Results"]
    schema_: str = Field(alias="$schema")
    tool: _Tool
    run_id: str
    plan_digest: str
    cluster: _Cluster
    started_at: str = Field(description="RFC 3339, UTC")
    finished_at: str = Field(description="RFC 3339, UTC")
    interrupted: bool
    exit_code: int
    refused: list[str] = Field(description="limits and protections that refuse the plan as it stands now")
    summary: dict[Status, int] = Field(description="outcomes of each status")
    outcomes: list[_Line] = Field(description="in address order, one per line")


def _lines(outcomes: Iterable[Outcome], header: ResultsHeader) -> Iterable[str]:
    ended = sorted(outcomes, key=lambda outcome: outcome.action.address)
    tally = Counter(outcome.status for outcome in ended)
    head = {
        "format_version": FORMAT_VERSION,
        "kind": "Results",
        "$schema": SCHEMA_ID,
        "tool": {"version": header.tool_version},
        "run_id": header.run_id,
        "plan_digest": header.plan_digest,
        "cluster": {"name": header.cluster, "cluster_id": header.cluster_id},
        "started_at": _instant(header.started_at_ms),
        "finished_at": _instant(header.finished_at_ms),
        "interrupted": header.interrupted,
        "exit_code": header.exit_code,
        "refused": list(header.refused),
        "summary": {status.value: tally[status] for status in Status},
    }
    yield "{\n"
    for key, value in head.items():
        yield harmless_json(f"  {json.dumps(key)}: {json.dumps(value)},\n")
    yield '  "outcomes": ['
    for at, outcome in enumerate(ended):
        yield ("," if at else "") + "\n    " + harmless_json(json.dumps(_line(outcome)))
    yield "\n  ]\n}\n" if ended else "]\n}\n"


def _line(outcome: Outcome) -> dict[str, Any]:
    return {
        "address": str(outcome.action.address),
        "operation": outcome.action.OPERATION,
        "request": dict(outcome.action.request()),
        "status": outcome.status.value,
        "detail": outcome.detail,
        "code": outcome.code,
        "read_back": outcome.read_back,
        "sends": outcome.sends,
        "possible": outcome.possible,
        "removed_max": outcome.removed_max,
    }


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
