"""Writes the configuration files of a sandbox and formats its data folders.

Kafka's own storage tool formats them. The content of the configuration is in `config`.
"""

import json
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from reconciler.errors import SandboxError
from reconciler.sandbox import config
from reconciler.sandbox.logs import broker_log, tail
from reconciler.sandbox.supervisor import SPEC


def properties_file(folder: Path, node: int) -> Path:
    """Path of a node's server.properties."""
    return folder / f"server-{node}.properties"


def write_node_files(
    java: Path,
    jars: Path,
    folder: Path,
    addresses: Sequence[config.NodeAddress],
    *,
    overrides: Mapping[str, str],
    secure_protocol: str,
    heap_mib: int,
    logs: Path,
) -> None:
    """Write all files that the nodes and their supervisor read from `folder`."""
    (folder / "log4j2.properties").write_text(config.render_log4j2(), encoding="utf-8")
    (folder / "log4j.properties").write_text(config.render_log4j(), encoding="utf-8")
    spec = []
    for address in addresses:
        path = properties_file(folder, address.id)
        data = folder / f"data-{address.id}"
        text = config.render_properties(address, addresses, data, overrides=overrides, secure_protocol=secure_protocol)
        path.write_text(text, encoding="utf-8")
        command = config.broker_command(java, jars, folder, path, heap_mib=heap_mib)
        spec.append({"id": address.id, "command": command, "log": str(broker_log(logs, address.id))})
    (folder / SPEC).write_text(json.dumps(spec), encoding="utf-8")


def format_storage(
    java: Path,
    jars: Path,
    folder: Path,
    nodes: Iterable[int],
    *,
    cluster_id: str,
    users: Sequence[str],
    logs: Path,
    deadline: float,
) -> None:
    """Format the data folder of each node, all at the same time, one JVM per node.

    `users` are arguments that create users in the first metadata. Raises SandboxError at
    `deadline`, or with the log's last lines if a node fails.
    """
    command = [str(java), *config.JVM_FLAGS, *config.logging_flags(folder), "-Xmx128m", "-cp", f"{jars}/*"]
    command += ["kafka.tools.StorageTool", "format", "--cluster-id", cluster_id, *users]
    with ExitStack() as stack:
        tools = []
        for node in nodes:
            log = logs / f"format-{node}.log"
            output = stack.enter_context(log.open("ab"))
            argv = [*command, "--config", str(properties_file(folder, node))]
            tool = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            stack.enter_context(tool)
            stack.callback(tool.kill)
            tools.append((node, log, tool))
        for node, log, tool in tools:
            try:
                code = tool.wait(max(1.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise SandboxError(f"formatting node {node} took too long: check the load of this machine") from None
            if code != 0:
                raise SandboxError(f"the data of node {node} could not be formatted; {tail(log)}")
