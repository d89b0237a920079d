"""What a plan costs where no machine of ours goes: arithmetic on the figures of bench/scan.json. Fills docs/scaling.md.

Decided here: which figure stands for which unit, and that a reckoning is linear. What is not linear is said in the page.
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from bench import results
from bench.world import COMMITS_PER_GROUP
from reconciler.scan import requests
from reconciler.scan.task_rows import FACTS, PARTITION

FIGURES = Path(__file__).with_name("scan.json")
QUESTIONS = 4
"""Log start, stable end, high watermark and one instant."""
PER_CALL, PER_CHUNK = 1_000, 2_000


@dataclass(frozen=True, slots=True)
class Units:
    """CPU of the process that reads, on the machine of the bench; what brokers and the JVM take for it comes on top."""

    partition_us: float
    commit_us: float
    record_us: float
    session_s: float
    driver_kib: float
    """Per partition, with its readers and what a plan makes of it."""
    readers: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster to reckon with."""

    partitions: int
    groups: int
    records: int
    brokers: int
    log_partitions: int = 50


TARGETS = (
    Cluster(30_000, 5_000, 5_000_000, 3),
    Cluster(200_000, 20_000, 20_000_000, 12),
    Cluster(1_000_000, 100_000, 100_000_000, 60),
)


def units(figures: Mapping[str, Sequence[float]]) -> Units:
    """Raises KeyError for figures of another bench than the full one."""

    def median(name: str) -> float:
        return statistics.median(figures[name])

    sizes = [size for size in (500, 5_000, 30_000) if f"driver_mib {size} partitions" in figures]
    low, high = sizes[-2:]
    grown_mib = median(f"driver_mib {high} partitions") - median(f"driver_mib {low} partitions")
    return Units(
        partition_us=median("partition_us"),
        commit_us=median("commit_us"),
        record_us=median("record_us"),
        session_s=median("session_s cold"),
        driver_kib=grown_mib * 1024 / (high - low),
        readers="a dozen readers" if high == 5_000 else "two readers",
    )


def costs(unit: Units) -> list[str]:
    """The units themselves, as a table."""
    return results.table(
        ("unit", "costs"),
        [
            ("a partition: three ends and an instant", f"{unit.partition_us:.0f} µs of CPU"),
            ("a committed offset", f"{unit.commit_us:.1f} µs of CPU"),
            ("a record of the commit log", f"{unit.record_us:.1f} µs of CPU"),
            (f"a partition in the driver, with {unit.readers} and its part of the plan", f"{unit.driver_kib:.1f} KiB"),
            ("a partition with two readers on its way to the driver", f"{row_bytes()} bytes"),
            ("a session, cold", f"{unit.session_s:.1f} s"),
        ],
    )


def reckoning(unit: Units, cores: Sequence[int] = (2, 16, 64)) -> list[str]:
    """What each target costs, as a table with a column per target."""
    columns = [_column(unit, target, cores) for target in TARGETS]
    head = (
        "",
        *(
            f"{t.partitions:,} partitions, {t.groups:,} groups × {COMMITS_PER_GROUP}, {t.records / 1e6:,.0f} M records, {t.brokers} brokers"
            for t in TARGETS
        ),
    )
    return results.table(head, [(name, *(column[name] for column in columns)) for name in columns[0]])


def row_bytes() -> int:
    """Of one partition with two readers in the table that the driver gets."""
    reader = {"group": "billing-service", "committed": 1_000_000, "named": False}
    rows = pa.Table.from_pylist(
        [
            {
                "subject": PARTITION,
                "name": "orders-by-customer",
                "number": 7,
                "log_start": 1,
                "stable_end": 2,
                "high_watermark": 2,
                "offsets_at": [1],
            }
        ]
        * 1_000,
        schema=FACTS,
    )
    return round(int(rows.nbytes + pa.array([[reader, reader]] * 1_000).nbytes) / 1_000)


def _column(unit: Units, target: Cluster, cores: Sequence[int]) -> dict[str, str]:
    commits = target.groups * COMMITS_PER_GROUP
    work = {
        "partitions": unit.partition_us / 1e6 * target.partitions,
        "commits": unit.commit_us / 1e6 * commits,
        "log": unit.record_us / 1e6 * target.records,
    }
    logs = len(
        requests.log_chunks(dict.fromkeys(range(target.log_partitions), target.records // target.log_partitions))
    )
    chunks = math.ceil(target.partitions / target.brokers / PER_CHUNK) * target.brokers
    tasks = (chunks, len(requests.commit_chunks(map(str, range(target.groups)))), logs)
    listing = QUESTIONS * math.ceil(target.partitions / target.brokers / PER_CALL)
    groups = math.ceil(target.groups / target.brokers)
    column = {
        "tasks: partitions, commits, log": ", ".join(f"{count:,}" for count in tasks),
        "requests per broker: ListOffsets": f"{listing:,}",
        "requests per broker: OffsetFetch, and as many to find coordinators": f"{groups:,}",
        "CPU seconds: partitions, commits, log": ", ".join(f"{seconds:,.0f}" for seconds in work.values()),
    }
    for count in cores:
        # No more tasks read the log than it has partitions, and the longest of them ends last.
        longest = unit.record_us / 1e6 * target.records / logs
        seconds = max(sum(work.values()) / count, longest)
        column[f"seconds of reading on {count} cores"] = f"{seconds:,.0f}"
    column["to the driver"] = f"{row_bytes() * target.partitions / 2**20:,.0f} MiB"
    column["driver's memory, plan included"] = f"{unit.driver_kib * target.partitions / 2**20:,.1f} GiB"
    return column


def sections() -> dict[str, str]:
    """Generated parts of docs/scaling.md, by name."""
    unit = units(json.loads(FIGURES.read_text(encoding="utf-8"))["figures"])
    return {"units": "\n".join(costs(unit)), "reckoning": "\n".join(reckoning(unit))}
