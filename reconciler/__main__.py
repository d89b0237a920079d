"""`python -m reconciler` and the `reconciler` script."""

import atexit
import contextlib
import os
import signal
import sys
from pathlib import Path

from reconciler.installation import find_foreign_code

_SCANNING = ("plan", "drift", "scan", "converge", "watch")
"""Commands that scan with the engine `spark` by default."""


def main() -> None:
    """Run the command line and end the process with its exit code."""
    codes: list[int] = []
    atexit.register(_end_process, codes)  # registered first, so that it runs after all other exit handlers
    _open_closed_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _interrupt_once)
    if foreign := find_foreign_code(Path(__file__).parent):
        sys.stderr.write(f"error: {foreign}\n")
        sys.exit(1)
    try:
        _start_spark()
        # Imported while Spark starts.
        from reconciler.cli.app import run
        from reconciler.cli.console import unfailing_stderr
    except KeyboardInterrupt:  # from here on `run` catches it
        sys.stderr.write("error: interrupted: no record, group or leader was changed\n")
        sys.exit(130)

    sys.stderr = unfailing_stderr()
    codes.append(run(sys.argv[1:]))
    sys.exit(codes[0])


def _interrupt_once(number: int, _frame: object) -> None:
    """End the command as Ctrl-C does: it says so, and removes its drafts and folders. A shell sends SIGHUP twice."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_process(codes: list[int]) -> None:
    """End the process without the exit handlers of C libraries.

    OpenSSL's handler frees what threads of the Kafka client may still use: a command that had printed
    its result could then end with signal 11. Python itself would end with 120 where a stream cannot be
    flushed. A command that was interrupted before it had an exit code ends as Python ends it.
    """
    if codes:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(codes[0])


def _start_spark() -> None:
    """Start Spark for commands that scan: its JVM takes most of the time of a small plan."""
    if sys.argv[1:2] and sys.argv[1] in _SCANNING:
        from reconciler.scan.spark_process import start_early

        start_early(sys.argv[2:], os.environ)


def _open_closed_streams() -> None:
    """Open /dev/null as each closed standard stream: the next file would get its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - until the process ends


if __name__ == "__main__":
    main()
