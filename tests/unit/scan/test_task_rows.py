"""What the tasks of a scan share, on its way to them."""

import pickle
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ScanFailed
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import ScanRequest
from reconciler.scan import task_rows
from reconciler.scan.chunks import Chunk
from reconciler.scan.rows import combine, compare_in_tasks
from reconciler.scan.task_rows import SCHEMAS, ScanTask, answers_for, decode, read_encoded, requested


def test_what_tasks_share_by_topic_is_unpickled_once_per_process() -> None:
    """Each task of a scan of 200,000 partitions once unpickled the maps of all its topics."""
    task = ScanTask(
        connection=Connection(("localhost:9092",)),
        cluster_id=None,
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
    answer = {"runs": pa.RecordBatch.from_pylist([{"name": "groups", "number": -1}], schema=SCHEMAS["runs"])}
    monkeypatch.setattr(task_rows, "read_chunk", lambda *_arguments, **_options: answer)
    monkeypatch.setattr(task_rows, "is_retry", lambda: False)
    monkeypatch.setattr(task_rows, "cluster_id_in_metadata", lambda _session, limit_s: limit_s and answered)
    task = ScanTask(
        connection=Connection(("localhost:9092",)),
        cluster_id="here",
        readers={},
        topic_ids={},
        named={},
        until_s=1.0,
        log_limit_s=2.0,
    )
    assert decode(read_encoded(task, Chunk())) == ({} if answered is None else answer)
    if answered is not None:
        with pytest.raises(ScanFailed, match="are cluster here, not there"):
            read_encoded(replace(task, cluster_id="there"), Chunk())


OFFSETS = st.none() | st.integers(0, 6)


@given(
    partitions=st.dictionaries(st.integers(0, 3), st.tuples(OFFSETS, OFFSETS, OFFSETS)),
    positions=st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 4), OFFSETS)),
    origins=st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.integers(0, 6))),
    named=st.frozensets(st.sampled_from("abc")),
)
def test_a_second_job_leaves_out_only_what_the_driver_would(
    partitions: dict[int, tuple[int | None, ...]],
    positions: set[tuple[str, int, int | None]],
    origins: set[tuple[str, int, int]],
    named: frozenset[str],
) -> None:
    """The scan combines with the second task, which once named each group with a commit."""
    offsets = ("log_start", "last_stable_offset", "high_watermark")
    first = {
        "partitions": table(
            "partitions",
            [{"topic": "t", "partition": n, **dict(zip(offsets, row, strict=True))} for n, row in partitions.items()],
        ),
        "pending": table(
            "pending",
            [
                {"topic": "t", "group": g, "partition": n, "committed": c, "log_partition": 7}
                for g, n, c in origins
                if c % 2
            ],
        ),
        "origins": table(
            "origins",
            [{"topic": "t", "group": g, "partition": n, "committed": c, "topic_id": "i"} for g, n, c in origins],
        ),
    }
    task = ScanTask(
        connection=Connection(("localhost:9092",)),
        cluster_id=None,
        readers={"t": range(5)},
        topic_ids={},
        named={"t": named},
        until_s=1.0,
        log_limit_s=2.0,
    )
    second = pickle.loads(pickle.dumps(compare_in_tasks(task, [first])))

    def read(task: ScanTask) -> pa.RecordBatch:
        rows = [
            {"topic": "t", "group": group, "partition": number, "committed": committed}
            for group, number, committed in sorted(positions, key=repr)
            if number in requested(task, group, "t", {} if committed is None else {number: committed})
        ]
        return table("positions", rows)

    of_all, of_second = ({**first, "positions": read(each)} for each in (task, second))
    expected = combine([of_all], ScanRequest(), task.named).readers
    assert combine([of_second], ScanRequest(), second.named).readers == expected
    kept = Counter(row["group"] for row in of_second["positions"].to_pylist())
    in_log = {group for group, *_ in origins}
    wanted = Counter(position.group for of_partition in expected.values() for position in of_partition)
    assert {g: n for g, n in kept.items() if g not in in_log} == {g: n for g, n in wanted.items() if g not in in_log}


def table(name: str, rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMAS[name])
