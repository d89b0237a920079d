"""Releases of manifests in the journal, and the CI run that the environment names."""

import hashlib
import json
from pathlib import Path

import pytest

from reconciler.apply.restore import _of_journal
from reconciler.codec import Codec
from reconciler.errors import JournalUnavailable, UsageError
from reconciler.journal.entry import BatchLine, JournalEntry, dump, parse
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.journal.release import (
    RELEASE_RECENT_MS,
    RULES,
    Release,
    ReviewedTree,
    ci_run,
    manifests_hash,
)
from reconciler.model.names import TopicPartition
from reconciler.model.plan import ManifestFile
from reconciler.report.results import journal_report
from reconciler.report.terminal import write_lines
from tests.fakes.cluster import cluster_of_orders
from tests.fakes.runs import START_MS, intercept, last_purges, new_journal, purge, run
from tests.golden.wording import mentions
from tests.strategies.facts import HOUR

FIRST, SECOND = (f"sha256:{character * 64}" for character in "ab")
OLD_LINE = b'{"v":4,"at_ms":1,"reviewed_at_ms":1,"reviewed_tree":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","run":"r","who":"ann"}'
"""A line of the version before releases, byte by byte."""
PAGE = "https://github.com/acme/kafka/actions/runs/7"
AT = TopicPartition("orders", 0)


@pytest.fixture
def journal(tmp_path: Path) -> ActionJournal:
    store = JournalFile(tmp_path / "journal.jsonl")
    return ActionJournal(store, who="octocat", commit="4f2c9aa", run_url=PAGE, approver="ann")


def line_count(journal: ActionJournal) -> int:
    return len(list(journal.store.lines()))


def released(journal: ActionJournal, now_ms: int) -> str | None:
    release = journal.newest_release(now_ms=now_ms)
    return release and release.manifests


def test_the_hash_is_of_contents_only() -> None:
    """A renamed file and another order change nothing; one byte, one file more or less does."""
    one, two = (ManifestFile(path=path, sha256=path[0] * 64) for path in ("a.yaml", "b.yaml"))
    renamed = ManifestFile(path="moved/z.yaml", sha256="a" * 64)
    assert manifests_hash([one, two]) == manifests_hash([two, renamed])
    others = ([one], [one, one], [one, two, two], [], [ManifestFile(path="a.yaml", sha256="c" * 64), two])
    assert len({manifests_hash(files) for files in (*others, [one, two])}) == 6


def test_the_hash_holds_the_number_of_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented form, and a program that reads the same text with other rules has another hash."""
    file = ManifestFile(path="a.yaml", sha256="a" * 64)
    present = manifests_hash([file])
    text = json.dumps([RULES, [file.sha256]], separators=(",", ":"))
    assert present == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    monkeypatch.setattr("reconciler.journal.release.RULES", RULES + 1)
    assert manifests_hash([file]) != present


def test_manifests_are_released_once_they_are_recorded(journal: ActionJournal) -> None:
    """Nothing is released before, and asking stores nothing."""
    assert journal.newest_release(now_ms=START_MS) is None
    journal.record_release(FIRST, run_id="run-1", at_ms=START_MS)
    assert journal.newest_release(now_ms=START_MS + 1) == Release(
        at_ms=START_MS,
        released_at_ms=START_MS,
        manifests=FIRST,
        run_id="run-1",
        who="octocat",
        commit="4f2c9aa",
        run_url=PAGE,
        approver="ann",
    )
    assert line_count(journal) == 1


@pytest.mark.parametrize("later_ms", [HOUR, 0, -48 * HOUR], ids=["later", "at once", "a clock behind"])
def test_only_the_newest_release_counts(journal: ActionJournal, later_ms: int) -> None:
    """A checkout from before a protection is not released for ever, whatever the clocks of runs say."""
    journal.record_release(FIRST, run_id="run-1", at_ms=START_MS)
    journal.record_release(SECOND, run_id="run-2", at_ms=START_MS + later_ms)
    assert released(journal, START_MS + HOUR) == SECOND
    journal.record_release(FIRST, run_id="run-3", at_ms=START_MS + later_ms)
    assert released(journal, START_MS + HOUR) == FIRST


def test_a_schedule_keeps_the_newest_release_young(journal: ActionJournal) -> None:
    """A topic's retention would remove the only record of it; two lines a day are enough."""
    journal.record_release(SECOND, run_id="run-0", at_ms=START_MS - 1)
    journal.record_release(FIRST, run_id="run-1", at_ms=START_MS)
    for hour in range(10 * 24):
        assert released(journal, START_MS + hour * HOUR) == FIRST
    lines = [json.loads(line.data) for line in journal.store.lines()][1:]
    assert 15 <= len(lines) <= 21
    assert {(line["released_at_ms"], line["run"], line["approver"]) for line in lines} == {(START_MS, "run-1", "ann")}
    # Only the newest line is left, as after a retention of a day.
    newest = lines[-1]
    assert START_MS + 240 * HOUR - newest["at_ms"] < RELEASE_RECENT_MS


@pytest.mark.parametrize("age_ms", [RELEASE_RECENT_MS * 400, -RELEASE_RECENT_MS], ids=["a pause", "a clock set back"])
def test_an_old_release_still_counts(journal: ActionJournal, age_ms: int) -> None:
    """A schedule that was paused for a year goes on, and a wrong clock forgets nothing."""
    journal.record_release(FIRST, run_id="run-1", at_ms=START_MS)
    assert released(journal, START_MS + age_ms) == FIRST
    assert line_count(journal) == 2


def test_a_release_between_reading_and_storing_again_stays_the_newest(journal: ActionJournal) -> None:
    """A process reads the old release, is suspended for days, and stores it again behind a newer one."""
    store, other = journal.store, new_journal(journal.store.path.parent)  # type: ignore[attr-defined]
    journal.record_release(FIRST, run_id="run-1", at_ms=START_MS)

    def release() -> None:
        if len(appended) == 1:
            other.record_release(SECOND, run_id="run-2", at_ms=START_MS + 20 * HOUR)

    appended = intercept(store, "append", release)
    assert released(journal, START_MS + 60 * HOUR) == SECOND
    *_before, copy, kept = (json.loads(line.data) for line in store.lines())
    assert (copy["manifests"], kept["manifests"]) == (FIRST, SECOND), "the newest one is the last line, too"
    assert released(other, START_MS + 61 * HOUR) == SECOND


def test_reviewed_trees_of_earlier_versions_are_shown_and_release_nothing(journal: ActionJournal) -> None:
    """A tree says nothing of the rules with which it was read; its line stays readable."""
    journal.store.append([OLD_LINE])
    assert journal.newest_release(now_ms=START_MS) is None
    assert list(journal.entries()) == []
    (tree,) = journal.history()
    assert isinstance(tree, ReviewedTree)
    assert dump(tree).encode() == OLD_LINE
    _title, _empty, _head, line = (line.plain for line in write_lines(journal_report([tree], "prod", full=True)))
    assert mentions(line, "reviewed manifests, tree", "a" * 40, "earlier version")


def test_a_release_elsewhere_in_the_journal_is_none(journal: ActionJournal) -> None:
    """A plan digest, an approver or a group may contain any text."""
    line = '"released_at_ms":99999999999999,"manifests":"' + FIRST
    other = ActionJournal(journal.store, who=line, approver=line)
    other.record_release(SECOND, run_id=line, at_ms=START_MS)
    assert released(journal, START_MS) == SECOND


def test_purges_and_restores_read_past_releases(journal: ActionJournal) -> None:
    """A release is not an action, and no purge is forgotten because of one."""
    cluster = cluster_of_orders()
    run(cluster, [purge(cluster, AT, 50)], journal=journal)
    before = last_purges(journal)
    journal.record_release(FIRST, run_id="run-1", at_ms=START_MS)
    assert last_purges(journal) == before != {}
    assert all(isinstance(entry, JournalEntry) for entry in journal.entries())
    history = list(journal.history())
    assert [type(entry) for entry in history] == [JournalEntry, JournalEntry, Release]
    assert list(_of_journal("\n".join(map(dump, history)))) == []


def test_an_older_program_refuses_the_line_aloud(journal: ActionJournal) -> None:
    """It would read the line as nothing or as an action. Its reader knew format 3 only."""
    journal.record_release(FIRST, run_id="run-1", at_ms=START_MS)
    (line,) = journal.store.lines()
    assert parse(line.data, JournalEntry) == ()
    with pytest.raises(ValueError, match="v is 5"):
        Codec(BatchLine, omit_none=True).decode(line.data.decode())


@pytest.mark.parametrize(
    "change", [('"released_at_ms"', '"released_at_us"'), ('{"v":5', '{"v":9'), ('{"v":5', '{"v":3'), ("{", "\0")]
)
def test_a_damaged_release_makes_no_older_one_count(journal: ActionJournal, change: tuple[str, str]) -> None:
    """The newest release could not be found, and the one before it released its manifests again."""
    journal.record_release(FIRST, run_id="run-1", at_ms=START_MS)
    journal.record_release(SECOND, run_id="run-2", at_ms=START_MS + 1)
    first, second = (line.data.decode() for line in journal.store.lines())
    path = journal.store.path  # type: ignore[attr-defined]
    path.write_text(f"{first}\n{second.replace(*change)}\n")
    with pytest.raises(JournalUnavailable, match="damaged in the line that ends at byte"):
        journal.newest_release(now_ms=START_MS + HOUR)


@pytest.mark.parametrize("change", [(FIRST, FIRST[:-1]), ('"who"', '"whom"'), (str(START_MS), "true")])
def test_a_damaged_release_is_an_error(journal: ActionJournal, change: tuple[str, str]) -> None:
    """A record that cannot be read releases nothing, and is not a reason to go on."""
    journal.record_release(FIRST, run_id="run-1", at_ms=START_MS)
    (line,) = journal.store.lines()
    damaged = line.data.decode().replace(*change)
    journal.store.path.write_text(f"{damaged}\n")  # type: ignore[attr-defined]
    reads = (
        lambda: list(journal.history()),
        lambda: list(journal.entries()),
        lambda: [journal.newest_release(now_ms=START_MS)],
    )
    for read in reads:
        with pytest.raises(JournalUnavailable, match="damaged in the line that ends at byte"):
            read()


def test_the_journal_shows_who_approved(journal: ActionJournal) -> None:
    """The approver and the page of the run stand in the heading of the run, with its author."""
    cluster = cluster_of_orders()
    run(cluster, [purge(cluster, AT, 50)], journal=journal)
    journal.record_release(FIRST, run_id="run-1", at_ms=START_MS)
    assert {(entry.run_url, entry.approver) for entry in journal.entries()} == {(PAGE, "ann")}
    report = journal_report(list(journal.history()), "prod", full=True)
    _title, _empty, head, _intent, _outcome, release = (line.plain for line in write_lines(report))
    assert mentions(head, "run-1", "by octocat", "from 4f2c9aa", "approved by ann", PAGE)
    assert mentions(release, "released manifests", FIRST)


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
    with pytest.raises(UsageError, match="RECONCILER_RUN_URL is not an address") as caught:
        ci_run({"RECONCILER_RUN_URL": url})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a\u202eb", "a" * 201, "\udcff"])
def test_an_approver_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="RECONCILER_APPROVER is not a name"):
        ci_run({"RECONCILER_APPROVER": name})


def test_a_run_without_these_variables_has_none() -> None:
    """An empty variable is what a workflow passes for a value that does not exist."""
    assert (
        ci_run({})
        == ci_run({"RECONCILER_RUN_URL": "", "RECONCILER_APPROVER": ""})
        == {"run_url": None, "approver": None}
    )
    assert ci_run({"RECONCILER_RUN_URL": PAGE, "RECONCILER_APPROVER": "ann, dependabot[bot]"}) == {
        "run_url": PAGE,
        "approver": "ann, dependabot[bot]",
    }
