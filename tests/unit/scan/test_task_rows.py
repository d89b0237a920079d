"""What the tasks of a scan share, on its way to them."""

import pickle
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.errors import ScanFailed
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.scan import task_rows
from reconciler.scan.chunks import Chunk
from reconciler.scan.task_rows import ScanTask, answers_for, decode, load_answer, read_encoded


def test_what_tasks_share_by_topic_is_unpickled_once_per_process() -> None:
    """Each task of a scan of 200,000 partitions once unpickled the maps of all its topics."""
    task = ScanTask(
        connection=Connection(("localhost:9092",)),
        readers={"t": range(3)},
        topic_ids={"t": "id"},
        named={"t": frozenset({"g"})},
        until_s=1.0,
        log_limit_s=2.0,
        with_commits=frozenset({"g"}),
    )
    first, second = (pickle.loads(pickle.dumps(task)) for _ in range(2))
    assert first == second == task
    assert first.readers is second.readers
    other = pickle.loads(pickle.dumps(replace(task, readers={"t": range(4)})))
    assert other.readers == {"t": range(4)}


@pytest.mark.parametrize("answered", ["here", "elsewhere", None])
def test_a_task_answers_for_the_cluster_of_the_driver_only(answered: str | None) -> None:
    """Executors resolve addresses themselves: offsets of another cluster became those of this one."""
    session = KafkaSession(Connection(("localhost:9092",)))
    client: Any = SimpleNamespace(cluster_id=lambda timeout: answered, poll=lambda _timeout: 0)  # noqa: ARG005
    session._clients["reads"] = client
    assert answers_for(session, None)
    if answered == "elsewhere":
        with pytest.raises(ScanFailed, match=r"are cluster elsewhere, not here: make localhost:9092 lead"):
            answers_for(session, "here")
    else:
        assert answers_for(session, "here") is (answered == "here")


@pytest.mark.parametrize("answered", ["here", None])
def test_a_task_that_knows_no_cluster_brings_no_answer(monkeypatch: pytest.MonkeyPatch, answered: str | None) -> None:
    """What it read counts as not read."""
    answer = {"runs": task_rows._batch("runs", [{"log_partition": 0}])}
    monkeypatch.setattr(task_rows, "read_chunk", lambda *_arguments, **_options: answer)
    monkeypatch.setattr(task_rows, "is_retry", lambda: False)
    monkeypatch.setattr(task_rows, "cluster_id_in_metadata", lambda _session, limit_s: limit_s and answered)
    task = ScanTask(connection=Connection(("localhost:9092",)), cluster_id="here", until_s=1.0, log_limit_s=2.0)
    assert load_answer(read_encoded(task, Chunk())) == ({} if answered is None else answer)
    if answered is not None:
        with pytest.raises(ScanFailed, match="are cluster here, not there"):
            read_encoded(replace(task, cluster_id="there"), Chunk())


def test_a_commit_takes_few_bytes_until_it_is_looked_at() -> None:
    """The driver holds the commits of all groups before it leaves out those at the ends: a gigabyte for 160 million.

    They once came as 53 bytes each.
    """
    number = random.Random(1)
    topics = [f"orders-by-customer-{number}" for number in range(50)]
    rows = [
        {"group": f"billing-{group}", "topic": topic, "partition": 7, "committed": number.randrange(10**6, 10**9)}
        for group in range(500)
        for topic in topics
    ]
    stream = task_rows._batch("positions", rows)
    assert len(stream) < 8 * len(rows)
    assert decode(stream).to_pylist() == rows
