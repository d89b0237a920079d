"""A Spark Connect server: whether somebody listens there, and how its session is let go of."""

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reconciler.errors import ScanFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_LIMIT_S = 10.0
_CONNECT_PORT = 15002


def check_reachable(remote: str) -> None:
    """Raises ScanFailed where nobody listens. The client library would go on trying for minutes before it says so."""
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


def release(session: "SparkSession") -> None:
    """What the session's `stop` does, without its lock: as long as a server does not answer, no new session could be made."""
    try:
        session.client.release_session()
    finally:
        session.client.close()


def clear_default_session(session: "SparkSession | None") -> None:
    """No new session is taken for this one."""
    from pyspark.sql.connect.session import SparkSession as Remote

    if Remote._default_session is session:
        Remote._default_session = None
