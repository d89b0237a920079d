"""Writes the files of a sandbox, formats its data folders and starts the supervisor of its brokers.

Kafka's own storage tool formats the data. The content of the files is in `config`, the supervisor's
side of the pipe in `supervisor`.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import reconciler
from reconciler.errors import SandboxError
from reconciler.sandbox import config, supervisor
from reconciler.sandbox.logs import broker_log, tail
from reconciler.sandbox.process import read_process
from reconciler.sandbox.security import SecureAccess, Security, create_keys, render_security


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start of a sandbox. `folder` has its files and data, `logs` the output of its processes.

    `overrides` replace values of server.properties. `deadline` is an instant of the monotonic clock.
    """

    java: Path
    jars: Path
    folder: Path
    logs: Path
    addresses: Sequence[config.NodeAddress]
    cluster_id: str
    overrides: Mapping[str, str]
    security: Security | None
    heap_mib: int
    deadline: float

    def write_files(self) -> SecureAccess | None:
        """Write all files that the nodes and their supervisor read; return the access to a second listener."""
        (self.folder / "log4j2.properties").write_text(config.LOG4J2, encoding="utf-8")
        (self.folder / "log4j.properties").write_text(config.LOG4J, encoding="utf-8")
        overrides, protocol, access = dict(self.overrides), "SASL_PLAINTEXT", None
        if self.security is not None:
            keys = create_keys(self.java, self.folder) if self.security.tls else None
            overrides, protocol = render_security(self.security, keys) | overrides, self.security.protocol
            access = SecureAccess(
                bootstrap_servers=",".join(f"127.0.0.1:{node.secure_port}" for node in self.addresses),
                certificate=None if keys is None else keys.certificate,
                users=self.security.users,
            )
        specs = []
        for node in self.addresses:
            path, data = self._properties(node.id), self.folder / f"data-{node.id}"
            text = config.render_properties(node, self.addresses, data, overrides=overrides, secure_protocol=protocol)
            path.write_text(text, encoding="utf-8")
            command = config.broker_command(self.java, self.jars, self.folder, path, heap_mib=self.heap_mib)
            specs.append(supervisor.BrokerSpec(node.id, command, str(broker_log(self.logs, node.id))))
        (self.folder / supervisor.SPEC).write_text(json.dumps(list(map(asdict, specs))), encoding="utf-8")
        return access

    def format_storage(self) -> None:
        """Format the data folder of each node, all at the same time, one JVM per node.

        Raises SandboxError at the deadline, or with the log's last lines if a node fails.
        """
        command = [str(self.java), *config.JVM_FLAGS, *config.logging_flags(self.folder), "-Xmx128m"]
        command += ["-cp", f"{self.jars}/*", "kafka.tools.StorageTool", "format", "--cluster-id", self.cluster_id]
        if self.security is not None:
            command += self.security.scram_arguments()
        with ExitStack() as stack:
            tools = []
            for node in self.addresses:
                log = self.logs / f"format-{node.id}.log"
                output = stack.enter_context(log.open("ab"))
                argv = [*command, "--config", str(self._properties(node.id))]
                tool = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
                stack.enter_context(tool)
                stack.callback(tool.kill)
                tools.append((node.id, log, tool))
            for number, log, tool in tools:
                try:
                    code = tool.wait(max(1.0, self.deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    raise SandboxError(
                        f"formatting node {number} took too long: check the load of this machine"
                    ) from None
                if code != 0:
                    raise SandboxError(f"the data of node {number} could not be formatted; {tail(log)}")

    def spawn_supervisor(self) -> ParentPipe:
        """Start the supervisor and wait until it has recorded itself and its brokers.

        Raises SandboxError if it does not start before the deadline.
        """
        read_end, write_end = os.pipe()
        parent_pipe, started = ParentPipe(write_end), False
        # The supervisor must import the same package, also where this process found it through a path hook.
        search_path = [str(Path(reconciler.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        log_path = self.logs / "supervisor.log"
        try:
            with suppress(subprocess.SubprocessError), log_path.open("ab") as log:
                subprocess.run(
                    [sys.executable, "-m", "reconciler.sandbox.supervisor", str(self.folder)],
                    stdin=read_end,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(search_path)},
                    check=True,
                    timeout=60,
                )
                started = self._wait_recorded()
        finally:
            os.close(read_end)
            if not started:
                parent_pipe.close()
        if not started:
            raise SandboxError(f"the supervisor of the brokers did not start; {tail(log_path)}")
        return parent_pipe

    def _wait_recorded(self) -> bool:
        supervisor_file = self.folder / supervisor.SUPERVISOR
        files = [supervisor_file, *(supervisor.pid_file(self.folder, node.id) for node in self.addresses)]
        while not all(file.exists() for file in files):
            has_ended = supervisor_file.exists() and not read_process(supervisor_file).alive()
            if has_ended or time.monotonic() > self.deadline:
                return False
            time.sleep(0.02)
        return True

    def _properties(self, node: int) -> Path:
        return self.folder / f"server-{node}.properties"
