"""What the tasks of a scan share, on its way to them."""

import pickle
from dataclasses import replace

from reconciler.kafka.connect import Connection
from reconciler.scan.task_rows import ScanTask


def test_what_tasks_share_by_topic_is_unpickled_once_per_process() -> None:
    """Each task of a scan of 200,000 partitions once unpickled the maps of all its topics."""
    task = ScanTask(
        connection=Connection(("localhost:9092",)),
        readers={"t": range(3)},
        topic_ids={"t": "id"},
        named={"t": frozenset({"g"})},
        until_s=1.0,
        log_limit_s=2.0,
    )
    first, second = (pickle.loads(pickle.dumps(task)) for _ in range(2))
    assert first == second == task
    assert first.readers is second.readers
    other = pickle.loads(pickle.dumps(replace(task, readers={"t": range(4)})))
    assert other.readers == {"t": range(4)}
