"""Waits of the sandbox's client. What its calls write is seen by Kafka's own tools in test_demo_data.py."""

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster


@pytest.mark.brokers
def test_the_metadata_is_of_the_broker_that_the_address_names(cluster: SandboxCluster) -> None:
    """A wait for every broker must hear every broker: the client library may ask another one."""
    for broker in cluster.brokers * 10:
        metadata = client.broker_metadata(f"127.0.0.1:{broker.port}")
        assert metadata.orig_broker_name.split("/")[0] == f"127.0.0.1:{broker.port}"


def test_a_timeout_names_its_condition() -> None:
    with pytest.raises(TimeoutError, match="not within 0 s: the impossible"):
        client.wait_until(lambda: False, 0, "the impossible")
