"""A Spark session: started while other things load, silent, stopped without leaving a JVM behind.

Decided here: how a local driver is tuned and what a failed start says. The process is in `jvm`, how our code reaches the
executors in `ship`, what runs in the session in `task` and `reduce`.
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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reconciler.errors import ScanFailed
from reconciler.scan import jvm
from reconciler.scan.ship import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

_START_LIMIT_S = 120.0
_CONNECT_LIMIT_S = 10.0
_ABANDON_LIMIT_S = 5.0
_CONNECT_PORT = 15002

# Short runs: no second compiler, one collector thread. Both measured, see docs/scaling.md.
_LOCAL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m -XX:-UsePerfData"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
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
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Where Spark runs. `remote`: a Spark Connect server (`sc://…`), then `master` is not used. `conf`: Spark properties, which win."""

    master: str = "local[*]"
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


class Start:
    """A session on its way: `Start(engine)` returns at once, `result` waits for it, `abandon` gives it up."""

    def __init__(self, engine: Engine) -> None:
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


def close(*, at_once: bool = False) -> None:
    """Stop the session of this process, if any, and its JVM. Safe to call twice, and after Ctrl-C (`at_once`: nobody wants to wait)."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if gateway is None:
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
        return
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    gateway.shutdown()
    # pyspark would go on talking to the dead gateway.
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    started = jvm.of(gateway)
    if started is not None:
        started.end(at_once=at_once)


def log_hint() -> str:
    """Where the words of Spark's JVM and of its Python workers are kept, for an error message; empty for a remote session."""
    if "pyspark" not in sys.modules:
        return ""
    from pyspark import SparkContext

    started = jvm.of(SparkContext._gateway)
    return "" if started is None else f"; the log is {started.keep_log()}"


def _open(engine: Engine, abandoned: threading.Event) -> "SparkSession":
    from pyspark.sql import SparkSession

    # The active session belongs to a thread; this one belongs to the process.
    warm = SparkSession._instantiatedSession
    if warm is not None and warm._sc._jsc is not None:
        return warm
    try:
        session = _connect(engine) if engine.remote else _launch(engine, abandoned)
        ship(session)
    except ScanFailed:
        raise
    except Exception as failure:  # noqa: BLE001 - pyspark, py4j and gRPC each raise trees of their own
        _LOG.debug("spark_start=failed", exc_info=failure)
        raise ScanFailed(f"{_where(engine)} did not start a session: {first_line(failure)}{log_hint()}") from None
    return session


def _connect(engine: Engine) -> "SparkSession":
    from pyspark.sql import SparkSession

    _need_listener(str(engine.remote))
    builder = SparkSession.builder.remote(str(engine.remote))
    for name, value in engine.conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _need_listener(remote: str) -> None:
    """Whether anybody listens there. The client library would go on trying for minutes before it says so."""
    address = urlsplit(remote)
    try:
        port = address.port or _CONNECT_PORT
    except ValueError:
        raise ScanFailed(f"{remote} is no address of a Spark Connect server: write sc://HOST:PORT") from None
    if address.scheme != "sc" or not address.hostname:
        raise ScanFailed(f"{remote} is no address of a Spark Connect server: write sc://HOST:PORT")
    try:
        socket.create_connection((address.hostname, port), timeout=_CONNECT_LIMIT_S).close()
    except OSError as failure:
        raise ScanFailed(
            f"no Spark Connect server at {remote}: {failure}; start one, correct --spark-remote, or leave it out to use local[*]"
        ) from None


def _launch(engine: Engine, abandoned: threading.Event) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    properties = _properties(engine)
    conf = SparkConf(loadDefaults=False)
    for name, value in properties.items():
        conf.set(name, value)
    if SparkContext._gateway is None:
        archived = properties.get(_JAVA_OPTIONS) == _LOCAL_JVM
        gateway = jvm.start(conf, abandoned, limit_s=_START_LIMIT_S, archived=archived)
        atexit.register(close)
        context = SparkContext(conf=conf, gateway=gateway)
    else:
        context = SparkContext.getOrCreate(conf)
    # Only spark-submit heeds the property; a context takes `python3` from PATH, which may lack pyarrow.
    context.pythonExec = properties["spark.pyspark.python"]
    return SparkSession(context)


def _properties(engine: Engine) -> dict[str, str]:
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


def _where(engine: Engine) -> str:
    return f"the Spark Connect server {engine.remote}" if engine.remote else f"Spark at {engine.master}"


def first_line(failure: BaseException) -> str:
    """The first line of what a Java or gRPC error says; the rest is stack."""
    text = str(failure).strip()
    return text.splitlines()[0] if text else type(failure).__name__
