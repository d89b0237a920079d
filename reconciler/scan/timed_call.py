"""Calls into Spark with a time limit: neither py4j nor gRPC sets a deadline."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

Answer = TypeVar("Answer")

_LOG = logging.getLogger(__name__)


class TimedCall(Generic[Answer]):
    """A call that may hang, in a daemon thread.

    The constructor starts the thread, because none can be started at the end of the process. `after` runs
    after the call, whatever its result; no caller waits for it.
    """

    def __init__(self, call: Callable[[], Answer], after: Callable[[], None] | None = None) -> None:
        self._call = call
        self._after = after
        self._start = threading.Event()
        self._answer: Future[Answer] = Future()
        threading.Thread(target=self._run, name="spark-timed-call", daemon=True).start()

    def begin(self) -> None:
        """Start the call without waiting for it."""
        self._start.set()

    def within(self, limit_s: float) -> Answer:
        """The result of the call. Raises what it raises, and TimeoutError after the limit."""
        self.begin()
        return self._answer.result(timeout=limit_s)

    def succeeds_within(self, limit_s: float) -> bool:
        """Whether the call succeeds in time."""
        try:
            self.within(limit_s)
        except Exception as error:  # noqa: BLE001 - pyspark, py4j and gRPC each raise trees of their own
            _LOG.debug("spark_call=failed", exc_info=error)
            return False
        return True

    def _run(self) -> None:
        self._start.wait()
        try:
            self._answer.set_result(self._call())
        except BaseException as error:  # noqa: BLE001 - handed to the waiting caller
            self._answer.set_exception(error)
        if self._after is not None:
            self._after()
