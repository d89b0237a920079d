"""A plan file as a Plan, line by line. Everything is checked before anything is believed; what is refused names line and reason.

A plan file is refused as a whole: one line that is not as `write` makes it means that somebody else's hand or a broken copy was
here, and then no line can be trusted.
"""

import heapq
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.errors import PlanUnusable
from reconciler.model.action import Action
from reconciler.model.names import Address
from reconciler.model.plan import Decision, Plan, Source
from reconciler.plan.document import checks
from reconciler.plan.document import header as headers
from reconciler.plan.document.digest import FORMAT_MAJOR, Digest
from reconciler.plan.document.header import FORMAT_MINOR, FORMAT_VERSION, Header, Summary
from reconciler.plan.document.lines import PlanLine, entries
from reconciler.plan.document.parse import RowParser
from reconciler.plan.document.writer import SECTIONS

_FORMAT = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


def read(path: Path) -> Plan:
    """The whole plan. Raises PlanUnusable for a file that cannot be read, is cut, edited, or of an unknown format major."""
    with _opened(path) as (found, parts):
        sections: dict[str, list[Decision]] = {name: [] for name in SECTIONS}
        for name, decision in parts:
            sections[name].append(decision)
        return found.plan(_in_order([section for section in sections.values() if section]))


def header(path: Path) -> Header:
    """The header alone: cluster, expiry, limits, digest. The rows are not read, so nothing says yet that they agree with it."""
    with _opened(path) as (found, _parts):
        return found


def actions(path: Path) -> Iterator[Action]:
    """The actions in address order, one in memory at a time.

    Raises PlanUnusable; a wrong digest only shows after the last action, so act on none of them before the iterator is exhausted.
    """
    with _opened(path) as (_found, parts):
        yield from _actions(parts)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan file. Its actions are read anew, and the whole file is proven anew, each time they are asked for and read to their end."""

    path: Path
    header: Header

    @property
    def cluster(self) -> str:
        return self.header.cluster

    @property
    def cluster_id(self) -> str:
        return self.header.cluster_id

    @property
    def observed_at_ms(self) -> int:
        return self.header.observed_at_ms

    @property
    def source(self) -> Source:
        return self.header.source

    @property
    def actions(self) -> Iterator[Action]:
        """In address order, one in memory at a time. Raises PlanUnusable, at the latest after the last, where the file changed."""
        with _opened(self.path) as (found, parts):
            if found != self.header:
                raise ValueError("it is not the file that it was a moment ago")
            yield from _actions(parts)


def open_plan(path: Path, *, proven: bool = True) -> PlanFile | Plan:
    """The plan of a file, for those who need no more of it than one action at a time. Raises PlanUnusable like `read`.

    `proven` False: nothing below the header has been looked at yet, for whoever reads all of it before believing any of it. A pipe
    can be read only once, so what comes from one is held whole.
    """
    if not path.is_file():
        return read(path)
    with _opened(path) as (found, parts):
        for _part in parts if proven else ():
            pass
        return PlanFile(path, found)


_Parts = Iterator[tuple[str, Decision]]


def _actions(parts: _Parts) -> Iterator[Action]:
    for _name, decision in parts:
        if isinstance(decision, Action):
            yield decision


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Header, _Parts]]:
    try:
        with path.open(encoding="ascii", newline="\n") as stream:
            found = entries(stream)
            yield _parts(found)
    except OSError as failed:
        raise PlanUnusable(f"cannot read the plan {path}: {failed.strerror or failed}; nothing was done") from failed
    except ValueError as wrong:
        raise PlanUnusable(f"the plan {path} is not usable: {wrong}; nothing was done, plan again") from wrong


def _parts(found: Iterator[PlanLine]) -> tuple[Header, _Parts]:
    """The header, and the decisions that follow it with their section's name."""
    first = next(found)
    if first.name != "format_version":
        raise ValueError(f"line {first.number}: expected format_version first; is this a plan?")
    newer = _newer(first.value)
    top: dict[str, Any] = {first.name: first.value}
    for entry in found:
        if entry.row:
            top[entry.name].append(entry.value)
        elif entry.name in top:
            raise ValueError(f"line {entry.number}: {checks.shown(entry.name)} stands there twice")
        else:
            top[entry.name] = entry.value
        if entry.name == "kind" and entry.value != "Plan":
            raise ValueError(f"line {entry.number}: kind is {checks.shown(entry.value)}, expected Plan")
        if entry.name == "plan_digest":
            break
    parser = RowParser(newer=newer)
    made = headers.parse(top, parser, newer=newer)
    return made, _decisions(found, made, parser, newer=newer)


def _newer(version: object) -> bool:
    """Whether the file's minor version is newer than this program's. Raises ValueError for another major."""
    match = _FORMAT.fullmatch(version) if type(version) is str else None
    if not match:
        raise ValueError(f"format_version is {checks.shown(version)}, expected a version such as {FORMAT_VERSION}")
    if int(match[1]) != FORMAT_MAJOR:
        raise ValueError(
            f"its format_version is {version} and this program reads {FORMAT_MAJOR}.x: use the version that wrote it"
        )
    return int(match[2]) > FORMAT_MINOR


def _decisions(found: Iterator[PlanLine], made: Header, parser: RowParser, *, newer: bool) -> _Parts:
    digest, summary = Digest(made.cluster_id), Summary()
    expected = iter(SECTIONS)
    section, last = "", None
    for entry in found:
        if not entry.row:
            if section == "actions":
                _check_digest(digest, made)
            section = _next_section(entry, expected, newer=newer)
            last = None
            continue
        if not section:
            continue
        try:
            for decision in _parse(entry, parser):
                _check_order(decision.address, last)
                last = decision.address
                summary.add(decision)
                if isinstance(decision, Action):
                    digest.add(decision)
                yield section, decision
        except ValueError as wrong:
            raise ValueError(f"line {entry.number}: {wrong}") from None
    if (missing := next(expected, None)) is not None:
        raise ValueError(f"it lacks the list {missing}")
    _check_digest(digest, made)
    wrong_counts = {name for name, count in summary.row().items() if made.summary.get(name) != count}
    if wrong_counts:
        raise ValueError(f"its summary says something else than its rows: {', '.join(sorted(wrong_counts))}")


def _next_section(entry: PlanLine, expected: Iterator[str], *, newer: bool) -> str:
    """The section that opens here; empty: a list or field of a newer minor version, to be passed over."""
    if entry.name not in SECTIONS and newer:
        return ""
    wanted = next(expected, None)
    if entry.name != wanted or entry.value != []:
        raise ValueError(f"line {entry.number}: found {checks.shown(entry.name)}, expected {wanted or 'the end'}")
    return entry.name


def _parse(entry: PlanLine, parser: RowParser) -> Iterator[Decision]:
    match entry.name:
        case "actions":
            yield parser.action(entry.value)
        case "waiting":
            yield parser.waiting(entry.value)
        case "blocked" | "unread":
            yield parser.blocked(entry.value, unread=entry.name == "unread")
        case "skipped":
            yield parser.skipped(entry.value)
        case _:
            yield from parser.satisfied(entry.value)


def _check_order(address: Address, last: Address | None) -> None:
    if last is not None and not last < address:
        how = "stands there twice" if address == last else f"stands after {checks.shown(str(last))}, out of order"
        raise ValueError(f"{checks.shown(str(address))} {how}")


def _check_digest(digest: Digest, made: Header) -> None:
    if digest.text() != made.digest:
        raise ValueError(
            f"its actions have the digest {digest.text()}, its header says {made.digest}: it was changed after it was made"
        )


def _key(decision: Decision) -> tuple[str, str, str, int]:
    address = decision.address
    return (address.kind, address.policy, address.name, address.partition)


def _in_order(sections: list[list[Decision]]) -> list[Decision]:
    """All decisions in address order. Raises ValueError where two sections decide one subject."""
    if len(sections) == 1:
        return sections[0]
    merged: list[Decision] = []
    for decision in heapq.merge(*sections, key=_key):
        if merged and merged[-1].address == decision.address:
            raise ValueError(f"two decisions for {checks.shown(str(decision.address))}")
        merged.append(decision)
    return merged
