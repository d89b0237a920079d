"""`converge --reviewed` acts on released manifests only; a pause and `--operations` are understood
before any connection.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from reconciler import pipeline
from reconciler.cli.apply import parse_operations
from reconciler.errors import ExitCode, JournalUnavailable
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.journal.release import manifests_hash
from reconciler.manifest import files
from reconciler.model.plan import ManifestFile, Source
from reconciler.operations import OPERATIONS, DeleteGroup, DeleteRecords, ElectLeader
from tests.build import commit, git
from tests.command import reconciler
from tests.golden.wording import mentions
from tests.strategies.examples import blocked, election, plan, plan_text, purge, removal
from tests.unit.cli.loops import CLUSTER, LEADERS, Loop, policies_of, release, run_on

UNREACHABLE = ("--timeout", "1")
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of manifests, in no checkout."""
    folder = tmp_path / "manifests"
    (folder / "prod").mkdir(parents=True)
    (folder / "prod" / "cluster.yaml").write_text(CLUSTER % "billing")
    (folder / "prod" / "policy.yaml").write_text(LEADERS % "all")
    return folder


def converge(folder: Path, *words: str) -> tuple[int, str]:
    done = reconciler(folder, "converge", str(folder), "--reviewed", *words, *UNREACHABLE)
    return done.returncode, done.stderr


def test_manifests_that_no_apply_released_are_refused(folder: Path) -> None:
    """The message names the journal and what releases them. Nothing connects."""
    code, error = converge(folder)
    assert code == ExitCode.PLAN_UNUSABLE
    assert mentions(error, "not released", "Cluster/prod", "a file", "apply --release", "nothing was done")
    assert "or there is none" in error, "without any release, it once spoke of the newest one"
    assert "connecting" not in error


def test_a_release_during_the_scan_counts(folder: Path, loop: Loop) -> None:
    """The folder, such as the clone of a pod, stays as it is: it went on without the protection of the release."""
    cluster = folder / "prod" / "cluster.yaml"
    release(folder)

    def during() -> None:
        cluster.write_text(CLUSTER % "billing, audit")
        release(folder)
        cluster.write_text(CLUSTER % "billing")

    done, rounds = loop(["converge", str(folder), "--reviewed"], during=during)
    assert (done.returncode, rounds) == (ExitCode.PLAN_UNUSABLE, [])
    assert mentions(done.stderr, "not released", "nothing was done")


CHANGES: dict[str, tuple[Callable[[Path], object], ExitCode]] = {
    # What no review has shown is not carried out, whatever git says of the checkout.
    "changed": (lambda prod: (prod / "policy.yaml").write_text(LEADERS % "all" + "# more\n"), ExitCode.PLAN_UNUSABLE),
    "added": (lambda prod: (prod / "more.yml").write_text(LEADERS % "more"), ExitCode.PLAN_UNUSABLE),
    "removed": (lambda prod: (prod / "policy.yaml").unlink(), ExitCode.PLAN_UNUSABLE),
    "renamed": (lambda prod: (prod / "policy.yaml").rename(prod / "moved.yaml"), ExitCode.ERROR),
    "another file": (lambda prod: (prod / "notes.txt").write_text("hello"), ExitCode.ERROR),
}


@pytest.mark.parametrize(("change", "code"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("words", [(), ("--every", "1s", "--rounds", "1")], ids=["once", "loop"])
def test_a_release_is_of_contents(
    folder: Path, words: tuple[str, ...], change: Callable[[Path], object], code: ExitCode
) -> None:
    """With the contents that were released, a run connects, and no broker answers."""
    release(folder)
    change(folder / "prod")
    assert converge(folder, *words)[0] == code


def test_another_cluster_needs_a_release_of_its_own(folder: Path) -> None:
    (folder / "prod" / "policy.yaml").write_text(LEADERS % "all, cluster: prod")
    release(folder)
    (folder / "eu.yaml").write_text((CLUSTER % "billing").replace("prod", "eu").replace("id-of-eu-", "id-of-eu-00"))
    codes = [converge(folder, "--cluster", name)[0] for name in ("prod", "eu")]
    assert codes == [ExitCode.ERROR, ExitCode.PLAN_UNUSABLE]


def test_a_reviewed_loop_follows_releases_only(folder: Path, loop: Loop) -> None:
    """Time and commits release nothing there, and a newer release ends that of the set in force."""
    policy = folder / "prod" / "policy.yaml"
    release(folder)
    second, third = LEADERS % "second", LEADERS % "third"

    def overtake() -> None:
        release(folder)
        policy.write_text(third)

    changes = (lambda: policy.write_text(second), lambda: None, overtake, lambda: policy.write_text(second))
    done, rounds = loop(["converge", str(folder), "--reviewed", *UNREACHABLE], *changes)
    pending = " | all+second (changed)"
    assert list(map(policies_of, rounds)) == ["all | ", pending, pending, "second | "]
    assert done.stderr.count("nothing was done") == 1


@pytest.mark.parametrize("difference", ["content", "one file less", "one file more", "some targets"])
def test_the_approval_of_a_plan_releases_no_other_manifests(folder: Path, difference: str, tmp_path: Path) -> None:
    """The approved plan of one set would otherwise release another, which `converge` then acts on."""
    cluster_file, policy_file = files.load([folder], now_ms=0).for_cluster("prod").files
    then = {
        "content": (cluster_file, dataclasses.replace(policy_file, sha256="0" * 64)),
        "one file less": (cluster_file,),
        "one file more": (cluster_file, policy_file, ManifestFile(path="old/policy.yaml", sha256="0" * 64)),
        "some targets": (cluster_file, policy_file),
    }[difference]
    targets, reasons = (), ("Cluster/prod", "not those that the plan was calculated from")
    if difference == "some targets":  # it shows neither what `converge` does at once, nor what guards nothing
        targets, reasons = ("LeaderPolicy/all/orders[0]",), ("the plan is of --target only",)

    def apply(*manifests: ManifestFile, targets: Sequence[str] = ()) -> CompletedProcess[str]:
        saved = plan(
            cluster_id="id-of-prod-000000000",
            expires_at_ms=253_000_000_000_000,
            source=Source(manifests=manifests),
            targets=tuple(targets),
        )
        (tmp_path / "plan.json").write_text(plan_text(saved))
        return reconciler(tmp_path, "apply", "plan.json", str(folder), "--release", *UNREACHABLE)

    refused = apply(*then, targets=targets)
    assert refused.returncode == ExitCode.PLAN_UNUSABLE
    assert mentions(refused.stderr, "--release", *reasons, "nothing was done")
    moved = apply(cluster_file, dataclasses.replace(policy_file, path="elsewhere.yaml"))
    assert moved.returncode == ExitCode.ERROR
    assert "127.0.0.1:1" in moved.stderr


@pytest.mark.parametrize(
    ("later_ms", "code"),
    [
        ([1], ExitCode.PLAN_UNUSABLE),
        ([-1], ExitCode.ERROR),
        ([2 * 365 * DAY_MS], ExitCode.ERROR),
        ([2 * 365 * DAY_MS, 1], ExitCode.PLAN_UNUSABLE),
    ],
    ids=["later", "earlier", "by a wrong clock", "later than one by a wrong clock"],
)
def test_a_plan_from_before_a_release_does_not_replace_it(
    folder: Path, later_ms: list[int], code: int, tmp_path: Path
) -> None:
    """A protection was merged and released; a stale checkout then released the manifests before it again."""
    now_ms, manifests = pipeline.wall_clock_ms(), files.load([folder], now_ms=0).for_cluster("prod").files
    saved = plan(
        cluster_id="id-of-prod-000000000",
        observed_at_ms=now_ms - HOUR_MS,
        expires_at_ms=now_ms + HOUR_MS,
        source=Source(manifests=manifests),
    )
    (tmp_path / "plan.json").write_text(plan_text(saved))
    journal = run_on(folder).journal
    for each_ms in later_ms:
        journal.record_release("sha256:" + "0" * 64, run_id="run-2", at_ms=saved.observed_at_ms + each_ms)
    released = reconciler(tmp_path, "apply", "plan.json", str(folder), "--release", *UNREACHABLE)
    assert (released.returncode, "nothing was done" in released.stderr) == (code, code == ExitCode.PLAN_UNUSABLE)
    release(folder)  # of the same manifests: an approved plan may be applied again
    again = reconciler(tmp_path, "apply", "plan.json", str(folder), "--release", *UNREACHABLE)
    assert again.returncode == ExitCode.ERROR


@pytest.mark.parametrize(
    ("words", "new"),
    [
        ("apply missing.json --reviewed-tree " + "a" * 40, "--release"),
        ("converge --tree " + "a" * 40, "--reviewed"),
        ("watch --tree HEAD", "--reviewed"),
    ],
)
def test_the_old_options_name_the_new_ones(words: str, new: str, tmp_path: Path) -> None:
    """A workflow of an earlier version ends with 64, before anything is read. No help shows the option."""
    command, *_, option, _value = words.split()
    refused, page = (reconciler(tmp_path, *typed) for typed in (words.split(), [command, "--help"]))
    assert (refused.returncode, page.returncode) == (ExitCode.USAGE, ExitCode.DONE)
    assert mentions(refused.stderr, option, "is gone", new)
    assert "tree" not in page.stdout


@pytest.mark.parametrize("paused", ["1", "true"])
@pytest.mark.parametrize(
    "words", [["converge"], ["converge", "-q", "--reviewed"], ["converge", "--every", "1s"], ["watch"]]
)
def test_a_pause_stops_everything_without_a_review(words: list[str], paused: str, tmp_path: Path) -> None:
    """Not even the manifests are read: they may be the reason for the pause. Without one, they are."""
    (tmp_path / "broken.yaml").write_text("{")
    done = reconciler(tmp_path, *words, ".", RECONCILER_PAUSED=paused)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (ExitCode.DONE, "", 1)
    assert mentions(done.stderr, "paused", "RECONCILER_PAUSED", words[0], "do nothing")
    for value in ("", "0"):
        assert reconciler(tmp_path, *words, ".", RECONCILER_PAUSED=value).returncode == ExitCode.ERROR


def test_a_pause_does_not_stop_a_reviewed_apply(tmp_path: Path) -> None:
    """The way out of an incident may be a reviewed plan."""
    done = reconciler(tmp_path, "apply", "missing.json", RECONCILER_PAUSED="1")
    assert (done.returncode, "missing.json" in done.stderr) == (ExitCode.PLAN_UNUSABLE, True)


def test_operations_have_the_names_of_kafkas_protocol() -> None:
    assert parse_operations("DeleteRecords, DeleteGroups,DeleteRecords") == (DeleteRecords, DeleteGroup)
    assert set(parse_operations(",".join(operation.API[0] for operation in OPERATIONS))) == set(OPERATIONS)


def test_deletions_are_checked_with_the_removals_of_their_plan() -> None:
    """A purge must know which groups the plan has removed; an election asks for no group."""
    reviewed = plan(purge(), removal(), election(), blocked())
    part = pipeline._rechecked_part(reviewed, (DeleteRecords,))
    assert [type(action) for action in part.actions] == [DeleteGroup, DeleteRecords]
    assert [type(action) for action in pipeline._rechecked_part(reviewed, (ElectLeader,)).actions] == [ElectLeader]
    assert pipeline._rechecked_part(reviewed, OPERATIONS).actions == reviewed.actions


@pytest.mark.parametrize("linked", [".reconciler", ".reconciler/prod.jsonl"])
def test_a_link_to_a_journal_releases_nothing(linked: str, folder: Path) -> None:
    """A repository can hold a link, and a journal beside the manifests."""
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    link = folder / "prod" / linked
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere if linked == ".reconciler" else elsewhere / "prod.jsonl")
    manifests = manifests_hash(run_on(folder).manifests.files)
    store = ActionJournal(JournalFile(elsewhere / "prod.jsonl"), who="a")
    store.record_release(manifests, run_id="run-1", at_ms=pipeline.wall_clock_ms())
    code, error = converge(folder)
    assert code == JournalUnavailable.exit_code
    assert mentions(error, str(link), "is a link")
    with pytest.raises(JournalUnavailable, match="is a link"):
        release(folder)


@pytest.mark.parametrize("has_git", [True, False], ids=["git", "without git"])
def test_a_committed_journal_releases_nothing(has_git: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull request could bring the release of its own manifests along.

    A tree id covered the journal; a hash of the manifests does not. In a checkout without git, nothing
    says that the file is untracked.
    """
    git(folder.parent, "init", "-q")
    commit(folder.parent)
    release(folder)
    assert "127.0.0.1:1" in converge(folder)[1], "an untracked journal of this machine counts"
    commit(folder.parent)
    if not has_git:
        git(folder.parent, "rm", "-q", "--cached", "-r", "manifests/prod/.reconciler")
        monkeypatch.setenv("PATH", "/nonexistent")
    code, error = converge(folder)
    assert code == JournalUnavailable.exit_code
    assert mentions(error, "prod.jsonl", "releases nothing", "git has it", "spec.journal")
