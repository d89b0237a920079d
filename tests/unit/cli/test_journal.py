"""`journal` selects runs and addresses, and an address that nothing knows is not an empty answer."""

from pathlib import Path

import pytest

from reconciler.clock import wall_clock_ms
from reconciler.errors import ExitCode
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import GroupObservation, GroupState, GroupType
from tests.command import reconciler
from tests.strategies.examples import purge
from tests.strategies.facts import HOUR
from tests.unit.cli.loops import CLUSTER
from tests.unit.manifest.broken import floor, manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Manifests with a pattern that selects every name, and a journal of two runs; no broker answers."""
    everything = manifest("LeaderPolicy", "all", 'topics: ["*"]\nexpectAtMost: 1000')
    parts = (CLUSTER % "billing", floor("topics: [quiet]\nkeep: {last: 1}", name="quiet"), everything)
    (tmp_path / "set.yaml").write_text("---\n".join(parts))
    journal = ActionJournal(JournalFile(tmp_path / ".reconciler" / "prod.jsonl"))
    now_ms = wall_clock_ms()
    for run_id, number, hours in (("aaa111", 0, 30), ("aab222", 1, 1)):
        action = purge("orders", number, policy="gdpr")
        outcome = Outcome(action=action, status=Status.APPLIED, detail="", sends=1, removed_max=5)
        for event, minutes in ((action, 0), (outcome, 30)):
            at_ms = now_ms - hours * HOUR + minutes * 60_000
            journal.record([event], run_id=run_id, plan_digest="d", at_ms=at_ms)
    return tmp_path


def shown(folder: Path, words: str = "") -> tuple[int, str, str]:
    done = reconciler(folder, "journal", ".", *words.split())
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("", ["aaa111", "aab222"]),
        ("--since 2h", ["aab222"]),
        ("--since 45m", ["aab222"]),
        ("--since 10m", []),
        ("--run aaa", ["aaa111"]),
        ("--run aab222", ["aab222"]),
        ("--address orders", ["aaa111", "aab222"]),
        ("--address orders[0]", ["aaa111"]),
        ("--address RetentionFloor/gdpr", ["aaa111", "aab222"]),
        ("--address orders[0] --since 2h", []),
    ],
)
def test_runs_are_selected(words: str, runs: list[str], folder: Path) -> None:
    """A run that stored something since is shown whole: its intent is half an hour older than its outcome."""
    code, out, err = shown(folder, f"-q {words}")
    assert (code, err) == (ExitCode.DONE, "")
    assert [word for word in out.split() if word.startswith("aa")] == [f"{name}:" for name in runs]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--run aa", "2 runs of the journal begin so"),
        ("--run bbb", "the journal has no such run"),
        ("--address ordesr", "the journal has no entry about it; did you mean orders?"),
        ("--address ordesr[0]", "did you mean orders?"),
        ("--address RetentionFloor/gpdr", "the journal has no entry about it"),
        ("--address nothing-like-it", "no entry about it; `reconciler journal --full` prints the addresses"),
    ],
)
def test_what_the_journal_does_not_know_is_an_error(words: str, message: str, folder: Path) -> None:
    """A misspelt name once had no entry, as if nothing had happened; a pattern such as `*` selects it, too."""
    code, out, err = shown(folder, f"-q {words}")
    assert (code, out) == (ExitCode.USAGE, "")
    assert message in err


@pytest.mark.parametrize("words", ["--address quiet", "--address RetentionFloor/quiet", "--address orders[7]"])
def test_what_is_known_and_has_no_entry_is_an_empty_answer(words: str, folder: Path) -> None:
    """A topic that a policy names and that lost nothing yet, and another partition of a topic that did."""
    assert shown(folder, f"-q {words}") == (ExitCode.DONE, "", "")


def test_a_journal_of_observations_only_is_not_empty(folder: Path) -> None:
    """After `observe` it once had no entry, as if nothing had been recorded."""
    path = folder / ".reconciler" / "prod.jsonl"
    path.unlink()
    code, _out, err = shown(folder)
    assert (code, err.endswith("has no entry of a run\n")) == (ExitCode.DONE, True)
    journal = ActionJournal(JournalFile(path))
    for at_ms, run_id in ((1_000, "a"), (2_000, "b")):
        seen = [
            GroupObservation(at_ms=at_ms, group=name, type=GroupType.HIDDEN, state=GroupState.EMPTY) for name in "xy"
        ]
        journal.record_observations(seen, cluster_id="c", run_id=run_id)
    code, _out, err = shown(folder)
    assert code == ExitCode.DONE
    assert "has no entry of a run; it has 2 scans of observe, the last one of 1970-01-01T00:00:02Z" in err
