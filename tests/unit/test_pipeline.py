"""What errors of the cluster and of the journal topic say; no broker is needed."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.errors import WrongCluster
from reconciler.journal.file import JournalFile
from reconciler.kafka.connect import Connection
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.manifest.files import ClusterManifests
from reconciler.model.names import SourceLocation
from reconciler.policies.cluster import Cluster
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine
from tests.golden.wording import mentions
from tests.strategies.facts import cluster


def run_of(cluster: Cluster) -> Run:
    manifests = ClusterManifests(cluster=cluster, policies=(), waivers=(), files=())
    return Run(manifests=manifests, engine=Engine(), timeout_s=1, progress=lambda *_step: None)


def test_brokers_of_another_cluster_are_named_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were shown as ('broker-1:9092',)."""
    connection = Connection(("broker-1:9092", "broker-2:9092"))
    session = SimpleNamespace(cluster_id="other", connection=connection, close=lambda: None)
    monkeypatch.setattr("reconciler.run.KafkaSession.open", lambda _connection: session)
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
