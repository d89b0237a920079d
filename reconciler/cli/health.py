"""What a supervisor sees of a loop: a file that is touched while it is alive, and metrics at an address."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from reconciler.atomic_file import write_bytes
from reconciler.cli import console
from reconciler.clock import wall_clock_ms
from reconciler.errors import UsageError
from reconciler.report.metrics import Metrics
from reconciler.text.formatting import format_exact_instant
from reconciler.text.validation import error_reason

LOOPBACK = "127.0.0.1"


@contextmanager
def served(metrics: Metrics, address: str | None) -> Iterator[None]:
    """Serve the metrics at [HOST:]PORT during the block; None: nowhere. Raises UsageError."""
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16) or (not host and ":" in address):
        raise UsageError(
            f"--metrics-address {address}: expected PORT, for this machine only, or HOST:PORT, such as 0.0.0.0:9464"
        )
    with ExitStack() as serving:
        try:
            bound = serving.enter_context(metrics.serve(host.strip("[]") or LOOPBACK, int(port)))
        except OSError as error:
            raise UsageError(
                f"--metrics-address {address} cannot be listened at: {error_reason(error)}; nothing was done"
            ) from None
        console.print_stderr(f"metrics are at http://{host or LOOPBACK}:{bound}/metrics")
        yield


class Health(AbstractContextManager["Health"]):
    """The file by which a supervisor sees that a loop is alive: touched between rounds, gone at its end.

    During a round it gets older: a round that hangs shows. A round that fails does not, because a new
    start would not mend it; the file says its exit code. `path` None: there is no file.
    """

    def __init__(self, path: Path | None) -> None:
        """Raises UsageError for a file with anything else, which would be lost."""
        if path is not None and path.exists() and path.read_bytes()[:5] not in (b"", b'{"at"'):
            raise UsageError(f"--health-file {path} is not a health file: nothing was done; name another one")
        self._path = path
        self._clusters: dict[str, object] = {}
        self._has_failed = False
        self._is_current = True
        self._remove()  # that of an earlier process says nothing of this one

    def __exit__(self, *_error: object) -> None:
        self._remove()

    def note(self, cluster: str, exit_code: int) -> None:
        self._clusters[cluster] = {"exit_code": int(exit_code), "at": format_exact_instant(wall_clock_ms())}

    def write(self, next_round_s: float) -> None:
        now_ms = wall_clock_ms()
        times = {"at": now_ms, "next_round_at": now_ms + int(max(0.0, next_round_s) * 1000)}
        text = json.dumps(
            {name: format_exact_instant(at_ms) for name, at_ms in times.items()} | {"clusters": self._clusters}
        )
        self._is_current = self._change(lambda path: write_bytes(path, [f"{text}\n".encode()], mode=0o644))

    def touch(self) -> None:
        """Show that the loop waits for its next round. Not where the text is of an earlier round, as on a full disk."""
        if self._is_current:
            self._change(Path.touch)

    def _remove(self) -> None:
        self._change(lambda path: path.unlink(missing_ok=True))

    def _change(self, change: Callable[[Path], object]) -> bool:
        """Change the file, and return whether it was. A failure stops no loop: the file gets old, and that is what it says."""
        if self._path is None:
            return True
        try:
            change(self._path)
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                console.print_error(f"--health-file {self._path} could not be written: {error_reason(error)}")
            self._has_failed = True
        return not self._has_failed
