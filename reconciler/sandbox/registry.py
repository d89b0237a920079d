"""Sandboxes that go on after the command that started them: `sandbox up`, `down`, `status`.

A name leads to a file in the user's state folder; the file is believed only as far as the processes it names still live.
"""

import fcntl
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from reconciler.errors import SandboxError
from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.sandbox.jars import Progress, no_progress

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")


def up(
    name: str = "default",
    nodes: int = 3,
    *,
    version: str | None = None,
    properties: Mapping[str, str] | None = None,
    heap_mib: int = 512,
    progress: Progress = no_progress,
) -> Cluster:
    """Start a sandbox that lives until `down`, also after this process. Raises SandboxError, also if the name is up already."""
    with _alone(name):
        left = _read(name)
        if left is not None and _lives(left):
            raise SandboxError(f"sandbox {name} is up already: `reconciler sandbox status --name {name}`")
        if left is not None:
            stop(left)  # its keeper was killed: what it could not remove
        cluster = start(nodes, name=name, version=version, properties=properties, heap_mib=heap_mib, progress=progress)
        try:
            _write(cluster)
        except BaseException:
            stop(cluster)
            raise
        if cluster.lifeline is not None:
            cluster.lifeline.detach()
        return cluster


def down(name: str = "default") -> bool:
    """End a named sandbox and remove its data; False if there was none. Its logs stay. Raises SandboxError."""
    with _alone(name):
        cluster = _read(name)
        if cluster is None:
            return False
        lived = _lives(cluster)
        stop(cluster)
        _state_file(name).unlink(missing_ok=True)
        return lived


def status(name: str = "default") -> Cluster | None:
    """The named sandbox if any of it still runs."""
    cluster = _read(name)
    return cluster if cluster is not None and _lives(cluster) else None


def to_json(cluster: Cluster) -> str:
    """What `sandbox status -o json` answers: one object, indented, without a final newline."""
    answer = {
        "name": cluster.name,
        "bootstrap_servers": cluster.bootstrap_servers,
        "cluster_id": cluster.cluster_id,
        "brokers": [
            {"id": broker.id, "pid": broker.pid, "log": str(broker.log), "alive": cluster.alive(broker.id)}
            for broker in cluster.brokers
        ],
        "jars": str(cluster.jars),
    }
    return json.dumps(answer, indent=2)


def _read(name: str) -> Cluster | None:
    try:
        state = json.loads(_state_file(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Cluster(
        name=state["name"],
        bootstrap_servers=state["bootstrap_servers"],
        cluster_id=state["cluster_id"],
        jars=Path(state["jars"]),
        dir=Path(state["dir"]),
        ports=tuple((broker, port) for broker, port in state["ports"]),
        logs=Path(state["logs"]),
    )


def _lives(cluster: Cluster) -> bool:
    return cluster.kept() or any(cluster.alive(broker.id) for broker in cluster.brokers)


def _write(cluster: Cluster) -> None:
    state = {
        "name": cluster.name,
        "bootstrap_servers": cluster.bootstrap_servers,
        "cluster_id": cluster.cluster_id,
        "jars": str(cluster.jars),
        "dir": str(cluster.dir),
        "ports": cluster.ports,
        "logs": str(cluster.logs),
    }
    path = _state_file(cluster.name)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(state), encoding="utf-8")
    draft.replace(path)


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """One `up` or `down` of a name at a time; the lock goes with the process, whatever happens to it."""
    path = _state_file(name).with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SandboxError(f"sandbox {name} is being started or ended by another process: try again") from None
        yield


def _state_file(name: str) -> Path:
    if _NAME.fullmatch(name) is None:
        raise SandboxError(f"`{name}` cannot name a sandbox: small letters, digits and dashes, 41 at most")
    return platformdirs.user_state_path("kafka-reconciler", appauthor=False) / "sandbox" / f"{name}.json"
