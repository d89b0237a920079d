"""`watch` reads its manifests before each round; no cluster is needed to see what is in force."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from reconciler.cli import converge
from reconciler.cli.settings import Settings
from reconciler.errors import ExitCode
from reconciler.manifest import files
from tests.build import cluster_manifest
from tests.unit.cli.loops import CLUSTER, LEADERS, loop, nothing, policies_of, protected

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER % "billing")
    (tmp_path / "policy.yaml").write_text(LEADERS % "all")
    return tmp_path


def watch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], Any]
) -> tuple[CompletedProcess[str], list[str]]:
    """Watch a round more than there are changes, 40 s apart; return code, output and protections."""
    done, rounds = loop(["watch", str(folder)], monkeypatch, *changes)
    return done, [f"{policies_of(manifests)} without {protected(manifests)}" for manifests in rounds]


def test_each_round_reads_the_manifests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were read once, at the start: a protection of today did not hold for a watch of last week.

    A protection holds at once. The rest of a change comes into force after a second equal reading.
    """
    _code, rounds = watch(
        folder,
        monkeypatch,
        lambda: (folder / "cluster.yaml").write_text(CLUSTER % "billing, orders"),
        lambda: (folder / "policy.yaml").write_text(LEADERS % "other"),
        nothing,
    )
    assert rounds == [
        "all |  without billing",
        "all |  without billing,orders",
        " | all+other (changed) without billing,orders",
        "other |  without billing,orders",
    ]


def test_invalid_manifests_add_protections_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last valid policies stay in force, what is protected now is protected, and all is said."""

    def break_policy() -> None:
        (folder / "policy.yaml").write_text((LEADERS % "all").replace("topics", "topisc"))
        (folder / "cluster.yaml").write_text(CLUSTER % "orders")

    done, rounds = watch(
        folder, monkeypatch, break_policy, lambda: (folder / "policy.yaml").write_text(LEADERS % "new"), nothing
    )
    assert rounds == [
        "all |  without billing",
        "all |  without billing,orders",
        " | all+new (changed) without billing,orders",
        "new |  without orders",
    ]
    assert done.returncode == ExitCode.ERROR
    assert "topisc" in done.stderr
    assert "prod: the manifests are invalid now: the last valid ones stay in force" in done.stderr


@pytest.mark.parametrize("name", ["prod", "other"])
def test_a_cluster_that_is_declared_twice_protects_what_both_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A second manifest of the same name, or cluster id, is an error, and may be where a protection was added."""
    text = (CLUSTER % "orders").replace("name: prod", f"name: {name}")
    _code, rounds = watch(folder, monkeypatch, lambda: (folder / "more.yaml").write_text(text))
    assert rounds == ["all |  without billing", "all |  without billing,orders"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, ("nothing is done until it can be read",)) for text in UNREADABLE),
        (
            (CLUSTER % "billing").replace("name: prod", "name: production"),
            ("known clusters: production", "nothing is done until it is back; start watch again for another cluster"),
        ),
    ],
)
def test_nothing_is_done_while_protections_are_not_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, words: tuple[str, ...]
) -> None:
    """The Cluster is gone, torn, invalid or renamed: a protection may have been added to it."""
    path = folder / "cluster.yaml"
    good = path.read_text()
    gone = path.unlink if text is None else lambda: path.write_text(text)
    done, rounds = watch(folder, monkeypatch, gone, lambda: path.write_text(good))
    assert rounds == ["all |  without billing"] * 2
    assert all(part in " ".join(done.stderr.split()) for part in words)


def test_the_status_says_when_the_next_round_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of `watch` says between two rounds what it waits for, and first what went wrong."""
    done, _rounds = watch(folder, monkeypatch, lambda: None)
    assert [line for line in done.stderr.splitlines() if "next round" in line] == [
        "prod: this round failed, next round in 1 s, no purge yet"
    ]


def test_a_status_begins_with_what_needs_a_person(folder: Path) -> None:
    """`next round in 86400 s` once stood first, and a refusal was cut off at the edge of the terminal."""
    manifests = files.load([folder], now_ms=0).by_cluster[0]
    cluster = converge._Cluster(manifests, Settings(), [folder], reviewed=False, last_purges={})
    cluster.blocked, cluster.waits = "refused by groups, 17 blocked", "git is changing the checkout"
    assert cluster.status(86_399.6) == (
        "prod: refused by groups, 17 blocked, changed manifests wait: git is changing the checkout, "
        "next round in 1 d, no purge yet"
    )
    assert "next round in 1 h 1 min," in cluster.status(3_660.4)
    assert "next round in 1 s," in cluster.status(0.2)
