"""Starts, stops, pauses and restarts the brokers of a sandbox on this machine.

The brokers end with `stop`, or with the process that called `start`; `registry.up` starts brokers
that live longer. The brokers' configuration is in `config`.
"""

import signal
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from reconciler.errors import SandboxError
from reconciler.sandbox import data_dir, supervisor
from reconciler.sandbox.client import visible_brokers
from reconciler.sandbox.jars import Progress, configured_version, fetch, no_progress
from reconciler.sandbox.java import find_java
from reconciler.sandbox.launch import Launch, ParentPipe
from reconciler.sandbox.logs import broker_log, new_logs_dir, tail
from reconciler.sandbox.ports import free_addresses, listens
from reconciler.sandbox.process import Process, read_process
from reconciler.sandbox.security import SecureAccess, Security
from reconciler.text import formatting

# All sandboxes share it, so that a manifest can name it. Kafka requires 16 bytes in base64.
CLUSTER_ID = "c2FuZGJveC1zYW5kYm94MQ"

_MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker; `log` has the output of all its starts, `pid` changes with each restart."""

    id: int
    pid: int
    port: int
    log: Path


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running sandbox.

    `jars` is a folder: class path `JARS/*` runs Kafka's own tools. `dir` holds all data. `ports`
    are pairs of broker id and port. `secure` is the second listener, if the sandbox has one.
    """

    name: str
    bootstrap_servers: str
    cluster_id: str
    jars: Path
    dir: Path
    ports: tuple[tuple[int, int], ...]
    logs: Path
    secure: SecureAccess | None = None
    parent_pipe: ParentPipe | None = field(default=None, repr=False, compare=False)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers with the pid of their last start, whether they run or not."""
        return tuple(Broker(node, self._process(node).pid, port, self.log(node)) for node, port in self.ports)

    def log(self, broker_id: int) -> Path:
        """Path of the broker's output."""
        return broker_log(self.logs, broker_id)

    def supervised(self) -> bool:
        """Whether the supervisor runs; without it no broker can start again."""
        return read_process(self.dir / supervisor.SUPERVISOR).alive()

    def alive(self, broker_id: int) -> bool:
        return self._process(broker_id).alive()

    def pause(self, broker_id: int) -> None:
        """Send SIGSTOP: the broker keeps its connections and stops answering."""
        self._signal(broker_id, signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """Send SIGCONT to a paused broker."""
        self._signal(broker_id, signal.SIGCONT)

    def terminate(self, broker_id: int, *, timeout_s: float = 60) -> None:
        """Send SIGTERM, which moves leadership away first, and wait for the end."""
        self._end(broker_id, signal.SIGTERM, timeout_s)

    def kill(self, broker_id: int, *, timeout_s: float = 60) -> None:
        """Send SIGKILL, which is a crash, and wait for the end."""
        self._end(broker_id, signal.SIGKILL, timeout_s)

    def restart(self, broker_id: int, *, timeout_s: float = 60) -> None:
        """Start a stopped broker again with the same port and data, and wait until it answers."""
        process = self._process(broker_id)
        if process.alive():
            raise SandboxError(f"broker {broker_id} of {self.name} still runs (pid {process.pid}): stop it first")
        if not self.supervised():
            raise SandboxError(f"broker {broker_id} of {self.name} cannot start again: the sandbox has ended")
        supervisor.restart_file(self.dir, broker_id).touch()
        deadline = time.monotonic() + timeout_s
        while self._process(broker_id) == process:
            if time.monotonic() > deadline:
                raise SandboxError(f"broker {broker_id} of {self.name} did not start again within {timeout_s:.0f} s")
            time.sleep(0.05)
        wait_ready(self, [broker_id], deadline)

    def _process(self, broker_id: int) -> Process:
        return read_process(supervisor.pid_file(self.dir, broker_id))

    def _signal(self, broker_id: int, number: signal.Signals) -> None:
        if not self._process(broker_id).send(number):
            raise SandboxError(f"broker {broker_id} of {self.name} does not run; its log is {self.log(broker_id)}")

    def _end(self, broker_id: int, number: signal.Signals, timeout_s: float) -> None:
        process = self._process(broker_id)
        self._signal(broker_id, number)
        if not process.wait_gone(timeout_s):
            raise SandboxError(
                f"broker {broker_id} of {self.name} (pid {process.pid}) still runs {timeout_s:.0f} s after {number.name}: "
                f"its log is {self.log(broker_id)}"
            )


def start(
    nodes: int = 3,
    *,
    name: str = "sandbox",
    version: str | None = None,
    properties: Mapping[str, str] | None = None,
    security: Security | None = None,
    cluster_id: str = CLUSTER_ID,
    heap_mib: int = 512,
    base_dir: Path | None = None,
    timeout_s: float = 90,
    progress: Progress = no_progress,
) -> Cluster:
    """Start `nodes` brokers and wait until each of them sees all of them.

    `version` is Kafka's, by default `jars.configured_version()`. `properties` override
    server.properties of every node. `security` adds a listener with users and an authorizer. The
    data folder is created in `base_dir`, by default the system's temporary folder, and must be
    inside that; it is removed with the brokers. The logs stay, because error messages name them.
    Raises SandboxError.
    """
    if nodes < 1:
        raise SandboxError(f"a sandbox has at least one node, not {nodes}")
    java = find_java()
    version = version or configured_version()
    jars = fetch(version, progress=progress)
    brokers = formatting.count(nodes, "broker")
    deadline = time.monotonic() + timeout_s
    for attempt in range(_MAX_ATTEMPTS):
        addresses = free_addresses(nodes, secure=security is not None)
        cluster = Cluster(
            name=name,
            bootstrap_servers=",".join(f"127.0.0.1:{address.port}" for address in addresses),
            cluster_id=cluster_id,
            jars=jars,
            dir=Path(tempfile.mkdtemp(prefix=f"{data_dir.PREFIX}{name}-", dir=base_dir)),
            ports=tuple((address.id, address.port) for address in addresses),
            logs=new_logs_dir(name),
        )
        progress(f"starting {brokers} of Apache Kafka {version}, logs in {cluster.logs}")
        try:
            launch = Launch(
                java=java,
                jars=jars,
                folder=cluster.dir,
                logs=cluster.logs,
                addresses=addresses,
                cluster_id=cluster_id,
                overrides=properties or {},
                security=security,
                heap_mib=heap_mib,
                deadline=deadline,
            )
            cluster = _launch(launch, cluster)
        except SandboxError:
            # Another process can take a port between our check and the start of the broker.
            if attempt == _MAX_ATTEMPTS - 1 or not _port_conflict(cluster):
                raise
        else:
            progress(f"{brokers} up: {cluster.bootstrap_servers}")
            return cluster
    raise AssertionError("the last attempt returns or raises")


def stop(cluster: Cluster, *, timeout_s: float = 30) -> None:
    """Stop the brokers and remove their data; a second call changes nothing.

    Raises SandboxError if the supervisor still runs after `timeout_s` seconds.
    """
    process = read_process(cluster.dir / supervisor.SUPERVISOR)
    if cluster.parent_pipe is not None:
        cluster.parent_pipe.close()
    process.send(signal.SIGTERM)
    if not process.wait_gone(timeout_s):
        raise SandboxError(f"sandbox {cluster.name} still runs {timeout_s:.0f} s after SIGTERM (pid {process.pid})")
    if cluster.dir.is_dir():
        # The supervisor was killed. Linux kills its brokers with it; other systems do not.
        for broker in cluster.brokers:
            read_process(supervisor.pid_file(cluster.dir, broker.id)).send(signal.SIGKILL)
        data_dir.remove(cluster.dir)


def wait_ready(cluster: Cluster, broker_ids: Iterable[int], deadline: float) -> None:
    """Wait until each of these brokers sees all of them.

    Raises SandboxError at `deadline`, or with the log's last lines if one of them died.
    """
    expected = frozenset(broker_ids)
    for broker in cluster.brokers:
        if broker.id not in expected:
            continue
        # A plain connection is a cheap first check, because brokers listen late.
        while not (listens(broker.port) and expected <= visible_brokers(f"127.0.0.1:{broker.port}")):
            for broker_id in sorted(expected):
                if not cluster.alive(broker_id):
                    raise SandboxError(
                        f"broker {broker_id} of {cluster.name} died at start; {tail(cluster.log(broker_id))}"
                    )
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"broker {broker.id} of {cluster.name} was not ready in time; {tail(cluster.log(broker.id))}"
                )
            time.sleep(0.05)


def _launch(launch: Launch, cluster: Cluster) -> Cluster:
    """Start the brokers and wait for them. After an error, stop all processes and remove the data."""
    parent_pipe = None
    try:
        secure = launch.write_files()
        launch.format_storage()
        parent_pipe = launch.spawn_supervisor()
        wait_ready(cluster, [address.id for address in launch.addresses], launch.deadline)
    except BaseException:
        if parent_pipe is not None:
            parent_pipe.close()
        read_process(cluster.dir / supervisor.SUPERVISOR).wait_gone(30)
        data_dir.remove(cluster.dir)
        raise
    return replace(cluster, secure=secure, parent_pipe=parent_pipe)


def _port_conflict(cluster: Cluster) -> bool:
    logs = [cluster.log(node) for node, _ in cluster.ports]
    return any("Address already in use" in log.read_text(errors="replace") for log in logs if log.is_file())
