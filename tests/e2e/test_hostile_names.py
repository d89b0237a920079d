"""Group ids are arbitrary text: every command that shows names gets a list of hostile ones, on real
brokers.

Three claims hold for every output. Nothing in it controls a terminal, a browser or a CI runner. Two
ids never look equal. Outputs for programs (JSON, Parquet, the journal) have the exact ids.
"""

import json
import re
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.model.names import Address, format_address
from reconciler.text.escape import quoted
from tests.command import output
from tests.e2e.raw_groups import commit, delete
from tests.e2e.workspace import DAY_MS, Workspace, floor, removal
from tests.strategies.plans import LONG, NASTY
from tests.unit.companions.html.test_html import read
from tests.unit.report.test_renderers_are_harmless import assert_harmless_markdown

SIMILAR = ("e\u0301", "\u00e9", "a\nb", "a\\nb", "a\u200bb", "ab", '"', '\\"', LONG, f"{LONG[:-1]}y")
"""Pairs that careless escaping, or a careless truncation, shows as equal."""
CORPUS = tuple(name for name in (*NASTY, *SIMILAR) if "\x00" not in name)


@dataclass(frozen=True)
class HostileGroups:
    """A topic with old records, groups that may be removed, and groups below the floor."""

    folder: Path
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


def unwrap(text: str) -> str:
    return re.sub(r"\n {4,}", " ", text)


def create_hostile_groups(cluster: SandboxCluster, folder: Path) -> HostileGroups:
    """Create each id twice, as an idle group and as a group below a floor, and manifests that
    select them.
    """
    mark = uuid4().hex[:8]
    dead, live, topic = f"hostile-{mark}", f"behind-{mark}", f"hostile-{mark}"
    removable, behind = tuple(f"{name}{dead}" for name in CORPUS), tuple(f"{name}{live}" for name in CORPUS)
    now_ms = int(time.time() * 1000)
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, partitions=2, replication=3)])
    old_records = [Record(b"old", timestamp_ms=now_ms - 30 * DAY_MS)] * 40
    client.produce(
        cluster.bootstrap_servers, topic, {n: [*old_records, Record(b"new", timestamp_ms=now_ms)] for n in (0, 1)}
    )
    for group in removable:
        commit(cluster.bootstrap_servers, group, topic, 1, 41)
    for group in behind:
        commit(cluster.bootstrap_servers, group, topic, 0, 10)
    # A manifest cannot name an id exactly that is very long or looks like a glob.
    exact = [name for name in behind if len(name) < 500 and not set("*?[") & set(name)]
    recent = json.dumps([*exact, f"regex:(?s).*{live}"]).strip("[]")
    space = Workspace(cluster, folder)
    space.write(
        floor(topic, "partitions: [0], keep: {newerThan: 7d}, consumers: ignore"),
        removal(f'"regex:(?s).*{dead}"', "idleFor: 1s, expectAtMost: 1000"),
        removal(recent, "idleFor: 30d, expectAtMost: 1000", name="recent"),
    )
    time.sleep(1.5)  # idleFor: 1s
    return HostileGroups(folder, topic, removable, behind)


def test_hostile_group_ids_are_harmless_in_commands_that_only_read(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Plan in every format, logs as text and JSON, drift with metrics, scan: each id is distinct in
    each of them.
    """
    hostile = create_hostile_groups(cluster, tmp_path)
    output_files = (
        "--output-file",
        "md=plan.md",
        "--output-file",
        "github=plan.gh",
        "--output-file",
        "html=plan.html",
        "--output-file",
        "json=shown.json",
    )
    planned = output(tmp_path, "plan", "-v", "--full", "--out", "plan.json", *output_files)
    text = unwrap(decode_harmless(planned.stdout))
    decode_harmless(planned.stderr)
    assert planned.returncode == 0, planned.stderr
    removed = set(re.findall(r'("(?:[^"\\]|\\.)*"): \d+ committed offset', text))
    assert removed == set(map(quoted, hostile.removable))
    reported = set(re.findall(r'(?:Blocked|Skipped): (".*?") — group ', text))
    assert reported == set(map(quoted, hostile.behind))
    for group in hostile.behind:
        # "offsets" once a transaction has been on the cluster, as in other tests
        assert re.search(re.escape(f"{quoted(group)} would skip at most 30 ") + "(records|offsets)", text)
    assert len({quoted(group) for group in (*hostile.removable, *hostile.behind)}) == 2 * len(CORPUS)
    markdown = decode_harmless((tmp_path / "plan.md").read_bytes())
    assert_harmless_markdown(markdown)
    for group in hostile.removable:
        assert quoted(group).replace("`", "\\u0060").replace("|", "\\u007c") in markdown
    decode_harmless((tmp_path / "plan.gh").read_bytes(), commands=True)
    page = read(decode_harmless((tmp_path / "plan.html").read_bytes()))
    for group in (*hostile.removable, *hostile.behind):
        assert quoted(group) in page.text
    for name in ("plan.json", "shown.json"):
        saved = json.loads(decode_harmless((tmp_path / name).read_bytes()))
        assert {row["request"]["group"] for row in saved["actions"] if "group" in row["request"]} == set(
            hostile.removable
        )
    drift_run = output(
        tmp_path, "drift", "-v", "--log-format", "json", "--metrics", "drift.prom", "--output-file", "md=d.md"
    )
    assert drift_run.returncode == 2, drift_run.stderr
    drift = unwrap(decode_harmless(drift_run.stdout))
    assert_harmless_markdown(decode_harmless((tmp_path / "d.md").read_bytes()))
    decode_harmless((tmp_path / "drift.prom").read_bytes())
    logs = [line for line in decode_harmless(drift_run.stderr).splitlines() if not line.startswith("[")]
    assert logs
    assert all(json.loads(line)["message"] for line in logs)
    assert "Drift on" in drift
    report = decode_harmless(output(tmp_path, "drift", "-o", "json").stdout)
    assert json.loads(report)
    scanned = output(tmp_path, "scan", "--out", "facts", "-v")
    assert scanned.returncode == 0, scanned.stderr
    decode_harmless(scanned.stdout)
    decode_harmless(scanned.stderr)
    decode_harmless((tmp_path / "facts" / "run.json").read_bytes())
    groups = pq.read_table(tmp_path / "facts" / "groups").to_pylist()
    assert {*hostile.removable, *hostile.behind} <= {row["group"] for row in groups}


def test_hostile_group_ids_are_harmless_in_saved_plans_and_in_apply(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Show, explain, diff, wrong targets, apply, results and journal: exactly the named groups are
    removed.
    """
    hostile = create_hostile_groups(cluster, tmp_path)
    planned = output(tmp_path, "plan", "--out", "plan.json")
    assert planned.returncode == 0, planned.stderr
    narrowed = output(tmp_path, "plan", "--target", f"GroupRemoval/dead/{hostile.removable[0]}", "--out", "one.json")
    assert narrowed.returncode == 0, narrowed.stderr
    decode_harmless(narrowed.stdout)
    for arguments, code in (
        (("show", "plan.json", "--full"), 0),
        (("show", "plan.json", "-o", "json"), 0),
        (("show", "plan.json", "-o", "md"), 0),
        (("explain", "GroupRemoval/dead", "plan.json"), 0),
        (("explain", "GroupRemoval/recent", "plan.json", "-o", "md"), 0),
        (("explain", f"RetentionFloor/floor/{hostile.topic}[0]", "plan.json"), 0),
        (("plan", "diff", "one.json", "plan.json"), 0),
        (("plan", "diff", "plan.json", "one.json", "-o", "md"), 0),
        (("plan", "diff", "plan.json", "one.json", "-o", "json"), 0),
        *((("explain", f"GroupRemoval/dead/{group}", "plan.json"), 0) for group in hostile.removable[:6]),
        *((("explain", f"GroupRemoval/dead/{group}-not-there", "plan.json"), 64) for group in hostile.removable[:6]),
    ):
        result = output(tmp_path, *arguments)
        assert result.returncode == code, (arguments, result.stderr)
        decode_harmless(result.stdout)
        decode_harmless(result.stderr)
    refused = output(tmp_path, "plan", "--target", f"GroupRemoval/dead/{NASTY[0]}{NASTY[10]}")
    assert refused.returncode == 64
    decode_harmless(refused.stderr)
    files = ("--results", "results.json", "--output-file", "md=results.md", "--output-file", "github=results.gh")
    files += ("--output-file", "html=results.html")
    applied = output(tmp_path, "apply", "plan.json", "-v", *files)
    text = unwrap(decode_harmless(applied.stdout))
    decode_harmless(applied.stderr)
    assert applied.returncode == 0, applied.stderr
    assert_harmless_markdown(decode_harmless((tmp_path / "results.md").read_bytes()))
    decode_harmless((tmp_path / "results.gh").read_bytes(), commands=True)
    read(decode_harmless((tmp_path / "results.html").read_bytes()))
    results = json.loads(decode_harmless((tmp_path / "results.json").read_bytes()))
    applied_rows = [row for row in results["outcomes"] if row["status"] == "applied" and "group" in row["request"]]
    assert {row["request"]["group"] for row in applied_rows} == set(hostile.removable)
    assert f"{len(hostile.removable)} groups removed" in text
    journal_run = output(tmp_path, "journal", "--full")
    assert journal_run.returncode == 0, journal_run.stderr
    journal = unwrap(decode_harmless(journal_run.stdout))
    for group in hostile.removable:
        assert format_address(Address("GroupRemoval", "dead", group)) in journal
    rows = [json.loads(row) for row in decode_harmless(output(tmp_path, "journal", "-o", "json").stdout).splitlines()]
    stored = decode_harmless((tmp_path / "manifests" / ".reconciler" / "local.jsonl").read_bytes())
    items = [item for line in stored.splitlines() for item in json.loads(line)["actions"]]
    for entries in (rows, items):
        assert {entry["request"].get("group") for entry in entries} - {None} == set(hostile.removable)
    second_plan = output(tmp_path, "plan", "-o", "json")
    assert json.loads(decode_harmless(second_plan.stdout))["actions"] == []


def test_an_id_that_the_client_cannot_represent_is_not_changed(cluster: SandboxCluster, tmp_path: Path) -> None:
    """librdkafka cuts an id at a null character, so the group is listed under a wrong name.

    No action depends on this group, on the group with that name, or on a complete list of groups.
    """
    mark = uuid4().hex[:8]
    topic, truncated_id, full_id = f"cut-{mark}", f"cut-{mark}", f"cut-{mark}\x00-{mark}"
    servers = cluster.bootstrap_servers
    client.create_topics(servers, [Topic(topic)])
    client.produce(servers, topic, {0: [Record(b"x")] * 100})
    commit(servers, full_id, topic, 0, 100)
    try:
        rule = "idleFor: 1s, expectAtMost: 9"
        Workspace(cluster, tmp_path).write(floor(topic, "keep: {last: 10}"), removal(f'"cut-{mark}*"', rule))
        time.sleep(1.5)  # idleFor: 1s
        planned = output(tmp_path, "plan", "--full", "--out", "plan.json")
        text = unwrap(decode_harmless(planned.stdout))
        assert planned.returncode == 0, planned.stderr
        saved = json.loads(decode_harmless((tmp_path / "plan.json").read_bytes()))
        assert saved["actions"] == []
        decisions = {row["address"]: row for row in (*saved["blocked"], *saved["unread"])}
        assert decisions[f"RetentionFloor/floor/{topic}[0]"]["code"] == "B211"
        assert quoted(full_id) in text
        assert f"GroupRemoval/dead/{truncated_id}" in decisions, (
            "the group is listed under the truncated id, which is not in __consumer_offsets"
        )
    finally:
        delete(servers, full_id)
