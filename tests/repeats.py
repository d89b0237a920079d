"""How often a test repeats something rare: a few times in `make test`, many times in `make test-long`, which a schedule runs."""

import os

LONG = os.environ.get("RECONCILER_TEST_LONG", "") not in ("", "0")


def repeats(few: int, many: int) -> int:
    """The number of repetitions of this run."""
    return many if LONG else few
