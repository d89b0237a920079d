"""Drift reports are short and harmless, and the same drift gives the same text."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from reconciler.model.names import Address
from reconciler.plan.drift import UNREAD, DriftReport, PolicyTally, Subject
from reconciler.report.drift import drift_report
from reconciler.report.terminal import write_lines
from tests.rendering import drift_markdown, drift_text, plain

SINCE_MS = 1_790_000_000_000
FLOOR = Address("RetentionFloor", "orders-gdpr")


def subject(address: Address, sort: str = "records", code: str | None = None, detail: str = "offset 98213") -> Subject:
    return Subject(
        address=address, sort=sort, code=code, detail=detail, next_step="apply a reviewed plan", since_ms=SINCE_MS
    )


def report_of(subjects: Sequence[Subject] = (), unread: Sequence[Subject] = (), **fields: object) -> DriftReport:
    return replace(
        DriftReport(
            cluster="prod-eu",
            cluster_id="5L6g3nShT-eMCtK--X86sw",
            observed_at_ms=SINCE_MS + 60_000,
            subjects=tuple(subjects),
            unread=tuple(unread),
            tallies=(PolicyTally(policy=FLOOR, satisfied=1200, waiting=2, pending=1),),
        ),
        **fields,  # type: ignore[arg-type]
    )


def partitions(count: int) -> list[Subject]:
    return [subject(Address("RetentionFloor", "orders-gdpr", "orders", number)) for number in range(count)]


def test_the_command_names_the_manifests() -> None:
    """It once read `manifests/`, whatever the drift was found with."""
    text = write_lines(drift_report(report_of(partitions(1)), paths=["my folder"]))
    assert plain(text)[-1].endswith(": reconciler plan --full --cluster prod-eu 'my folder'")


@pytest.mark.parametrize(
    ("report", "has_plan"),
    [
        (report_of(incomplete=("lost",), tallies=()), False),
        (report_of(incomplete=("lost",)), True),
        (report_of(partitions(1), tallies=()), True),
    ],
)
def test_a_plan_is_no_advice_before_anything_can_be_read(report: DriftReport, has_plan: bool) -> None:
    """It would end with the same error."""
    last = plain(drift_text(report))[-1]
    assert last.startswith("For every subject" if has_plan else "Once that is mended, for every subject")


def test_a_report_that_is_not_one_of_a_series_has_no_age() -> None:
    """`drift` without `--previous` once said `the oldest since` the time of this very run."""
    report = report_of(partitions(1), [subject(FLOOR, UNREAD, "B103")])
    dated, undated = ("\n".join(map(str, write_lines(drift_report(report, dated=flag)))) for flag in (True, False))
    assert dated.count("since") == 3
    assert "since" not in undated
    assert re.sub("(; the oldest )?since [^ ,\n]*(, )?", "", dated) == undated


def test_the_text_of_an_unchanged_drift_has_no_offsets_and_no_times() -> None:
    """So that nothing edits the issue."""
    first = report_of(partitions(3), refused=("groups",))
    moved = tuple(replace(row, detail="offset 99999") for row in first.subjects)
    later = replace(first, subjects=moved, observed_at_ms=first.observed_at_ms + 3_600_000)
    assert drift_markdown(first) == drift_markdown(later)
    assert list(drift_text(first)) == list(drift_text(later))
