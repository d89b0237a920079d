"""Which ports a sandbox listens on: free ones on 127.0.0.1 that nobody is given by chance later."""

import random
import socket

from reconciler.errors import SandboxError
from reconciler.sandbox.config import CONTROLLERS, NodeAddress

# Below the range of outgoing connections of Linux and macOS: a broker that restarts must find its port free.
_CANDIDATES = range(20_000, 32_000)


def free_addresses(nodes: int, *, secure: bool = False) -> tuple[NodeAddress, ...]:
    """Addresses of that many nodes, whose ports nobody listens on now. Raises SandboxError if there are none left."""
    ports: list[int] = []
    held: list[socket.socket] = []
    wanted = nodes + min(nodes, CONTROLLERS) + (nodes if secure else 0)
    try:
        for port in random.sample(_CANDIDATES, k=2_000):
            candidate = socket.socket()
            held.append(candidate)
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == wanted:
                break
        else:
            raise SandboxError(
                f"no {wanted} free ports between {_CANDIDATES.start} and {_CANDIDATES.stop} on 127.0.0.1"
            )
    finally:
        for each in held:
            each.close()
    unused = iter(ports)
    return tuple(
        NodeAddress(
            id=number,
            port=next(unused),
            controller_port=next(unused) if number <= CONTROLLERS else None,
            secure_port=next(unused) if secure else None,
        )
        for number in range(1, nodes + 1)
    )


def listens(port: int) -> bool:
    """Whether somebody accepts connections on that port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
