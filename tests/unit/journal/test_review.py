"""Reviewed trees in the journal, and the CI run that the environment names."""

import json
from pathlib import Path

import pytest

from reconciler.apply.restore import _of_journal
from reconciler.codec import Codec
from reconciler.errors import JournalUnavailable, UsageError
from reconciler.journal.entry import BatchLine, JournalEntry, dump, parse
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.journal.review import NO_CI_RUN, REVIEW_RECENT_MS, CiRun, ReviewedTree, ci_run, parse_tree
from reconciler.model.names import TopicPartition
from reconciler.report import journal_report, write_lines
from tests.fakes.cluster import FakeCluster
from tests.fakes.runs import START_MS, last_purges, purge, run
from tests.golden.wording import mentions

TREE, OTHER = "a" * 40, "b" * 64
PAGE = "https://github.com/acme/kafka/actions/runs/7"
AT = TopicPartition("orders", 0)


@pytest.fixture
def journal(tmp_path: Path) -> ActionJournal:
    store = JournalFile(tmp_path / "journal.jsonl")
    return ActionJournal(store, who="octocat", commit="4f2c9aa", ci_run=CiRun(PAGE, "ann"))


def line_count(journal: ActionJournal) -> int:
    return len(list(journal.store.lines()))


def test_a_tree_is_reviewed_once_it_is_recorded(journal: ActionJournal) -> None:
    """Every other tree is not, and asking for it stores nothing."""
    assert journal.find_review(TREE, now_ms=START_MS) is None
    journal.record_review(TREE, run_id="run-1", at_ms=START_MS)
    review = journal.find_review(TREE, now_ms=START_MS + 1)
    assert review == ReviewedTree(
        at_ms=START_MS,
        reviewed_at_ms=START_MS,
        tree=TREE,
        run_id="run-1",
        who="octocat",
        commit="4f2c9aa",
        run_url=PAGE,
        approver="ann",
    )
    assert journal.find_review(OTHER, now_ms=START_MS + 1) is None
    assert line_count(journal) == 1


def test_a_schedule_keeps_a_review_young(journal: ActionJournal) -> None:
    """The retention of a topic would otherwise remove the only record of manifests that stay as
    they are.

    Two lines a day are enough, and each says when and by whom the tree was reviewed.
    """
    journal.record_review(TREE, run_id="run-1", at_ms=START_MS)
    hour_ms = 3_600_000
    for hour in range(10 * 24):
        assert journal.find_review(TREE, now_ms=START_MS + hour * hour_ms)
    lines = [json.loads(line.data) for line in journal.store.lines()]
    assert 15 <= len(lines) <= 21
    assert {(line["reviewed_at_ms"], line["run"], line["approver"]) for line in lines} == {(START_MS, "run-1", "ann")}
    # Only the newest line is left, as after a retention of a day.
    newest = lines[-1]
    assert START_MS + 240 * hour_ms - newest["at_ms"] < REVIEW_RECENT_MS


@pytest.mark.parametrize("age_ms", [REVIEW_RECENT_MS * 400, -REVIEW_RECENT_MS], ids=["a pause", "a clock set back"])
def test_an_old_review_still_counts(journal: ActionJournal, age_ms: int) -> None:
    """A schedule that was paused for a year goes on, and a wrong clock forgets nothing."""
    journal.record_review(TREE, run_id="run-1", at_ms=START_MS)
    assert journal.find_review(TREE, now_ms=START_MS + age_ms) is not None
    assert line_count(journal) == 2


def test_the_name_of_a_tree_elsewhere_in_the_journal_is_no_review(journal: ActionJournal) -> None:
    """A plan digest, an approver or a group may contain any text."""
    other = ActionJournal(journal.store, who=TREE, ci_run=CiRun(approver=TREE))
    other.record_review(OTHER, run_id=TREE, at_ms=START_MS)
    assert journal.find_review(TREE, now_ms=START_MS) is None


def test_purges_and_restores_read_past_reviews(tmp_path: Path, journal: ActionJournal) -> None:
    """A review is no action, and no purge is forgotten because of one."""
    cluster = FakeCluster()
    cluster.create_topic("orders", 1)
    cluster.produce("orders", {0: 100})
    run(cluster, [purge(cluster, AT, 50)], tmp_path, journal=journal)
    before = last_purges(journal)
    journal.record_review(TREE, run_id="run-1", at_ms=START_MS)
    assert last_purges(journal) == before != {}
    assert all(isinstance(entry, JournalEntry) for entry in journal.entries())
    history = list(journal.history())
    assert [type(entry) for entry in history] == [JournalEntry, JournalEntry, ReviewedTree]
    assert list(_of_journal("\n".join(map(dump, history)))) == []


def test_an_older_program_refuses_the_line_aloud(journal: ActionJournal) -> None:
    """It would otherwise read the line as nothing, or as an action.

    Its reader knew format 3 only.
    """
    journal.record_review(TREE, run_id="run-1", at_ms=START_MS)
    (line,) = journal.store.lines()
    assert parse(line.data) == ()
    with pytest.raises(ValueError, match="v is 4"):
        Codec(BatchLine, omit_none=True).decode(line.data.decode())


@pytest.mark.parametrize("change", [(TREE, TREE[1:]), ('"who"', '"whom"'), (str(START_MS), "true")])
def test_a_damaged_review_is_an_error(journal: ActionJournal, change: tuple[str, str]) -> None:
    """A record that cannot be read proves no review, and is no reason to go on."""
    journal.record_review(TREE, run_id="run-1", at_ms=START_MS)
    (line,) = journal.store.lines()
    damaged = line.data.decode().replace(*change)
    journal.store.path.write_text(f"{damaged}\n")  # type: ignore[attr-defined]
    for read in (lambda: list(journal.history()), lambda: list(journal.entries())):
        with pytest.raises(JournalUnavailable, match="damaged in the line that ends at byte"):
            read()


def test_the_journal_shows_who_approved(tmp_path: Path, journal: ActionJournal) -> None:
    """The approver and the page of the run stand in the heading of the run, with its author."""
    cluster = FakeCluster()
    cluster.create_topic("orders", 1)
    cluster.produce("orders", {0: 100})
    run(cluster, [purge(cluster, AT, 50)], tmp_path, journal=journal)
    journal.record_review(TREE, run_id="run-1", at_ms=START_MS)
    assert {(entry.run_url, entry.approver) for entry in journal.entries()} == {(PAGE, "ann")}
    head, _intent, _outcome, review = (line.plain for line in write_lines(journal_report(list(journal.history()))))
    assert mentions(head, "run-1", "by octocat", "from 4f2c9aa", "approved by ann", PAGE)
    assert mentions(review, "reviewed", TREE)


@pytest.mark.parametrize(
    "url",
    [
        "http://github.com/acme",
        "github.com/acme",
        "https://",
        "https://ann:secret@github.com/acme",
        "https://github.com/" + "a" * 500,
        "https://github.com/a b",
        "https://github.com/\x1b[2J",
        "https://github.com/\u202e",
        "https://[::1",
    ],
)
def test_a_page_that_is_no_https_address_is_refused(url: str) -> None:
    """The journal is read for years, in terminals. The error never repeats the value."""
    with pytest.raises(UsageError, match="RECONCILER_RUN_URL is no address") as caught:
        ci_run({"RECONCILER_RUN_URL": url})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a\u202eb", "a" * 201, "\udcff"])
def test_an_approver_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="RECONCILER_APPROVER is no name"):
        ci_run({"RECONCILER_APPROVER": name})


def test_a_run_without_these_variables_has_none() -> None:
    """An empty variable is what a workflow passes for a value that does not exist."""
    assert ci_run({}) == ci_run({"RECONCILER_RUN_URL": "", "RECONCILER_APPROVER": ""}) == NO_CI_RUN
    assert ci_run({"RECONCILER_RUN_URL": PAGE, "RECONCILER_APPROVER": "ann, dependabot[bot]"}) == CiRun(
        PAGE, "ann, dependabot[bot]"
    )


@pytest.mark.parametrize("text", ["", "HEAD:manifests", "A" * 40, "a" * 39, f"{TREE}\n", "-rf"])
def test_a_text_that_names_no_tree_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="40 or 64 hex digits"):
        parse_tree("--tree", text)
