"""The Spark session: started in the background, silent, stopped without leaving a JVM behind.

Decided here: how a local driver is tuned, and the message of a failed start. jvm.py runs the process,
code_archive.py ships our code to the executors, query.py and task.py run in the session.
"""

import atexit
import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reconciler.errors import ScanFailed
from reconciler.scan import jvm
from reconciler.scan.code_archive import add_package
from reconciler.scan.timed_call import TimedCall

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

_START_LIMIT_S = 120.0
_CONNECT_LIMIT_S = 10.0
_CONNECT_PORT = 15002
_ABANDON_LIMIT_S = 5.0
_ALIVE_LIMIT_S = 5.0
_STOP_LIMIT_S = 5.0
_HURRIED_S = 2.0

# Short runs: no second compiler, one collector thread. Both measured, see docs/scaling.md.
_LOCAL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m -XX:-UsePerfData"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Spark repeats a stage whose executor was lost, and the cluster may have new offsets or rows by then. Mixed
# with the first run's shuffle output, a subject could be there twice or not at all. These settings compare
# the rows of both runs, in any order, and repeat everything that depends on different ones. They are the
# default only in newer versions of Spark.
_CONSISTENT_RETRY: Mapping[str, str] = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
_QUIET: Mapping[str, str] = {
    "spark.app.name": "kafka-reconciler",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # The shuffle's output is small and of a known size: re-planning between stages costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",
    # Otherwise lists of readers of more than 128 partitions are sorted and spilled instead of hashed.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    **_CONSISTENT_RETRY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTarget:
    """Where Spark runs.

    `remote`: a Spark Connect server (`sc://…`), which replaces `master`. `conf`: Spark properties, which
    override ours.
    """

    master: str = "local[*]"
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


class PendingSession:
    """A session that starts in the background: `result` waits for it, `abandon` gives it up."""

    def __init__(self, engine: SparkTarget) -> None:
        self._engine = engine
        self._abandoned = threading.Event()
        self._future: Future[SparkSession] = Future()
        self._thread = threading.Thread(target=self._run, name="spark-start", daemon=True)
        self._thread.start()

    def result(self) -> "SparkSession":
        """The session. Raises ScanFailed: no Java, no server, or a JVM that died (with the path of its log)."""
        try:
            return self._future.result(timeout=_START_LIMIT_S)
        except TimeoutError:
            self.abandon()
            raise ScanFailed(f"no Spark session within {_START_LIMIT_S:.0f} s: {_target_name(self._engine)}") from None

    def abandon(self) -> None:
        """Give up the session. A starting JVM is ended before this returns; `close` ends a running one."""
        self._abandoned.set()
        # Otherwise this process could end first and leave the JVM behind.
        self._thread.join(_ABANDON_LIMIT_S)

    def _run(self) -> None:
        try:
            self._future.set_result(_open(self._engine, self._abandoned))
        except BaseException as error:  # noqa: BLE001 - handed to the waiting caller
            self._future.set_exception(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHandle:
    """A session that this module started and has to end.

    `release`: ends it. `gateway`: into the JVM, if there is one. `shipped`: whether our code is on its path.
    """

    release: TimedCall[None]
    gateway: Any = None
    session: "SparkSession | None" = None
    shipped: bool = False


_current: SessionHandle | None = None


def close(*, at_once: bool = False) -> None:
    """Stop the session of this process, if any, and its JVM. Safe to call twice. `at_once`: after Ctrl-C.

    Takes seconds at most: a JVM that hangs is killed, and a Connect server that hangs keeps the session
    until its own timeout.
    """
    global _current
    handle, _current = _current, None
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    limit_s = _HURRIED_S if at_once else _STOP_LIMIT_S
    gateway = SparkContext._gateway if handle is None or handle.gateway is None else handle.gateway
    if gateway is None:
        if handle is not None:
            handle.release.succeeds_within(limit_s)
            _clear_default_session(handle.session)
        return
    running_jvm = jvm.of(gateway)
    context = SparkContext._active_spark_context
    if context is not None and running_jvm is not None and running_jvm.process.poll() is not None:
        # The JVM is gone.
        context._jsc = None
    released = (_release_call(gateway) if handle is None else handle.release).succeeds_within(limit_s)
    if running_jvm is not None:
        running_jvm.end(at_once=at_once or not released)
    if context is not None:
        context._jsc = None
    # Otherwise pyspark would use the closed gateway.
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


def _release_call(gateway: Any) -> TimedCall[None]:
    """Stop the context and close the gateway.

    Like SparkContext.stop, without its messages about a dead JVM and without a second of waiting for the
    accumulators.
    """
    from pyspark import SparkContext

    accumulators: Any = None

    def release() -> None:
        nonlocal accumulators
        context = SparkContext._active_spark_context
        accumulators = getattr(context, "_accumulatorServer", None)
        if accumulators is not None:
            # Otherwise the end of the JVM prints a stack trace on the terminal.
            accumulators.handle_error = lambda *_: None
        try:
            if getattr(context, "_jsc", None) is not None:
                context._jsc.stop()
        finally:
            gateway.shutdown()

    def after() -> None:
        if accumulators is not None:
            accumulators.shutdown()

    return TimedCall(release, after)


def log_hint() -> str:
    """The path of the log of Spark's JVM and Python workers, for an error message; empty for a remote session."""
    if "pyspark" not in sys.modules:
        return ""
    from pyspark import SparkContext

    running_jvm = jvm.of(SparkContext._gateway)
    return "" if running_jvm is None else f"; the log is {running_jvm.keep_log()}"


def _open(engine: SparkTarget, abandoned: threading.Event) -> "SparkSession":
    from pyspark.sql import SparkSession

    global _current  # noqa: PLW0603 - a process has one session
    # The active session belongs to a thread; these belong to the process.
    warm = SparkSession._instantiatedSession
    if warm is None and engine.remote and _current is not None and _current.session is not None:
        # Fails sooner than the session of a server that is gone.
        check_reachable(engine.remote)
        warm = _current.session
    if warm is not None:
        unfinished = _current is not None and _current.session is warm and not _current.shipped
        if not unfinished and _alive(warm):
            return warm
        _LOG.info("spark=gone")
        close(at_once=True)
    handle: SessionHandle | None = None
    try:
        session = _connect(engine) if engine.remote else _launch(engine, abandoned)
        handle = _current
        add_package(session)
        if handle is not None and _current is handle:
            _current = replace(handle, shipped=True)
    except ScanFailed:
        raise
    except Exception as error:  # noqa: BLE001 - pyspark, py4j and gRPC have their own exception trees
        _LOG.debug("spark_start=failed", exc_info=error)
        message = f"{_target_name(engine)} did not start a session: {first_line(error)}{log_hint()}"
        # After an abandoned start, the current session may be another one.
        if not abandoned.is_set() or (handle is not None and _current is handle):
            close(at_once=True)
        raise ScanFailed(message) from None
    return session


def _connect(engine: SparkTarget) -> "SparkSession":
    from pyspark.sql import SparkSession

    global _current  # noqa: PLW0603 - a process has one session
    check_reachable(str(engine.remote))
    builder = SparkSession.builder.remote(str(engine.remote))
    # The client hides a server's warning about a setting that it does not know or allow.
    for name, value in (dict(_CONSISTENT_RETRY) | dict(engine.conf)).items():
        builder = builder.config(name, value)
    session = builder.create()
    _current = SessionHandle(release=TimedCall(lambda: _release_remote(session)), session=session)
    atexit.register(close)
    return session


def _alive(session: "SparkSession") -> bool:
    """Whether Spark answers and still has the session."""
    from pyspark import SparkContext
    from pyspark.sql.session import SparkSession as Classic

    if not isinstance(session, Classic):
        return TimedCall(lambda: session.conf.get("spark.sql.session.timeZone")).succeeds_within(_ALIVE_LIMIT_S)
    running_jvm = jvm.of(SparkContext._gateway)
    java_context = session._sc._jsc
    if java_context is None or (running_jvm is not None and running_jvm.process.poll() is not None):
        return False
    return TimedCall(lambda: _assert_running(java_context)).succeeds_within(_ALIVE_LIMIT_S)


def _assert_running(java_context: Any) -> None:
    if java_context.sc().isStopped():
        raise ScanFailed("Spark's context was stopped")


def _launch(engine: SparkTarget, abandoned: threading.Event) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    global _current  # noqa: PLW0603 - a process has one session
    if os.environ.get("SPARK_REMOTE") == "":
        # CI passes an unset variable as an empty one, which pyspark takes for a server's address.
        del os.environ["SPARK_REMOTE"]
    properties = _properties(engine)
    conf = SparkConf(loadDefaults=False)
    for name, value in properties.items():
        conf.set(name, value)
    if SparkContext._gateway is None:
        archived = properties.get(_JAVA_OPTIONS) == _LOCAL_JVM
        gateway = jvm.start(conf, abandoned, limit_s=_START_LIMIT_S, archived=archived)
        _current = handle = SessionHandle(release=_release_call(gateway), gateway=gateway)
        atexit.register(close)
        context = SparkContext(conf=conf, gateway=gateway)
    else:
        gateway = SparkContext._gateway
        handle = SessionHandle(release=_release_call(gateway), gateway=gateway)
        context = SparkContext.getOrCreate(conf)
    # Only spark-submit reads the property; a context uses `python3` from PATH, which may lack pyarrow.
    context.pythonExec = properties["spark.pyspark.python"]
    session = SparkSession(context)
    _current = replace(handle, session=session)
    return session


def _properties(engine: SparkTarget) -> dict[str, str]:
    master = engine.master
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    if local:
        # Without a second number one crashed worker fails the scan; a cluster retries three times by default.
        master = f"local[{local[1] or 1},4]"
    properties = dict(_QUIET)
    if re.match(r"(local|spark://(127\.|localhost))", master):
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local"):
        properties |= {_JAVA_OPTIONS: _LOCAL_JVM, "spark.driver.memory": "768m"}
    properties["spark.pyspark.python"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return properties | {"spark.master": master} | dict(engine.conf)


def check_reachable(remote: str) -> None:
    """Raise ScanFailed where no server listens. The client library would retry for minutes."""
    address = urlsplit(remote)
    try:
        port = address.port or _CONNECT_PORT
    except ValueError:
        raise ScanFailed(f"{remote} is no address of a Spark Connect server: use sc://HOST:PORT") from None
    if address.scheme != "sc" or not address.hostname:
        raise ScanFailed(f"{remote} is no address of a Spark Connect server: use sc://HOST:PORT")
    try:
        socket.create_connection((address.hostname, port), timeout=_CONNECT_LIMIT_S).close()
    except OSError as error:
        raise ScanFailed(
            f"no Spark Connect server at {remote}: {error}; start one, correct --spark-remote, or leave it out to use local[*]"
        ) from None


def _release_remote(session: "SparkSession") -> None:
    """Release the session like its `stop`, without the lock that blocks new sessions while a server hangs."""
    try:
        session.client.release_session()
    finally:
        session.client.close()


def _clear_default_session(session: "SparkSession | None") -> None:
    """Make pyspark forget this session, so that it creates a new one."""
    from pyspark.sql.connect.session import SparkSession as Remote

    if Remote._default_session is session:
        Remote._default_session = None


def _target_name(engine: SparkTarget) -> str:
    return f"the Spark Connect server {engine.remote}" if engine.remote else f"Spark at {engine.master}"


def first_line(error: BaseException) -> str:
    """The first line of a Java or gRPC error; the other lines are the stack."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
