"""`python -m reconciler` and the `reconciler` script."""

import os
import sys

from reconciler.cli.app import run
from reconciler.cli.console import discard_stdout, unfailing_stderr


def main() -> None:
    """Run the command line and end the process with its exit code."""
    _open_closed_streams()
    sys.stderr = unfailing_stderr()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()  # Python would end with 120 if it failed to flush at exit
    except OSError:
        discard_stdout()
    sys.exit(code)


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
