"""Starts, lists and stops sandboxes that run between commands, and their single brokers.

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

from reconciler.atomic_file import write_bytes
from reconciler.companions.sandbox import data_dir
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stop
from reconciler.companions.sandbox.storage import random_id
from reconciler.errors import SandboxError
from reconciler.model.progress import Progress, no_progress

DEFAULT_NAME = "default"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
_PATHS = ("jars", "dir", "logs")


def up(
    name: str = DEFAULT_NAME,
    nodes: int = 3,
    *,
    version: str | None = None,
    cluster_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    heap_mib: int = 512,
    progress: Progress = no_progress,
) -> SandboxCluster:
    """Start a sandbox that runs until `down`, also after the end of this process.

    `cluster_id`: by default a random one, so that two sandboxes are two clusters. Raises SandboxError
    if the brokers do not start or a sandbox with this name already runs, UsageError for an invalid id.
    """
    with _lock(name):
        previous = _read(name)
        if previous is not None and _runs(previous):
            raise SandboxError(f"sandbox {name} is up already: {command('status', name)}")
        if previous is not None:
            stop(previous)  # its supervisor was killed and could not remove the data
        cluster = start(
            nodes,
            name=name,
            version=version,
            properties=properties,
            cluster_id=random_id() if cluster_id is None else cluster_id,
            heap_mib=heap_mib,
            progress=progress,
        )
        try:
            _write(cluster)
        except BaseException:
            stop(cluster)
            raise
        if cluster.parent_pipe is not None:
            cluster.parent_pipe.detach()
        return cluster


def down(name: str = DEFAULT_NAME) -> bool:
    """Stop a named sandbox and remove its data, not its logs. Returns False if none was running."""
    with _lock(name):
        cluster = _read(name)
        if cluster is None:
            return False
        was_running = _runs(cluster)
        stop(cluster)
        _state_file(name).unlink(missing_ok=True)
        return was_running


def status(name: str = DEFAULT_NAME) -> SandboxCluster | None:
    """Return the named sandbox if its supervisor or one of its brokers runs."""
    cluster = _read(name)
    return cluster if cluster is not None and _runs(cluster) else None


def find(name: str = DEFAULT_NAME) -> SandboxCluster:
    """Return the running sandbox of this name. Raises SandboxError."""
    cluster = status(name)
    if cluster is not None:
        return cluster
    names = sorted(path.stem for path in _state_file(name).parent.glob("*.json"))
    running = ", ".join(other for other in names if status(other) is not None)
    hint = f"running sandboxes: {running}" if running else f"start one with {command('up', name)}"
    raise SandboxError(f"no sandbox named {name} is running; {hint}")


def stop_broker(broker_id: int, name: str = DEFAULT_NAME, *, kill: bool = False) -> None:
    """End one broker of a running sandbox: with SIGTERM, or with SIGKILL as in a crash.

    Raises SandboxError, also without a majority of controllers: then no broker leaves in order.
    """
    with _lock(name):
        cluster = _sandbox_of(broker_id, name)
        if not cluster.alive(broker_id):
            hint = f"{command(f'start {broker_id}', name)} starts it"
            raise SandboxError(f"broker {broker_id} of sandbox {name} is stopped already; {hint}")
        if kill:
            cluster.kill(broker_id)
        elif cluster.has_quorum():
            cluster.terminate(broker_id)
        else:
            raise SandboxError(
                f"broker {broker_id} of sandbox {name} cannot leave in order, because no majority of the controllers "
                f"runs: {command(f'stop {broker_id} --kill', name)} kills it"
            )


def start_broker(broker_id: int, name: str = DEFAULT_NAME) -> SandboxCluster:
    """Start a stopped broker of a running sandbox again with the same port and data.

    Waits until it answers, unless no majority of the controllers runs (`Cluster.has_quorum`).
    Raises SandboxError.
    """
    with _lock(name):
        cluster = _sandbox_of(broker_id, name)
        if cluster.alive(broker_id):
            hint = f"{command(f'stop {broker_id}', name)} stops it"
            raise SandboxError(f"broker {broker_id} of sandbox {name} runs already; {hint}")
        cluster.restart(broker_id)
        return cluster


def command(words: str, name: str) -> str:
    """Return a command of `reconciler sandbox` as messages quote it."""
    return f"`reconciler sandbox {words}{'' if name == DEFAULT_NAME else f' --name {name}'}`"


def to_json(cluster: SandboxCluster) -> str:
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


def _read(name: str) -> SandboxCluster | None:
    try:
        state = json.loads(_state_file(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    paths = {field: Path(state[field]) for field in _PATHS}
    return SandboxCluster(**state | paths | {"ports": tuple(map(tuple, state["ports"]))})


def _sandbox_of(broker_id: int, name: str) -> SandboxCluster:
    cluster = find(name)
    ids = [node for node, _port in cluster.ports]
    if broker_id not in ids:
        raise SandboxError(f"sandbox {name} has no broker {broker_id}: its brokers are {', '.join(map(str, ids))}")
    return cluster


def _runs(cluster: SandboxCluster) -> bool:
    return cluster.supervised() or any(cluster.alive(broker.id) for broker in cluster.brokers)


def _write(cluster: SandboxCluster) -> None:
    state = {field: getattr(cluster, field) for field in ("name", "bootstrap_servers", "cluster_id", "ports")}
    state |= {field: str(getattr(cluster, field)) for field in _PATHS}
    write_bytes(_state_file(cluster.name), [json.dumps(state).encode()], mode=0o644)


def names() -> list[str]:
    """Return the names of the sandboxes that are running, or were when their machine stopped."""
    return sorted(path.stem for path in _state_file("any").parent.glob("*.json"))


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Allow one process at a time to change a sandbox; the lock ends with the process."""
    path = _state_file(name).with_suffix(".lock")
    with data_dir.writing():
        path.parent.mkdir(parents=True, exist_ok=True)
        lock_file = path.open("w")
    with lock_file:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SandboxError(f"another process starts or stops sandbox {name} or a broker of it: try again") from None
        yield


def _state_file(name: str) -> Path:
    if _NAME.fullmatch(name) is None:
        raise SandboxError(
            f"`{name}` cannot name a sandbox: use at most 41 lowercase letters, digits and dashes, with no dash first"
        )
    return platformdirs.user_state_path("kafka-reconciler", appauthor=False) / "sandbox" / f"{name}.json"
