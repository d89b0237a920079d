"""Runs each test of this folder with the fake cluster and with real brokers."""

from collections.abc import Iterator

import pytest

from tests.contract.environments import Environment, FakeEnvironment, RealEnvironment


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.brokers)])
def environment(request: pytest.FixtureRequest) -> Iterator[Environment]:
    if request.param == "fake":
        yield FakeEnvironment()
        return
    real = RealEnvironment(request.getfixturevalue("cluster"))
    try:
        yield real
    finally:
        real.gateway.session.close()
