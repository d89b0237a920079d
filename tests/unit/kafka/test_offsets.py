"""What is known of the ends of partitions that no broker is asked about."""

from types import SimpleNamespace
from typing import Any, cast

from reconciler.kafka.futures import Deadline
from reconciler.kafka.offsets import with_watermarks
from reconciler.model.snapshot import Unknown
from tests.strategies.facts import partition


def test_the_brokers_of_a_partition_without_a_leader_are_named() -> None:
    """`restore-group` said that there is no leader, and whoever was called had to look up what to start."""
    session = cast(Any, SimpleNamespace(read=lambda *_arguments, **_options: {}))
    for replicas, words in (((2, 3), "brokers with a replica: 2,3"), (Unknown("lost"), "replica: unknown")):
        facts = partition(leader=None, replicas=replicas)
        read = with_watermarks(session, {facts.partition: facts}, deadline=Deadline.after(1))[facts.partition]
        assert read is not None
        assert isinstance(read.log_start, Unknown)
        assert read.log_start.reason.endswith(words)
