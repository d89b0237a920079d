"""Decides which engine reads a scan, when Spark starts at all, and where it runs.

Imports nothing of pyspark.
"""

import os
import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from reconciler.errors import ScanFailed
from reconciler.model.scan_request import ScanRequest
from reconciler.scan.java import find_java

if TYPE_CHECKING:
    from reconciler.scan.chunks import Chunk

_INLINE_MAX_S = 10.0
"""Up to which sum of `Chunk.seconds`, which is five times what is measured, `auto` takes `inline`."""
_PUBLIC_PARAMETERS = frozenset({"use_ssl", "user_id", "user_agent", "session_id", "grpc_max_message_size"})
"""Parameters of a Spark Connect address that hold no secret; unknown ones become headers."""
_SECRET_PROPERTY = re.compile(r"(?i)secret|password|token|access[.]?key")
"""Names of Spark's properties that Spark itself hides, by the default of spark.redaction.regex."""


class EngineName(StrEnum):
    """SPARK: a task per chunk. INLINE: a few threads, without Java. AUTO: INLINE for little work."""

    SPARK = "spark"
    INLINE = "inline"
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How a scan reads. `remote` (`sc://…`) replaces `master`, `conf` overrides our Spark properties.

    `executor_secrets`: executors have the variables and files of the Cluster's references, so that
    tasks get the references, and not the values.

    str leaves out users, passwords and parameters of the address, such as the token.
    """

    name: EngineName = EngineName.SPARK
    master: str = field(default="local[*]", repr=False)
    remote: str | None = field(default=None, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    executor_secrets: bool = False

    def __str__(self) -> str:
        if self.remote:
            return f"the Spark Connect server {without_secrets(self.remote)}"
        return f"Spark at {without_secrets(self.master)}"

    @property
    def secrets(self) -> dict[str, str]:
        """What may be a secret in addresses and properties, and what messages show instead."""
        properties = {value: f"({name})" for name, value in self.conf.items() if _SECRET_PROPERTY.search(name)}
        return properties | _secrets(self.remote or "") | _secrets(self.master)


def check_packages(request: ScanRequest, engine: Engine) -> None:
    """Raise ScanFailed if this machine lacks what this scan needs: a package, a name of its user, or Java."""
    if lacking := _lacking("pyarrow"):
        raise ScanFailed(
            f"a scan needs {lacking}, and this installation has only the packages of `validate`: install the program with "
            "its extra `inline`, or `spark` for large clusters (docs/getting-started.md); in the GitHub action, leave "
            "`scan: false` out"
        )
    if starts_spark_first(request, engine):
        _check_spark(engine)


def _check_spark(engine: Engine) -> None:
    """Raise ScanFailed for what Spark lacks here, with how to mend it. Imports none of its packages."""
    if lacking := _lacking("pandas", "pyspark", *(["grpc"] if engine.remote else [])):
        raise ScanFailed(
            f"Spark needs {lacking}, and this installation has the extra `inline` only: add --engine auto, write "
            "`scan: {engine: auto}` into the Cluster's spec, or install the extra `spark`"
        )
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    if len([*folder.parent.glob("pyspark-*.dist-info"), *folder.parent.glob("pyspark_client-*.dist-info")]) > 1:
        raise ScanFailed(
            "pyspark and pyspark-client are both installed, and each has overwritten files of the other: install the program "
            "into a new environment, with the extra `spark` or the extra `connect`, but not both"
        )
    if engine.remote is not None:
        return
    if not (folder / "core").is_dir():
        raise ScanFailed(
            "this installation has only the client of a Spark Connect server, the extra `connect`: add --spark-remote "
            "sc://HOST:PORT or --engine auto, or install the extra `spark` into a new environment"
        )
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:  # Hadoop's login in Spark's JVM asks for it
        raise ScanFailed(
            f"Spark needs the name of its user, and user id {os.getuid()} has no entry in /etc/passwd: add --engine auto or "
            "inline, use --spark-remote, or add an entry for this id to the image"
        ) from None
    find_java()


def _lacking(*packages: str) -> str:
    """Return which of these packages are missing, in words; empty: none."""
    return ", ".join(name for name in packages if find_spec(name) is None)


def starts_spark_first(request: ScanRequest, engine: Engine) -> bool:
    """Whether Spark starts while this process lists: the chunks cannot change that it reads."""
    return request.spark and engine.name is EngineName.SPARK


def reads_inline(request: ScanRequest, engine: Engine, chunks: "Sequence[Chunk]") -> bool:
    """Whether this process reads the chunks itself. AUTO also does where Spark cannot start."""
    if not request.spark or engine.name is EngineName.INLINE:
        return True
    if engine.name is EngineName.SPARK:
        return False
    if sum(chunk.seconds for chunk in chunks) <= _INLINE_MAX_S:
        return True
    try:
        _check_spark(engine)
    except ScanFailed:
        return True
    return False


def without_secrets(address: str) -> str:
    """Return an address of Spark without user, password and parameters."""
    scheme, colon, remainder = address.partition(";")[0].partition("://")
    return scheme + colon + re.split("[/?#]", remainder.rpartition("@")[2])[0]


def _secrets(address: str) -> dict[str, str]:
    head, *parameters = address.split(";")
    password = head.rpartition("@")[0].partition("://")[2].partition(":")[2]
    hidden = {}
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if name.strip() not in _PUBLIC_PARAMETERS:
            hidden[value or name] = f"({name})" if equals else "(parameter)"
    return hidden | {unquote(value): name for value, name in hidden.items()} | {password: "(password)"}
