"""Starts, lists and stops sandboxes that run between commands: `sandbox up`, `down`, `status`.

Each name has a file in the user's state folder. A file counts only while the processes that it
names still run.
"""

import fcntl
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from reconciler.atomic_file import write_file
from reconciler.errors import SandboxError
from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.sandbox.jars import Progress, no_progress

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
_PATHS = ("jars", "dir", "logs")


def up(
    name: str = "default",
    nodes: int = 3,
    *,
    version: str | None = None,
    properties: Mapping[str, str] | None = None,
    heap_mib: int = 512,
    progress: Progress = no_progress,
) -> Cluster:
    """Start a sandbox that runs until `down`, also after the end of this process.

    Raises SandboxError if the brokers do not start or a sandbox with this name already runs.
    """
    with _lock(name):
        previous = _read(name)
        if previous is not None and _runs(previous):
            raise SandboxError(f"sandbox {name} is up already: `reconciler sandbox status --name {name}`")
        if previous is not None:
            stop(previous)  # its supervisor was killed and could not remove the data
        cluster = start(nodes, name=name, version=version, properties=properties, heap_mib=heap_mib, progress=progress)
        try:
            _write(cluster)
        except BaseException:
            stop(cluster)
            raise
        if cluster.parent_pipe is not None:
            cluster.parent_pipe.detach()
        return cluster


def down(name: str = "default") -> bool:
    """Stop a named sandbox and remove its data, not its logs. Returns False if none was running."""
    with _lock(name):
        cluster = _read(name)
        if cluster is None:
            return False
        was_running = _runs(cluster)
        stop(cluster)
        _state_file(name).unlink(missing_ok=True)
        return was_running


def status(name: str = "default") -> Cluster | None:
    """Return the named sandbox if its supervisor or one of its brokers runs."""
    cluster = _read(name)
    return cluster if cluster is not None and _runs(cluster) else None


def to_json(cluster: Cluster) -> str:
    """Render the document of `sandbox status -o json`: one object, no final newline."""
    document = {
        "name": cluster.name,
        "bootstrap_servers": cluster.bootstrap_servers,
        "cluster_id": cluster.cluster_id,
        "brokers": [
            {"id": broker.id, "pid": broker.pid, "log": str(broker.log), "alive": cluster.alive(broker.id)}
            for broker in cluster.brokers
        ],
        "jars": str(cluster.jars),
    }
    return json.dumps(document, indent=2)


def _read(name: str) -> Cluster | None:
    try:
        state = json.loads(_state_file(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    paths = {field: Path(state[field]) for field in _PATHS}
    return Cluster(**state | paths | {"ports": tuple(map(tuple, state["ports"]))})


def _runs(cluster: Cluster) -> bool:
    return cluster.supervised() or any(cluster.alive(broker.id) for broker in cluster.brokers)


def _write(cluster: Cluster) -> None:
    state = {field: getattr(cluster, field) for field in ("name", "bootstrap_servers", "cluster_id", "ports")}
    state |= {field: str(getattr(cluster, field)) for field in _PATHS}
    write_file(_state_file(cluster.name), [json.dumps(state)], mode=0o644)


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Allow one `up` or `down` of a name at a time; the lock ends with the process."""
    path = _state_file(name).with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock_file:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SandboxError(f"sandbox {name} is being started or stopped by another process: try again") from None
        yield


def _state_file(name: str) -> Path:
    if _NAME.fullmatch(name) is None:
        raise SandboxError(
            f"`{name}` cannot name a sandbox: use at most 41 lowercase letters, digits and dashes, with no dash first"
        )
    return platformdirs.user_state_path("kafka-reconciler", appauthor=False) / "sandbox" / f"{name}.json"
