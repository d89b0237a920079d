"""The number of repetitions of rare events: few in `make test`, many in `make test-long`.

Tests of minutes run in `make test-long` only (`LONG`).
"""

import os

from hypothesis import settings

LONG = os.environ.get("RECONCILER_TEST_LONG", "") not in ("", "0")


def repeats(few: int, many: int) -> int:
    """Return the number of repetitions in this run."""
    return many if LONG else few


def at_least(examples: int) -> settings:
    """Return settings for a property of which few examples show anything: this number, or more in a larger profile."""
    return settings(max_examples=max(examples, settings.default.max_examples))
