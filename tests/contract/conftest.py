"""Runs each test of this folder with the fake cluster and with real brokers."""

from collections.abc import Iterator

import pytest

from tests.contract.worlds import FakeWorld, RealWorld, World


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.brokers)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "fake":
        yield FakeWorld()
        return
    real = RealWorld(request.getfixturevalue("cluster"))
    try:
        yield real
    finally:
        real.gateway.session.close()
