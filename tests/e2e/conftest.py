"""A Spark that is warm, for tests of the command line that are not about how it starts one."""

from collections.abc import Iterator

import pytest

from tests.spark.servers import connect_server


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Connect server on loopback; its `sc://` address."""
    with connect_server(tmp_path_factory.mktemp("connect")) as remote:
        yield remote


@pytest.fixture
def warm_spark(spark_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the test scans over the warm server, which saves it the start of a JVM."""
    monkeypatch.setenv("SPARK_REMOTE", spark_server)
