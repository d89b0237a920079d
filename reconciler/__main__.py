"""`python -m reconciler` and the `reconciler` script."""

import os
import sys

from reconciler.cli.app import run
from reconciler.cli.console import flush_or_discard_stdout, unfailing_stderr


def main() -> None:
    """Run the command line and end the process with its exit code.

    A closed standard stream is replaced by /dev/null. Standard error never fails: an error line that cannot be written must not change
    the exit code (Python ends with 120 where it cannot flush a standard stream at exit).
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - until the process ends
    sys.stderr = unfailing_stderr()
    code = run(sys.argv[1:])
    flush_or_discard_stdout()
    sys.exit(code)


if __name__ == "__main__":
    main()
