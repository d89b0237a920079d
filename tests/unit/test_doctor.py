"""The doctor's verdict and its report agree: a gap fails the purpose that needs it, and stands in the report."""

import json
from dataclasses import replace

import pytest

from reconciler.cli.inspect import doctor_json
from reconciler.doctor import ClusterCheck, doctor_report
from reconciler.kafka.doctor import DoctorReport
from reconciler.kafka.permissions import NameSelection, Permission, RequiredAccess, Role
from reconciler.model.scan_request import ScanRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import Unknown
from reconciler.report.terminal import write_lines

HEALTHY = DoctorReport(
    cluster_id="id",
    brokers=(1,),
    client="client",
    versions=(),
    clock_age_ms=0,
    topics=("a",),
    groups=(),
    rights=(),
    beyond=("may delete topics",),
    silent=(),
    unseen=(),
    journal_missing=False,
    journal_risks=(),
)


def right(purpose: Role, **fields: object) -> DoctorReport:
    permission = Permission(purpose=purpose, operation="DELETE", resource="topic", total=1, breaks="nothing is deleted")
    return replace(HEALTHY, rights=(replace(permission, **fields),))


def selected(*texts: str) -> NameSelection:
    return NameSelection(selectors=tuple(map(Selector, texts)))


def check(report: DoctorReport) -> ClusterCheck:
    required = RequiredAccess(needs=ScanRequest(), journal_topic="journal")
    return ClusterCheck(cluster="prod", bootstrap_servers=("b:1",), required=required, report=report)


@pytest.mark.parametrize(
    ("report", "passing", "words"),
    [
        (HEALTHY, set(Role), "may delete topics"),
        (replace(HEALTHY, unseen=("the listing is incomplete",)), set(), "MISSING  the listing is incomplete"),
        (
            replace(HEALTHY, silent=("broker 3 (b:9092) did not answer a test request within 10 s",)),
            set(),
            "SILENT   broker 3 (b:9092)",
        ),
        (replace(HEALTHY, journal_missing=True), set(), "MISSING  the journal's topic does not exist"),
        (replace(HEALTHY, journal_risks=("retention.ms is 1",)), set(), "risk     retention.ms is 1"),
        (replace(HEALTHY, journal_risks=Unknown("no right")), set(Role), "unknown  how safe the"),
        (replace(HEALTHY, clock_age_ms=-60_000), set(), "MISSING  this machine's clock"),
        (replace(HEALTHY, clock_age_ms=Unknown("no record")), set(Role), "clock    not compared: no record"),
        (right(Role.PLAN), set(Role), "ok       DELETE on 1 topic"),
        (right(Role.PLAN, selections=(selected("a"),)), set(Role), "ok       DELETE on topic a"),
        (right(Role.PLAN, selections=(selected("a", "b"),)), set(Role), "ok       DELETE on 1 topic"),
        (right(Role.PLAN, selections=(selected("a*"),)), set(Role), "ok       DELETE on 1 topic"),
        (right(Role.PLAN, missing=("a",)), set(), "MISSING  DELETE on topic a: nothing is deleted"),
        (right(Role.APPLY, missing=("a",)), {Role.PLAN, Role.ELECTIONS}, "absent   DELETE on topic a"),
        (right(Role.APPLY, unread=(("a", "no answer"),)), {Role.PLAN, Role.ELECTIONS}, "unknown  DELETE on topic a"),
    ],
)
def test_a_gap_fails_the_purposes_that_need_it(report: DoctorReport, passing: set[Role], words: str) -> None:
    """A right of apply fails neither planning nor elections; an unreadable right counts as missing."""
    assert {purpose for purpose in Role if check(report).passes(purpose)} == passing
    assert words in "\n".join(line.plain for line in write_lines(doctor_report(check(report), Role.PLAN)))


def test_the_json_shows_names_as_written() -> None:
    """It once printed the Python object of a compiled pattern, under a kind that no page mentions."""
    names = NameSelection(selectors=(Selector("orders-*"), Selector("regex:a+")))
    text = doctor_json([check(right(Role.APPLY, selections=(names,)))], {}, "User:r")
    document = json.loads(text)
    (cluster,) = document["clusters"]
    selectors = cluster["report"]["rights"][0]["selections"][0]["selectors"]
    assert (document["kind"], [selector["text"] for selector in selectors]) == (
        "DoctorReport",
        ["orders-*", "regex:a+"],
    )
    assert "re.compile" not in text
    assert "_pattern" not in text


@pytest.mark.parametrize(
    ("age_ms", "words"),
    [
        (3_000, "its clock agrees"),
        (-4_000, "its clock agrees"),
        (-6_000, "behind a broker's: set the one that is wrong"),
        (61_000, "compare it"),
        (Unknown("no log"), "not compared: no log"),
    ],
)
def test_clocks_agree_only_with_a_fresh_timestamp(age_ms: int | Unknown, words: str) -> None:
    """One of the future means that our clock is behind, or the broker's ahead; an old one, or none, proves nothing."""
    report = replace(HEALTHY, clock_age_ms=age_ms)
    [line] = [line.plain for line in write_lines(doctor_report(check(report), Role.PLAN)) if "clock" in line.plain]
    assert words in line
