"""The Spark session: started in the background, silent, stopped without leaving a JVM behind.

Decided here: how a local driver is tuned, how our code gets to the executors, and the message of a
failed start. jvm.py runs the process, query.py runs in the session.
"""

import atexit
import hashlib
import io
import logging
import os
import re
import socket
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import reconciler
from reconciler.errors import ScanFailed
from reconciler.kafka import futures
from reconciler.scan.jvm import FLAGS, FLAGS_PROPERTY, Jvm, start_jvm
from reconciler.text.redact import add_references, redact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

_START_LIMIT_S = 120.0
_CONNECT_LIMIT_S = 10.0
_CONNECT_PORT = 15002
_PUBLIC_PARAMETERS = frozenset({"use_ssl", "user_id", "user_agent", "session_id", "grpc_max_message_size"})
"""Parameters of a Spark Connect address that hold no secret; unknown ones become headers."""
_ABANDON_LIMIT_S = 5.0
_ALIVE_LIMIT_S = 5.0
_STOP_LIMIT_S = 5.0
_HURRIED_S = 2.0
_PACKAGES = ("kafka", "model", "scan", "text")
"""What the tasks import of this program."""

# Spark repeats a stage whose executor was lost, with newer rows of the cluster. Mixed with rows of
# the first run, a subject could be there twice or not at all. These settings (defaults of newer
# versions) compare the rows of both runs, and repeat everything that depends on different ones.
_CONSISTENT_RETRY: Mapping[str, str] = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
_QUIET: Mapping[str, str] = {
    "spark.app.name": "kafka-reconciler",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # The shuffle is small and of a known size: re-planning costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",
    # Otherwise readers of more than 128 partitions are sorted and spilled, not hashed.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    **_CONSISTENT_RETRY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTarget:
    """Where Spark runs. `remote` (`sc://…`) replaces `master`, `conf` overrides our properties.

    str leaves out users, passwords and parameters of the address, such as the token.
    """

    master: str = field(default="local[*]", repr=False)
    remote: str | None = field(default=None, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        if self.remote:
            return f"the Spark Connect server {_without_secrets(self.remote)}"
        return f"Spark at {_without_secrets(self.master)}"


class TimedCall:
    """A call into Spark with a time limit: neither py4j nor gRPC sets a deadline.

    The constructor starts its daemon thread, because none can be started at the end of the process.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._start = threading.Event()

        def run() -> None:
            self._start.wait()
            call()

        self._future = futures.submit(run)

    def then(self, call: Callable[[], object]) -> None:
        """Run another call afterwards, whatever the result of this one. No caller waits for it."""
        self._future.add_done_callback(lambda _: call())

    def succeeds_within(self, limit_s: float) -> bool:
        """Whether the call succeeds in time."""
        self._start.set()
        try:
            self._future.result(timeout=limit_s)
        except Exception as error:  # noqa: BLE001 - pyspark, py4j and gRPC each raise trees of their own
            _LOG.debug("spark_call=failed", exc_info=error)
            return False
        return True


class PendingSession:
    """A session that starts in the background: `result` waits for it, `abandon` gives it up."""

    def __init__(self, engine: SparkTarget) -> None:
        self._engine = engine
        self._abandoned = threading.Event()
        self._future: Future[SparkSession] = futures.submit(lambda: _open(engine, self._abandoned))

    def result(self) -> "SparkSession":
        """The session. Raises ScanFailed: no Java, no server, or a JVM that died."""
        try:
            return self._future.result(timeout=_START_LIMIT_S)
        except TimeoutError:
            self.abandon()
            raise ScanFailed(f"no Spark session within {_START_LIMIT_S:.0f} s: {self._engine}") from None

    def abandon(self) -> None:
        """Give up the session and end a starting JVM; `close` ends a running one."""
        self._abandoned.set()
        # Otherwise this process could end first and leave the JVM behind.
        wait([self._future], _ABANDON_LIMIT_S)


@dataclass(slots=True, kw_only=True)
class SessionHandle:
    """A session of this module. `release`: ends it. `has_code`: whether our code was added."""

    release: TimedCall
    jvm: Jvm | None = None
    session: Any = None
    has_code: bool = False


_current: SessionHandle | None = None


def close(*, at_once: bool = False) -> None:
    """Stop this process's session, if any, and its JVM. Can be repeated. `at_once`: after Ctrl-C.

    A JVM that hangs for seconds is killed; a Connect server that hangs keeps the session.
    """
    global _current
    handle, _current = _current, None
    if handle is None:
        return
    released = handle.release.succeeds_within(_HURRIED_S if at_once else _STOP_LIMIT_S)
    if handle.jvm is None:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    handle.jvm.end(at_once=at_once or not released)
    # Otherwise pyspark would use the closed gateway.
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context._jsc = None
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def log_hint() -> str:
    """The path of Spark's log for an error message; empty for a remote session."""
    return "" if _current is None or _current.jvm is None else f"; the log is {_current.jvm.keep_log()}"


def _open(engine: SparkTarget, abandoned: threading.Event) -> "SparkSession":
    for address in (engine.remote or "", engine.master):
        add_references(_secrets(address))
    if engine.remote:
        # Fails sooner than the session of a server that is gone.
        check_reachable(engine.remote)
    handle = _current
    if handle is not None:
        if handle.has_code and _alive(handle):
            return handle.session
        _LOG.info("spark=gone")
        close(at_once=True)
        handle = None
    try:
        handle = _connect(engine) if engine.remote else _launch(engine, abandoned)
        add_package(handle.session)
        handle.has_code = True
    except ScanFailed:
        raise
    except Exception as error:  # noqa: BLE001 - pyspark, py4j and gRPC have their own exception trees
        _LOG.debug("spark_start=failed", exc_info=error)
        message = f"{engine} did not start a session: {first_line(error)}{log_hint()}"
        # After an abandoned start, the current session may be another one.
        if not abandoned.is_set() or _current is handle:
            close(at_once=True)
        raise ScanFailed(message) from None
    return handle.session


def _connect(engine: SparkTarget) -> SessionHandle:
    from pyspark.sql import SparkSession

    # The client hides a server's warning about a setting that it does not know or allow.
    conf = {**_CONSISTENT_RETRY, **engine.conf}
    session = SparkSession.builder.remote(str(engine.remote)).config(map=conf).create()
    return _register(SessionHandle(release=TimedCall(lambda: _release_remote(session)), session=session))


def _launch(engine: SparkTarget, abandoned: threading.Event) -> SessionHandle:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if os.environ.get("SPARK_REMOTE") == "":
        # CI passes an unset variable as an empty one, which pyspark takes for a server's address.
        del os.environ["SPARK_REMOTE"]
    properties = _properties(engine)
    jvm = start_jvm(properties, abandoned, limit_s=_START_LIMIT_S)
    handle = _register(SessionHandle(release=TimedCall(lambda: _stop_context(jvm)), jvm=jvm))
    conf = SparkConf(loadDefaults=False).setAll(list(properties.items()))
    context = SparkContext(conf=conf, gateway=jvm.gateway)
    # Otherwise the end of the JVM prints a stack trace on the terminal.
    context._accumulatorServer.handle_error = lambda *_: None
    # It waits for a second.
    handle.release.then(context._accumulatorServer.shutdown)
    # Only spark-submit reads the property; `python3` from PATH may lack pyarrow.
    context.pythonExec = properties["spark.pyspark.python"]
    handle.session = SparkSession(context)
    return handle


def _register(handle: SessionHandle) -> SessionHandle:
    """Make it the session of this process, which `close` ends."""
    global _current  # noqa: PLW0603 - a process has one session
    _current = handle
    atexit.register(close)
    return handle


def _stop_context(jvm: Jvm) -> None:
    """Like SparkContext.stop, without its messages about a dead JVM."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    try:
        if jvm.process.poll() is None and getattr(context, "_jsc", None) is not None:
            context._jsc.stop()
    finally:
        jvm.gateway.shutdown()


def _alive(handle: SessionHandle) -> bool:
    """Whether Spark answers and still has the session."""

    def check() -> None:
        if handle.jvm is None:
            handle.session.conf.get("spark.sql.session.timeZone")
        elif handle.jvm.process.poll() is not None or handle.session.sparkContext._jsc.sc().isStopped():
            raise ScanFailed("Spark's context was stopped")

    return TimedCall(check).succeeds_within(_ALIVE_LIMIT_S)


def _properties(engine: SparkTarget) -> dict[str, str]:
    master = engine.master
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    if local:
        # Without a second number a crashed worker fails the scan; clusters retry.
        master = f"local[{local[1] or 1},4]"
    properties = {**_QUIET, "spark.pyspark.python": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    if re.match(r"(local|spark://(127\.|localhost))", master):
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if master.startswith("local"):
        properties |= {FLAGS_PROPERTY: FLAGS, "spark.driver.memory": "768m"}
    return properties | {"spark.master": master} | dict(engine.conf)


def check_reachable(remote: str) -> None:
    """Raise ScanFailed where no server listens. The client library would retry for minutes."""
    try:
        address = urlsplit(remote)
        host, port = address.scheme == "sc" and address.hostname, address.port or _CONNECT_PORT
    except ValueError:
        host = None
    shown = _without_secrets(remote)
    if not host:
        raise ScanFailed(f"{shown} is no address of a Spark Connect server: use sc://HOST:PORT")
    try:
        socket.create_connection((host, port), timeout=_CONNECT_LIMIT_S).close()
    except OSError as error:
        raise ScanFailed(
            f"no Spark Connect server at {shown}: {error}; start one, correct --spark-remote, or leave it out to use local[*]"
        ) from None


def _without_secrets(address: str) -> str:
    """Return an address of Spark without user, password and parameters."""
    scheme, colon, remainder = address.partition(";")[0].partition("://")
    return scheme + colon + re.split("[/?#]", remainder.rpartition("@")[2])[0]


def _secrets(address: str) -> dict[str, str]:
    """Return what may be a secret in an address, and what messages show instead."""
    head, *parameters = address.split(";")
    password = head.rpartition("@")[0].partition("://")[2].partition(":")[2]
    hidden = {}
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if name.strip() not in _PUBLIC_PARAMETERS:
            hidden[value or name] = f"({name})" if equals else "(parameter)"
    return hidden | {unquote(value): name for value, name in hidden.items()} | {password: "(password)"}


def _release_remote(session: "SparkSession") -> None:
    """Release the session like its `stop`, without its lock, which blocks new sessions."""
    from pyspark.sql.connect.session import SparkSession as Remote

    if Remote._default_session is session:
        # So that pyspark creates a new one.
        Remote._default_session = None
    try:
        session.client.release_session()
    finally:
        session.client.close()


def first_line(error: BaseException) -> str:
    """The first line of a Java or gRPC error, without secrets; the other lines are the stack."""
    return redact(str(error).strip().partition("\n")[0]) or type(error).__name__


def add_package(session: "SparkSession") -> None:
    """Put this package's code on the path of every Python worker, as a zip of the running files.

    Executors need confluent-kafka and pyarrow (docs/scan.md). The file's name contains a hash,
    because a warm server may still have another version.
    """
    from pyspark import SparkFiles
    from pyspark.sql.session import SparkSession as Classic

    data = archive()
    with tempfile.TemporaryDirectory(prefix="kafka-reconciler-ship-") as temporary:
        folder = Path(temporary)  # for a Connect server, which copies the content
        if isinstance(session, Classic):
            # Executors fetch the file with their first task, and after every restart: it stays as
            # long as the context. Not in the context's own folder: Spark would take it for its own.
            folder = Path(SparkFiles.getRootDirectory()) / "kafka-reconciler"
            folder.mkdir(exist_ok=True)
        path = folder / f"reconciler-{hashlib.sha256(data).hexdigest()[:12]}.zip"
        path.write_bytes(data)
        session.addArtifacts(str(path), pyfile=True)


def archive() -> bytes:
    """A zip of the readers and the model. The same content gives the same bytes."""
    root = Path(reconciler.__file__).parent
    packages = (sorted((root / package).rglob("*.py")) for package in _PACKAGES)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archived:
        for file in (root / "__init__.py", root / "errors.py", *chain.from_iterable(packages)):
            # ZipInfo has a fixed default time.
            archived.writestr(zipfile.ZipInfo(str(file.relative_to(root.parent))), file.read_bytes())
    return target.getvalue()
