"""Rounds of `converge` and `watch` without a cluster, as a fixture: see `loops.loop`."""

import pytest

from tests.unit.cli import loops
from tests.unit.cli.loops import Loop


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return lambda words, *changes, **options: loops.loop(words, monkeypatch, *changes, **options)
