"""Estimates the cost of a plan for clusters that are too large for the bench.

Fills docs/scaling.md.

The estimate is linear in the measured figures of bench/scan.json. The page says which costs are not
linear.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from bench import results
from bench.scan_cluster import COMMITS_PER_GROUP
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.scan.chunks import commit_chunks, log_chunks
from reconciler.scan.task_rows import SCHEMAS

FIGURES = Path(__file__).with_name("scan.json")
OFFSETS_PER_PARTITION = 4
"""Log start offset, last stable offset, high watermark, and one offset by timestamp."""
PER_REQUEST, PER_CHUNK = 1_000, 2_000
OFFSET_BYTES, COMMIT_BYTES, RECORD_BYTES = 27, 20, 90
"""In responses of the brokers, without names: an offset (ListOffsets), a commit (OffsetFetch), and a
record of the commit log with names of 15 to 20 characters and its part of a batch."""
PROGRAM, RECKONED, MEASURED = "program", "reckoned", "measured"


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """CPU time per unit of the reading process on the bench's machine, without brokers and JVM.

    `driver_kib` is the driver's memory per partition, with its consumers and its part of the plan.
    `consumers` describes how many consumers that partition has.
    """

    partition_us: float
    commit_us: float
    record_us: float
    session_s: float
    driver_kib: float
    consumers: str


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """The size of a cluster to estimate."""

    partitions: int
    groups: int
    records: int
    brokers: int
    log_partitions: int = 50


TARGETS = (
    ClusterSize(30_000, 5_000, 5_000_000, 3),
    ClusterSize(200_000, 20_000, 20_000_000, 12),
    ClusterSize(1_000_000, 100_000, 1_000_000_000, 60),
)


def unit_costs(figures: Mapping[str, Sequence[float]]) -> UnitCosts:
    """Compute the unit costs. Raises KeyError unless the figures come from a full bench."""

    def median(name: str) -> float:
        return statistics.median(figures[name])

    sizes = [size for size in (500, 5_000, 30_000) if f"driver_mib {size} partitions" in figures]
    low, high = sizes[-2:]
    difference_mib = median(f"driver_mib {high} partitions") - median(f"driver_mib {low} partitions")
    return UnitCosts(
        partition_us=median("partition_us"),
        commit_us=median("commit_us"),
        record_us=median("record_us"),
        session_s=median("session_s cold"),
        driver_kib=difference_mib * 1024 / (high - low),
        consumers="a dozen consumers" if high == 5_000 else "two consumers",
    )


def cost_table(unit: UnitCosts) -> list[str]:
    """Render the unit costs as a table."""
    return results.table(
        ("unit", "costs"),
        [
            ("a partition: log start, both ends and one offset by timestamp", f"{unit.partition_us:.0f} µs of CPU"),
            ("a committed offset", f"{unit.commit_us:.1f} µs of CPU"),
            ("a record of the commit log", f"{unit.record_us:.1f} µs of CPU"),
            (
                f"a partition in the driver, with {unit.consumers} and its part of the plan",
                f"{unit.driver_kib:.1f} KiB",
            ),
            ("the rows of a partition with two consumers, before the task compresses them", f"{row_bytes()} bytes"),
            ("the start of Spark", f"{unit.session_s:.1f} s"),
        ],
    )


def estimate_table(unit: UnitCosts, cores: Sequence[int] = (2, 16, 64)) -> list[str]:
    """Render the estimated cost of each target, with a column per target."""
    columns = [_column(unit, target, cores) for target in TARGETS]
    head = (
        "",
        "basis",
        *(
            f"{target.partitions:,} partitions, {target.groups:,} groups × {COMMITS_PER_GROUP}, "
            f"{target.records / 1e6:,.0f} M records, {target.brokers} brokers"
            for target in TARGETS
        ),
    )
    rows = [(name, basis, *(column[name, basis] for column in columns)) for name, basis in columns[0]]
    return results.table(head, rows)


def row_bytes() -> int:
    """Size of the rows of one partition with two consumers, before the task compresses them."""
    key = {"topic": "orders-by-customer", "partition": 7}
    offsets = {"log_start": 1, "last_stable_offset": 2, "high_watermark": 2, "offsets_at": [1]}
    position = {"group": "billing-service", "committed": 1_000_000, **key}
    rows = {"partitions": [key | offsets] * 1_000, "positions": [position] * 2_000}
    batches = (pa.RecordBatch.from_pylist(rows[name], schema=SCHEMAS[name]) for name in rows)
    return round(sum(int(batch.nbytes) for batch in batches) / 1_000)


def _column(unit: UnitCosts, target: ClusterSize, cores: Sequence[int]) -> dict[tuple[str, str], str]:
    """Each figure by its name and basis."""
    commits = target.groups * COMMITS_PER_GROUP
    cpu_s = {
        "partitions": unit.partition_us / 1e6 * target.partitions,
        "commits": unit.commit_us / 1e6 * commits,
        "log": unit.record_us / 1e6 * target.records,
    }
    leaders = {number: number % target.brokers for number in range(target.log_partitions)}
    log_tasks = len(log_chunks(dict.fromkeys(leaders, target.records // target.log_partitions), leaders))
    chunks = math.ceil(target.partitions / target.brokers / PER_CHUNK) * target.brokers
    commit_tasks = len(
        commit_chunks(
            map(str, range(target.groups)),
            coordinator_of=lambda group: leaders[log_partition(group, target.log_partitions)],
        )
    )
    tasks = (chunks, commit_tasks, log_tasks)
    list_offsets = OFFSETS_PER_PARTITION * math.ceil(target.partitions / target.brokers / PER_REQUEST)
    offset_fetches = math.ceil(target.groups / target.brokers)
    response_bytes = (
        OFFSET_BYTES * OFFSETS_PER_PARTITION * target.partitions,
        COMMIT_BYTES * commits,
        RECORD_BYTES * target.records,
    )
    column = {
        ("tasks: partitions, commits, log", PROGRAM): ", ".join(f"{count:,}" for count in tasks),
        ("requests per broker: ListOffsets", RECKONED): f"{list_offsets:,}",
        ("requests per broker: OffsetFetch, and as many FindCoordinator", RECKONED): f"{offset_fetches:,}",
        ("MB from the brokers: partitions, commits, log", RECKONED): ", ".join(
            f"{size / 1e6:,.0f}" for size in response_bytes
        ),
        ("CPU seconds: partitions, commits, log", MEASURED): ", ".join(f"{seconds:,.0f}" for seconds in cpu_s.values()),
    }
    for count in cores:
        # At most one task reads each partition of the log, so the longest task is a lower bound.
        longest_s = unit.record_us / 1e6 * target.records / log_tasks
        seconds = max(sum(cpu_s.values()) / count, longest_s)
        column[f"seconds of reading on {count} cores", MEASURED] = f"{seconds:,.0f}"
    column["answers of the tasks, not compressed", PROGRAM] = f"{row_bytes() * target.partitions / 2**20:,.0f} MiB"
    column["driver's memory, with the plan", MEASURED] = f"{unit.driver_kib * target.partitions / 2**20:,.1f} GiB"
    return column


def sections() -> dict[str, str]:
    """Render the generated parts of docs/scaling.md by name."""
    unit = unit_costs(json.loads(FIGURES.read_text(encoding="utf-8"))["figures"])
    return {"units": "\n".join(cost_table(unit)), "estimate": "\n".join(estimate_table(unit))}
