"""Reads the positions of all external readers side by side, within one deadline."""

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from functools import partial

from reconciler.errors import ReconcilerError
from reconciler.external.mirror_maker import read_syncs
from reconciler.external.places import PositionUnreadable, open_files
from reconciler.external.spark import read_checkpoint
from reconciler.external.table import read_table
from reconciler.kafka.futures import kafka_error, reason_of, submit
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import ExternalReaderRequest, PositionKind
from reconciler.model.snapshot import Cause, ExternalPosition, ExternalPositions, Unknown


def read_positions(
    session: KafkaSession, readers: Iterable[ExternalReaderRequest], environment: Mapping[str, str] = os.environ
) -> ExternalPositions:
    """Return the position of each reader. Takes at most the session's timeout.

    What hangs is left to a thread that ends with this process. Raises ClusterUnreachable where no
    thread can be started.
    """
    deadline = session.deadline()
    calls = {reader: submit(partial(_read, reader, session, environment)) for reader in readers}
    wait(calls.values(), timeout=deadline.remaining_s)
    return {reader: _answer(call, session.timeout_s) for reader, call in calls.items()}


def _answer(call: Future[ExternalPosition], timeout_s: float) -> ExternalPosition | Unknown:
    if not call.done():
        return Unknown(f"not read within {timeout_s:.0f} s", Cause.NO_ANSWER)
    error = call.exception()
    if error is None:
        return call.result()
    if isinstance(error, PositionUnreadable | ReconcilerError) or kafka_error(error) is not None:
        return Unknown(reason_of(error))
    return Unknown(f"an error of this program, please report it: {type(error).__name__}")  # its text may quote content


def _read(reader: ExternalReaderRequest, session: KafkaSession, environment: Mapping[str, str]) -> ExternalPosition:
    if reader.kind is PositionKind.MIRROR_MAKER_SYNCS:
        return read_syncs(session, reader.at)
    files = open_files(reader.at, environment, limit_s=session.timeout_s)
    if reader.kind is PositionKind.SPARK_CHECKPOINT:
        return read_checkpoint(files)
    return read_table(files, reader.at, session.cluster_id or "")
