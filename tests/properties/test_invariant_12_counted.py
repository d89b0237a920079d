"""Invariant 12, for the scan: a group that no task reports never counts as one that has read.

The rows of a scan lack groups that were read and that no policy needs, so a missing row proves nothing.
Each row of a task is counted before.
"""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import Unknown
from reconciler.operations.consumers import unknown_consumers
from reconciler.scan import select, snapshot_builder
from reconciler.scan.snapshot_builder import ConsumerOffsetsLog, Row, Rows
from tests.strategies import facts
from tests.unit.scan.listings import groups

READERS = ScanRequest(topics=(TopicRequest(topics=(Selector("orders"),), readers=True),))
LOG = ConsumerOffsetsLog(partitions=50)


def reported(r: Random, name: str) -> dict[str, Any]:
    """The row of a group whose reading failed."""
    columns = dict.fromkeys(("commits", "commit_topics", "fingerprint", "live", "seems"))
    return {**columns, "name": name, "error": r.choice(("timed out", "no right"))}


@given(st.integers(0, 2**48))
def test_a_group_that_no_task_counts_blocks_every_floor(seed: int) -> None:
    """Groups, or tasks with their rows, get lost; the others were read or failed."""
    r = Random(seed)
    listing = groups(*(f"g{number}" for number in range(r.randint(1, 9))))
    rows: dict[str, Row] = {}
    groups_read = 0
    lost, failed = set(), set()
    names = sorted(select.commit_groups(READERS, listing))
    size = r.randint(1, 4)
    for start in range(0, len(names), size):
        part = names[start : start + size]
        if r.random() < 0.1:
            lost |= set(part)
            continue
        read = [name for name in part if r.random() > 0.05]
        lost |= set(part) - set(read)
        groups_read += len(read)
        for name in read:
            if r.random() < 0.05:
                failed.add(name)
                rows[name] = reported(r, name)
    of_scan = Rows({}, rows, {}, [], groups_read=groups_read)
    incomplete = snapshot_builder.readers_incomplete(READERS, listing, of_scan, LOG)
    assert isinstance(incomplete, Unknown) == bool(lost)
    group_facts = snapshot_builder.group_facts(READERS, listing, of_scan, LOG)
    assert {name for name, group in group_facts.items() if group.consumption_unread is not None} == failed
    snapshot = facts.snapshot(*group_facts.values(), readers_incomplete=incomplete)
    assert (unknown_consumers(snapshot, lambda _group: False)("orders") is not None) == bool(lost | failed)
