"""A loop acts on manifests as somebody wrote them; no cluster is needed to see what is in force."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.clock import wall_clock_ms
from reconciler.errors import ClusterUnreachable, ExitCode
from reconciler.journal.release import manifests_hash
from reconciler.manifest import files
from reconciler.manifest import git as manifest_git
from reconciler.manifest.files import ClusterManifests
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine
from tests.build import commit, git, head
from tests.command import reconciler
from tests.golden.wording import mentions
from tests.unit.cli.loops import CLUSTER, loop, nothing, policies_of, protected

OF_PROD = ", cluster: prod"
FLOOR = f"{head('RetentionFloor', f'%s{OF_PROD}')}\nmode: continuous\nspec: {{topics: [%s], keep: {{last: 10}}}}\n"
READER = f"{head('ExternalReader', f'lake{OF_PROD}')}\nspec: {{topics: [clicks], position: {{sparkCheckpoint: %s}}}}\n"
GUARD = f"{head('RetentionFloor', f'guard{OF_PROD}')}\nspec: {{topics: [audit], keep: {{unreadBy: [billing]}}}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a Cluster and a floor, in no checkout."""
    folder = tmp_path / "checkout" / "manifests"
    folder.mkdir(parents=True)
    (folder / "cluster.yaml").write_text(CLUSTER % "billing")
    (folder / "clicks.yaml").write_text(FLOOR % ("clicks", "clicks"))
    return folder


@pytest.fixture
def checkout(folder: Path) -> Path:
    """Return the checkout whose one commit has the manifests of `folder`."""
    git(folder.parent, "init", "-q")
    commit(folder.parent)
    return folder.parent


def follow(folder: Path, monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], Any], seconds: float = 9) -> list[str]:
    """Return what each round carries out, what only claims, and what is protected."""
    _done, rounds = loop(["converge", str(folder)], monkeypatch, *changes, seconds=seconds)
    return list(map(in_force, rounds))


def in_force(manifests: ClusterManifests) -> str:
    return f"{policies_of(manifests)} without {protected(manifests)}"


def test_a_policy_that_arrives_before_its_protection_never_acts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git the Cluster is copied 9 s after the floor: each change starts the 30 s anew."""
    rounds = follow(
        folder,
        monkeypatch,
        lambda: (folder / "audit.yaml").write_text(FLOOR % ("audit", "audit")),
        lambda: (folder / "cluster.yaml").write_text(CLUSTER % "billing, audit"),
        *[nothing] * 4,
    )
    pending = "clicks | audit (changed) without "
    assert rounds == [
        "clicks |  without billing",
        f"{pending}billing",
        *[f"{pending}billing,audit"] * 4,
        "audit+clicks |  without billing,audit",
    ]


def test_readers_of_both_sets_count_while_a_change_is_pending(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that moves or goes keeps its records until the change is in force, and a new one has them at once."""
    reader = folder / "reader.yaml"
    reader.write_text(READER % "/a")
    rounds: list[dict[str, str]] = []
    words = ["converge", str(folder)]
    changes = (lambda: reader.write_text(READER % "/b"), lambda: None, reader.unlink, lambda: None)
    _done, seen = loop(words, monkeypatch, *changes, seconds=40)
    rounds = [{request.name: request.at for request in manifests.reader_requests} for manifests in seen]
    name = "ExternalReader/lake"
    assert rounds == [{name: "/a"}, {name: "/a", f"{name} (changed)": "/b"}, {name: "/b"}, {name: "/b"}, {}]


def test_a_file_that_is_absent_for_a_moment_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moved, or replaced by rsync: a policy that only one of the two sets has does not act."""
    guard = folder / "guard.yaml"
    guard.write_text(GUARD)
    clicks = folder / "clicks.yaml"
    text = clicks.read_text()

    def move() -> None:
        guard.write_text(GUARD + "---\n" + text)

    rounds = follow(folder, monkeypatch, guard.unlink, lambda: guard.write_text(GUARD), clicks.unlink, move, nothing)
    whole, held = "clicks | guard without billing", " | clicks+guard without billing"
    assert rounds == [whole, whole, whole, held, whole, whole]


def test_a_truncated_file_that_is_still_valid_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first half of a file says less than the file: here, without a floor and without an exception."""
    path = folder / "clicks.yaml"
    text = (FLOOR % ("clicks", "clicks")).replace("}}\n", "}\n  , exceptTopics: [clicks-old]}\n") + "---\n" + GUARD
    path.write_text(text)
    rounds = follow(
        folder, monkeypatch, lambda: path.write_text(text.partition("---")[0]), lambda: path.write_text(text)
    )
    assert rounds == ["clicks | guard without billing"] * 3


def test_one_commit_is_in_force_at_once(checkout: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uncommitted changes never are, and the message says what to do."""
    audit = folder / "audit.yaml"
    rounds = follow(
        folder,
        monkeypatch,
        lambda: audit.write_text(FLOOR % ("audit", "audit")),
        *[nothing] * 5,
        lambda: commit(checkout),
    )
    pending = "clicks | audit (changed) without billing"
    assert rounds == ["clicks |  without billing", *[pending] * 6, "audit+clicks |  without billing"]


@pytest.mark.parametrize(
    ("worktree", "held"),
    [(False, "index.lock"), (True, "index.lock"), (False, "sequencer"), (False, "BISECT_START")],
    ids=["checkout", "worktree", "cherry-pick", "bisect"],
)
def test_nothing_is_followed_while_git_holds_its_lock(
    worktree: bool, held: str, checkout: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`git checkout` writes one file after the other under this lock, however long it takes.

    In a worktree, `.git` is a file, and the lock is elsewhere. A series of picks and a bisection check out
    whole commits, of which each is clean, and none is what a person wants in force.
    """
    if worktree:
        git(checkout, "worktree", "add", "-q", "../other")
        checkout = folder.parent.parent / "other"
        folder = checkout / "manifests"
    lock = Path(git(checkout, "rev-parse", "--path-format=absolute", "--git-path", held))
    audit = folder / "audit.yaml"

    def begin() -> None:
        lock.touch()
        audit.write_text(FLOOR % ("audit", "audit"))

    def end() -> None:
        lock.unlink()
        commit(checkout)

    done, rounds = loop(["converge", str(folder)], monkeypatch, begin, *[nothing] * 5, end, seconds=9)
    pending = "clicks | audit (changed) without billing"
    assert list(map(in_force, rounds)) == [
        "clicks |  without billing",
        *[pending] * 6,
        "audit+clicks |  without billing",
    ]
    assert mentions(done.stderr, "prod: the changed manifests are not in force yet", str(lock))


def test_without_git_the_lock_of_a_checkout_counts_too(
    checkout: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may have no git, or git refuses the checkout of another user: then time decides."""
    monkeypatch.setenv("PATH", "/nonexistent")
    lock = checkout / ".git" / "index.lock"

    def begin() -> None:
        lock.touch()
        (folder / "audit.yaml").write_text(FLOOR % ("audit", "audit"))

    rounds = follow(folder, monkeypatch, begin, *[nothing] * 5, lock.unlink, *[nothing] * 4)
    pending = "clicks | audit (changed) without billing"
    assert rounds == ["clicks |  without billing", *[pending] * 10, "audit+clicks |  without billing"]


def test_a_release_is_in_force_at_once(checkout: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hash is of what was loaded, so neither the checkout nor time matters."""
    (checkout / ".gitignore").write_text(".reconciler/\n")

    def release() -> None:
        manifests = files.load([folder], now_ms=0).for_cluster()
        opened = Run(manifests=manifests, engine=Engine(), timeout_s=1, progress=print).journal
        opened.record_release(manifests_hash(manifests.files), run_id="r", at_ms=wall_clock_ms())

    audit = FLOOR % ("audit", "audit")
    rounds = follow(folder, monkeypatch, lambda: (folder / "audit.yaml").write_text(audit), release)
    assert rounds == [
        "clicks |  without billing",
        "clicks | audit (changed) without billing",
        "audit+clicks |  without billing",
    ]


def test_a_changed_connection_or_limit_is_not_followed_before_it_is_in_force(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a Cluster manifest would lead the credentials to other brokers."""
    text = (CLUSTER % "billing").replace(":1", ":2").replace("}}\n", "}, limits: {topics: 7}}\n")
    _done, rounds = loop(
        ["watch", str(folder)], monkeypatch, lambda: (folder / "cluster.yaml").write_text(text), nothing
    )
    specs = [manifests.cluster.spec for manifests in rounds]
    assert [spec.bootstrap_servers for spec in specs] == [("127.0.0.1:1",), ("127.0.0.1:1",), ("127.0.0.1:2",)]
    assert [spec.limits.topics for spec in specs] == [specs[0].limits.topics] * 2 + [7]


def changed_path(folder: Path, kind: str) -> None:
    path = folder / "clicks.yaml"
    match kind:
        case "changed":
            path.write_text(path.read_text() + "# more\n")
        case "added":
            (folder / "audit.yaml").write_text(FLOOR % ("audit", "audit"))
        case "removed":
            path.unlink()
        case "unreadable":
            path.unlink()
            path.symlink_to("missing")


@pytest.mark.parametrize("kind", ["changed", "added", "removed", "unreadable"])
def test_manifests_that_change_during_the_scan_are_not_followed(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule has no last set: it reads the folder before and after the scan, and ends with 4."""
    done, rounds = loop(["converge", str(folder)], monkeypatch, during=lambda: changed_path(folder, kind))
    assert (done.returncode, rounds) == (ExitCode.PLAN_UNUSABLE, [])
    assert mentions(done.stderr, "prod: the manifests changed while the cluster was read", "nothing was done")


def test_a_loop_that_starts_while_a_folder_is_written_waits_as_well(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once took the second reading as the first set, before the Cluster with the protection came."""
    scans = iter(["added"])

    def during() -> None:
        for kind in scans:
            changed_path(folder, kind)

    _done, rounds = loop(
        ["watch", str(folder)],
        monkeypatch,
        nothing,
        lambda: (folder / "cluster.yaml").write_text(CLUSTER % "audit"),
        *[nothing] * 4,
        seconds=9,
        during=during,
    )
    assert [(policies_of(manifests), protected(manifests)) for manifests in rounds] == [("audit+clicks | ", "audit")]


def test_a_loop_waits_for_brokers_with_the_first_set(
    folder: Path, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first set with uncommitted changes is taken as it is, also if the brokers answer later only."""
    changed_path(folder, "added")
    failures = iter([1, 2])

    def during() -> None:
        for _failure in failures:
            raise ClusterUnreachable("not yet")

    _done, rounds = loop(["watch", str(folder)], monkeypatch, *[nothing] * 2, seconds=9, during=during)
    assert list(map(policies_of, rounds)) == ["audit+clicks | "]


@pytest.mark.parametrize("words", [("converge",), ("watch", "--rounds", "1")])
def test_the_first_set_is_not_taken_under_a_lock_of_git(words: tuple[str, ...], checkout: Path) -> None:
    """There is no last set to go on with, so nothing is done and nothing connects."""
    lock = checkout / ".git" / "index.lock"
    lock.touch()
    done = reconciler(checkout, words[0], "manifests", *words[1:])
    assert done.returncode == ExitCode.PLAN_UNUSABLE
    assert mentions(done.stderr, "git is changing the checkout", str(lock), "nothing was done")
    assert "connecting" not in done.stderr


@pytest.mark.parametrize("words", [("merge", "theirs"), ("cherry-pick", "theirs"), ("stash", "pop")])
def test_the_first_set_is_not_taken_from_a_merge_with_conflicts(
    words: tuple[str, ...], checkout: Path, folder: Path
) -> None:
    """Git had written the new floor, and the Cluster that protects its topic was in conflict: records were deleted."""
    branch = git(checkout, "branch", "--show-current")
    git(checkout, "checkout", "-q", "-b", "theirs")
    (folder / "audit.yaml").write_text(FLOOR % ("audit", "audit"))
    (folder / "cluster.yaml").write_text(CLUSTER % "audit")
    git(checkout, "add", "-A")
    git(checkout, *(("stash", "-q") if words[0] == "stash" else ("commit", "-q", "-m", "theirs")))
    git(checkout, "checkout", "-q", branch)
    (folder / "cluster.yaml").write_text(CLUSTER % "ours")
    commit(checkout)
    with pytest.raises(subprocess.CalledProcessError):
        git(checkout, *words)
    git(checkout, "checkout", "--ours", "manifests/cluster.yaml")
    done = reconciler(checkout, "converge", "manifests")
    assert done.returncode == ExitCode.PLAN_UNUSABLE
    assert mentions(done.stderr, "nothing was done")


def test_a_loop_takes_several_clusters(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of one cluster does not hold the others back."""
    eu = (CLUSTER % "orders").replace("prod", "eu")
    (folder / "eu.yaml").write_text(eu)
    _done, rounds = loop(
        ["watch", str(folder)], monkeypatch, lambda: (folder / "audit.yaml").write_text(FLOOR % ("audit", "audit"))
    )
    assert [(manifests.cluster.metadata.name, policies_of(manifests)) for manifests in rounds] == [
        ("eu", " | "),
        ("prod", "clicks | "),
        ("eu", " | "),
        ("prod", "clicks | audit (changed)"),
    ]


def test_reading_a_checkout_takes_no_lock_of_git(checkout: Path, folder: Path) -> None:
    """`git status` refreshes the index, under the lock that another run would see."""
    path = folder / "clicks.yaml"
    index = checkout / ".git" / "index"
    before = index.read_bytes()
    path.touch()
    source = manifest_git.git_source(files.load([folder], now_ms=0).for_cluster().files)
    assert (source.dirty, index.read_bytes()) == (False, before)
