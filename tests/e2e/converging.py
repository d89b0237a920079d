"""Runs of `converge` in this process, on the manifests of the current folder and on topics with constant traffic."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from reconciler import pipeline
from reconciler.companions.sandbox import client
from reconciler.manifest import files
from reconciler.manifest.files import ClusterManifests
from reconciler.model.names import TopicPartition
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine, EngineName
from tests.e2e.workspace import Workspace

INLINE = Engine(name=EngineName.INLINE)
"""test_slice.py converges with Spark."""


def load_manifests() -> ClusterManifests:
    return files.load([Path("manifests")], now_ms=pipeline.wall_clock_ms()).for_cluster()


def new_run(manifests: ClusterManifests, last_purges: dict[TopicPartition, int] | None = None) -> Run:
    return Run(
        manifests=manifests, engine=INLINE, timeout_s=20.0, progress=lambda *_step: None, last_purges=last_purges
    )


@contextmanager
def produce_steadily(space: Workspace, topics: Sequence[str]) -> Iterator[None]:
    """Write a few records to two partitions of each topic, three times a second, during the block."""
    producer = Producer({"bootstrap.servers": space.servers, "linger.ms": 0, "log_level": 0})

    def produce_round(records: int) -> None:
        for topic in topics:
            for number in range(2 * records):
                producer.produce(topic, b"x", partition=number % 2)
        assert producer.flush(30) == 0

    def produce(stop: threading.Event) -> None:
        while not stop.wait(0.3):
            produce_round(5)

    produce_round(500)
    with client.run_in_background(produce, "records"):
        yield
