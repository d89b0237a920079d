"""Fixtures of tests that run the command line on brokers."""

from pathlib import Path

import pytest

from reconciler.companions.sandbox.cluster import SandboxCluster
from tests.e2e.workspace import Workspace


@pytest.fixture
def space(cluster: SandboxCluster, tmp_path: Path) -> Workspace:
    """An empty folder for manifests of the brokers."""
    return Workspace(cluster, tmp_path)


@pytest.fixture
def topic(space: Workspace) -> str:
    """A topic of one partition with 100 records."""
    return space.create_topic()


@pytest.fixture
def read_topic(space: Workspace, topic: str) -> str:
    """The topic, with a group that has read all of it: so `__consumer_offsets` exists on new brokers."""
    space.commit(f"reader-{topic}", topic)
    return topic
