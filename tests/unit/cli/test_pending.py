"""A loop acts on manifests as somebody wrote them; no cluster is needed to see what is in force."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.rounds import ClusterRounds
from reconciler.cli.settings import Settings
from reconciler.errors import ClusterUnreachable, ExitCode
from reconciler.manifest import files
from reconciler.manifest import git as manifest_git
from tests.build import cluster_manifest, commit, git, head
from tests.command import reconciler
from tests.golden.wording import mentions
from tests.unit.cli.loops import CLUSTER, LEADERS, Loop, nothing, policies_of, release, set_in_force

OF_PROD = ", cluster: prod"
FLOOR = f"{head('RetentionFloor', f'%s{OF_PROD}')}\nmode: continuous\nspec: {{topics: [%s], keep: {{last: 10}}}}\n"
READER = f"{head('ExternalReader', f'lake{OF_PROD}')}\nspec: {{topics: [clicks], position: {{sparkCheckpoint: %s}}}}\n"
GUARD = f"{head('RetentionFloor', f'guard{OF_PROD}')}\nspec: {{topics: [audit], keep: {{unreadBy: [billing]}}}}\n"


Change = Callable[..., Any]
"""What somebody does in a folder of manifests: the current one, if no other is named."""


def write(name: str, text: str) -> Change:
    return lambda folder=Path(): (folder / f"{name}.yaml").write_text(text)


def remove(name: str) -> Change:
    return lambda folder=Path(): (folder / f"{name}.yaml").unlink()


def commit_all() -> None:
    """Commit the manifests, the first time in a new checkout, which leaves the journal out."""
    git(Path(".."), "init", "-q")
    Path("../.gitignore").write_text(".reconciler/\n")
    commit(Path(".."))


CLICKS = FLOOR % ("clicks", "clicks")
ADD = write("audit", FLOOR % ("audit", "audit"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a Cluster and a floor, in no checkout: the current one."""
    folder = tmp_path / "checkout" / "manifests"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    write("cluster", CLUSTER % "billing")()
    write("clicks", CLICKS)()
    return folder


@pytest.fixture
def checkout(folder: Path) -> Path:
    """Return the checkout whose one commit has the manifests of `folder`."""
    commit_all()
    return folder.parent


QUIET, PENDING, BOTH = (
    f"{names} without billing" for names in ("clicks | ", "clicks | audit (changed)", "audit+clicks | ")
)
GUARDED = "clicks | guard without billing"
LONG = CLICKS.replace("}}\n", "}\n  , exceptTopics: [clicks-old]}\n") + "---\n" + GUARD
SERIES: dict[str, tuple[Change, list[Change], list[str]]] = {
    # They were read once, at the start: a protection of today did not hold for a watch of last week.
    "a protection at once, and the rest of a change later": (
        nothing,
        [write("cluster", CLUSTER % "billing, audit"), write("clicks", FLOOR % ("other", "clicks")), *[nothing] * 4],
        [
            QUIET,
            f"{QUIET},audit",
            *[" | clicks+other (changed) without billing,audit"] * 4,
            "other |  without billing,audit",
        ],
    ),
    # A second manifest of the same name, or cluster id, is an error, and may be where a protection was added.
    **{
        f"a Cluster that is declared twice, as {name}": (
            nothing,
            [write("more", (CLUSTER % "audit").replace("name: prod", f"name: {name}"))],
            [QUIET, f"{QUIET},audit"],
        )
        for name in ("prod", "other")
    },
    # Without git the Cluster is copied 9 s after the floor: each change starts the 30 s anew.
    "a policy before its protection": (
        nothing,
        [ADD, write("cluster", CLUSTER % "billing, audit"), *[nothing] * 4],
        [QUIET, PENDING, *[f"{PENDING},audit"] * 4, f"{BOTH},audit"],
    ),
    # Moved, or replaced by rsync: a policy that only one of the two sets has does not act.
    "files that are absent for a moment": (
        write("guard", GUARD),
        [remove("guard"), write("guard", GUARD), remove("clicks"), write("guard", f"{GUARD}---\n{CLICKS}"), nothing],
        [*[GUARDED] * 3, " | clicks+guard without billing", *[GUARDED] * 2],
    ),
    # The first half of a file says less than the file: here, without a floor and without an exception.
    "a truncated file that is still valid": (
        write("clicks", LONG),
        [write("clicks", LONG.partition("---")[0]), write("clicks", LONG)],
        [GUARDED] * 3,
    ),
    # In force at once. Uncommitted changes never are.
    "one commit": (commit_all, [ADD, *[nothing] * 5, commit_all], [QUIET, *[PENDING] * 6, BOTH]),
    # In force at once: its hash is of what was loaded, so neither the checkout nor time matters.
    "a release": (commit_all, [ADD, lambda: release(Path())], [QUIET, PENDING, BOTH]),
}


@pytest.mark.parametrize("name", SERIES)
def test_each_round_acts_on_what_is_in_force(name: str, folder: Path, loop: Loop) -> None:
    """What each round carries out, what only claims, and what is protected."""
    start, changes, expected = SERIES[name]
    start()
    _done, rounds = loop(["converge", str(folder)], *changes, seconds=9)
    assert list(map(set_in_force, rounds)) == expected


def test_readers_of_both_sets_count_while_a_change_is_pending(folder: Path, loop: Loop) -> None:
    """A reader that moves or goes keeps its records until the change is in force, and a new one has them at once."""
    reader = folder / "reader.yaml"
    reader.write_text(READER % "/a")
    changes = (lambda: reader.write_text(READER % "/b"), nothing, reader.unlink, nothing)
    _done, seen = loop(["converge", str(folder)], *changes)
    rounds = [{request.name: request.at for request in manifests.reader_requests} for manifests in seen]
    name = "ExternalReader/lake"
    assert rounds == [{name: "/a"}, {name: "/a", f"{name} (changed)": "/b"}, {name: "/b"}, {name: "/b"}, {}]


@pytest.mark.parametrize(
    ("worktree", "held"),
    [(False, "index.lock"), (True, "index.lock"), (False, "sequencer"), (False, "BISECT_START")],
    ids=["checkout", "worktree", "cherry-pick", "bisect"],
)
def test_nothing_is_followed_while_git_holds_its_lock(
    worktree: bool, held: str, checkout: Path, folder: Path, loop: Loop
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
    begin, end = lambda: (lock.touch(), ADD(folder)), lambda: (lock.unlink(), commit(checkout))
    done, rounds = loop(["converge", str(folder)], begin, *[nothing] * 5, end, seconds=9)
    assert list(map(set_in_force, rounds)) == [QUIET, *[PENDING] * 6, BOTH]
    assert mentions(done.stderr, "prod: the changed manifests are not in force yet", str(lock))


@pytest.mark.parametrize("submodule", [False, True])
def test_time_decides_about_clean_checkouts_that_no_commit_has_in_common(
    submodule: bool, checkout: Path, folder: Path, tmp_path: Path, loop: Loop
) -> None:
    """Such manifests once never came into force: git called them changed, and there was nothing to commit.

    Uncommitted changes in any of them are not followed.
    """
    other = folder / "team" if submodule else tmp_path / "team"
    other.mkdir()
    git(other, "init", "-q")
    write("more", FLOOR % ("more", "more"))(other)
    commit(other)
    if submodule:
        commit(checkout)
    words = ["converge", str(folder), *([] if submodule else [str(other)])]

    def add() -> None:
        ADD(other)
        commit(other)
        if submodule:
            commit(checkout)

    changes = (add, *[nothing] * 4, lambda: remove("audit")(other), *[nothing] * 5)
    _done, rounds = loop(words, *changes, seconds=9)
    quiet, added, removed = "clicks+more | ", "clicks+more | audit (changed)", "clicks+more | audit"
    assert list(map(policies_of, rounds)) == [quiet, *[added] * 4, "audit+clicks+more | ", *[removed] * 6]


def test_without_git_the_lock_of_a_checkout_counts_too(
    checkout: Path, folder: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may have no git, or git refuses the checkout of another user: then time decides."""
    monkeypatch.setenv("PATH", "/nonexistent")
    lock = checkout / ".git" / "index.lock"
    changes = (lambda: (lock.touch(), ADD(folder)), *[nothing] * 5, lock.unlink, *[nothing] * 4)
    _done, rounds = loop(["converge", str(folder)], *changes, seconds=9)
    assert list(map(set_in_force, rounds)) == [QUIET, *[PENDING] * 10, BOTH]


def test_a_changed_connection_or_limit_is_not_followed_before_it_is_in_force(folder: Path, loop: Loop) -> None:
    """Half a Cluster manifest would lead the credentials to other brokers."""
    text = (CLUSTER % "billing").replace(":1", ":2").replace("}}\n", "}, limits: {topics: 7}}\n")
    changes = (write("cluster", text), nothing)
    _done, rounds = loop(["watch", str(folder)], *changes)
    specs = [manifests.cluster.spec for manifests in rounds]
    assert [spec.bootstrap_servers for spec in specs] == [("127.0.0.1:1",), ("127.0.0.1:1",), ("127.0.0.1:2",)]
    assert [spec.limits.topics for spec in specs] == [specs[0].limits.topics] * 2 + [7]


CHANGES: dict[str, Change] = {
    "changed": write("clicks", f"{CLICKS}# more\n"),
    "added": ADD,
    "removed": remove("clicks"),
    "unreadable": lambda: (remove("clicks")(), Path("clicks.yaml").symlink_to("missing")),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_manifests_that_change_during_the_scan_are_not_followed(kind: str, folder: Path, loop: Loop) -> None:
    """A schedule has no last set: it reads the folder before and after the scan, and ends with 4."""
    done, rounds = loop(["converge", str(folder)], during=CHANGES[kind])
    assert (done.returncode, rounds) == (ExitCode.PLAN_UNUSABLE, [])
    assert mentions(done.stderr, "prod: the manifests changed while the cluster was read", "nothing was done")


def test_a_loop_that_starts_while_a_folder_is_written_waits_as_well(folder: Path, loop: Loop) -> None:
    """It once took the second reading as the first set, before the Cluster with the protection came."""
    scans = iter([ADD])
    changes = (nothing, write("cluster", CLUSTER % "audit"), *[nothing] * 4)
    _done, rounds = loop(["watch", str(folder)], *changes, seconds=9, during=lambda: [change() for change in scans])
    assert list(map(set_in_force, rounds)) == ["audit+clicks |  without audit"]


def test_a_loop_waits_for_brokers_with_the_first_set(folder: Path, checkout: Path, loop: Loop) -> None:
    """A first set with uncommitted changes is taken as it is, also if the brokers answer later only."""
    ADD(folder)
    failures = iter([1, 2])

    def during() -> None:
        for _failure in failures:
            raise ClusterUnreachable("not yet")

    _done, rounds = loop(["watch", str(folder)], *[nothing] * 2, seconds=9, during=during)
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
    ADD(folder)
    write("cluster", CLUSTER % "audit")(folder)
    git(checkout, "add", "-A")
    git(checkout, *(("stash", "-q") if words[0] == "stash" else ("commit", "-q", "-m", "theirs")))
    git(checkout, "checkout", "-q", branch)
    write("cluster", CLUSTER % "ours")(folder)
    commit(checkout)
    with pytest.raises(subprocess.CalledProcessError):
        git(checkout, *words)
    git(checkout, "checkout", "--ours", "manifests/cluster.yaml")
    done = reconciler(checkout, "converge", "manifests")
    assert done.returncode == ExitCode.PLAN_UNUSABLE
    assert mentions(done.stderr, "nothing was done")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_pull_is_not_followed_before_the_update_of_its_submodule(
    is_first: bool, checkout: Path, folder: Path, tmp_path: Path, loop: Loop
) -> None:
    """It moved a guard into a submodule. Git called the checkout clean, and a loop removed the guarded group."""
    write("guard", GUARD)(folder)
    commit(checkout)
    team, here = tmp_path / "team", tmp_path / "here"
    team.mkdir()
    git(team, "init", "-q")
    write("guard", GUARD)(team)
    commit(team)
    git(tmp_path, "clone", "-q", str(checkout), "here")
    remove("guard")(folder)
    allow = ("-c", "protocol.file.allow=always")
    # A list of all files of a folder is of those below it, too.
    place, root = ("team", here) if is_first else ("manifests/team", here / "manifests")
    git(checkout, *allow, "submodule", "add", "-q", str(team), place)
    commit(checkout)

    def pull() -> None:
        git(here, "pull", "-q")

    def update() -> None:
        git(here, *allow, "submodule", "update", "-q", "--init")

    if is_first:
        pull()
    changes = (nothing if is_first else pull, *[nothing] * 4, update, *[nothing] * 4)
    done, rounds = loop(["converge", str(root)], *changes, seconds=9)
    assert list(map(policies_of, rounds)) == ["clicks | guard"] * (5 if is_first else 11)
    assert mentions(done.stderr, "prod", str(here / place), "git submodule update --init")


def test_the_first_set_is_not_taken_with_a_stale_submodule_of_a_submodule(checkout: Path, folder: Path) -> None:
    """Git lists no file of a submodule for the checkout around it."""
    inner = folder / "team" / "inner"
    inner.mkdir(parents=True)
    for place in (inner, inner.parent):
        git(place, "init", "-q")
        write(place.name, FLOOR % (place.name, place.name))(place)
        commit(place)
    commit(checkout)
    ADD(inner)
    commit(inner)
    done = reconciler(checkout, "converge", "manifests")
    assert done.returncode == ExitCode.PLAN_UNUSABLE
    assert mentions(done.stderr, "manifests/team/inner", "nothing was done")


def test_a_loop_takes_several_clusters(folder: Path, loop: Loop) -> None:
    """A change of one cluster does not hold the others back."""
    write("eu", (CLUSTER % "orders").replace("prod", "eu"))(folder)
    _done, rounds = loop(["watch", str(folder)], ADD)
    assert [(manifests.cluster.metadata.name, policies_of(manifests)) for manifests in rounds] == [
        ("eu", " | "),
        ("prod", "clicks | "),
        ("eu", " | "),
        ("prod", "clicks | audit (changed)"),
    ]


def test_a_loop_says_which_cluster_it_does_not_run(folder: Path, loop: Loop) -> None:
    """Once, where its manifest comes after the start: nobody knew that nothing was purged there."""
    add = write("eu", (CLUSTER % "orders").replace("prod", "eu"))
    done, rounds = loop(["watch", str(folder)], add, nothing, nothing)
    assert len(rounds) == 4
    assert done.stderr.count("eu: new in the manifests, and not run before the loop starts again") == 1


def test_reading_a_checkout_takes_no_lock_of_git(checkout: Path, folder: Path) -> None:
    """A refresh of the index, as of `git status`, would take the lock that another run sees."""
    path = folder / "clicks.yaml"
    index = checkout / ".git" / "index"
    before = index.read_bytes()
    path.touch()
    source = manifest_git.git_source(files.load([folder], now_ms=0).for_cluster().files)
    assert (source.dirty, index.read_bytes()) == (False, before)


BLOCK_CLUSTER = cluster_manifest("127.0.0.1:1", limits="", name="prod") + "  protect: {topics: [billing]}\n"
UNREADABLE = (
    "",
    "kind: Cluster",
    CLUSTER % "billing" + "  limits: {topics: -1}\n",
    CLUSTER % "[",
    None,
    # The reader of YAML drops the second value, and the rest would be a Cluster.
    BLOCK_CLUSTER + "  protect: {topics: [orders]}\n",
    BLOCK_CLUSTER + "  ? [protect]\n  : {topics: [orders]}\n",
    CLUSTER % "billing" + "---\n" + (CLUSTER % "orders").replace("topics", "topisc"),
)


def test_invalid_manifests_add_protections_only(folder: Path, loop: Loop) -> None:
    """The last valid policies stay in force, what is protected now is protected, and all is said."""

    def broken() -> None:
        write("clicks", CLICKS.replace("topics", "topisc"))()
        write("cluster", CLUSTER % "audit")()

    done, rounds = loop(["watch", str(folder)], broken, write("clicks", FLOOR % ("new", "clicks")), nothing)
    assert list(map(set_in_force, rounds)) == [
        QUIET,
        f"{QUIET},audit",
        " | clicks+new (changed) without billing,audit",
        "new |  without audit",
    ]
    assert done.returncode == ExitCode.ERROR
    assert "topisc" in done.stderr
    assert "prod: the manifests are invalid now: the last valid ones stay in force" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, ("nothing is done until it can be read",)) for text in UNREADABLE),
        (
            (CLUSTER % "billing").replace("name: prod", "name: production"),
            (
                "known clusters: production",
                "nothing is done until it is back; start the loop again for another cluster",
            ),
        ),
    ],
)
def test_nothing_is_done_while_protections_are_not_known(
    folder: Path, loop: Loop, text: str | None, words: tuple[str, ...]
) -> None:
    """The Cluster is gone, torn, invalid or renamed: a protection may have been added to it."""
    write("clicks", LEADERS % "clicks")()  # of any name of the cluster
    gone = remove("cluster") if text is None else write("cluster", text)
    done, rounds = loop(["watch", str(folder)], gone, write("cluster", CLUSTER % "billing"))
    assert list(map(set_in_force, rounds)) == [QUIET] * 2
    assert all(part in " ".join(done.stderr.split()) for part in words)


def test_the_status_says_when_the_next_round_is(folder: Path, loop: Loop) -> None:
    """A log of `watch` says between two rounds what it waits for, and first what went wrong."""
    done, _rounds = loop(["watch", str(folder)], nothing)
    assert [line for line in done.stderr.splitlines() if "next round" in line] == [
        "prod: this round failed, next round in 1 s, no purge yet"
    ]


def test_a_status_begins_with_what_needs_a_person(folder: Path) -> None:
    """`next round in 86400 s` once stood first, and a refusal was cut off at the edge of the terminal."""
    manifests = files.load([folder], now_ms=0).by_cluster[0]
    cluster = ClusterRounds(manifests, Settings(), [folder], reviewed=False, last_purges={})
    cluster.blocked, cluster.waits = "refused by groups, 17 blocked", "git is changing the checkout"
    assert cluster.status(86_399.6) == (
        "prod: refused by groups, 17 blocked, changed manifests wait: git is changing the checkout, "
        "next round in 1 d, no purge yet"
    )
    assert "next round in 1 h 1 min," in cluster.status(3_660.4)
    assert "next round in 1 s," in cluster.status(0.2)
