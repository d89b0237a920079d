"""`python -m reconciler` and the `reconciler` script."""

import os
import sys

from reconciler.cli.app import run


def main() -> None:
    """Run the command line and end the process with its exit code. A standard stream that was closed holds nothing, and takes everything."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - until the process ends
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
