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
