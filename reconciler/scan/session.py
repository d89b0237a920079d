"""A Spark session: started while other things load, silent, stopped without leaving a JVM behind.

Decided here: how a local driver is tuned and what a failed start says. The process is in `jvm`, how our code reaches the
executors in `ship`, what runs in the session in `task` and `reduce`.
"""

import atexit
import logging
import os
import re
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reconciler.errors import ScanFailed
from reconciler.scan import jvm
from reconciler.scan import spark_connect as remote
from reconciler.scan.code_archive import add_package
from reconciler.scan.timed_call import TimedCall

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

_START_LIMIT_S = 120.0
_ABANDON_LIMIT_S = 5.0
_ALIVE_LIMIT_S = 5.0
_STOP_LIMIT_S = 5.0
_HURRIED_S = 2.0

# Short runs: no second compiler, one collector thread. Both measured, see docs/scaling.md.
_LOCAL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m -XX:-UsePerfData"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# A stage whose executor was lost is run again, and may meet another cluster than at first: with new offsets, or with other rows. Mixed with
# what the first run left in the shuffle, a subject could be told twice or not at all. These compare the rows of both runs, whatever their
# order, and where they differ run again all that rests on them. Only newer versions of Spark do so unless told.
_ONE_READING: Mapping[str, str] = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
_QUIET: Mapping[str, str] = {
    "spark.app.name": "kafka-reconciler",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # Rows are few after the shuffle and their number is known: re-planning between stages costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",
    # Lists of readers of more than 128 partitions would be sorted, spilled and merged instead of kept in a table.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    **_ONE_READING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTarget:
    """Where Spark runs. `remote`: a Spark Connect server (`sc://…`), then `master` is not used. `conf`: Spark properties, which win."""

    master: str = "local[*]"
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


class PendingSession:
    """A session on its way: `PendingSession(engine)` returns at once, `result` waits for it, `abandon` gives it up."""

    def __init__(self, engine: SparkTarget) -> None:
        self._engine = engine
        self._abandoned = threading.Event()
        self._future: Future[SparkSession] = Future()
        self._thread = threading.Thread(target=self._run, name="spark-start", daemon=True)
        self._thread.start()

    def result(self) -> "SparkSession":
        """The session. Raises ScanFailed in one sentence: no Java, a server that is away, a JVM that died (with its log)."""
        try:
            return self._future.result(timeout=_START_LIMIT_S)
        except TimeoutError:
            self.abandon()
            raise ScanFailed(f"no Spark session within {_START_LIMIT_S:.0f} s: {_where(self._engine)}") from None

    def abandon(self) -> None:
        """Let go of a session that nobody waits for any more. A JVM that is starting is ended before this returns; one that has
        started is left to `close`.
        """
        self._abandoned.set()
        # Without waiting the process would be gone first, and leave the JVM to find that out by itself.
        self._thread.join(_ABANDON_LIMIT_S)

    def _run(self) -> None:
        try:
            self._future.set_result(_open(self._engine, self._abandoned))
        except BaseException as failure:  # noqa: BLE001 - handed to whoever waits for the session
            self._future.set_exception(failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHandle:
    """What this module started and has to end. `leave`: lets go of it; `gateway`: into the JVM, if there is one; `shipped`: our code is there."""

    leave: TimedCall[None]
    gateway: Any = None
    session: "SparkSession | None" = None
    shipped: bool = False


_held: SessionHandle | None = None


def close(*, at_once: bool = False) -> None:
    """Stop the session of this process, if any, and its JVM. Safe to call twice, and after Ctrl-C (`at_once`: nobody wants to wait).

    Takes seconds at most: a JVM that does not answer is killed, a Connect server that does not answer keeps the session until it
    forgets it by itself.
    """
    global _held
    held, _held = _held, None
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    limit_s = _HURRIED_S if at_once else _STOP_LIMIT_S
    gateway = SparkContext._gateway if held is None or held.gateway is None else held.gateway
    if gateway is None:
        if held is not None:
            held.leave.succeeds_within(limit_s)
            remote.clear_default_session(held.session)
        return
    started = jvm.of(gateway)
    context = SparkContext._active_spark_context
    if context is not None and started is not None and started.process.poll() is not None:
        # Nobody is there to be asked.
        context._jsc = None
    left = (_leaving(gateway) if held is None else held.leave).succeeds_within(limit_s)
    if started is not None:
        started.end(at_once=at_once or not left)
    if context is not None:
        context._jsc = None
    # pyspark would go on talking to the dead gateway.
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


def _leaving(gateway: Any) -> TimedCall[None]:
    """What SparkContext.stop does, without its words on a JVM that has died and without a second of waiting for the accumulators, and then
    the end of the connection.
    """
    from pyspark import SparkContext

    accumulators: Any = None

    def leave() -> None:
        nonlocal accumulators
        context = SparkContext._active_spark_context
        accumulators = getattr(context, "_accumulatorServer", None)
        if accumulators is not None:
            # A JVM that ends in the middle of a sentence would be told on the terminal, with a stack.
            accumulators.handle_error = lambda *_: None
        try:
            if getattr(context, "_jsc", None) is not None:
                context._jsc.stop()
        finally:
            gateway.shutdown()

    def after() -> None:
        if accumulators is not None:
            accumulators.shutdown()

    return TimedCall(leave, after)


def log_hint() -> str:
    """Where the words of Spark's JVM and of its Python workers are kept, for an error message; empty for a remote session."""
    if "pyspark" not in sys.modules:
        return ""
    from pyspark import SparkContext

    started = jvm.of(SparkContext._gateway)
    return "" if started is None else f"; the log is {started.keep_log()}"


def _open(engine: SparkTarget, abandoned: threading.Event) -> "SparkSession":
    from pyspark.sql import SparkSession

    global _held  # noqa: PLW0603 - a process has one session
    # The active session belongs to a thread; these belong to the process.
    warm = SparkSession._instantiatedSession
    if warm is None and engine.remote and _held is not None and _held.session is not None:
        # Nobody waits for a server that is away longer than for one that never was there.
        remote.check_reachable(engine.remote)
        warm = _held.session
    if warm is not None:
        unfinished = _held is not None and _held.session is warm and not _held.shipped
        if not unfinished and _alive(warm):
            return warm
        _LOG.info("spark=gone")
        close(at_once=True)
    mine: SessionHandle | None = None
    try:
        session = _connect(engine) if engine.remote else _launch(engine, abandoned)
        mine = _held
        add_package(session)
        if mine is not None and _held is mine:
            _held = replace(mine, shipped=True)
    except ScanFailed:
        raise
    except Exception as failure:  # noqa: BLE001 - pyspark, py4j and gRPC each raise trees of their own
        _LOG.debug("spark_start=failed", exc_info=failure)
        told = f"{_where(engine)} did not start a session: {first_line(failure)}{log_hint()}"
        # By now another start may hold a session, where nobody waited for this one.
        if not abandoned.is_set() or (mine is not None and _held is mine):
            close(at_once=True)
        raise ScanFailed(told) from None
    return session


def _connect(engine: SparkTarget) -> "SparkSession":
    from pyspark.sql import SparkSession

    global _held  # noqa: PLW0603 - a process has one session
    remote.check_reachable(str(engine.remote))
    builder = SparkSession.builder.remote(str(engine.remote))
    # A server that does not know or allow one of them says so in a warning that the client keeps to itself.
    for name, value in (dict(_ONE_READING) | dict(engine.conf)).items():
        builder = builder.config(name, value)
    session = builder.create()
    _held = SessionHandle(leave=TimedCall(lambda: remote.release(session)), session=session)
    atexit.register(close)
    return session


def _alive(session: "SparkSession") -> bool:
    """Whether Spark is there and still has the session. One that does not answer is not."""
    from pyspark import SparkContext
    from pyspark.sql.session import SparkSession as Classic

    if not isinstance(session, Classic):
        return TimedCall(lambda: session.conf.get("spark.sql.session.timeZone")).succeeds_within(_ALIVE_LIMIT_S)
    started = jvm.of(SparkContext._gateway)
    java_context = session._sc._jsc
    if java_context is None or (started is not None and started.process.poll() is not None):
        return False
    return TimedCall(lambda: _need_running(java_context)).succeeds_within(_ALIVE_LIMIT_S)


def _need_running(java_context: Any) -> None:
    if java_context.sc().isStopped():
        raise ScanFailed("Spark's context was stopped")


def _launch(engine: SparkTarget, abandoned: threading.Event) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    global _held  # noqa: PLW0603 - a process has one session
    if os.environ.get("SPARK_REMOTE") == "":
        # CI passes an unset variable as an empty one, which pyspark takes for the address of a server.
        del os.environ["SPARK_REMOTE"]
    properties = _properties(engine)
    conf = SparkConf(loadDefaults=False)
    for name, value in properties.items():
        conf.set(name, value)
    if SparkContext._gateway is None:
        archived = properties.get(_JAVA_OPTIONS) == _LOCAL_JVM
        gateway = jvm.start(conf, abandoned, limit_s=_START_LIMIT_S, archived=archived)
        _held = held = SessionHandle(leave=_leaving(gateway), gateway=gateway)
        atexit.register(close)
        context = SparkContext(conf=conf, gateway=gateway)
    else:
        gateway = SparkContext._gateway
        held = SessionHandle(leave=_leaving(gateway), gateway=gateway)
        context = SparkContext.getOrCreate(conf)
    # Only spark-submit heeds the property; a context takes `python3` from PATH, which may lack pyarrow.
    context.pythonExec = properties["spark.pyspark.python"]
    session = SparkSession(context)
    _held = replace(held, session=session)
    return session


def _properties(engine: SparkTarget) -> dict[str, str]:
    master = engine.master
    found = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    if found:
        # Without a second number one crashed worker would fail the scan; a cluster tries four times by default.
        master = f"local[{found[1] or 1},4]"
    properties = dict(_QUIET)
    if re.match(r"(local|spark://(127\.|localhost))", master):
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local"):
        properties |= {_JAVA_OPTIONS: _LOCAL_JVM, "spark.driver.memory": "768m"}
    properties["spark.pyspark.python"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return properties | {"spark.master": master} | dict(engine.conf)


def _where(engine: SparkTarget) -> str:
    return f"the Spark Connect server {engine.remote}" if engine.remote else f"Spark at {engine.master}"


def first_line(failure: BaseException) -> str:
    """The first line of what a Java or gRPC error says; the rest is stack."""
    text = str(failure).strip()
    return text.splitlines()[0] if text else type(failure).__name__
