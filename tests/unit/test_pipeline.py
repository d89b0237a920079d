"""What the steps make of one another, and what errors of the cluster and of the journal topic say.

No broker is needed: the facts come from a golden case, or there are none.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler import pipeline
from reconciler.errors import PlanUnusable, WrongCluster
from reconciler.journal.file import JournalFile
from reconciler.kafka.connect import Connection
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.manifest.files import ClusterManifests
from reconciler.model.names import Address, SourceLocation
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Source
from reconciler.plan import plan_file
from reconciler.policies.cluster import Cluster
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine
from tests.build import commit, git, head
from tests.golden.test_golden_cases import HERE as GOLDEN
from tests.golden.test_golden_cases import load_case
from tests.golden.wording import mentions
from tests.strategies import examples
from tests.strategies.facts import NOW_MS, cluster, snapshot


def run_of(cluster: Cluster) -> Run:
    manifests = ClusterManifests(cluster=cluster, policies=(), waivers=(), files=())
    return Run(manifests=manifests, engine=Engine(), timeout_s=1, progress=lambda *_step: None)


def connect_to_nothing(monkeypatch: pytest.MonkeyPatch, cluster_id: str) -> None:
    """Open sessions of this cluster id that answer no call."""
    session = SimpleNamespace(
        cluster_id=cluster_id, connection=Connection(("broker-1:9092", "broker-2:9092")), close=lambda: None
    )
    monkeypatch.setattr("reconciler.run.KafkaSession.open", lambda _connection: session)


def test_brokers_of_another_cluster_are_named_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were shown as ('broker-1:9092',)."""
    connect_to_nothing(monkeypatch, "other")
    run = run_of(cluster())
    with pytest.raises(WrongCluster, match="the brokers at broker-1:9092, broker-2:9092 are other: nothing was done"):
        _ = run.session


def test_a_foreign_record_in_the_journal_topic_has_a_next_step() -> None:
    """A topic cannot be moved away as a file can, and the message ended without a way out."""
    store = JournalTopic(SimpleNamespace(), "_journal")  # type: ignore[arg-type]
    message = str(store.damaged("record 7 of partition 0", ValueError("no journal entry of format 3")))
    assert mentions(message, "_journal", "record 7 of partition 0", "name another topic in spec.journal of the Cluster")


def test_a_link_to_a_cluster_manifest_has_its_journal(tmp_path: Path) -> None:
    """A run on the link did not see the purges of a run on the manifest itself."""
    manifest, link = tmp_path / "base" / "cluster.yaml", tmp_path / "overlay" / "cluster.yaml"
    for path in (manifest, link):
        path.parent.mkdir()
    manifest.write_text("")
    link.symlink_to(Path("..", "base", "cluster.yaml"))
    for path in (manifest, link):
        declared = cluster().with_location(SourceLocation(str(path), 1, 1))
        store = run_of(declared).journal.store
        assert isinstance(store, JournalFile)
        assert store.path == tmp_path / "base" / ".reconciler" / "prod-eu.jsonl"


def run_of_case(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a run on the facts of a golden case."""
    manifests, facts = load_case(folder, monkeypatch)
    monkeypatch.setattr(pipeline, "scan", lambda *_arguments, **_options: facts)
    connect_to_nothing(monkeypatch, manifests.cluster.spec.cluster_id)
    return replace(run_of(manifests.cluster), manifests=manifests)


def test_limits_count_what_a_reviewed_plan_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """`plan --within` shows what a review and the manifests both hold: what it took away counts towards no limit."""
    run = run_of_case(GOLDEN / "43-a-limit-refuses", monkeypatch)
    whole = pipeline.plan(run)
    assert (len(whole.actions), len(whole.refused)) == (2, 1)
    bounded = pipeline.plan(run, reviewed=replace(whole, decisions=()))
    assert (bounded.actions, bounded.refused) == ((), ())


@pytest.mark.parametrize("change", ["a guard that is gone", "another commit during the scan", "nothing"])
def test_a_plan_names_a_commit_only_if_it_has_what_was_read(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout of another branch during the scan is clean, and its commit has other manifests."""
    shutil.copytree(GOLDEN / "01-one-of-each-kind", tmp_path, dirs_exist_ok=True)
    (tmp_path / "manifests").rename(tmp_path / "prod")
    guard = tmp_path / "manifests" / "guards" / "floor.yaml"
    guard.parent.mkdir(parents=True)
    (tmp_path / "prod").rename(tmp_path / "manifests" / "prod")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    guard.write_text(f"{head('RetentionFloor', 'guard')}\nspec: {{topics: [audit], keep: {{unreadBy: [billing]}}}}\n")
    git(tmp_path, "checkout", "-q", "-b", "guarded")
    commit(tmp_path)
    if change == "a guard that is gone":
        guard.unlink()
    elif change == "another commit during the scan":
        git(tmp_path, "checkout", "-q", "-")
    run = run_of_case(tmp_path, monkeypatch)
    facts = pipeline.scan(run, run.manifests.policies, NOW_MS)  # type: ignore[arg-type]

    def scan(*_arguments: object, **_options: object) -> object:
        if change == "another commit during the scan":
            git(tmp_path, "checkout", "-q", "guarded")
        return facts

    monkeypatch.setattr(pipeline, "scan", scan)
    source = pipeline.plan(run).source
    assert (source.commit, source.dirty) == (git(tmp_path, "rev-parse", "HEAD"), change != "nothing")


@pytest.mark.parametrize("dirty", [False, True])
def test_results_name_the_commit_only_of_its_own_manifests(
    dirty: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journal and results of a plan with uncommitted changes named the commit, and nothing beside it."""
    shutil.copytree(GOLDEN / "01-one-of-each-kind", tmp_path, dirs_exist_ok=True)
    run = run_of_case(tmp_path, monkeypatch)
    monkeypatch.setattr(pipeline, "wall_clock_ms", lambda: NOW_MS)
    monkeypatch.setattr(pipeline, "send_actions", lambda *_arguments: ())
    planned = replace(pipeline.plan(run), source=Source(commit="4f2c9aa", dirty=dirty))
    commits = {pipeline.apply(planned, run, dry_run=dry_run).header.commit for dry_run in (True, False)}
    run.journal.record_release(f"sha256:{0:064x}", run_id="run-1", at_ms=NOW_MS)
    assert {*commits, *(entry.commit for entry in run.journal.history())} == {None if dirty else "4f2c9aa"}


def test_a_plan_removes_a_group_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later group of that name is another one. Without a journal nothing is sent, so a dry run goes on, and says so."""
    shutil.copytree(GOLDEN / "01-one-of-each-kind", tmp_path, dirs_exist_ok=True)
    run = run_of_case(tmp_path, monkeypatch)
    monkeypatch.setattr(pipeline, "wall_clock_ms", lambda: NOW_MS)
    planned = pipeline.plan(run)
    removals = {action.address for action in planned.actions if action.address.is_of_group}
    removed = [Outcome(action=action, status=Status.APPLIED, detail="") for action in planned.actions]

    def record(since_ms: int) -> None:
        at_ms = planned.observed_at_ms + since_ms
        run.journal.record(removed, run_id="run-1", plan_digest=plan_file.digest(planned), at_ms=at_ms)

    def stale() -> set[Address]:
        outcomes = pipeline.apply(planned, run, dry_run=True).outcomes
        assert sorted(outcome.action.address for outcome in outcomes) == sorted(a.address for a in planned.actions)
        return {outcome.action.address for outcome in outcomes if outcome.status is Status.STALE}

    record(-360_001)  # by an earlier plan with the same digest
    assert stale() == set()
    record(-360_000)  # of a clock that is behind that of the plan
    assert stale() == removals
    assert isinstance(run.journal.store, JournalFile)
    run.journal.store.path.write_text(f"damaged {plan_file.digest(planned)}\n")
    assert stale() == set()
    others = [o.detail for o in pipeline.apply(planned, run, dry_run=True).outcomes if o.action.address not in removals]
    assert others
    for detail in others:  # it said `would be sent`, also where no journal topic takes the intent
        assert mentions(detail, "would be sent if the journal stores its intent", "line 1")


@pytest.mark.parametrize("refusal", ["the plan expired", "other manifests of Cluster/prod-eu were released", ""])
def test_what_happens_during_the_scan_counts_for_a_release(
    refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`apply --release` of an expired plan released its manifests to later runs, and said that the plan had expired."""
    declared = cluster().with_location(SourceLocation(str(tmp_path / "cluster.yaml"), 1, 1))
    planned = examples.plan(cluster_id=declared.spec.cluster_id)
    run = run_of(declared)
    at_start, after_scan = planned.expires_at_ms - 1, planned.expires_at_ms + (1 if "expired" in refusal else -1)
    now_ms = at_start

    def scan(*_arguments: object, **_options: object) -> object:
        nonlocal now_ms
        now_ms = after_scan
        if "released" in refusal:
            run.journal.record_release(f"sha256:{1:064x}", run_id="run-2", at_ms=now_ms)
        return snapshot(observed_at_ms=at_start, cluster_id=planned.cluster_id)

    monkeypatch.setattr(pipeline, "scan", scan)
    monkeypatch.setattr(pipeline, "wall_clock_ms", lambda: now_ms)
    connect_to_nothing(monkeypatch, planned.cluster_id)
    monkeypatch.setattr(pipeline, "manifests_hash", lambda _files: f"sha256:{0:064x}")
    if refusal:
        with pytest.raises(PlanUnusable, match=refusal):
            pipeline.apply(planned, run, release=True)
    else:
        pipeline.apply(planned, run, release=True)
    releases = [entry.run_id for entry in run.journal.history()]
    assert releases == {"": [run.run_id], "the plan expired": []}.get(refusal, ["run-2"])


def test_converge_confirms_its_manifests_after_each_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release of a protection, or a change of the folder, that came during the recheck did not count."""
    run, steps = run_of_case(GOLDEN / "17-purge-interval", monkeypatch), list[str]()
    facts = pipeline.scan(run, run.manifests.policies, NOW_MS)  # type: ignore[arg-type]

    def note(step: str, result: object) -> None:
        monkeypatch.setattr(pipeline, step, lambda *_arguments, **_options: steps.append(step) or result)

    note("scan", facts)
    note("send_actions", ())
    monkeypatch.setattr(pipeline, "wall_clock_ms", lambda: NOW_MS)
    assert pipeline.converge(run, on_plan=lambda _plan: None, confirm=lambda: steps.append("confirm")).plan.actions
    assert steps == ["scan", "confirm", "scan", "confirm", "send_actions"]
