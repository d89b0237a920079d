"""Runs a fault trial, or a few, of `make faults`, with a fixed seed."""

from pathlib import Path

import pytest

from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.scan.engine_choice import Engine
from tests.faults.run import create_consumer_offsets
from tests.faults.trial import run_trial
from tests.repeats import repeats

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

SEED = 7


@pytest.fixture(scope="module", autouse=True)
def _consumer_offsets(cluster: SandboxCluster) -> None:
    create_consumer_offsets(cluster)


# Trial five moves leaders and interrupts the client.
@pytest.mark.parametrize("number", range(5, 5 + repeats(1, 10)))
def test_a_fault_trial_shows_no_violation(cluster: SandboxCluster, engine: Engine, tmp_path: Path, number: int) -> None:
    """Apply removes no more than the plan, its outcomes are true, and a second apply converges."""
    report = run_trial(cluster, number, SEED, tmp_path, engine)
    assert report.violations == [], f"seed {SEED}, trial {number}: {', '.join(report.faults)}"
