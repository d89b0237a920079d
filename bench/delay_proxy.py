"""Forwards TCP connections on loopback, and delays their data as a network with a round trip does.

    python -m bench.delay_proxy PORT:TARGET_PORT …     a line of standard input sets the round trip in milliseconds

Each direction takes half of the round trip, and the first data of a connection a whole one more,
for the handshake of TCP. The order stays, and the bandwidth is not limited. The process ends with
its standard input.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.processes import background_module

HOST = "127.0.0.1"
_BUFFER = 1 << 16


class DelayProxy:
    """The proxy as a process of its own, so that it does not share this interpreter's lock."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def set_round_trip(self, milliseconds: int) -> None:
        """Change the round trip for the data that arrives from now on."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(milliseconds, file=self._process.stdin, flush=True)
        if self._process.stdout.readline().strip() != str(milliseconds):
            raise RuntimeError("the delaying proxy ended")


@contextmanager
def delay_proxy(ports: Mapping[int, int]) -> Iterator[DelayProxy]:
    """Forward each port to another one during the block."""
    pairs = (f"{port}:{target}" for port, target in ports.items())
    with background_module("bench.delay_proxy", *pairs) as process:
        proxy = DelayProxy(process)
        proxy.set_round_trip(0)
        yield proxy


class _Forwarder:
    """All connections of the proxy process, with the present delay."""

    def __init__(self) -> None:
        self.round_trip_s = 0.0
        self._connections: set[asyncio.Task[None]] = set()

    async def listen(self, port: int, target: int) -> asyncio.Server:
        def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # The streams themselves forget the task of a connection that one side has closed.
            task = asyncio.create_task(self._connect(reader, writer, target))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        return await asyncio.start_server(connect, HOST, port)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
        try:
            target_reader, target_writer = await asyncio.open_connection(HOST, target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            self._forward(reader, target_writer, first_s=self.round_trip_s),
            self._forward(target_reader, writer, first_s=0.0),
        )
        for end in (writer, target_writer):
            end.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first_s: float) -> None:
        """Copy one direction. `first_s`: how long the connection takes before it carries data."""
        loop = asyncio.get_running_loop()
        pending: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        open_s = loop.time() + first_s

        async def write() -> None:
            while True:
                due_s, data = await pending.get()
                await asyncio.sleep(max(0.0, due_s - loop.time()))
                if not data:
                    writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()

        writing = asyncio.create_task(write())
        with contextlib.suppress(OSError):
            while data := await reader.read(_BUFFER):
                pending.put_nowait((max(open_s, loop.time()) + self.round_trip_s / 2, data))
        pending.put_nowait((0.0, b""))
        with contextlib.suppress(OSError):
            await writing


async def _serve(pairs: list[tuple[int, int]]) -> None:
    forwarder = _Forwarder()
    servers = [await forwarder.listen(port, target) for port, target in pairs]

    def read_commands() -> None:
        for line in sys.stdin:
            forwarder.round_trip_s = int(line) / 1_000
            print(line.strip(), flush=True)
        os._exit(0)  # open connections end with the process

    threading.Thread(target=read_commands, daemon=True).start()
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    pairs = [argument.split(":") for argument in sys.argv[1:]]
    asyncio.run(_serve([(int(port), int(target)) for port, target in pairs]))


if __name__ == "__main__":
    main()
