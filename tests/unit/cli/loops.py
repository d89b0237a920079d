"""Rounds of `converge --every` without a cluster: what each one acts on, and what changes between them.

And the manifests and commits that the tests of rounds share.
"""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from reconciler import pipeline
from reconciler.cli import converge
from reconciler.cli import rounds as cli_rounds
from reconciler.clock import wall_clock_ms
from reconciler.errors import ClusterUnreachable
from reconciler.journal.release import manifests_hash
from reconciler.manifest import files
from reconciler.manifest.files import ClusterManifests
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine
from tests.build import policy
from tests.command import reconciler

SERVERS = 'bootstrapServers: ["127.0.0.1:1"]'
CLUSTER = policy("Cluster", "prod", f"clusterId: id-of-prod-000000000, {SERVERS}, protect: {{topics: [%s]}}")
"""A Cluster that protects the topics in the place of `%s`."""
LEADERS = policy("LeaderPolicy", "%s", 'topics: ["*"]', mode="continuous")
"""A policy that needs no other review, for all topics."""


def cluster_of(name: str) -> str:
    """Return a Cluster of any name, with a policy of its own."""
    cluster = policy("Cluster", name, f"clusterId: id-of-{name}-0000000000, {SERVERS}")
    return "---\n".join([cluster, policy("LeaderPolicy", f"all, cluster: {name}", 'topics: ["*"]')])


Loop = Callable[..., tuple[CompletedProcess[str], list[ClusterManifests]]]
"""`loop` of one test, which needs no monkeypatch."""


class _Clock:
    """A monotonic clock that stands still, and passes a number of seconds with each change."""

    def __init__(self, changes: tuple[Callable[[], Any], ...], seconds: float) -> None:
        self._now_s, self._seconds, self._changes = 0.0, seconds, iter(changes)

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, _seconds: float) -> None:
        next(self._changes)()
        self._now_s += self._seconds


def loop(
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    *changes: Callable[[], Any],
    seconds: float = 40,
    during: Callable[[], Any] = lambda: None,
) -> tuple[CompletedProcess[str], list[ClusterManifests]]:
    """Run a round more than there are changes; return exit code and output, and what each round acts on.

    `seconds`: between two rounds, of a clock of the test. `during`: what happens during each scan.
    """
    rounds: list[ClusterManifests] = []

    def converge_once(run: Run, *, confirm: Callable[[], None], **_options: object) -> None:
        during()
        confirm()
        rounds.append(run.manifests)
        raise ClusterUnreachable("there are no brokers in this test")

    monkeypatch.setattr(pipeline, "converge", converge_once)
    # The clock of these modules only: other threads of this process go on sleeping.
    clock = _Clock(changes, seconds)
    for module in (converge, cli_rounds):
        monkeypatch.setattr(module, "time", clock)
    return reconciler(Path.cwd(), *words, "--every", "1s", "--rounds", str(len(changes) + 1)), rounds


def policies_of(manifests: ClusterManifests) -> str:
    """Return the names of the policies that the round carries out, then of those that only claim."""
    names = [(policy.mode.value, policy.metadata.name) for policy in manifests.policies]
    return " | ".join("+".join(name for mode, name in names if mode == which) for which in ("continuous", "merge"))


def set_in_force(manifests: ClusterManifests) -> str:
    """Return the policies of the round, and the topics that are protected."""
    protected = (selector.text for selector in manifests.cluster.spec.protect.topics or ())
    return f"{policies_of(manifests)} without {','.join(protected)}"


def run_on(folder: Path) -> Run:
    manifests = files.load([folder], now_ms=0).for_cluster("prod")
    return Run(manifests=manifests, engine=Engine(), timeout_s=1, progress=lambda *_step: None)


def release(folder: Path) -> None:
    """Record a release as `apply --release` does before its first request."""
    run = run_on(folder)
    run.journal.record_release(manifests_hash(run.manifests.files), run_id="run-1", at_ms=wall_clock_ms())


def nothing() -> None:
    """Change nothing between two rounds."""
