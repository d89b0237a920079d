"""A fixture that disables fsync, because no power failure happens during tests."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def disable_fsync() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield
