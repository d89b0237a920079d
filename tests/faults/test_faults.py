"""Runs a fault trial, or a few, of `make faults`, with a fixed seed, on new brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.scan.engine_choice import Engine
from tests.faults.run import create_consumer_offsets
from tests.faults.trial import run_trial
from tests.repeats import repeats
from tests.toolbox import Toolbox

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

SEED = 7


@pytest.fixture(scope="module")
def brokers() -> Iterator[SandboxCluster]:
    with stopping(start(3, name="fault-tests", heap_mib=384)) as cluster:
        create_consumer_offsets(cluster)
        yield cluster


@pytest.fixture(scope="module")
def toolbox(brokers: SandboxCluster) -> Iterator[Toolbox]:
    with Toolbox(brokers) as toolbox:
        yield toolbox


# Trial five moves leaders and interrupts the client.
@pytest.mark.parametrize("number", range(5, 5 + repeats(1, 10)))
def test_a_fault_trial_shows_no_violation(
    brokers: SandboxCluster, toolbox: Toolbox, tmp_path: Path, number: int
) -> None:
    """Apply removes no more than the plan, its outcomes are true, and a second apply converges."""
    report = run_trial(brokers, toolbox, number, SEED, tmp_path, Engine(master="local[2]"))
    assert report.violations == [], f"seed {SEED}, trial {number}: {', '.join(report.faults)}"
