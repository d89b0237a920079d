"""The number of repetitions of rare events: few in `make test`, many in `make test-long`.

Tests of minutes run in `make test-long` only (`LONG`).
"""

import os

LONG = os.environ.get("RECONCILER_TEST_LONG", "") not in ("", "0")


def repeats(few: int, many: int) -> int:
    """Return the number of repetitions in this run."""
    return many if LONG else few
