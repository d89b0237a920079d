"""No page is longer than GitHub takes, whatever a plan, a report of drift or results hold; what is
cut is counted.

GitHub refuses the body of a comment or an issue above 65,536 characters; the workflows add a
marker.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.plan.diff import compare
from reconciler.plan.drift import UNREAD, DriftReport, Subject
from reconciler.report.drift import drift_report
from reconciler.report.markdown import write_pages
from tests import rendering as report
from tests.golden.wording import mentions
from tests.strategies import plans as strategies
from tests.strategies.examples import blocked, plan, purge, removal

NOW_MS = 1_790_000_000_000
GITHUB_CHARS = 65_536
MARKER_CHARS = 200
"""The line that a workflow puts before the page."""
LONG_NAMES = [f"{number:04}-{'n' * 58}" for number in range(1_000)]


def assert_fits(text: str) -> None:
    assert len(text) + MARKER_CHARS < GITHUB_CHARS
    assert text.count("<details>") == text.count("</details>")


def cut_count(text: str) -> int:
    """Return the number in the note of a page that was cut; 0: it was not."""
    notes = re.findall(r"^\*\*Cut here: … and (?:at most )?([\d,]+) more,\*\* .*run's artifact", text, re.MULTILINE)
    assert len(notes) == text.count("Cut here")
    return int(notes[0].replace(",", "")) if notes else 0


def unread(name: str, detail: str) -> Subject:
    address = Address("RetentionFloor", name)
    return Subject(
        address=address, sort=UNREAD, code="B103", detail=detail, next_step="grant DESCRIBE", since_ms=NOW_MS
    )


def drift_of(
    names: Sequence[str], *, cluster: str = "prod-eu", cluster_id: str = "id", detail: str = "x"
) -> DriftReport:
    return DriftReport(
        cluster=cluster,
        cluster_id=cluster_id,
        observed_at_ms=NOW_MS,
        unread=tuple(unread(name, detail) for name in names),
        incomplete=tuple(
            f"1 subject of RetentionFloor/{name} could not be read, the first because {detail}." for name in names
        ),
    )


@pytest.mark.parametrize("number", [300, 1_000])
def test_an_issue_about_many_unread_policies_is_cut_and_counts_the_rest(number: int) -> None:
    """An issue of 300 policies once had 70,397 characters, and GitHub refuses such an issue."""
    text = report.drift_markdown(drift_of(LONG_NAMES[:number], detail="y" * 150))
    assert_fits(text)
    items = sum(line.startswith("- ") for line in text.splitlines())
    # 40 items of unread subjects and one that counts the others; then a warning for each policy, and what is left out
    assert items + cut_count(text) == 41 + number + 1
    assert cut_count(text) > 0
    assert "`reconciler plan --full --cluster prod-eu`" in text.splitlines()[-1]


@pytest.mark.parametrize("number", [1, 2, 14, 15, 16, 50])
def test_issues_of_several_clusters_share_the_space(number: int) -> None:
    """Each of them was cut by itself, and together they were too long."""
    reports = [drift_of(LONG_NAMES[:300], cluster=f"c{n}", detail="y" * 150) for n in range(number)]
    text = write_pages([drift_report(entry) for entry in reports])
    assert_fits(text)
    shown = text.count("### Drift on")
    (omitted,) = re.findall(r"^\*\*… and (\d+) more clusters,\*\*", text, re.MULTILINE) or ["0"]
    assert shown + int(omitted) == number
    assert shown >= min(number, 14)


def test_a_plan_and_a_comparison_are_cut() -> None:
    """Irreversible actions come first, so blocked subjects are cut before them. Groups that are gone are one line.

    No section hides another one: a long list of topics once hid all groups that a plan removes.
    """
    large = plan(*map(removal, LONG_NAMES), *(blocked(f"GroupRemoval/dead{n}/g", reason="r" * 500) for n in range(500)))
    text = report.markdown(large)
    assert_fits(text)
    shown = sum(line.startswith('- `"') for line in text.splitlines())
    assert shown + cut_count(text) == 1_500
    assert text.count(f'{"n" * 58}"`: ') > 400
    assert 0 < text.count("r" * 500) < 5
    purges = [replace(purge(name), address=Address("RetentionFloor", "gdpr", name, 3)) for name in LONG_NAMES]
    text = report.markdown(plan(*purges, *map(removal, LONG_NAMES[:40])))
    assert_fits(text)
    topics, groups = (sum(line.startswith(start) for line in text.splitlines()) for start in ("- `0", '- `"0'))
    assert groups > 3
    assert topics > 300
    assert topics + groups + cut_count(text) == 1_040
    text = report.diff_markdown(compare(plan(), plan(*map(purge, LONG_NAMES))))
    assert_fits(text)
    assert cut_count(text.replace("with `reconciler plan diff`", "run's artifact")) > 0
    gone = report.diff_markdown(compare(large, plan()))
    assert_fits(gone)
    (line,) = [line for line in gone.splitlines() if line.startswith("- **gone**")]
    assert line.startswith("- **gone** `GroupRemoval/dead-etl`: 1,000 groups: ")
    assert mentions(line, "and 997 more")


hostile = st.one_of(
    st.sampled_from(strategies.NASTY),
    st.sampled_from(["\U0001f4a3", "\u202e", "`", "\\", "|", "é", "\U00020000"]).map(lambda text: text * 3_000),
    st.text(max_size=300),
)


@strategies.FEW
@given(st.lists(hostile, max_size=400), hostile, hostile)
def test_no_drift_is_too_long(details: list[str], cluster: str, cluster_id: str) -> None:
    """A name of a cluster, an id and a reason may be of any length and any characters."""
    names = [f"p{number}" for number in range(len(details))]
    drift = drift_of(names, cluster=cluster or "c", cluster_id=cluster_id or "i")
    incomplete = tuple(details)
    text = report.drift_markdown(replace(drift, incomplete=incomplete, refused=tuple(details)))
    assert_fits(text)
    assert_fits(write_pages([drift_report(drift)] * 40))


@strategies.FEW
@given(strategies.plans(max_size=4), st.lists(hostile, min_size=1, max_size=5), st.integers(1, 300))
def test_no_plan_and_no_result_is_too_long(example: Plan, texts: list[str], times: int) -> None:
    """Also where every list of the header is long."""
    large = replace(
        example,
        cluster=texts[0] or "c",
        cluster_id=texts[-1] or "i",
        targets=tuple(texts * times),
        incomplete=tuple(texts * times),
        continuous=example.continuous * times,
        rule_changes=example.rule_changes * times,
    )
    assert_fits(report.markdown(large))
    outcomes = [Outcome(action=removal(), status=Status.FAILED, detail=text) for text in texts * times]
    assert_fits(report.results_markdown(large, outcomes))
