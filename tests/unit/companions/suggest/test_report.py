"""The report of suggestions: every finding with its evidence, folded, and what is left out counted."""

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.companions.html.page import write_html
from reconciler.companions.suggest import command, drafts
from reconciler.companions.suggest.command import LINES_MAX, fitting_lines
from reconciler.companions.suggest.findings import FindingKind, Suggestions
from reconciler.companions.suggest.report import suggest_report
from reconciler.errors import OutputUnwritten
from reconciler.report.document import SUGGESTIONS, Document
from reconciler.report.markdown import write_markdown
from reconciler.report.terminal import write_lines
from reconciler.report.tree import Severity
from reconciler.text.phrase import plain
from tests.strategies.facts import HOUR, LOST, group, snapshot, topic
from tests.unit.companions.suggest.test_rules import SHARED, partition, suggest


def text(suggestions: Suggestions, **more: object) -> str:
    return "\n".join(line.plain for line in write_lines(suggest_report(suggestions, **more)))  # type: ignore[arg-type]


def test_each_finding_has_its_evidence_what_speaks_against_it_and_its_id() -> None:
    suggestions = suggest(SHARED)
    shown = text(suggestions, next_steps=["reconciler plan first.yaml"])
    for finding in suggestions.findings:
        assert finding.id in shown
        assert f"{finding.confidence} confidence" in shown
        for sentence in (*finding.evidence, *finding.counter_evidence):
            assert sentence in shown
    assert shown.endswith("Next: reconciler plan first.yaml")
    assert "Nothing was changed." in shown


def test_what_cannot_be_told_is_said_with_the_reason() -> None:
    shown = text(suggest(replace(SHARED, readers_incomplete=LOST)))
    assert "Records that every group has read: cannot tell" in shown
    assert LOST.reason in shown


def test_what_can_be_told_is_counted_beside_what_cannot() -> None:
    """Two names that look like patterns made the heading say `cannot tell` for 35 groups."""
    working = [group(f"g-{number}", idle=HOUR) for number in range(33)]
    shown = text(suggest(snapshot(*working, group("a*"), group("b?"))))
    assert "Groups without activity for 3d or longer: 0" in shown
    (line,) = [line for line in shown.splitlines() if "reads like a pattern" in line]
    assert '"a*", "b?"' in line


def test_leaders_with_the_same_cause_are_one_item() -> None:
    """A broker restart moves leaders of many topics."""
    snap = snapshot(*(partition(f"topic-{number:03}", leader=2) for number in range(300)))
    lines = text(suggest(snap)).splitlines()
    (line,) = [line for line in lines if "elect the preferred leaders" in line]
    assert line.startswith("  300 partitions of topic-000, ")
    assert "and 280 more" in line


def test_findings_beyond_the_space_are_counted() -> None:
    suggestions = suggest(snapshot(*(group(f"g-{number:02}") for number in range(50))))
    assert "and 38 more (-o json lists them all)" in text(suggestions)


def test_a_narrow_terminal_shows_fewer_findings() -> None:
    """Each section has more findings than fit; the report has its end, and at most 200 lines."""
    names = [topic(f"t-{number}", records=100) for number in range(50)]
    facts_of_all = [*names, *(partition(name.name) for name in names), *(group(f"g-{n}") for n in range(50))]
    suggestions = suggest(snapshot(*facts_of_all))
    for width in (None, 100, 40):
        lines = [line.plain for line in fitting_lines(suggestions, ("reconciler plan x",), width=width)]
        assert len(lines) <= LINES_MAX
        assert lines[-1].endswith("reconciler plan x")
    assert len(fitting_lines(suggestions, (), width=1)) == LINES_MAX


def test_ignored_findings_and_unknown_ids_are_reported() -> None:
    ids = [f"{FindingKind.IDLE_GROUP}/old-etl", "leader/gone"]
    shown = text(suggest(SHARED, ignored=ids))
    assert "1 finding ignored" in shown
    assert "Ignored ids that no finding has now: leader/gone" in shown


def test_the_markdown_has_the_same_findings() -> None:
    suggestions = suggest(SHARED)
    page = write_markdown(suggest_report(suggestions))
    for finding in suggestions.findings:
        assert f"`{finding.id}`" in page


def test_the_tile_counts_what_the_sentence_counts() -> None:
    """`7 changes` once stood beside `4 of them in 3 policies`: folded items and limits counted as changes."""
    snap = snapshot(*(partition(f"topic-{number:03}", leader=2) for number in range(30)))
    for suggestions in (suggest(SHARED), suggest(snap)):
        for items_max in (1, 12):
            tree = suggest_report(suggestions, items_max=items_max)
            drafted = sum(len(draft.findings) for draft in suggestions.drafts)
            assert f"{drafted} of them in " in plain(tree.summary)
            items = [item for section in tree.sections for item in section.items if item.severity is Severity.CHANGE]
            assert sum(item.counts["finding"] for item in items) == drafted
            document = Document(kind=SUGGESTIONS, trees=lambda _view, tree=tree: [tree], values=())
            assert f"<b>{drafted} findings</b>" in "".join(write_html(document))


def test_a_full_disk_leaves_no_half_of_the_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty file refused the next run, which overwrites no file."""

    def fail(*_arguments: object, **_more: object) -> str:
        raise OSError(28, "No space left on device")

    suggestions = suggest(SHARED)
    monkeypatch.setattr(drafts, "file_text", fail)
    with pytest.raises(OutputUnwritten, match="No space left"):
        command._write(tmp_path / "first.yaml", suggestions, drafts.policy_texts(suggestions))
    assert list(tmp_path.iterdir()) == []
