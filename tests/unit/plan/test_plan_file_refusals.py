"""A plan file that differs from its original text is refused with line and reason."""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from reconciler import __version__
from reconciler.codec import document
from reconciler.errors import PlanUnusable
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import LimitVerdict, ManifestFile, Plan, PolicyInfo, Skipped, Source, UsedWaiver
from reconciler.operations.delete_records import AcceptedLag
from reconciler.plan import plan_file
from tests.strategies import plans as made
from tests.strategies.examples import (
    blocked,
    digest_by_hand,
    election,
    plan,
    plan_text,
    purge,
    removal,
    satisfied,
    sealed,
    waiting,
)

WHOLE = plan(
    purge(skips=(("billing", 52_000),)),
    removal(),
    election(),
    blocked(),
    blocked("RetentionFloor/orders-gdpr/orders[6]", unread=True),
    waiting("RetentionFloor/streams/repartition[0]"),
    *[satisfied(f"LeaderPolicy/all/x[{number}]") for number in (0, 1, 2, 5)],
)
TEXT = plan_text(WHOLE)


def refused(text: str | bytes, tmp_path: Path) -> str:
    """Return the message of the refusal, which is the same for a full and a streamed read."""
    path = tmp_path / "plan.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    with pytest.raises(PlanUnusable) as error:
        plan_file.read(path)
    with pytest.raises(PlanUnusable):
        plan_file.open_plan(path)
    assert error.value.exit_code == 4
    assert "nothing was done" in str(error.value)
    return str(error.value)


def signed(text: str) -> str:
    """Return the text with a valid digest, as a forger with sha256 would."""
    parsed = json.loads(text)
    return sealed(re.sub("sha256:[0-9a-f]{64}", digest_by_hand(parsed), text))


def test_the_example_is_read() -> None:
    """The refusals below come from their edits, not from the example."""
    assert signed(TEXT) == TEXT


HEAD = b'{\n"format_version": "3.0",\n"kind": "Plan",\n'
EDITS = [
    ('"format_version": "3.0"', '"format_version": "4.0"', "this program reads 3.x"),
    ('"format_version": "3.0"', '"format_version": "2.1"', "this program reads 3.x; nothing was done, plan again"),
    ('"format_version": "3.0"', '"format_version": 3.0', "a plan file begins with its header"),
    ('"format_version": "3.0"', '"format_version": "3.0.0"', "a plan file begins with its header"),
    ('"format_version": "3.0",\n', "", "a plan file begins with its header"),
    ('"kind": "Plan"', '"kind": "Results"', "plan.json is a results file of `apply`, not a plan: `reconciler show "),
    ('"kind": "Plan"', '"kind": "DriftReport"', "plan.json is a drift report, not a plan: `reconciler show "),
    ('"kind": "Plan"', '"kind": "DoctorReport"', "plan.json is the JSON of `doctor`, not a plan; nothing was done"),
    ('"kind": "Plan"', '"kind": "Another"', "a plan file begins with its header"),
    ('"kind": "Plan",\n', "", "a plan file begins with its header"),
    ('"targets": [],\n', '"targets": [],\n"targets": [],\n', "'targets' is there twice"),
    ('"targets": [],\n', '"targets": []\n', "not one complete JSON value"),
    ('"targets": [],\n', '"targets":  [],\n', "do not reformat it"),
    ('"expires_at": "2026-11-22T10:00:00Z"', '"expires_at": "2026-11-22T10:00:00+01:00"', "expires_at is"),
    ('"expires_at": "2026-11-22T10:00:00Z"', '"expires_at": "2026-13-22T10:00:00Z"', "expires_at is"),
    ('"expires_at": "2026-11-22T10:00:00Z"', '"expires_at": "20261122T100000Z"', "expires_at is"),
    ('"expires_at": "2026-11-22T10:00:00Z"', '"expires_at": "2026-11-20T10:00:00Z"', "expires_at lies before"),
    ('"cluster_id": "5L6g3nShT-eMCtK--X86sw"', '"cluster_id": ""', "cluster_id is ''"),
    ('"cluster_id": "5L6g3nShT-eMCtK--X86sw"', '"cluster_id": "another"', "it was changed after it was made"),
    ('"delete_records":1', '"delete_records":2', "summary says something else than its rows: delete_records"),
    ('"records_removed_max":97213,', '"records_removed_max":97212,', "summary says something else"),
    ('"satisfied":4', '"satisfied":3', "summary says something else than its rows: satisfied"),
    ('"plan_digest": "sha256:', '"plan_digest": "sha256:0', "plan_digest is"),
    # the request
    ('"before_offset":98213', '"before_offset":98214', "request.before_offset is 98213"),
    ('"topic_id":"kAwXdc4bS8uMfEXAMPLE0g"', '"topic_id":"another"', "approved.topic_id is"),
    ('"idle_for_ms":259200000', '"idle_for_ms":1', "approved.idle_for_ms is"),
    ('"every_ms":null', '"every_ms":0', "approved.guard.every_ms is"),
    ('"before_offset":98213', '"before_offset":-1', "before_offset is -1"),
    ('"before_offset":98213', '"before_offset":0', "before_offset is 0"),
    ('"before_offset":98213', '"before_offset":true', "before_offset is true"),
    ('"before_offset":98213', '"before_offset":98213.0', "before_offset is 98213.0"),
    ('"before_offset":98213', '"before_offset":null', "before_offset is null"),
    ('"before_offset":98213', '"before_offset":1e999', "before_offset is Infinity"),
    ('"before_offset":98213', '"before_offset":NaN', "before_offset is NaN"),
    ('"before_offset":98213', '"before_offset":9223372036854775808', "before_offset is 9223372036854775808"),
    ('"before_offset":98213', '"before_offset":1000', "not above the log start 1000"),
    ('"before_offset":98213', '"before_offset":250001', "at or below the last stable offset 250000"),
    ('"before_offset":98213', '"before_offset":250000,"before_offset":98213', "'before_offset' is there twice"),
    ('"partition":{"topic":"orders","partition":3}', '"partition":{"topic":"orders","partition":4}', "another subject"),
    ('"partition":{"topic":"orders","partition":3}', '"partition":{"topic":"others","partition":3}', "another subject"),
    (
        '"partition":{"topic":"orders","partition":3}',
        '"partition":{"topic":"orders","partition":-3}',
        "partition.partition is -3",
    ),
    ('"group":"old-etl"', '"group":"billing"', "names another subject"),
    ('"group":"old-etl"', '"group":""', "group is ''"),
    (
        '"operation":"delete_group"',
        '"operation":"delete_everything"',
        "operation is 'delete_everything', which is none of",
    ),
    ('"operation":"delete_group"', '"operation":"delete_records"', "it lacks partition"),
    ('"leader_wanted":1', '"leader_wanted":3', "leader_wanted is not the first of the replicas"),
    ('"election":"preferred"', '"election":"unclean"', "an unclean election is for a partition without a leader"),
    ('"request":{"topic":"orders"', '"request":{"topic":"others"', "request.topic is 'others'"),
    # the facts and what follows from them
    ('"log_start":1000', '"log_start":98000', "impact.records_removed_max is 97213"),
    ('"log_start":1000', '"log_start":-1', "seen.log_start is -1"),
    ('"records_removed_max":97213,"skips"', '"records_removed_max":5,"skips"', "impact.records_removed_max is 5"),
    ('"records_max":46213', '"records_max":1', "impact.skips[0].records_max is 1"),
    ('"commits_lost":12', '"commits_lost":0', "impact.commits_lost is 0"),
    ('"irreversible":true', '"irreversible":false', "irreversible is false"),
    ('"newest_record":[17,4711]', '"newest_record":null', "last_activity_ms or newest_record is missing"),
    ('"newest_record":[17,4711]', '"newest_record":[17,4711,1]', "seen.newest_record"),
    ('"state":"EMPTY"', '"state":"GONE"', "seen.state is 'GONE'"),
    ('"consumed_by_named":false', '"consumed_by_named":true', "consumed_by_named is true, but"),
    (
        '"consumed_by_named":false',
        '"consumed_by_named":false,"gaps":249001',
        "gaps is 249001, and the partition has only",
    ),
    ('"consumed_by_named":false', '"consumed_by_named":false,"gaps":-1', "gaps is -1"),
    ('"replicas":[1,2,3]', '"replicas":[1,2,-3]', "seen.replicas[2] is -3"),
    ('"replicas":[1,2,3]', '"replicas":[1,2,2147483648]', "seen.replicas[2] is 2147483648"),
    ('"consumers":"ignore"', '"consumers":"any"', "guard.consumers is 'any'"),
    ('"except_groups":[]', '"except_groups":["regex:("]', 'excepts groups by "regex:(", not a regular'),
    ('"unread":true', '"unread":false', "does not belong into the list unread"),
    ('"partitions":"0-2,5"', '"partitions":"0-2,5,"', "partitions is '0-2,5,'"),
    ('"partitions":"0-2,5"', '"partitions":"2-0,5"', "partitions is '2-0,5', expected a topic's ascending ranges"),
    ('"partitions":"0-2,5"', '"partitions":"0-2,2,5"', "partitions is '0-2,2,5', expected a topic's ascending ranges"),
    ('"partitions":"0-2,5"', '"partitions":"0-1,2,5"', "partitions is '0-1,2,5', expected a topic's ascending ranges"),
    ('"partitions":"0-2,5"', '"partitions":"0-2,5-5"', "partitions is '0-2,5-5', expected a topic's ascending ranges"),
    ('"partitions":"0-2,5"', '"partitions":"00-2,5"', "partitions is '00-2,5'"),
    (
        '"partitions":"0-2,5"',
        '"partitions":"0-9999999999"',
        "partitions is '0-9999999999', expected a topic's ascending ranges",
    ),
    ('"partitions":"0-2,5"', '"partitions":null', "its summary says something else than its rows: satisfied"),
    # the layout
    ('"consumed_by_named":false', '"consumed_by_named": false', "do not reformat it"),
    ('"reason":"newerThan', '"reason":"\\u006eewerThan', "do not reformat it"),
    ('"unread": [', '"unread2": [', "expected the list unread"),
    ('"waiting": [', '"blocked": [', "expected the list waiting"),
    ('"skipped": [],\n', "", "expected the list skipped"),
    ('"skipped": [],\n', '"skipped": [{"address":"A/b","reason":""}],\n', "expected the list skipped"),
    ('"\n}\n', '"\n', "line 41 is missing, cut or longer"),
    ('"\n}\n', '"\n}\n{}\n', "something follows the end of the plan"),
    ('"\n}\n', '",\n}\n', "a comma stands before"),
    ('"file_digest": "sha256:', '"file_digest": "sha256:0', "it was changed after it was made"),
    ('"file_digest": "sha256:', '"digest_of_file": "sha256:', "expected file_digest"),
    ('"next_step":"let it', '"next_step":"let us', "it was changed after it was made"),
    ('{\n"format', '{"format', "a plan file begins with its header"),
    ('"waiting": [', '"waiting": [[', "do not reformat it"),
]


@pytest.mark.parametrize(
    ("old", "new"), [(old, new) for old, new, message in EDITS if "impact" in message or "not above" in message]
)
def test_a_recomputed_digest_does_not_help_a_forger(old: str, new: str, tmp_path: Path) -> None:
    """The bounds of a target and its impact must be valid with any digest."""
    message = refused(signed(TEXT.replace(old, new, 1)), tmp_path)
    assert "impact." in message or "last stable offset" in message


@pytest.mark.parametrize("number", [50, 50.0, 0.1, 1e22, 5e-324])
def test_numbers_keep_their_type(number: float, tmp_path: Path) -> None:
    """Another write gives the same text: 50 stays 50, and 50.0 stays 50.0."""
    path = tmp_path / "plan.json"
    plan_file.write(plan(limits=(replace(VERDICT, limit=number),)), path)
    [verdict] = plan_file.read(path).limits
    assert (verdict.limit, type(verdict.limit)) == (number, type(number))


def test_unsorted_and_repeated_rows_are_refused(tmp_path: Path) -> None:
    """The comparison of two streamed plans needs the order."""
    lines = TEXT.split("\n")
    first = lines.index('"actions": [') + 1
    swapped = [*lines[:first], lines[first + 1], lines[first], *lines[first + 2 :]]
    assert "out of address order" in refused("\n".join(swapped), tmp_path)
    doubled = [*lines[: first + 1], *lines[first:]]
    assert "is there twice" in refused("\n".join(doubled), tmp_path)


def test_one_subject_in_two_sections_is_refused(tmp_path: Path) -> None:
    """A subject cannot have an action and be blocked."""
    text = TEXT.replace(
        '"address":"RetentionFloor/orders-gdpr/orders[5]"', '"address":"RetentionFloor/orders-gdpr/orders[3]"'
    )
    path = tmp_path / "plan.json"
    path.write_text(sealed(text))
    with pytest.raises(PlanUnusable, match="two decisions for"):
        plan_file.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1 is missing, cut or longer than 67,108,864 characters: the file is empty or not complete"),
        (b"\n", "line 2 is missing"),
        (b"hello\n" * 9, "a plan file begins with its header"),
        (b"{", "line 1 is missing, cut"),
        (b"{\n", "is not usable"),
        (b"{\n}\n", "is not usable"),
        (b"\xff\xfe{\n", "byte 1 of the text is not ASCII"),
        (b"{\n[1]\n", "is not usable"),
        (HEAD + b'"a": 1, "b": 2,\n"plan_digest": "",\n', "lacks"),
        (HEAD + b'"tool_version": ' + b"[" * 100_000 + b',\n"plan_digest": "",\n', "is not usable"),
        (HEAD + b'"tool_version": ' + b"9" * 10_000 + b',\n"plan_digest": "",\n', "is not usable"),
        (HEAD + b'"tool_version": "0.1.0"\n}\n', "expected plan_digest"),
    ],
)
def test_files_that_are_no_plan_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    """Another file, or none, gives an error message and no traceback."""
    assert message in refused(content, tmp_path)


def test_a_missing_file_or_a_folder_is_named(tmp_path: Path) -> None:
    """The message has the path and the reason."""
    for path in (tmp_path / "none.json", tmp_path):
        for read in (plan_file.read, plan_file.open_plan):
            with pytest.raises(PlanUnusable, match=f"cannot read the plan {re.escape(str(path))}"):
                read(path)


def test_a_plan_that_was_reformatted_is_refused_with_a_hint(tmp_path: Path) -> None:
    """A formatter makes valid JSON that cannot be streamed."""
    assert "do not reformat it" in refused(json.dumps(json.loads(TEXT), indent=2) + "\n", tmp_path)


def test_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    """A checkout with autocrlf has the same plan."""
    path = tmp_path / "plan.json"
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert plan_file.read(path) == WHOLE


def test_every_truncation_and_each_missing_line_is_refused(tmp_path: Path) -> None:
    """An incomplete copy, cut at a line end or inside a line, is not a shorter plan."""
    ends = {match.end() for match in re.finditer("\n", TEXT)} - {len(TEXT)}
    inside = random.Random(7).sample(range(len(TEXT) - 1), 300)
    for cut in sorted({*ends, *inside, len(TEXT) - 1}):
        refused(TEXT[:cut], tmp_path)
    lines = TEXT.splitlines(keepends=True)
    for number in range(len(lines)):
        refused("".join(lines[:number] + lines[number + 1 :]), tmp_path)


def test_a_newer_minor_version_may_add_fields(tmp_path: Path) -> None:
    """Version 1.0 reads 1.x: it ignores unknown fields and lists, and checks all known fields.

    It refuses unknown fields in what decides the request: a condition that it does not know would
    not be tested.
    """
    text = TEXT.replace('"format_version": "3.0"', '"format_version": "3.7"')
    text = text.replace('"targets": [],\n', '"later": {"a": [1]},\n"targets": [],\n')
    text = text.replace('"reason":', '"later":1,"reason":').replace('"impact":{', '"impact":{"later":{},')
    text = sealed(text.replace('"skipped": [],', '"later_list": [\n{"x": 1}\n],\n"skipped": [],\n"later_too": 5,'))
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert plan_file.read(path) == WHOLE
    for name in ("request", "guard", "seen", "approved"):
        assert f"{name} has unknown fields" in refused(
            text.replace(f'"{name}":{{', f'"{name}":{{"later":1,', 1), tmp_path
        )
    assert "impact." in refused(text.replace('"log_start":1000', '"log_start":5'), tmp_path)
    assert "lacks" in refused(text.replace('"last_stable_offset":250000,', ""), tmp_path)
    assert "twice" in refused(text.replace('"log_start":1000', '"log_start":1000,"log_start":1000'), tmp_path)


@made.FEW
@given(made.plans(max_size=3))
def test_the_header_is_read_without_the_rows(tmp_path_factory: pytest.TempPathFactory, plan_with_rows: Plan) -> None:
    """Cluster, expiry and digest are known before the actions."""
    path = tmp_path_factory.getbasetemp() / "header.json"
    plan_file.write(plan_with_rows, path)
    opened = plan_file.open_plan(path, proven=False)
    assert isinstance(opened, plan_file.PlanFile)
    header = opened
    assert header.plan(plan_with_rows.decisions) == plan_with_rows
    assert header.plan_digest == plan_file.digest(plan_with_rows)
    assert header.summary["satisfied"] + header.summary["skipped"] <= len(plan_with_rows.decisions)


VERDICT = LimitVerdict(
    id="topics",
    limit=5,
    observed=3,
    passed=True,
    message="topics: 3",
    worst=Address("RetentionFloor", "orders-gdpr"),
    waivers=(
        UsedWaiver(
            name="once",
            policy=Address("RetentionFloor", "orders-gdpr"),
            limit="topics",
            value=7,
            expires_ms=1_795_341_600_000,
            declared_at=SourceLocation("waivers.yaml", 3, 1),
        ),
    ),
)
IN_HEADER: dict[str, Any] = {
    "limits": (VERDICT,),
    "source": Source(commit="4f2c9aa", manifests=(ManifestFile(path="a.yaml", sha256="ab" * 32),)),
    "targets": ("RetentionFloor/orders-gdpr",),
    "incomplete": ("something",),
    "notes": (PolicyInfo(policy=Address("RetentionFloor", "orders-gdpr"), owner="team", reason="law"),),
}
HEADED = plan_text(plan(purge(), **IN_HEADER))
IN_THE_HEADER = [
    ('"tool_version": "0.1.0"', '"tool_version": ""', "tool_version is ''"),
    ('"commit":"4f2c9aa"', '"commit":""', "source.commit is ''"),
    (f'"sha256":"{"ab" * 32}"', '"sha256":"ab"', 'sha256 is "ab", expected 64 hexadecimal digits'),
    ('"cluster": "prod-eu"', '"cluster": ""', "cluster is ''"),
    ('"observed_at": "2026', '"observed_at": "202', "observed_at is"),
    ('"id":"topics"', '"id":""', "limits[0].id is ''"),
    # `true` is not 1, and infinity bounds nothing.
    *(
        ('"limit":5', f'"limit":{value}', f"limits[0].limit is {value}: expected a finite number")
        for value in ("true", "null", "NaN", "Infinity", "-Infinity", "[1]")
    ),
    ('"worst":"RetentionFloor/orders-gdpr"', '"worst":"invalid"', "invalid"),
    ('"expires":"2026', '"expires":"202', "limits[0].waivers[0].expires is"),
    ('"skipped":0', '"skipped":-1', "summary.skipped is -1"),
]


# `consumed_by_named` excludes records from the limits: it is valid only if no group may skip records.
IN_A_SKIPPING_PURGE = [('"consumed_by_named":false', '"consumed_by_named":true', "consumed_by_named is true, but")]
EDITED = {
    TEXT: EDITS,
    HEADED.replace(f'"tool_version": "{__version__}"', '"tool_version": "0.1.0"'): IN_THE_HEADER,
    plan_text(plan(purge(named=("billing",), accepted=(AcceptedLag("audit", 52_000),)))): IN_A_SKIPPING_PURGE,
}
ROWS = [(text, *edit) for text, edits in EDITED.items() for edit in edits]


WRONG: dict[type, Any] = {dict: [], list: {}, str: 5, int: "5", float: "5", bool: 1, type(None): {}}
"""For each type of JSON, a value of another one that is near to it."""


def spoil(value: Any, name: str) -> Iterator[tuple[Any, str]]:
    """Yield the value with each fault that it can have inside, and what names the fault.

    A value of another type, a field that is missing, and one that is not known.
    """
    if isinstance(value, dict):
        yield {**value, "more": 1}, "more"
        for key, inner in value.items():
            yield {other: value[other] for other in value if other != key}, key
            yield from (({**value, key: fault}, words) for fault, words in spoil(inner, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            faults = spoil(inner, f"{name}[{at}]")
            yield from (([*value[:at], fault, *value[at + 1 :]], words) for fault, words in faults)
    yield WRONG[type(value)], name


def test_each_fault_of_each_field_is_named(tmp_path: Path) -> None:
    """In the header and in the first row of each list."""
    skipped = Skipped(address=Address("RetentionFloor", "a", "x"), code="B303", reason="no")
    text = plan_text(plan(*WHOLE.decisions, skipped, **IN_HEADER))
    parsed = json.loads(text)
    assert "".join(document(parsed)) == text
    names = list(parsed)
    begin, end = ({name: parsed[name] for name in part} for part in (names[:2], names[names.index("actions") :]))
    header = {name: parsed[name] for name in parsed if name not in (*begin, *end)}
    faults = [({**begin, **fault, **end}, words) for fault, words in spoil(header, "") if fault]
    for section in plan_file.SECTIONS:
        first, *others = parsed[section]
        faults += [({**parsed, section: [fault, *others]}, words) for fault, words in spoil(first, "")]
    for fault, words in faults:
        reason = refused("".join(document(fault)), tmp_path).partition("is not usable: ")[2]
        assert re.search(rf"(?<!\w){re.escape(words)}", reason), reason


@pytest.mark.parametrize(
    ("text", "old", "new", "message"), ROWS, ids=[f"{number}-{row[3][:30]}" for number, row in enumerate(ROWS)]
)
def test_an_edited_plan_is_refused_with_the_reason(text: str, old: str, new: str, message: str, tmp_path: Path) -> None:
    """Each edit is found, in every part of the file, and the message names it."""
    assert old in text
    assert message in refused(text.replace(old, new, 1), tmp_path)


def test_a_newer_minor_version_may_add_to_every_part_of_the_header(tmp_path: Path) -> None:
    text = HEADED.replace('"format_version": "3.0"', '"format_version": "3.9"')
    for old in ('"path":', '"id":', '"name":"once"', '"owner":', '"commit":'):
        assert old in text
        text = text.replace(old, f'"later":[1],{old}')
    path = tmp_path / "plan.json"
    path.write_text(sealed(text))
    assert plan_file.read(path).limits == (VERDICT,)
