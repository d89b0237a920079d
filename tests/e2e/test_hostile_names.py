"""Group ids are arbitrary text: every command that shows names gets a list of hostile ones, on real
brokers.

Three claims hold for every output. Nothing in it controls a terminal, a browser or a CI runner. Two
ids never look equal. Outputs for programs (JSON, Parquet, the journal) have the exact ids.
"""

import json
import re
import time
import unicodedata
from typing import NamedTuple

import pyarrow.parquet as pq

from reconciler.model.names import Address, format_address
from reconciler.text.escape import quoted
from tests.command import output
from tests.e2e.raw_requests import commit, delete
from tests.e2e.workspace import DAY_MS, Workspace, blocks, floor, removal
from tests.strategies.plans import LONG, NASTY
from tests.unit.companions.html.test_html import read as read_page
from tests.unit.report.test_renderers_are_harmless import assert_harmless_markdown

SIMILAR = ("e\u0301", "\u00e9", "a\nb", "a\\nb", "a\u200bb", "ab", '"', '\\"', LONG, f"{LONG[:-1]}y")
"""Pairs that careless escaping, or a careless truncation, shows as equal."""
CORPUS = tuple(name for name in (*NASTY, *SIMILAR) if "\x00" not in name)


class HostileGroups(NamedTuple):
    """A topic with old records, groups that may be removed, and groups below the floor."""

    topic: str
    removable: tuple[str, ...]
    behind: tuple[str, ...]


def decode_harmless(stream: bytes, *, commands: bool = False) -> str:
    """The stream as text.

    Asserts that nothing in it controls a terminal or, except our own `commands`, a CI runner.
    """
    text = stream.decode("utf-8")
    for line in text.split("\n"):
        for character in line:
            assert character == " " or unicodedata.category(character)[0] not in "CZM", (
                f"{character!a} in {line[:300]!a}"
            )
            assert unicodedata.bidirectional(character) not in ("R", "AL", "AN"), f"{character!a} in {line[:300]!a}"
        body = re.sub(r"^::(error|warning|notice) [^:]*::", "", line) if commands else line
        body = body.replace("::details-content", "")  # of our own style sheet
        assert "::" not in body, line[:300]
        assert "##[" not in body, line[:300]
    return text


def run(space: Workspace, *words: str, code: int = 0, **files: str) -> str:
    """Run a command, whose streams and files have to be harmless, and return its stdout without line breaks.

    `files`: format → file.
    """
    options = [word for kind, name in files.items() for word in ("--output-file", f"{kind}={name}")]
    done = output(space.folder, *words, *options)
    decode_harmless(done.stderr)
    assert done.returncode == code, (words, done.stderr)
    for kind, name in files.items():
        text = read(space, name, commands=kind == "github")
        if kind == "md":
            assert_harmless_markdown(text)
    return re.sub(r"\n {4,}", " ", decode_harmless(done.stdout))


def read(space: Workspace, name: str, *, commands: bool = False) -> str:
    return decode_harmless((space.folder / name).read_bytes(), commands=commands)


def create_hostile_groups(space: Workspace) -> HostileGroups:
    """Create each id twice, as an idle group and as a group below a floor, and manifests that
    select them.
    """
    topic = space.create_topic(40, partitions=2, age_ms=30 * DAY_MS)
    space.produce(topic, 1, partitions=2)
    dead, live = f"hostile-{topic}", f"behind-{topic}"
    removable, behind = tuple(f"{name}{dead}" for name in CORPUS), tuple(f"{name}{live}" for name in CORPUS)
    for group in removable:
        commit(space.servers, group, topic, 1, 41)
    for group in behind:
        commit(space.servers, group, topic, 0, 10)
    # A manifest cannot name an id exactly that is very long or looks like a glob.
    exact = [name for name in behind if len(name) < 500 and not set("*?[") & set(name)]
    recent = json.dumps([*exact, f"regex:(?s).*{live}"]).strip("[]")
    space.write(
        floor(topic, "partitions: [0], keep: {newerThan: 7d}, consumers: ignore"),
        removal(f'"regex:(?s).*{dead}"', "idleFor: 1s, expectAtMost: 1000"),
        removal(recent, "idleFor: 30d, expectAtMost: 1000", name="recent"),
    )
    time.sleep(1.5)  # idleFor: 1s
    return HostileGroups(topic, removable, behind)


def test_hostile_group_ids_are_harmless_in_commands_that_only_read(space: Workspace) -> None:
    """Plan in every format, logs as text and JSON, drift with metrics, scan: each id is distinct in
    each of them.
    """
    hostile = create_hostile_groups(space)
    files = {"md": "plan.md", "github": "plan.gh", "html": "plan.html", "json": "shown.json"}
    text = run(space, "plan", "-v", "--full", "--out", "plan.json", **files)
    removed = set(re.findall(r'("(?:[^"\\]|\\.)*"): \d+ committed offset', text))
    assert removed == set(map(quoted, hostile.removable))
    reported = set(re.findall(r'(?:Blocked|Skipped): (".*?") — group ', text))
    assert reported == set(map(quoted, hostile.behind))
    for group in hostile.behind:
        # "offsets" once a transaction has been on the cluster, as in other tests
        assert re.search(re.escape(f"{quoted(group)} would skip at most 30 ") + "(records|offsets)", text)
    assert len({quoted(group) for group in (*hostile.removable, *hostile.behind)}) == 2 * len(CORPUS)
    for group in hostile.removable:
        assert quoted(group).replace("`", "\\u0060").replace("|", "\\u007c") in read(space, "plan.md")
    page = read_page(read(space, "plan.html"))
    for group in (*hostile.removable, *hostile.behind):
        assert quoted(group) in page.text
    for name in ("plan.json", "shown.json"):
        requests = [row["request"] for row in json.loads(read(space, name))["actions"]]
        assert {request["group"] for request in requests if "group" in request} == set(hostile.removable)
    words = ("drift", "-v", "--log-format", "json", "--metrics", "drift.prom", "--output-file", "md=d.md")
    drift = output(space.folder, *words)
    assert drift.returncode == 2, drift.stderr
    assert "Drift on" in decode_harmless(drift.stdout)
    assert_harmless_markdown(read(space, "d.md"))
    read(space, "drift.prom")
    logs = [line for line in decode_harmless(drift.stderr).splitlines() if not line.startswith("[")]
    assert logs
    assert all(json.loads(line)["message"] for line in logs)
    assert json.loads(run(space, "drift", "-o", "json", code=2))
    run(space, "scan", "--out", "facts", "-v")
    read(space, "facts/run.json")
    groups = pq.read_table(space.folder / "facts" / "groups").to_pylist()
    assert {*hostile.removable, *hostile.behind} <= {row["group"] for row in groups}


def test_hostile_group_ids_are_harmless_in_saved_plans_and_in_apply(space: Workspace) -> None:
    """Show, explain, diff, wrong targets, apply, results and journal: exactly the named groups are
    removed.
    """
    hostile = create_hostile_groups(space)
    run(space, "plan", "--out", "plan.json")
    run(space, "plan", "--target", f"GroupRemoval/dead/{hostile.removable[0]}", "--out", "one.json")
    for words in (
        ("show", "plan.json", "--full"),
        ("show", "plan.json", "-o", "json"),
        ("show", "plan.json", "-o", "md"),
        ("explain", "GroupRemoval/dead", "plan.json"),
        ("explain", "GroupRemoval/recent", "plan.json", "-o", "md"),
        ("explain", f"RetentionFloor/floor/{hostile.topic}[0]", "plan.json"),
        ("plan", "diff", "one.json", "plan.json"),
        ("plan", "diff", "plan.json", "one.json", "-o", "md"),
        ("plan", "diff", "plan.json", "one.json", "-o", "json"),
    ):
        run(space, *words)
    for group in hostile.removable[:6]:
        run(space, "explain", f"GroupRemoval/dead/{group}", "plan.json")
        run(space, "explain", f"GroupRemoval/dead/{group}-not-there", "plan.json", code=64)
    run(space, "plan", "--target", f"GroupRemoval/dead/{NASTY[0]}{NASTY[10]}", code=64)
    files = {"md": "results.md", "github": "results.gh", "html": "results.html"}
    text = run(space, "apply", "plan.json", "-v", "--results", "results.json", **files)
    read_page(read(space, "results.html"))
    outcomes = json.loads(read(space, "results.json"))["outcomes"]
    applied = [row["request"] for row in outcomes if row["status"] == "applied" and "group" in row["request"]]
    assert {request["group"] for request in applied} == set(hostile.removable)
    assert f"{len(hostile.removable)} groups removed" in text
    journal = run(space, "journal", "--full")
    for group in hostile.removable:
        assert format_address(Address("GroupRemoval", "dead", group)) in journal
    rows = [json.loads(row) for row in run(space, "journal", "-o", "json").splitlines()]
    stored = decode_harmless(space.journal_file.read_bytes())
    items = [item for line in stored.splitlines() for item in json.loads(line)["actions"]]
    for entries in (rows, items):
        assert {entry["request"].get("group") for entry in entries} - {None} == set(hostile.removable)
    assert json.loads(run(space, "plan", "-o", "json"))["actions"] == []


def test_an_id_that_the_client_cannot_represent_is_not_changed(space: Workspace) -> None:
    """librdkafka cuts an id at a null character, so the group is listed under a wrong name.

    No action depends on this group, on the group with that name, or on a complete list of groups.
    """
    topic = space.create_topic()
    full_id = f"{topic}\x00-{topic}"
    commit(space.servers, full_id, topic, 0, 100)
    try:
        space.write(floor(topic, "keep: {last: 10}"), removal(f'"{topic}*"', "idleFor: 1s, expectAtMost: 9"))
        time.sleep(1.5)  # idleFor: 1s
        text = run(space, "plan", "--full", "--out", "plan.json")
        saved = json.loads(read(space, "plan.json"))
        assert saved["actions"] == []
        assert blocks(saved)[f"RetentionFloor/floor/{topic}[0]"]["code"] == "B211"
        assert quoted(full_id) in text
        assert f"GroupRemoval/dead/{topic}" in blocks(saved), (
            "the group is listed under the truncated id, which is not in __consumer_offsets"
        )
    finally:
        delete(space.servers, full_id)
