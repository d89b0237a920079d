"""The choice of free ports."""

import socket

from reconciler.companions.sandbox.ports import free_addresses, listens


def test_every_node_has_ports_of_its_own_and_three_have_a_controller() -> None:
    """Two listeners with the same port would prevent the start of a broker."""
    addresses = free_addresses(5)
    assert [address.id for address in addresses] == [1, 2, 3, 4, 5]
    assert [address.controller_port is not None for address in addresses] == [True, True, True, False, False]
    ports = [port for address in addresses for port in (address.port, address.controller_port) if port is not None]
    assert len(set(ports)) == len(ports) == 8


def test_listening_is_seen() -> None:
    """`listens` is true exactly while a process accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listens(port)
    assert not listens(port)
