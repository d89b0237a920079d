"""Picks free ports on 127.0.0.1 that the system does not give to outgoing connections."""

import random
import socket
from contextlib import ExitStack, suppress

from reconciler.companions.sandbox.config import CONTROLLERS, NodeAddress
from reconciler.errors import SandboxError

# Below the outgoing ports of Linux and macOS, so that a restarted broker finds its port free.
_CANDIDATES = range(20_000, 32_000)


def free_addresses(nodes: int, *, secure: bool = False) -> tuple[NodeAddress, ...]:
    """Return addresses for `nodes` nodes with free ports.

    Raises SandboxError if too few ports are free.
    """
    ports: list[int] = []
    count = nodes + min(nodes, CONTROLLERS) + (nodes if secure else 0)
    with ExitStack() as stack:
        for port in random.sample(_CANDIDATES, k=2_000):
            if len(ports) < count:
                with suppress(OSError):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                    ports.append(port)
    if len(ports) < count:
        raise SandboxError(
            f"fewer than {count} free ports between {_CANDIDATES.start} and {_CANDIDATES.stop} on 127.0.0.1"
        )
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
    """Whether a process accepts connections on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
