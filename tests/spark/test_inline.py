"""The engine without Spark: it has a limit, ends at Ctrl-C, and leaves nothing."""

import re
import signal
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import ScanFailed
from reconciler.kafka.session import KafkaSession
from reconciler.scan import read_chunks, spark_process
from reconciler.scan.chunks import Chunk
from reconciler.scan.engine_choice import Engine, EngineName
from reconciler.scan.task_rows import decode
from tests.spark.processes import assert_nothing_left
from tests.spark.reading import GROUP, REQUEST, TIMEOUT_S, ends_within, read, scan_task, start

pytestmark = [pytest.mark.spark]

INLINE = Engine(name=EngineName.INLINE)
END_LIMIT_S = TIMEOUT_S / 2
"""Earlier than a broker is given up."""


def test_it_starts_no_spark() -> None:
    """Each chunk has its answer, also if there are more chunks than threads."""
    spark_process.close()
    messages: list[str] = []
    assert len(read(INLINE, [Chunk()] * 9, progress=lambda message, *_count: messages.append(message))) == 9
    assert not any("Spark" in message for message in messages)
    assert spark_process._process is None


def test_a_reading_has_a_limit(silent_server: str) -> None:
    """The limit counts for all chunks, and the error says what was read."""
    error = "the reading of 1 group was not done after 1 s"
    with ends_within(END_LIMIT_S), pytest.raises(ScanFailed, match=error):
        read(INLINE, GROUP, servers=silent_server, limit_s=1.0)


def test_late_chunks_do_not_wait_for_a_silent_broker_again(silent_server: str) -> None:
    """Each chunk once waited for the whole --timeout, so that many of them reached the limit of all."""
    task = replace(scan_task(silent_server), until_s=time.time())
    with closing(KafkaSession(task.connection)) as session:
        options = {"limit_s": TIMEOUT_S - 5, "progress": lambda *_step: None}
        (answer,) = read_chunks.read(REQUEST, INLINE, session, task, GROUP, **options)
    (group,) = decode(answer["groups"]).to_pylist()
    assert group["error"]


def test_ctrl_c_ends_it_at_once(tmp_path: Path, unique: str, silent_server: str) -> None:
    """Neither the threads nor the worker processes of the reading wait for the broker."""
    with start("inline", silent_server, mark=unique, temporary=tmp_path) as process:
        assert process.stderr is not None
        assert any(re.search(r"^reading .*\(0 of 1 chunks", line) for line in process.stderr)
        process.send_signal(signal.SIGINT)
        assert process.wait(END_LIMIT_S) == -signal.SIGINT
    assert_nothing_left(tmp_path, unique)
