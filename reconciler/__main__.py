"""`python -m reconciler` and the `reconciler` script."""

import sys

from reconciler.cli.app import run


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
