"""Servers on loopback; one of them a manifest of a pull request names in the place of the brokers."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_UNSUPPORTED_VERSION, _AUTHENTICATION_FAILED = 35, 58


class Server:
    """A server on loopback that counts its connections, and hands each to `talk`. `address`: host:port."""

    def __init__(self, talk: Callable[[socket.socket], None]) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.talk = talk
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no connection any more."""
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        self.socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection = self.socket.accept()[0]
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            self.talk(connection)


class Listener(Server):
    """A server of an attacker: takes the first steps of SASL, answers HTTP, and keeps what it gets.

    Its refusal of a login quotes what the client sent.
    """

    def __init__(self) -> None:
        self.received = b""
        super().__init__(self._answer)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        while data := connection.recv(1 << 20):
            self.received += data
            if data[:4] in (b"GET ", b"POST"):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            elif len(data) >= 12:
                connection.sendall(_kafka_answer(data))


@contextmanager
def http_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on loopback during the block, without a log, and yield the URL."""
    handler.log_message = lambda *_arguments: None  # type: ignore[method-assign]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])  # seconds between its looks for an end
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _kafka_answer(request: bytes) -> bytes:
    """An answer to a request of SASL's steps: every version but the first is too new."""
    api, version, correlation = struct.unpack_from(">hhi", request, 4)
    body = b""
    if api == _API_VERSIONS:
        apis = ((_HANDSHAKE, 0, 1), (_API_VERSIONS, 0, 0), (_AUTHENTICATE, 0, 0), (3, 0, 5))
        error = _UNSUPPORTED_VERSION if version else 0
        body = struct.pack(">hi", error, len(apis)) + b"".join(struct.pack(">hhh", *ranges) for ranges in apis)
    elif api == _HANDSHAKE:
        mechanisms = (b"PLAIN", b"SCRAM-SHA-512", b"OAUTHBEARER")
        names = b"".join(struct.pack(">h", len(name)) + name for name in mechanisms)
        body = struct.pack(">hi", 0, len(mechanisms)) + names
    elif api == _AUTHENTICATE:
        quoted = request[14:].replace(b"\0", b" ")
        body = struct.pack(">hh", _AUTHENTICATION_FAILED, len(quoted)) + quoted + struct.pack(">i", 0)
    return struct.pack(">ii", len(body) + 4, correlation) + body
