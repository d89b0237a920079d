"""Formats the data folders of a sandbox's nodes with Kafka's own tool, or from a copy of what it made."""

import base64
import hashlib
import re
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from reconciler.companions.sandbox import config
from reconciler.companions.sandbox.logs import tail
from reconciler.errors import SandboxError

# 16 bytes in base64url without padding. Kafka's tools take a leading dash for an option.
VALID_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{20}[AQgw]")


class Nodes(NamedTuple):
    """The nodes of one cluster: the folder of their data and configuration, that of their logs, their ids."""

    dir: Path
    logs: Path
    cluster_id: str
    ids: tuple[int, ...]


def data_folder(folder: Path, node: int) -> Path:
    """Where a node keeps its data, in the folder of its sandbox."""
    return folder / f"data-{node}"


def properties_file(folder: Path, node: int) -> Path:
    """Where a node's server.properties are, in the folder of its sandbox."""
    return folder / f"server-{node}.properties"


def random_id() -> str:
    """Return a random id of a cluster or a directory as Kafka writes it: 16 bytes in base64url."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if VALID_ID.fullmatch(text):
            return text


def format_all(
    nodes: Nodes, java: Path, jars: Path, users: Sequence[str], properties: Mapping[str, str], deadline: float
) -> None:
    """Give each node a data folder that Kafka's own tool formatted. They differ only in three ids.

    The tool takes 1.2 s of CPU, a third of what a broker takes to start. So one folder is kept beside
    the jars for each set of properties, which it checks. `users`: its arguments that create users in the
    first metadata, with hashes of their passwords, so that such a folder is not kept. Raises SandboxError
    at `deadline`, or with the log's last lines if the tool fails.
    """
    digest = hashlib.sha256(repr(sorted(properties.items())).encode()).hexdigest()[:16]
    kept = jars.with_name(f"{jars.name}-formatted-{digest}")
    first, *others = nodes.ids
    formatted = kept
    if kept.is_dir() and not users:
        others.append(first)
    else:
        _run_tool(nodes, java, jars, first, users, deadline)
        formatted = data_folder(nodes.dir, first)
    if not users and not kept.is_dir():
        # Another process may be as far, and a cache may be read-only.
        with suppress(OSError), tempfile.TemporaryDirectory(prefix=".format-", dir=kept.parent) as folder:
            shutil.copytree(formatted, Path(folder) / "data").rename(kept)
    identity = (formatted / "meta.properties").read_text(encoding="utf-8")
    for node in others:
        shutil.copytree(formatted, data_folder(nodes.dir, node))
        text = identity
        for key, value in ("cluster", nodes.cluster_id), ("node", node), ("directory", random_id()):
            text = re.sub(rf"(?m)^{key}\.id=.*$", f"{key}.id={value}", text)
        (data_folder(nodes.dir, node) / "meta.properties").write_text(text, encoding="utf-8")


def _run_tool(nodes: Nodes, java: Path, jars: Path, node: int, users: Sequence[str], deadline: float) -> None:
    """Format the data folder of a node."""
    command = [str(java), *config.jvm_flags(java, jars), *config.logging_flags(nodes.dir), "-Xmx128m"]
    command += ["-cp", f"{jars}/*", "kafka.tools.StorageTool", "format", "--cluster-id", nodes.cluster_id]
    command += [*users, "--config", str(properties_file(nodes.dir, node))]
    log = nodes.logs / f"format-{node}.log"
    with log.open("ab") as output:
        try:
            tool = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=max(1.0, deadline - time.monotonic()),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SandboxError(f"formatting node {node} took too long: check the load of this machine") from None
    if tool.returncode != 0:
        raise SandboxError(f"the data of node {node} could not be formatted; {tail(log)}")
