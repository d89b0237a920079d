"""A sandbox: real brokers on this machine, from free ports to their end. What they are told is in `config`.

The brokers live no longer than the process that called `start`, or until `stop`; `named.up` is what keeps them longer.
"""

import signal
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from reconciler.errors import SandboxError
from reconciler.sandbox import data_dir, supervisor
from reconciler.sandbox.client import brokers_seen_by
from reconciler.sandbox.config import NodeAddress
from reconciler.sandbox.jars import Progress, chosen_version, fetch, no_progress
from reconciler.sandbox.java import find_java
from reconciler.sandbox.logs import broker_log, new_logs_dir, tail
from reconciler.sandbox.parent_pipe import ParentPipe, read_process, spawn_keeper
from reconciler.sandbox.ports import free_addresses, listens
from reconciler.sandbox.process import Process
from reconciler.sandbox.security import (
    SecureAccess,
    Security,
    make_keys,
    protocol,
    render_security,
    scram_arguments,
)
from reconciler.sandbox.storage import format_storage, write_node_files

# The same for every sandbox, so that a manifest can name it. 16 bytes in base64, as Kafka wants.
CLUSTER_ID = "c2FuZGJveC1zYW5kYm94MQ"

_STARTS = 3


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker; `log` is its output from the first start on, `pid` changes when it is restarted."""

    id: int
    pid: int
    port: int
    log: Path


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running sandbox. `jars` is a folder: class path `JARS/*` runs Kafka's own tools; `dir` holds all of its data.

    `secure`: the second listener, where one was asked for.
    """

    name: str
    bootstrap_servers: str
    cluster_id: str
    jars: Path
    dir: Path
    ports: tuple[tuple[int, int], ...]
    logs: Path
    secure: SecureAccess | None = None
    lifeline: ParentPipe | None = field(default=None, repr=False, compare=False)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """Brokers with the pid of their last start, dead or alive."""
        return tuple(Broker(node, self._process(node).pid, port, self.log(node)) for node, port in self.ports)

    def log(self, broker_id: int) -> Path:
        """The broker's output, of all of its starts."""
        return broker_log(self.logs, broker_id)

    def kept(self) -> bool:
        """Whether the process that keeps the brokers lives; without it none can be started again."""
        return read_process(self.dir / supervisor.KEEPER).alive()

    def alive(self, broker_id: int) -> bool:
        return self._process(broker_id).alive()

    def pause(self, broker_id: int) -> None:
        """SIGSTOP: a broker that is there and does not answer."""
        self._signal(broker_id, signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self._signal(broker_id, signal.SIGCONT)

    def terminate(self, broker_id: int, *, timeout_s: float = 60) -> None:
        """SIGTERM, which hands leadership over first, and wait for the end."""
        self._end(broker_id, signal.SIGTERM, timeout_s)

    def kill(self, broker_id: int, *, timeout_s: float = 60) -> None:
        """SIGKILL, a crash, and wait for the end."""
        self._end(broker_id, signal.SIGKILL, timeout_s)

    def restart(self, broker_id: int, *, timeout_s: float = 60) -> None:
        """Start again a broker that was ended, on the same port and data, and wait until it answers."""
        process = self._process(broker_id)
        if process.alive():
            raise SandboxError(f"broker {broker_id} of {self.name} still runs (pid {process.pid}): end it first")
        if not self.kept():
            raise SandboxError(f"broker {broker_id} of {self.name} cannot be started again: the sandbox has ended")
        request = self.dir / f"node-{broker_id}.restart"
        request.touch()
        deadline = time.monotonic() + timeout_s
        while self._process(broker_id) == process:
            if time.monotonic() > deadline:
                raise SandboxError(f"broker {broker_id} of {self.name} was not started again within {timeout_s:.0f} s")
            time.sleep(0.05)
        wait_ready(self, [broker_id], deadline)

    def _process(self, broker_id: int) -> Process:
        return read_process(self.dir / f"node-{broker_id}.json")

    def _signal(self, broker_id: int, number: signal.Signals) -> None:
        if not self._process(broker_id).send(number):
            raise SandboxError(f"broker {broker_id} of {self.name} does not run: its log is {self.log(broker_id)}")

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
    """Start `nodes` brokers and wait until every one of them sees all of them. End them with `stop`, or by ending.

    `version`: of Kafka, default `jars.chosen_version`.
    `properties` override server.properties of every node; `security` adds a listener with users and an authorizer. Data is in
    a folder of its own under `base_dir` (default, and always within: the system's temporary folder) and goes with the brokers;
    logs stay, for the error messages that point to them. Raises SandboxError.
    """
    if nodes < 1:
        raise SandboxError(f"a sandbox has at least one node, not {nodes}")
    java = find_java()
    version = version or chosen_version()
    jars = fetch(version, progress=progress)
    deadline = time.monotonic() + timeout_s
    for attempt in range(_STARTS):
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
        progress(f"starting {_counted(nodes)} of Apache Kafka {version}, logs in {cluster.logs}")
        try:
            started = _launch(
                java, cluster, addresses, security, overrides=properties or {}, heap_mib=heap_mib, deadline=deadline
            )
        except SandboxError:
            # Free when we looked; somebody else was quicker than our JVM.
            if attempt == _STARTS - 1 or not _port_was_taken(cluster):
                raise
        else:
            progress(f"{_counted(nodes)} up: {cluster.bootstrap_servers}")
            return started
    raise AssertionError("the last attempt returns or raises")


def stop(cluster: Cluster, *, timeout_s: float = 30) -> None:
    """End the brokers and remove their data; a second time changes nothing. Raises SandboxError if they are still there."""
    keeper_process = read_process(cluster.dir / supervisor.KEEPER)
    if cluster.lifeline is not None:
        cluster.lifeline.close()
    keeper_process.send(signal.SIGTERM)
    if not keeper_process.wait_gone(timeout_s):
        raise SandboxError(
            f"sandbox {cluster.name} still runs {timeout_s:.0f} s after SIGTERM (pid {keeper_process.pid})"
        )
    if cluster.dir.is_dir():
        # The keeper was killed. Linux ended the brokers with it, other systems did not.
        for broker in cluster.brokers:
            read_process(cluster.dir / f"node-{broker.id}.json").send(signal.SIGKILL)
        data_dir.remove(cluster.dir)


def wait_ready(cluster: Cluster, broker_ids: Iterable[int], deadline: float) -> None:
    """Until each of these brokers sees all of them. Raises SandboxError, with the log's last lines if one died meanwhile."""
    wanted = frozenset(broker_ids)
    for broker in cluster.brokers:
        if broker.id not in wanted:
            continue
        # A plain connection first: it costs nothing, and brokers listen late.
        while not (listens(broker.port) and wanted <= brokers_seen_by(f"127.0.0.1:{broker.port}")):
            for each in sorted(wanted):
                if not cluster.alive(each):
                    raise SandboxError(f"broker {each} of {cluster.name} died at start; {tail(cluster.log(each))}")
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"broker {broker.id} of {cluster.name} was not ready in time; {tail(cluster.log(broker.id))}"
                )
            time.sleep(0.05)


def _launch(
    java: Path,
    cluster: Cluster,
    addresses: Sequence[NodeAddress],
    security: Security | None,
    *,
    overrides: Mapping[str, str],
    heap_mib: int,
    deadline: float,
) -> Cluster:
    """Write, format, start, wait; whatever goes wrong, nothing is left running and no data stays."""
    node_ids = [address.id for address in addresses]
    lifeline = None
    try:
        secure = None
        if security is not None:
            keys = make_keys(java, cluster.dir) if security.tls else None
            overrides = render_security(security, keys) | dict(overrides)
            secure = SecureAccess(
                bootstrap_servers=",".join(f"127.0.0.1:{address.secure_port}" for address in addresses),
                certificate=None if keys is None else keys.certificate,
                users=security.users,
            )
        write_node_files(
            java,
            cluster.jars,
            cluster.dir,
            addresses,
            logs=cluster.logs,
            overrides=overrides,
            secure_protocol="SASL_PLAINTEXT" if security is None else protocol(security),
            heap_mib=heap_mib,
        )
        format_storage(
            java,
            cluster.jars,
            cluster.dir,
            node_ids,
            cluster_id=cluster.cluster_id,
            users=() if security is None else scram_arguments(security),
            logs=cluster.logs,
            deadline=deadline,
        )
        lifeline = spawn_keeper(cluster.dir, cluster.logs, deadline)
        wait_ready(cluster, node_ids, deadline)
    except BaseException:
        if lifeline is not None:
            lifeline.close()
        read_process(cluster.dir / supervisor.KEEPER).wait_gone(30)
        data_dir.remove(cluster.dir)
        raise
    return replace(cluster, secure=secure, lifeline=lifeline)


def _port_was_taken(cluster: Cluster) -> bool:
    logs = [cluster.log(node) for node, _ in cluster.ports]
    return any("Address already in use" in log.read_text(errors="replace") for log in logs if log.is_file())


def _counted(nodes: int) -> str:
    return "1 broker" if nodes == 1 else f"{nodes} brokers"
