"""A Spark Connect server: checks that it listens, and releases its sessions."""

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reconciler.errors import ScanFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_LIMIT_S = 10.0
_CONNECT_PORT = 15002


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


def release(session: "SparkSession") -> None:
    """Release the session like its `stop`, without the lock that blocks new sessions while a server hangs."""
    try:
        session.client.release_session()
    finally:
        session.client.close()


def clear_default_session(session: "SparkSession | None") -> None:
    """Make pyspark forget this session, so that it creates a new one."""
    from pyspark.sql.connect.session import SparkSession as Remote

    if Remote._default_session is session:
        Remote._default_session = None
