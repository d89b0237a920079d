"""A Spark that is warm, for tests of the command line that are not about how it starts one."""

import pytest


@pytest.fixture
def warm_spark(spark_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the test scans over the warm server, which saves it the start of a JVM."""
    monkeypatch.setenv("SPARK_REMOTE", spark_server)
