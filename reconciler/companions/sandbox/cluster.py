"""Starts, stops, pauses and restarts the brokers of a sandbox on this machine.

The brokers end with `stop`, or with the process that called `start`; `registry.up` starts brokers
that live longer. The brokers' configuration is in `config`, and `supervisor` is the process that
runs them.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import reconciler
from reconciler.companions.sandbox import config, data_dir, storage, supervisor
from reconciler.companions.sandbox.client import visible_brokers
from reconciler.companions.sandbox.jars import configured_version, fetch
from reconciler.companions.sandbox.java import find_java
from reconciler.companions.sandbox.logs import broker_log, new_logs_dir, tail
from reconciler.companions.sandbox.ports import free_addresses, listens
from reconciler.companions.sandbox.process import Process, read_process
from reconciler.companions.sandbox.security import SecureAccess, Security, create_keys, render_security
from reconciler.errors import SandboxError, UsageError
from reconciler.model.progress import Progress, no_progress
from reconciler.text import formatting

CLUSTER_ID = "c2FuZGJveC1zYW5kYm94MQ"
"""The id of clusters that end with their process, so that manifests of the demo and of tests name it."""
_MAX_ATTEMPTS = 3


@dataclass(slots=True)
class ParentPipe:
    """The write end of the pipe to the supervisor. The brokers end when it or this process ends."""

    descriptor: int

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def detach(self) -> None:
        """Let the supervisor go on after the end of this process."""
        os.write(self.descriptor, supervisor.DETACH)
        self.close()


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker; `log` has the output of all its starts, `pid` changes with each restart."""

    id: int
    pid: int
    port: int
    log: Path


@dataclass(frozen=True, slots=True)
class SandboxCluster:
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

    def has_quorum(self) -> bool:
        """Whether a majority of the controllers runs; without it no broker starts or leaves in order."""
        controllers = [node for node, _port in self.ports[: config.CONTROLLERS]]
        return 2 * sum(map(self.alive, controllers)) > len(controllers)

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
        """Start a stopped broker again with the same port and data, and wait until it answers.

        It does not wait without a majority of controllers, because then no broker answers.
        """
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
        if self.has_quorum():
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
            still_runs = f"broker {broker_id} of {self.name} (pid {process.pid}) still runs"
            raise SandboxError(f"{still_runs} {timeout_s:.0f} s after {number.name}: its log is {self.log(broker_id)}")


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
    archive: Path | None = None,
) -> SandboxCluster:
    """Start `nodes` brokers and wait until each of them sees all of them.

    `version` is Kafka's, by default `jars.configured_version()`. `properties` override
    server.properties of every node. `security` adds a listener with users and an authorizer. The
    data folder is created in `base_dir`, by default the system's temporary folder, and must be
    inside that; it is removed with the brokers. The logs stay, because error messages name them.
    `archive`: where the one broker writes its classes when it ends.
    Raises SandboxError, UsageError for an invalid `cluster_id`.
    """
    if nodes < 1:
        raise SandboxError(f"a sandbox has at least one node, not {nodes}")
    if storage.VALID_ID.fullmatch(cluster_id) is None:
        raise UsageError(
            f"{cluster_id!r} is not a cluster id: expected 16 bytes in base64url without padding, such as {storage.random_id()}"
        )
    java = find_java()
    version = version or configured_version()
    jars = fetch(version, progress=progress)
    brokers = formatting.count(nodes, "broker")
    deadline = time.monotonic() + timeout_s
    for attempt in range(_MAX_ATTEMPTS):
        addresses = free_addresses(nodes, secure=security is not None)
        with data_dir.writing():
            log_folder = new_logs_dir(name)
            folder = Path(tempfile.mkdtemp(prefix=f"{data_dir.PREFIX}{name}-", dir=base_dir))
        cluster = SandboxCluster(
            name=name,
            bootstrap_servers=",".join(f"127.0.0.1:{address.port}" for address in addresses),
            cluster_id=cluster_id,
            jars=jars,
            dir=folder,
            ports=tuple((address.id, address.port) for address in addresses),
            logs=log_folder,
        )
        progress(f"starting {brokers} of Apache Kafka {version}, logs in {cluster.logs}")
        try:
            cluster = _launch(
                cluster,
                java,
                addresses,
                security,
                properties=properties or {},
                heap_mib=heap_mib,
                deadline=deadline,
                archive=archive,
            )
        except SandboxError:
            # Another process can take a port between our check and the start of the broker.
            logs = [log.read_text(errors="replace") for log in cluster.logs.glob("broker-*.log")]
            if attempt == _MAX_ATTEMPTS - 1 or not any("Address already in use" in log for log in logs):
                raise
        else:
            progress(f"{brokers} up: {cluster.bootstrap_servers}")
            return cluster
    raise AssertionError("the last attempt returns or raises")


def stop(cluster: SandboxCluster, *, timeout_s: float = 30) -> None:
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


@contextmanager
def stopping(cluster: SandboxCluster, *, timeout_s: float = 30) -> Iterator[SandboxCluster]:
    """A block that has the cluster, and stops it at its end."""
    try:
        yield cluster
    finally:
        stop(cluster, timeout_s=timeout_s)


def wait_ready(cluster: SandboxCluster, broker_ids: Iterable[int], deadline: float) -> None:
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
                    log = tail(cluster.log(broker_id))
                    raise SandboxError(f"broker {broker_id} of {cluster.name} died at start; {log}")
            if time.monotonic() > deadline:
                raise SandboxError(f"broker {broker.id} of {cluster.name} was not ready in time; {tail(broker.log)}")
            time.sleep(0.05)


def _launch(
    cluster: SandboxCluster,
    java: Path,
    addresses: Sequence[config.NodeAddress],
    security: Security | None,
    *,
    properties: Mapping[str, str],
    heap_mib: int,
    deadline: float,
    archive: Path | None,
) -> SandboxCluster:
    """Start the brokers and wait for them. After an error, stop all processes and remove the data."""
    parent_pipe = access = None
    users: tuple[str, ...] = ()
    overrides = properties
    try:
        if security is not None:
            users = tuple(security.scram_arguments())
            keys = create_keys(java, cluster.dir) if security.tls else None
            overrides = render_security(security, keys) | dict(properties)
            access = SecureAccess(
                bootstrap_servers=",".join(f"127.0.0.1:{node.secure_port}" for node in addresses),
                certificate=None if keys is None else keys.certificate,
                users=security.users,
            )
        (cluster.dir / "log4j2.properties").write_text(config.LOG4J2, encoding="utf-8")
        (cluster.dir / "log4j.properties").write_text(config.LOG4J, encoding="utf-8")
        protocol = "SASL_PLAINTEXT" if security is None else security.protocol
        specs = []
        for node in addresses:
            path, data = storage.properties_file(cluster.dir, node.id), storage.data_folder(cluster.dir, node.id)
            text = config.render_properties(node, addresses, data, overrides=overrides, secure_protocol=protocol)
            path.write_text(text, encoding="utf-8")
            command = config.broker_command(java, cluster.jars, cluster.dir, path, heap_mib=heap_mib, archive=archive)
            specs.append(supervisor.BrokerSpec(node.id, command, str(cluster.log(node.id))))
        (cluster.dir / supervisor.SPEC).write_text(json.dumps(list(map(asdict, specs))), encoding="utf-8")
        nodes = storage.Nodes(cluster.dir, cluster.logs, cluster.cluster_id, tuple(node.id for node in addresses))
        storage.format_all(nodes, java, cluster.jars, users, properties, deadline)
        parent_pipe = _spawn_supervisor(cluster, deadline)
        wait_ready(cluster, [node.id for node in addresses], deadline)
    except BaseException:
        if parent_pipe is not None:
            parent_pipe.close()
        read_process(cluster.dir / supervisor.SUPERVISOR).wait_gone(30)
        data_dir.remove(cluster.dir)
        raise
    return replace(cluster, secure=access, parent_pipe=parent_pipe)


def _spawn_supervisor(cluster: SandboxCluster, deadline: float) -> ParentPipe:
    """Start the supervisor and wait until it has recorded itself and its brokers.

    Raises SandboxError if it does not start before `deadline`, an instant of the monotonic clock.
    """
    read_end, write_end = os.pipe()
    parent_pipe, started = ParentPipe(write_end), False
    # The supervisor must import the same package, also where this process found it through a path hook.
    search_path = [str(Path(reconciler.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    log_path = cluster.logs / "supervisor.log"
    try:
        with suppress(subprocess.SubprocessError), log_path.open("ab") as log:
            subprocess.run(
                [sys.executable, "-P", "-m", "reconciler.companions.sandbox.supervisor", str(cluster.dir)],
                stdin=read_end,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(search_path)},
                check=True,
                timeout=60,
            )
            started = _wait_recorded(cluster, deadline)
    finally:
        os.close(read_end)
        if not started:
            parent_pipe.close()
    if not started:
        raise SandboxError(f"the supervisor of the brokers did not start; {tail(log_path)}")
    return parent_pipe


def _wait_recorded(cluster: SandboxCluster, deadline: float) -> bool:
    files = [supervisor.pid_file(cluster.dir, node) for node, _port in cluster.ports]
    has_record = (cluster.dir / supervisor.SUPERVISOR).exists
    while not (has_record() and all(file.exists() for file in files)):
        if time.monotonic() > deadline or (has_record() and not cluster.supervised()):
            return False
        time.sleep(0.02)
    return True
