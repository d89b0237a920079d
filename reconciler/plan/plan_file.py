"""Writes and reads the plan file, and computes the digest of what an approval binds.

The file is one JSON document: the header first, then one decision per line in address order, so that
it streams both ways. docs/plan.md explains the format to users.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import count, groupby, pairwise, starmap
from pathlib import Path
from typing import Any, Literal, TextIO, cast

from pydantic_core import to_json, to_jsonable_python

from reconciler import __version__, operations
from reconciler.atomic_file import write_bytes
from reconciler.codec import (
    Codec,
    Schema,
    compare,
    document,
    document_kind,
    is_newer,
    read_kind,
    shorten,
    wrong_document,
)
from reconciler.errors import PlanUnusable, ReconcilerError, UsageError
from reconciler.model.action import Action
from reconciler.model.bounds import OMIT_DEFAULT, InstantMs, NonEmpty, Total
from reconciler.model.garbage import gc_paused
from reconciler.model.names import Address, format_address
from reconciler.model.plan import (
    Blocked,
    Change,
    Decision,
    LimitVerdict,
    Plan,
    PolicyInfo,
    Rule,
    Satisfied,
    Skipped,
    Source,
    Unmatched,
    Waiting,
    content_hashes,
    section_of,
    sort_decisions,
)
from reconciler.operations import Operation
from reconciler.text.validation import error_reason

FORMAT_MAJOR = 3
FORMAT_VERSION = f"{FORMAT_MAJOR}.0"
SCHEMA_ID = f"urn:kafka-reconciler:schema:plan:{FORMAT_MAJOR}"
SECTIONS = ("actions", "waiting", "blocked", "unread", "skipped", "satisfied")
"""Lists of decisions, in file order; each in address order."""
LINE_MAX = 64 * 1024 * 1024
"""Characters. A line with 100,000 accepted readers has about ten million."""

_Lines = Iterator[tuple[int, str]]
"""Line numbers and lines without their ends."""
_Hash = Any
"""A hash object of hashlib, which has no public type."""
_RANGE = re.compile("([0-9]{1,10})(?:-([0-9]{1,10}))?")
_BEGINNING = "a plan file begins with its header"
_HINT = "a plan file holds one decision per line; do not reformat it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a run of `reconciler plan` would do to one cluster. Header first, then one decision per line in address order.

    The fields of a plan without its decisions, and what `Totals` says of these.
    """

    format_version: str = FORMAT_VERSION
    kind: Literal["Plan"] = "Plan"
    schema: str = field(default=SCHEMA_ID, metadata={"name": "$schema"})
    tool_version: NonEmpty = __version__
    cluster: NonEmpty
    cluster_id: NonEmpty
    observed_at_ms: InstantMs
    expires_at_ms: InstantMs
    source: Source
    targets: tuple[str, ...]
    incomplete: tuple[str, ...]
    unseen: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)
    unmatched: tuple[Unmatched, ...]
    summary: Mapping[str, Total]
    limits: tuple[LimitVerdict, ...]
    notes: tuple[PolicyInfo, ...]
    continuous: tuple[Rule, ...]
    rule_changes: tuple[Rule, ...]
    plan_digest: str

    def __post_init__(self) -> None:
        if self.expires_at_ms < self.observed_at_ms:
            raise ValueError("expires_at lies before observed_at, the instant of the scan")
        if not re.fullmatch("sha256:[0-9a-f]{64}", self.plan_digest):
            raise ValueError(f"plan_digest is {shorten(self.plan_digest)}, expected sha256: and 64 hexadecimal digits")

    def plan(self, decisions: Iterable[Decision]) -> Plan:
        """Return the plan with these decisions. Raises ValueError for two decisions about one subject."""
        return Plan(decisions=sort_decisions(decisions), **{name: getattr(self, name) for name in _OF_PLAN})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile(Header):
    """A plan file. The file is read and checked again each time its actions are read to their end."""

    path: Path

    @property
    def actions(self) -> Iterator[Action]:
        """In address order, one in memory at a time. Raises PlanUnusable where the file changed."""
        return (decision for decision in self._decisions() if isinstance(decision, Action))

    @property
    def blocked(self) -> Iterator[Blocked]:
        """One in memory at a time, those that could not be read last. Raises like `actions`."""
        return (decision for decision in self._decisions() if isinstance(decision, Blocked))

    def _decisions(self) -> Iterator[Decision]:
        with _opened(self.path) as (header, decisions):
            if header != self:
                raise ValueError("it is not the file that it was a moment ago")
            yield from decisions


SavedPlan = Plan | PlanFile
"""A plan in memory, or one whose actions stream from its file; both in address order."""


@dataclass(frozen=True, slots=True)
class SatisfiedRow:
    """Subjects in sync: one group, or the partitions of one topic as ranges such as 0-4,6."""

    address: Address
    partitions: str | None

    def decisions(self) -> Iterator[Satisfied]:
        """Yield a decision per subject. Raises ValueError for ranges that `ranges` would not write."""
        if self.partitions is None:
            yield Satisfied(self.address)
            return
        topic = self.address
        runs = [(int(first), int(last or first)) for first, last in _RANGE.findall(self.partitions)]
        steps = pairwise([(-2, -2), *runs])
        ascending = all(before + 1 < first <= last < 2**31 for (_, before), (first, last) in steps)
        written = ",".join(starmap(_range, runs))
        if not ascending or not runs or self.partitions != written or not topic.name or topic.partition >= 0:
            raise ValueError(f"partitions is {shorten(self.partitions)}, expected a topic's ascending ranges: 0-4,6")
        for first, last in runs:
            for number in range(first, last + 1):
                yield Satisfied(Address(topic.kind, topic.policy, topic.name, number))


class Totals:
    """What a header says of the decisions that follow it: `add` each one that it is not given.

    `summary`: how many decisions there are of each sort; `irreversible`, `records_removed_max` and
    `unbounded` (how many may remove any number of records) are of the actions. `digest`: sha256 over a
    line of JSON for format, cluster and targets, one for the contents of the manifests, one for each rule that
    later runs carry out without a review or did so before, one for each change of a rule, and one for
    what each action binds. An approval is of this plan, made from these manifests.
    """

    def __init__(self, plan: Plan | Header, decisions: Iterable[Decision] = ()) -> None:
        acting = [operation.OPERATION for operation in reversed(operations.OPERATIONS)]
        names = [*acting, *SECTIONS[1:], "irreversible", "records_removed_max", "unbounded"]
        self.summary: dict[str, int] = dict.fromkeys(names, 0)
        self._hash = hashlib.sha256(_digest_line([FORMAT_MAJOR, plan.cluster_id, *plan.targets]))
        self._bind(content_hashes(plan.source.manifests))
        for rule in (*plan.continuous, *plan.rule_changes):
            changes = sorted(
                ((setting.name, setting.values, setting.before) for setting in rule.settings),
                key=lambda change: (change[0], change[1], change[2] or ()),  # None is not comparable
            )
            # Without a base nothing is known to have changed.
            self._bind([str(rule.address), None if rule.change is Change.UNCHANGED else rule.change, changes])
        for decision in decisions:
            self.add(decision)

    def _bind(self, values: Iterable[object]) -> None:
        self._hash.update(b"\n" + _digest_line(values))

    def add(self, decision: Decision) -> None:
        """Take one more decision."""
        if not isinstance(decision, Operation):
            self.summary[section_of(decision)] += 1
            return
        self._bind(_approved(decision).values())
        self.summary[decision.OPERATION] += 1
        self.summary["irreversible"] += decision.irreversible
        removed = decision.impact().get("records_removed_max", 0)
        if isinstance(removed, int):
            self.summary["records_removed_max"] += removed
        else:
            self.summary["unbounded"] += 1

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hexadecimal digits."""
        return f"sha256:{self._hash.hexdigest()}"


def digest(plan: SavedPlan) -> str:
    """Return the digest of a plan."""
    return plan.plan_digest if isinstance(plan, PlanFile) else Totals(plan, plan.actions).digest


def approved_fields(action: Action) -> dict[str, Any]:
    """Return what an approval binds, as JSON values."""
    return cast(dict[str, Any], to_jsonable_python(_approved(action)))


def _approved(action: Action) -> dict[str, object]:
    assert isinstance(action, Operation)
    return {
        "address": str(action.address),
        "operation": action.OPERATION,
        "request": action.request(),
        "approved": action.approved(),
    }


def _digest_line(values: Iterable[object]) -> bytes:
    # DEL is the one ASCII character that Python's json escapes and this function does not
    return to_json(list(values), ensure_ascii=True).replace(b"\x7f", b"\\u007f")


def action_row(action: Action) -> dict[str, Any]:
    """Return an action as its line of the plan file has it."""
    return _codecs(operations.OPERATIONS)["actions"].fields(action)


def lines(plan: Plan) -> Iterator[str]:
    """Yield the plan file's text piece by piece. Never holds more than one decision.

    Raises ValueError for a plan that no file can hold: decisions out of address order, an address that
    its text does not give back, a number that is not finite.
    """
    totals, codecs = Totals(plan), _codecs(operations.OPERATIONS)
    present = set()
    last: Address | None = None
    for decision in plan.decisions:
        section = section_of(decision)
        _check_place(decision, section, last)
        last = decision.address
        if Address.parse(str(last)) != last:
            raise ValueError(f"{format_address(last)} is not an address: its text means another subject")
        totals.add(decision)
        present.add(section)
    copied = {name: getattr(plan, name) for name in _OF_PLAN}
    header = Header(summary=totals.summary, plan_digest=totals.digest, **copied)

    def rows(section: str) -> Iterator[str]:
        decisions = plan.decisions if section in present else ()  # each pass may generate all of them
        inside = (decision for decision in decisions if section_of(decision) == section)
        values = _satisfied_rows(inside) if section == "satisfied" else inside
        return map(codecs[section].encode, values)

    yield from _sealed(document(_HEADER.fields(header) | {section: rows(section) for section in SECTIONS}))


def _sealed(document: Iterator[str]) -> Iterator[str]:
    """Yield the pieces of a document, and as its last field the digest of all lines before it."""
    lines, last = hashlib.sha256(), ""
    for piece in document:
        lines.update(last.encode("ascii"))
        yield last
        last = piece
    lines.update(b",\n")
    yield f",\n{_file_digest(lines)}{last}"


def _file_digest(lines: _Hash) -> str:
    """Return the last field of a file with these lines before it."""
    return f'"file_digest": "sha256:{lines.hexdigest()}"'


def check_replaceable(path: Path) -> None:
    """Raise UsageError for a file that is not a plan, such as a manifest; an empty one and a device may be written."""
    if path.is_file() and path.stat().st_size and read_kind(path) != "Plan":
        raise UsageError(
            f"{path} is not a saved plan, and --out would replace it: nothing was done; choose another file"
        )


def write(plan: Plan, path: Path) -> None:
    """Write the plan file with mode 0600: it names topics, groups and offsets, and says what apply does.

    Raises ReconcilerError where the path cannot be written; an older file is then still complete.
    UsageError: as `check_replaceable`.
    """
    check_replaceable(path)
    try:
        write_bytes(path, map(str.encode, lines(plan)), mode=0o600)
    except (OSError, ValueError) as error:
        next_step = "; choose another --out" if isinstance(error, OSError) else ""
        raise ReconcilerError(f"cannot write the plan to {path}: {error_reason(error)}{next_step}") from error


def schema() -> Schema:
    """Return the JSON Schema of the plan file."""
    described = _HEADER.schema(SCHEMA_ID, "Plan", **_codecs(operations.OPERATIONS))
    described["properties"]["format_version"]["pattern"] = rf"^{FORMAT_MAJOR}\.[0-9]+$"
    described["properties"]["plan_digest"]["pattern"] = "^sha256:[0-9a-f]{64}$"
    described["properties"]["file_digest"] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
    described["required"].append("file_digest")
    return described


def read(path: Path) -> Plan:
    """Return the plan. Raises PlanUnusable for a file that is unreadable, cut, edited or of another major."""
    with _opened(path) as (header, decisions), gc_paused():
        return header.plan(decisions)


def open_plan(path: Path, *, proven: bool = True) -> SavedPlan:
    """Return the plan of a file, for a caller who needs one action at a time. Raises PlanUnusable like `read`.

    `proven` False: only the header has been read, for a caller who reads everything before it relies on anything. A pipe can be
    read only once, so its plan is held in memory.
    """
    if not path.is_file():
        return read(path)
    with _opened(path) as (header, decisions):
        for _decision in decisions if proven else ():
            pass
        return header


_OF_PLAN = tuple(part.name for part in fields(Plan) if part.name != "decisions")
_HEADER = Codec(Header)


@lru_cache(maxsize=4)
def _codecs(classes: tuple[type[Operation], ...]) -> dict[str, Codec[Any]]:
    blocked = Codec(Blocked, shared=True)
    return {
        "actions": Codec(*reversed(classes), tag="OPERATION", shared=True),
        "waiting": Codec(Waiting, shared=True),
        "blocked": blocked,
        "unread": blocked,
        "skipped": Codec(Skipped, shared=True),
        "satisfied": Codec(SatisfiedRow),
    }


def _satisfied_rows(decisions: Iterable[Decision]) -> Iterator[SatisfiedRow]:
    """Yield one row per topic and one per group: most subjects are in sync, so their rows are short."""

    def subject(decision: Decision) -> tuple[Address, bool]:
        address = decision.address
        return Address(address.kind, address.policy, address.name), address.partition >= 0

    for (address, is_topic), members in groupby(decisions, key=subject):
        yield SatisfiedRow(address, ranges(member.address.partition for member in members) if is_topic else None)


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers as "0-4,6,8-9"."""
    runs = (list(run) for _key, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]))
    return ",".join(_range(run[0][1], run[-1][1]) for run in runs)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


@contextmanager
def _opened(path: Path) -> Iterator[tuple[PlanFile, Iterator[Decision]]]:
    try:
        with path.open(encoding="ascii", newline="\n") as stream:
            read = hashlib.sha256()
            numbered = _lines(stream, read)
            header, newer = _header(path, numbered)
            copied = {part.name: getattr(header, part.name) for part in fields(header)}
            yield PlanFile(path=path, **copied), _decisions(numbered, header, read, newer=newer)
    except OSError as error:
        next_step = f", `reconciler plan --out {path}` saves a plan" if isinstance(error, FileNotFoundError) else ""
        fault = f"cannot read the plan {path}: {error_reason(error)}"
        raise PlanUnusable(f"{fault}; nothing was done{next_step}") from error
    except ValueError as error:
        raise PlanUnusable(
            f"the plan {path} is not usable: {error_reason(error)}; nothing was done, plan again"
        ) from error


def _lines(stream: TextIO, read: _Hash) -> _Lines:
    """Yield the lines. `read`: takes each line once the next one is asked for."""
    for number in count(1):
        text = stream.readline(LINE_MAX)
        if not text.endswith("\n"):
            fault = f"is missing, cut or longer than {LINE_MAX:,} characters"
            raise ValueError(f"line {number} {fault}: the file is empty or not complete")
        line = text.rstrip("\r\n")
        yield number, line
        read.update(f"{line}\n".encode("ascii"))
        if text in ("}\n", "}\r\n"):
            if stream.readline(1):
                raise ValueError(f"line {number + 1}: something follows the end of the plan")
            return


def _header(path: Path, numbered: _Lines) -> tuple[Header, bool]:
    """Return the header, and whether the file is of a newer minor version."""
    text, newer = "", False
    for number, line in numbered:
        text += line + "\n"
        if number in (1, 3) and (kind := document_kind(text)) not in ("", "Plan"):
            raise PlanUnusable(f"{wrong_document(path, kind, 'a plan')}; nothing was done")
        if number == 1 and line not in ("", "{"):
            raise ValueError(f"line 1 is {shorten(line)}; {_BEGINNING} ({_HINT})")
        if number == 3:
            start = re.fullmatch(r'\{\n"format_version": "([0-9]+\.[0-9]+)",\n"kind": "Plan",\n', text)
            if not start:
                raise ValueError(f"lines 1 to 3 are {shorten(text)}; {_BEGINNING} ({_HINT})")
            newer = is_newer(start[1], FORMAT_VERSION)
        if line.startswith('"plan_digest":') or line == "}":
            break
    if not text.endswith(",\n"):
        raise ValueError(f"line {number}: expected plan_digest and a comma ({_HINT})")
    text = text.removesuffix(",\n") + "\n}\n"
    header = _HEADER.validate(text)
    compare(text, "".join(document(_HEADER.fields(header))), newer=newer)
    return header, newer


def _decisions(numbered: _Lines, header: Header, read: _Hash, *, newer: bool) -> Iterator[Decision]:
    codecs, totals = _codecs(operations.OPERATIONS), Totals(header)
    last: dict[str, Address] = {}
    seal = ""
    for number, section, text in _rows(numbered, newer=newer):
        if section == "file_digest":
            seal, actual = text, _file_digest(read)
            continue
        try:
            value = codecs[section].decode(text, newer=newer)
            for decision in value.decisions() if isinstance(value, SatisfiedRow) else (value,):
                _check_place(decision, section, last.get(section))
                last[section] = decision.address
                totals.add(decision)
                yield decision
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if totals.digest != header.plan_digest:
        raise ValueError(
            f"its actions, rules and manifests have the digest {totals.digest}, its header says {header.plan_digest}: it "
            "was changed after it was made"
        )
    names = totals.summary.keys() if newer else totals.summary.keys() | header.summary.keys()
    # A version that did not have one of the operations counted none of it.
    counted = {**dict.fromkeys((known.OPERATION for known in operations.OPERATIONS), 0), **header.summary}
    if wrong := [name for name in sorted(names) if counted.get(name) != totals.summary.get(name)]:
        raise ValueError(f"its summary says something else than its rows: {', '.join(wrong)}")
    if seal != actual:
        raise ValueError(
            f"its lines have {actual}, its last one says {shorten(seal)}: it was changed after it was made"
        )


def _rows(numbered: _Lines, *, newer: bool) -> Iterator[tuple[int, str, str]]:
    """Yield line number, section and text of each row, and at the end those of `file_digest`.

    A newer minor version may have other lists and fields between them.
    """
    expected, inside, comma = [*SECTIONS, "file_digest"], "", True
    for number, line in numbered:
        text = line.removesuffix(",")
        if comma == (text in ("]", "}")):
            raise ValueError(f"line {number}: a comma {'stands' if comma else 'is missing'} before {shorten(line)}")
        comma = text != line
        if inside and text == "]":
            inside = ""
        elif inside in SECTIONS:
            yield number, inside, text
        elif not inside and text != "}":
            name, _, value = text.partition(": ")
            due = expected[0] if expected else "end: file_digest is the last field"
            if name == f'"{due}"' and (value in ("[", "[]") or due == "file_digest"):
                del expected[0]
                if due == "file_digest":
                    yield number, due, text
            elif not expected or not newer or name.strip('"') in SECTIONS:
                what = "" if due == "file_digest" else "the list " if expected else "the "
                raise ValueError(f"line {number}: found {shorten(text)}, expected {what}{due} ({_HINT})")
            if value == "[":
                inside, comma = name.strip('"'), True
    if expected:
        raise ValueError(f"line {number}: the plan lacks {' and '.join(expected)}")


def _check_place(decision: Decision, section: str, last: Address | None) -> None:
    address = decision.address
    if section_of(decision) != section:
        raise ValueError(f"{shorten(str(address))} does not belong into the list {section}")
    if last is not None and not last < address:
        how = "is there twice" if address == last else f"stands after {shorten(str(last))}, out of address order"
        raise ValueError(f"{shorten(str(address))} {how}")
