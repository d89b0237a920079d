"""Calls into Spark that may hang: neither py4j nor gRPC sets a deadline."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

Answer = TypeVar("Answer")

_LOG = logging.getLogger(__name__)


class TimedCall(Generic[Answer]):
    """A call that may hang, in a thread that nobody has to wait for.

    The thread is there from the start: at the end of the process none can be started any more. `after`: what is done then, whatever
    became of the call, and is not waited for.
    """

    def __init__(self, call: Callable[[], Answer], after: Callable[[], None] | None = None) -> None:
        self._call = call
        self._after = after
        self._wanted = threading.Event()
        self._answer: Future[Answer] = Future()
        threading.Thread(target=self._run, name="spark-aside", daemon=True).start()

    def begin(self) -> None:
        """Make the call, and do not wait for it."""
        self._wanted.set()

    def within(self, limit_s: float) -> Answer:
        """What the call answers. Raises what it raises, and TimeoutError past the limit."""
        self.begin()
        return self._answer.result(timeout=limit_s)

    def succeeds_within(self, limit_s: float) -> bool:
        """Whether the call came to a good end in time."""
        try:
            self.within(limit_s)
        except Exception as failure:  # noqa: BLE001 - pyspark, py4j and gRPC each raise trees of their own
            _LOG.debug("spark_call=failed", exc_info=failure)
            return False
        return True

    def _run(self) -> None:
        self._wanted.wait()
        try:
            self._answer.set_result(self._call())
        except BaseException as failure:  # noqa: BLE001 - handed to whoever waits for the answer
            self._answer.set_exception(failure)
        if self._after is not None:
            self._after()
