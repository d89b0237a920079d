"""A Plan as a file: header, then one decision per line. Written beside the target and renamed, so that nobody reads half a plan.

The file's mode is 0600: a plan names topics, groups and offsets, and whoever may change it before apply changes what is done.
"""

import io
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO, assert_never

from reconciler.errors import ReconcilerError
from reconciler.model.action import Action
from reconciler.model.names import Address
from reconciler.model.plan import Blocked, Decision, Plan, Satisfied, Skipped, Waiting
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan.document import header, rows
from reconciler.plan.document.canonical import line
from reconciler.plan.document.digest import Digest

SECTIONS = ("actions", "waiting", "blocked", "unread", "skipped", "satisfied")
"""Lists of decisions, in file order; each in address order."""


def section_of(decision: Decision) -> str:
    """The list of the plan file that a decision stands in."""
    match decision:
        case DeleteRecords() | DeleteGroup() | ElectLeader():
            return "actions"
        case Waiting():
            return "waiting"
        case Blocked():
            return "unread" if decision.unread else "blocked"
        case Skipped():
            return "skipped"
        case Satisfied():
            return "satisfied"
        case _:
            assert_never(decision)


def lines(plan: Plan) -> Iterator[str]:
    """The plan file's lines, each with its newline. Never holds more than one of them.

    Raises ValueError for a plan that no file can hold: decisions out of address order, an address that its text does not give
    back, a number that is not finite.
    """
    summary, digest = header.Summary(), Digest(plan.cluster_id)
    present = set()
    last: Address | None = None
    for decision in plan.decisions:
        _check_address(decision.address, last)
        last = decision.address
        summary.add(decision)
        present.add(section_of(decision))
        if isinstance(decision, Action):
            digest.add(decision)
    yield "{\n"
    for name, value in header.fields(plan, summary):
        yield f'"{name}": {line(value)},\n'
    yield from _list("limits", map(header.limit_row, plan.limits))
    yield ",\n"
    yield from _list("notes", map(header.note_row, plan.notes))
    yield f',\n"plan_digest": "{digest.text()}"'
    for name in SECTIONS:
        yield ",\n"
        yield from _list(name, _rows(plan, name) if name in present else ())
    yield "\n}\n"


def _check_address(address: Address, last: Address | None) -> None:
    if last is not None and not last < address:
        raise ValueError(f"decisions are not in address order: {address} after {last}")
    if Address.parse(str(address)) != address:
        raise ValueError(f"{address!r} is no address: its text means another subject")


def _rows(plan: Plan, section: str) -> Iterator[rows.Row]:
    inside = (decision for decision in plan.decisions if section_of(decision) == section)
    if section == "satisfied":
        return rows.satisfied_rows(one for one in inside if isinstance(one, Satisfied))
    return map(_row, inside)


def _row(decision: Decision) -> rows.Row:
    match decision:
        case DeleteRecords() | DeleteGroup() | ElectLeader():
            return rows.action_row(decision)
        case Waiting():
            return rows.waiting_row(decision)
        case Blocked():
            return rows.blocked_row(decision)
        case Skipped():
            return rows.skipped_row(decision)
        case Satisfied():
            return {"address": str(decision.address)}
        case _:
            assert_never(decision)


def _list(name: str, entries: Iterable[Any]) -> Iterator[str]:
    """A list with one entry per line, without the comma and newline that follow it."""
    yield f'"{name}": ['
    separator = "\n"
    for entry in entries:
        yield f"{separator}{line(entry)}"
        separator = ",\n"
    yield "]" if separator == "\n" else "\n]"


def dumps(plan: Plan) -> str:
    """The plan file as one string: for plans that are shown, not for a million actions."""
    made = io.StringIO()
    made.writelines(lines(plan))
    return made.getvalue()


def write(plan: Plan, target: Path | TextIO) -> None:
    """Write the plan file. Raises ReconcilerError where the path cannot be written; an older file is then still whole."""
    if not isinstance(target, Path):
        target.writelines(lines(plan))
        return
    try:
        _write_file(plan, target)
    except OSError as failed:
        reason = failed.strerror or failed
        raise ReconcilerError(f"cannot write the plan to {target}: {reason}; choose another --out") from failed


def _write_file(plan: Plan, path: Path) -> None:
    path = path.resolve()
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        with path.open("w", encoding="ascii", newline="\n") as stream:  # a pipe or a device cannot be renamed over
            stream.writelines(lines(plan))
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="ascii", newline="\n") as stream:
            stream.writelines(lines(plan))
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
