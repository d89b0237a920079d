"""A few fault trials of the hundreds that `make faults` runs: seeded, on brokers of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.scan.session import SparkTarget
from tests.faults.run import ready
from tests.faults.trial import run_trial
from tests.repeats import repeats
from tests.toolbox import Toolbox

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

SEED = 7


@pytest.fixture(scope="module")
def brokers() -> Iterator[Cluster]:
    cluster = start(3, name="fault-tests", heap_mib=384)
    try:
        ready(cluster)
        yield cluster
    finally:
        stop(cluster)


@pytest.fixture(scope="module")
def toolbox(brokers: Cluster) -> Iterator[Toolbox]:
    with Toolbox(brokers) as made:
        yield made


# From here on, so that the faults of the client's own side are among them.
@pytest.mark.parametrize("number", range(4, 4 + repeats(3, 10)))
def test_a_fault_trial_shows_no_violation(brokers: Cluster, toolbox: Toolbox, tmp_path: Path, number: int) -> None:
    """Under faults nothing beyond the plan is removed, every outcome tells the truth, and a second plan and apply converge."""
    report = run_trial(brokers, toolbox, number, SEED, tmp_path, SparkTarget(master="local[2]"))
    assert report.violations == [], f"seed {SEED}, trial {number}: {', '.join(report.kinds)}"
