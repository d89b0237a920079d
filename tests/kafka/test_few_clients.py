"""How many clients a command opens. Each is a TLS handshake, and a chance to wait for metadata."""

import logging
from itertools import product
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from reconciler import pipeline
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.kafka.connect import Connection
from reconciler.kafka.records import look_up
from reconciler.kafka.session import KafkaSession
from reconciler.manifest import files
from reconciler.model.names import TopicPartition as Partition
from reconciler.model.snapshot import LookupKind, RecordLookup, RecordStamp
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine, EngineName
from tests.build import cluster_manifest, head

pytestmark = pytest.mark.brokers
EDGES = (LookupKind.FIRST, LookupKind.LAST)


def opened(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The classes of the clients that this process has opened since the last call."""
    messages = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return sorted(m.removeprefix("client_class=") for m in messages if m.startswith("client_class="))


def test_a_plan_and_an_apply_list_with_one_client(
    cluster: SandboxCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A plan once opened about ten clients, and one in twenty waited for one or three seconds.

    The consumer reads `__consumer_offsets`. Each of an apply's lanes has its own connection for deletions,
    because a request that waits for a replica blocks the reads behind it.
    """
    caplog.set_level(logging.DEBUG, "reconciler.kafka.client")
    topic = f"few-clients-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [client.Topic(topic, partitions=1)])
    client.produce(cluster.bootstrap_servers, topic, {0: [client.Record(b"x")] * 20})
    client.commit(cluster.bootstrap_servers, f"{topic}-reader", {(topic, 0): 20})
    manifest = tmp_path / "manifests.yaml"
    text = cluster_manifest(cluster.bootstrap_servers, limits="recordsPercent: 100", cluster_id=cluster.cluster_id)
    text += (
        f"---\n{head('RetentionFloor', 'floor')}\nspec: {{topics: [{topic}], keep: {{last: 5}}, consumers: ignore}}\n"
    )
    manifest.write_text(text, encoding="utf-8")
    manifests = files.load([manifest], now_ms=pipeline.wall_clock_ms()).for_cluster(None)
    engine = Engine(name=EngineName.INLINE)
    opened(caplog)

    with Run(manifests=manifests, engine=engine, timeout_s=30.0, progress=lambda *_step: None) as run:
        planned = pipeline.plan(run)
    assert len(planned.actions) == 1
    # One consumer more looks up the records that stay, where transactions are possible.
    topics = client.admin_client(cluster.bootstrap_servers).list_topics(timeout=30).topics
    scanned = ["AdminClient", "Consumer", *["Consumer"] * ("__transaction_state" in topics)]
    # And one more reads again where other tests of this cluster have aborted the only commit of a group.
    assert opened(caplog) in (scanned, [*scanned, "Consumer"])

    with Run(manifests=manifests, engine=engine, timeout_s=30.0, progress=lambda *_step: None) as run:
        result = pipeline.apply(planned, run)
    assert [outcome.status for outcome in result.outcomes] == ["applied"]
    assert opened(caplog) in (["AdminClient", *scanned], ["AdminClient", *scanned, "Consumer"])


def test_a_new_client_knows_the_brokers_before_its_first_use(cluster: SandboxCluster) -> None:
    """Without metadata a first call for offsets sometimes waits for the library's next look at its timers."""
    topic = f"known-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [client.Topic(topic, partitions=1)])
    connection = Connection((cluster.bootstrap_servers,))
    for session in (KafkaSession(connection), KafkaSession.open(connection)):
        reader: AdminClient = session.reader()
        assert reader is session.reader()
        assert reader.cluster_id(timeout=0) == cluster.cluster_id
        (future,) = reader.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}, request_timeout=30).values()
        assert future.result().offset == 0
        session.close()


def test_a_client_that_reads_again_gives_nothing_of_an_earlier_range(cluster: SandboxCluster) -> None:
    """Else a record would look absent, and what no time rule can prove to be old would look like markers only."""
    name = f"ranges-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [client.Topic(name, partitions=4)])
    client.produce(cluster.bootstrap_servers, name, dict.fromkeys(range(4), [client.Record(b"x" * 500)] * 400))
    starts = (350, 0, 120, 390, 40, 200)  # to and fro: an earlier range may lie below or above
    ranges = [RecordLookup(kind, start, start + size) for start in starts for size in (5, 9) for kind in EDGES]
    asked = {Partition(name, number): ranges for number in range(4)}
    session = KafkaSession.open(Connection((cluster.bootstrap_servers,)))
    found = look_up(session, asked, {})
    session.close()
    for partition, lookup in product(asked, ranges):
        answer = found[partition][lookup]
        assert isinstance(answer, RecordStamp), (partition, lookup, answer)
        assert answer.offset == (lookup.start if lookup.kind is LookupKind.FIRST else lookup.end - 1)
