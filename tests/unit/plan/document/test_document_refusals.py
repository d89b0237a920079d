"""A plan file that is not exactly as it was written is refused, by line and reason, and nothing of it is believed."""

import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler import __version__
from reconciler.errors import PlanUnusable
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import LimitVerdict, ManifestFile, Plan, PolicyInfo, Skipped, Source, UsedWaiver
from reconciler.operations.delete_records import AcceptedLag
from reconciler.plan import document
from reconciler.plan.document import checks
from reconciler.plan.document.digest import approved_fields
from tests.strategies import plans as made
from tests.strategies.examples import blocked, digest_by_hand, election, plan, purge, removal, satisfied, waiting

WHOLE = plan(
    purge(skips=(("billing", 52_000),)),
    removal(),
    election(),
    blocked(),
    blocked("RetentionFloor/orders-gdpr/orders[6]", unread=True),
    waiting("RetentionFloor/streams/repartition[0]"),
    *[satisfied(f"LeaderPolicy/all/x[{number}]") for number in (0, 1, 2, 5)],
)
TEXT = document.dumps(WHOLE)


def refused(text: str | bytes, tmp_path: Path) -> str:
    """The message with which a file of this text is refused, by reading it whole and by streaming it."""
    path = tmp_path / "plan.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    with pytest.raises(PlanUnusable) as found:
        document.read(path)
    with pytest.raises(PlanUnusable):
        list(document.actions(path))
    assert found.value.exit_code == 4
    assert "nothing was done" in str(found.value)
    return str(found.value)


def signed(text: str) -> str:
    """The text with a digest that fits its actions: a forger who can compute sha256."""
    parsed = json.loads(text)
    return re.sub("sha256:[0-9a-f]{64}", digest_by_hand(parsed), text)


def test_the_example_is_read() -> None:
    """The refusals below are about their edits, and not about the example."""
    assert signed(TEXT) == TEXT


EDITS = [
    ('"format_version": "1.0"', '"format_version": "2.0"', "use the version that wrote it"),
    ('"format_version": "1.0"', '"format_version": "0.9"', "use the version that wrote it"),
    ('"format_version": "1.0"', '"format_version": 1.0', "format_version is 1.0"),
    ('"format_version": "1.0"', '"format_version": "1.0.0"', "format_version is '1.0.0'"),
    ('"format_version": "1.0",\n', "", "expected format_version first"),
    ('"kind": "Plan"', '"kind": "Results"', "kind is 'Results', expected Plan"),
    ('"kind": "Plan",\n', "", "the header lacks kind"),
    ('"kind": "Plan",\n', '"kind": "Plan",\n"kind": "Plan",\n', "'kind' stands there twice"),
    ('"kind": "Plan",\n', '"kind": "Plan",\n"extra": 1,\n', "unknown fields: 'extra'"),
    ('"kind": "Plan",\n', '"kind": "Plan"\n', "a comma is missing"),
    ('"expires_at": "2026-11-22T10:00:00Z"', '"expires_at": "2026-11-22T10:00:00+01:00"', "expires_at is"),
    ('"expires_at": "2026-11-22T10:00:00Z"', '"expires_at": "2026-13-22T10:00:00Z"', "expires_at is"),
    ('"expires_at": "2026-11-22T10:00:00Z"', '"expires_at": 1795341600000', "expires_at is 1795341600000"),
    ('"expires_at": "2026-11-22T10:00:00Z"', '"expires_at": "2026-11-20T10:00:00Z"', "expires_at lies before"),
    ('"cluster_id": "5L6g3nShT-eMCtK--X86sw"', '"cluster_id": ""', "cluster.cluster_id is ''"),
    ('"cluster_id": "5L6g3nShT-eMCtK--X86sw"', '"cluster_id": "another"', "it was changed after it was made"),
    ('"complete": true', '"complete": false', "scope.complete says something else"),
    ('"dirty": false', '"dirty": 0', "source.dirty is 0"),
    ('"delete_records": 1', '"delete_records": 2', "summary says something else than its rows: delete_records"),
    ('"records_removed_max": 97213, ', '"records_removed_max": 97212, ', "summary says something else"),
    ('"satisfied": 4', '"satisfied": 3', "summary says something else than its rows: satisfied"),
    ('"plan_digest": "sha256:', '"plan_digest": "sha256:0', "plan_digest is"),
    # the request
    ('"before_offset": 98213', '"before_offset": 98214', "impact says"),
    ('"topic_id": "kAwXdc4bS8uMfEXAMPLE0g"', '"topic_id": "another"', "it was changed after it was made"),
    ('"idle_for_ms": 259200000', '"idle_for_ms": 1', "it was changed after it was made"),
    ('"every_ms": null', '"every_ms": 0', "it was changed after it was made"),
    ('"before_offset": 98213', '"before_offset": -1', "request.before_offset is -1, expected a whole number from 1"),
    ('"before_offset": 98213', '"before_offset": 0', "request.before_offset is 0"),
    ('"before_offset": 98213', '"before_offset": true', "request.before_offset is True"),
    ('"before_offset": 98213', '"before_offset": 98213.0', "request.before_offset is 98213.0"),
    ('"before_offset": 98213', '"before_offset": "98213"', "request.before_offset is '98213'"),
    ('"before_offset": 98213', '"before_offset": null', "request.before_offset is None"),
    ('"before_offset": 98213', '"before_offset": 1e999', "request.before_offset is inf"),
    ('"before_offset": 98213', '"before_offset": NaN', "NaN is not JSON"),
    ('"before_offset": 98213', '"before_offset": 9223372036854775808', "request.before_offset is 9223372036854775808"),
    ('"before_offset": 98213', '"before_offset": 1000', "not above the log start 1000"),
    ('"before_offset": 98213', '"before_offset": 250001', "at or below the stable end 250000"),
    ('"before_offset": 98213', '"before_offset": 98213, "before_offset": 250000', "a field stands there twice"),
    ('{"topic": "orders", "partition": 3, ', '{"topic": "orders", "partition": 4, ', "names another subject"),
    ('{"topic": "orders", "partition": 3, ', '{"topic": "others", "partition": 3, ', "names another subject"),
    ('"request": {"group": "old-etl"}', '"request": {"group": "billing"}', "names another subject"),
    ('"request": {"group": "old-etl"}', '"request": {"group": ""}', "request.group is ''"),
    ('"operation": "delete_group"', '"operation": "delete_everything"', "operation is 'delete_everything'"),
    ('"operation": "delete_group"', '"operation": ["delete_group"]', "operation is ['delete_group']"),
    ('"leader_wanted": 1', '"leader_wanted": 3', "leader_wanted is not the first of the replicas"),
    ('"election": "preferred"', '"election": "unclean"', "an unclean election is for a partition without a leader"),
    # the facts and what follows from them
    ('"log_start": 1000', '"log_start": 98000', "impact says"),
    ('"log_start": 1000', '"log_start": -1', "seen.log_start is -1"),
    ('"records_removed_max": 97213, "skips"', '"records_removed_max": 5, "skips"', "impact says"),
    ('"records_max": 46213', '"records_max": 1', "impact says"),
    ('"commits_lost": 12', '"commits_lost": 0', "impact says"),
    ('"irreversible": true', '"irreversible": false', "irreversible says something else"),
    ('"newest_record": {"partition": 17, "offset": 4711}', '"newest_record": null', "the evidence of idleness"),
    ('"newest_record": {"partition": 17, "offset": 4711}', '"newest_record": [17, 4711]', "expected an object"),
    ('"state": "EMPTY"', '"state": "GONE"', "seen.state is 'GONE', expected one of"),
    ('"vouched": false', '"vouched": true', "vouched is true, but"),
    ('"replicas": [1, 2, 3]', '"replicas": [1, 2, -3]', "seen.replicas[] is -3"),
    ('"consumers": "ignore"', '"consumers": "any"', "guard.consumers is 'any'"),
    ('"fingerprint": "abab', '"fingerprint": 7, "x": "', "unknown fields"),
    ('"until_ms": 1795255212000', '"until_ms": "soon"', "until_ms is 'soon'"),
    ('"partitions": "0-2,5"', '"partitions": "0-2,5,"', "partitions is '0-2,5,'"),
    ('"partitions": "0-2,5"', '"partitions": "2-0,5"', "partitions is 0"),
    ('"partitions": "0-2,5"', '"partitions": "0-2,2,5"', "stands there twice"),
    ('"partitions": "0-2,5"', '"partitions": "0-9999999999"', "partitions is 9999999999"),
    ('"partitions": "0-2,5"', '"partitions": [0]', "partitions is [0]"),
    # the layout
    ('"unread": [', '"unread2": [', "found 'unread2', expected unread"),
    ('"waiting": [', '"blocked": [', "found 'blocked', expected waiting"),
    ('"skipped": [],\n', "", "found 'satisfied', expected skipped"),
    ('"skipped": [],\n', '"skipped": [{"address": "A/b", "reason": ""}],\n', "found 'skipped', expected skipped"),
    ("\n]\n}\n", "\n]\n", "the file ends here, in the middle of the plan"),
    ("\n]\n}\n", "\n]\n}\n{}\n", "something follows the end of the plan"),
    ("\n]\n}\n", "\n],\n}\n", "the document ends after a comma"),
    ('{\n"format', '{"format', "expected an opening brace alone"),
    ('"waiting": [', '"waiting": [[', "do not reformat it"),
]


@pytest.mark.parametrize(
    ("old", "new", "message"), EDITS, ids=[f"{number}-{message[:30]}" for number, (_, _, message) in enumerate(EDITS)]
)
def test_an_edited_plan_is_refused_and_says_why(old: str, new: str, message: str, tmp_path: Path) -> None:
    """Each edit alone is found, and the message names it."""
    assert old in TEXT
    assert message in refused(TEXT.replace(old, new, 1), tmp_path)


@pytest.mark.parametrize(
    ("old", "new"), [(old, new) for old, new, message in EDITS if "impact" in message or "above" in message]
)
def test_a_forger_who_recomputes_the_digest_gains_nothing(old: str, new: str, tmp_path: Path) -> None:
    """The bounds of a target and the impact that was shown hold, whatever digest the file carries."""
    message = refused(signed(TEXT.replace(old, new, 1)), tmp_path)
    assert "impact says" in message or "stable end" in message


def test_nobody_vouches_where_a_reader_skips(tmp_path: Path) -> None:
    """`vouched` takes records out of the limits: planning says it only where no group is let skip any, and so must a file."""
    text = document.dumps(plan(purge(named=("billing",), accepted=(AcceptedLag("audit", 52_000),))))
    assert "vouched is true, but" in refused(text.replace('"vouched": false', '"vouched": true'), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (', "reason": "no"', "", "the skipped decision lacks reason"),
        ('"reason": "no"', '"reason": 5', "reason is 5, expected a text"),
        ('"reason": "no"', '"reason": "no", "more": 1', "the skipped decision has unknown fields: 'more'"),
    ],
)
def test_an_edited_skipped_decision_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = document.dumps(plan(Skipped(address=Address("RetentionFloor", "a", "x"), reason="no")))
    assert old in text
    assert message in refused(text.replace(old, new, 1), tmp_path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "limit is True, expected a number"),
        ("5", "limit is '5', expected a number"),
        (None, "limit is None, expected a number"),
        (float("nan"), "limit is nan, expected a finite number"),
        (float("inf"), "limit is inf, expected a finite number"),
        (-float("inf"), "limit is -inf, expected a finite number"),
    ],
)
def test_what_is_no_number_is_no_limit(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        checks.number(value, "limit")


def test_rows_out_of_order_or_twice_are_refused(tmp_path: Path) -> None:
    """The order is what lets two plans be merged as they stream by."""
    lines = TEXT.split("\n")
    first = lines.index('"actions": [') + 1
    swapped = [*lines[:first], lines[first + 1], lines[first], *lines[first + 2 :]]
    assert "out of order" in refused("\n".join(swapped), tmp_path)
    doubled = [*lines[: first + 1], *lines[first:]]
    assert "stands there twice" in refused("\n".join(doubled), tmp_path)


def test_one_subject_in_two_sections_is_refused(tmp_path: Path) -> None:
    """A subject that is both acted upon and blocked was decided by two hands."""
    text = TEXT.replace(
        '"address": "RetentionFloor/orders-gdpr/orders[5]"', '"address": "RetentionFloor/orders-gdpr/orders[3]"'
    )
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(PlanUnusable, match="two decisions for"):
        document.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n", "expected an opening brace"),
        (b"hello\n", "expected an opening brace"),
        (b"{", "the line is cut"),
        (b"{\n", "is not usable"),
        (b"{\n}\n", "the document ends after a comma"),
        (b"\xff\xfe{\n", "not ASCII"),
        (b"{\n[1]\n", "do not reformat it"),
        (b'{\n"a": 1, "b": 2,\n', "expected one field"),
        (b'{\n"format_version": ' + b"[" * 100_000 + b"\n", "is not usable"),
        (b'{\n"format_version": ' + b"9" * 10_000 + b",\n", "is not usable"),
    ],
)
def test_what_is_no_plan_at_all_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    """A file of another kind, or none, is an answer and not a traceback."""
    assert message in refused(content, tmp_path)


def test_a_missing_file_or_a_folder_is_named(tmp_path: Path) -> None:
    """The message says which path and why."""
    for path in (tmp_path / "none.json", tmp_path):
        for read in (document.read, document.header, lambda path: list(document.actions(path))):
            with pytest.raises(PlanUnusable, match=f"cannot read the plan {re.escape(str(path))}"):
                read(path)


def test_a_plan_that_was_reformatted_is_refused_with_a_hint(tmp_path: Path) -> None:
    """A formatter on save makes valid JSON that cannot be streamed."""
    assert "do not reformat it" in refused(json.dumps(json.loads(TEXT), indent=2) + "\n", tmp_path)


def test_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    """A checkout with autocrlf is the same plan."""
    path = tmp_path / "plan.json"
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert document.read(path) == WHOLE


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    """A copy that broke off anywhere, at a line's end as well as inside, is no shorter plan."""
    ends = {match.end() for match in re.finditer("\n", TEXT)} - {len(TEXT)}
    inside = random.Random(7).sample(range(len(TEXT) - 1), 300)
    for cut in sorted({*ends, *inside, len(TEXT) - 1}):
        refused(TEXT[:cut], tmp_path)


def test_each_missing_line_is_refused(tmp_path: Path) -> None:
    """No line of a plan can be lost without notice."""
    lines = TEXT.splitlines(keepends=True)
    for number in range(len(lines)):
        refused("".join(lines[:number] + lines[number + 1 :]), tmp_path)


@made.FEW
@given(data=st.data())
def test_no_flipped_character_changes_what_would_be_done(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever one character becomes: the file is refused, or what would be done and tested is what it was."""
    at = data.draw(st.integers(0, len(TEXT) - 1))
    new = data.draw(st.characters(min_codepoint=1, max_codepoint=255))
    path = tmp_path_factory.getbasetemp() / "flipped.json"
    path.write_bytes((TEXT[:at] + new + TEXT[at + 1 :]).encode("latin-1"))
    try:
        read = document.read(path)
    except PlanUnusable:
        return
    assert [approved_fields(action) for action in read.actions] == [approved_fields(action) for action in WHOLE.actions]


def test_a_newer_minor_version_may_add_fields_anywhere(tmp_path: Path) -> None:
    """Format 1.x is read by 1.0: unknown fields and lists are passed over, and what is known is still checked in full."""
    text = TEXT.replace('"format_version": "1.0"', '"format_version": "1.7"')
    text = text.replace('"kind": "Plan",\n', '"kind": "Plan",\n"later": {"a": [1]},\n')
    text = text.replace('"reason": ', '"later": 1, "reason": ').replace('"topic_id": ', '"later": {}, "topic_id": ')
    text = text.replace('"skipped": [],', '"later_list": [\n{"x": 1}\n],\n"skipped": [],\n"later_too": 5,')
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert document.read(path) == WHOLE
    assert "impact says" in refused(text.replace('"log_start": 1000', '"log_start": 5'), tmp_path)
    assert "lacks" in refused(text.replace('"stable_end": 250000, ', ""), tmp_path)


@made.FEW
@given(made.plans(max_size=3))
def test_the_header_is_read_without_the_rows(tmp_path_factory: pytest.TempPathFactory, whole: Plan) -> None:
    """Cluster, expiry and digest are known before any action is."""
    path = tmp_path_factory.getbasetemp() / "header.json"
    document.write(whole, path)
    header = document.header(path)
    assert header.plan(whole.decisions) == whole
    assert header.digest == document.digest(whole)
    assert header.summary["satisfied"] + header.summary["skipped"] <= len(whole.decisions)


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
HEADED = document.dumps(
    plan(
        purge(),
        limits=(VERDICT,),
        source=Source(commit="4f2c9aa", manifests=(ManifestFile(path="a.yaml", sha256="ab" * 32),)),
        targets=("RetentionFloor/orders-gdpr",),
        incomplete=("something",),
        notes=(PolicyInfo(policy=Address("RetentionFloor", "orders-gdpr"), owner="team", reason="law"),),
    )
)
IN_THE_HEADER = [
    ('"name": "reconciler"', '"name": ""', "tool.name is ''"),
    ('"version": "0.1.0"', '"version": 1', "tool.version is 1"),
    ('"tool": {"name"', '"tool": {"nome"', "tool lacks name"),
    ('"$schema": "', '"$schema": 7, "x": "', "expected one field"),
    ('"created_at": "2026', '"created_at": "2O26', "created_at is"),
    ('"commit": "4f2c9aa"', '"commit": ""', "source.commit is ''"),
    ('"dirty": false', '"dirty": "no"', "source.dirty is 'no'"),
    ('"manifests": [{', '"manifests": {}, "x": [{', "source has unknown fields: 'x'"),
    ('"path": "a.yaml"', '"path": 5', "source.manifests[].path is 5"),
    ('"path": "a.yaml"', '"pfad": "a.yaml"', "source.manifests[] lacks path"),
    (f'"sha256": "{"ab" * 32}"', '"sha256": null', "source.manifests[].sha256 is None"),
    (f'"sha256": "{"ab" * 32}"', '"sha256": "ab"', "source.manifests[].sha256 is 'ab', expected 64 hexadecimal digits"),
    ('"name": "prod-eu"', '"name": ""', "cluster.name is ''"),
    ('"observed_at": "2026', '"observed_at": "202', "cluster.observed_at is"),
    ('"targets": ["RetentionFloor/orders-gdpr"]', '"targets": [5]', "scope.targets"),
    ('"incomplete": ["something"]', '"incomplete": "something"', "scope.incomplete"),
    ('"complete": false', '"complete": 0', "scope.complete is 0"),
    ('"id": "topics"', '"id": ""', "limits[].id is ''"),
    ('"id": "topics"', '"idea": "topics"', "limits[] lacks id"),
    ('"limit": 5', '"limit": "5"', "limits[].limit is '5'"),
    ('"observed": 3', '"observed": true', "limits[].observed is True"),
    ('"verdict": "within"', '"verdict": 5', "limits[].verdict is 5"),
    ('"verdict": "within"', '"verdict": "fine"', "limits[].verdict is 'fine', expected within or refused"),
    ('"message": "topics: 3"', '"message": null', "limits[].message is None"),
    ('"worst": "RetentionFloor/orders-gdpr"', '"worst": "nobody"', "nobody"),
    ('"waivers": [{', '"waivers": {}, "x": [{', "limits[] has unknown fields: 'x'"),
    ('"name": "once"', '"name": 1', "limits[].waivers[].name is 1"),
    ('"name": "once"', '"nome": "once"', "limits[].waivers[] lacks name"),
    ('"limit": "topics"', '"limit": 1', "limits[].waivers[].limit is 1"),
    ('"value": 7', '"value": null', "limits[].waivers[].value is None"),
    ('"expires": "2026', '"expires": "202', "limits[].waivers[].expires is"),
    ('"owner": "team"', '"owner": 3', "notes[].owner is 3"),
    ('"reason": "law"', '"reason": 3', "notes[].reason is 3"),
    ('"owner": "team"', '"owners": "team"', "notes[] lacks owner"),
    ('"skipped": 0', '"skipped": -1', "summary.skipped is -1"),
    ('"skipped": 0', '"skips": 0', "summary lacks skipped"),
]


@pytest.mark.parametrize(("old", "new", "message"), IN_THE_HEADER)
def test_an_edited_header_is_refused_and_says_where(old: str, new: str, message: str, tmp_path: Path) -> None:
    """Nothing of it is taken as it comes, limits, waivers and notes included."""
    text = HEADED.replace(f'"version": "{__version__}"', '"version": "0.1.0"')
    assert old in text
    assert message in refused(text.replace(old, new, 1), tmp_path)


def test_a_newer_minor_version_may_add_to_every_part_of_the_header(tmp_path: Path) -> None:
    text = HEADED.replace('"format_version": "1.0"', '"format_version": "1.9"')
    for old in ('"path": ', '"id": ', '"name": "once"', '"owner": ', '"commit": ', '"complete": ', '"version": '):
        assert old in text
        text = text.replace(old, f'"later": [1], {old}')
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert document.read(path).limits == (VERDICT,)
