"""What a plan of a million actions costs as a file: written, read, streamed, compared and rendered. Seconds and peak memory.

    python bench/plan_file.py [ACTIONS]

Each step runs in a process of its own, so that its peak resident memory is its own; `empty` is the interpreter with the imports.
The plan that is written is generated as it is asked for: what shows is the writer's memory and not the plan's.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from reconciler.model.action import AcceptedReader, Consumers, DeleteRecords, Guard, Mode, SeenPartition
from reconciler.model.names import Address, Place, TopicPartition
from reconciler.model.plan import Decision, Plan
from reconciler.plan import document
from reconciler.plan.render import markdown, text
from reconciler.plan.within import merged, within

PARTITIONS = 50
PLACE = Place("manifests/prod-eu/clicks.yaml", 9, 3)
GUARD = Guard(consumers=Consumers.IGNORE, accepted=(AcceptedReader("billing", 52_000),))
PLAIN = Guard(consumers=Consumers.BLOCK)


def action(number: int, *, more: int = 0) -> DeleteRecords:
    topic, partition = f"clicks-{number // PARTITIONS:07d}", number % PARTITIONS
    target = 98_213 + number % 1000 + more
    return DeleteRecords(
        address=Address("RetentionFloor", "clicks", topic, partition),
        declared_at=PLACE,
        reason=f"newerThan 7d resolves to offset {target}",
        mode=Mode.MERGE,
        partition=TopicPartition(topic, partition),
        before_offset=target,
        seen=SeenPartition(
            topic_id=f"kAwXdc4bS8uMf{number // PARTITIONS:09d}",
            log_start=1000 + number % 77,
            stable_end=250_000 + number,
            high_watermark=250_000 + number,
            leader=number % 3 + 1,
            replicas=(1, 2, 3),
            in_sync=(1, 2, 3),
        ),
        guard=GUARD if number % 10 == 0 else PLAIN,
        vouched=False,
        drift=True,
    )


class Generated(Sequence[Decision]):
    """A million decisions that are made when they are looked at."""

    def __init__(self, size: int, *, more: int = 0) -> None:
        self.size, self.more = size, more

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        return action(index, more=self.more)

    def __iter__(self) -> Iterator[Decision]:
        return (action(number, more=self.more) for number in range(self.size))


def plan(size: int, *, more: int = 0) -> Plan:
    decisions = cast("tuple[Decision, ...]", Generated(size, more=more))
    return Plan(
        cluster="prod-eu", cluster_id="5L6g3nShT-eMCtK--X86sw", observed_at_ms=0, expires_at_ms=1, decisions=decisions
    )


def step(name: str, size: int, folder: Path) -> dict[str, Any]:
    old, new = folder / "old.json", folder / "new.json"
    before = 0.0
    started = time.perf_counter()
    found: object = ""
    match name:
        case "empty":
            pass
        case "write":
            document.write(plan(size), old)
            found = f"{old.stat().st_size / 1e6:.0f} MB"
        case "write another":
            document.write(plan(size, more=5), new)
        case "stream the actions":
            found = sum(1 for _action in document.actions(old))
        case "compare two files, streamed":
            found = sum(1 for _entry in merged(document.actions(old), document.actions(new)))
        case "read":
            found = len(document.read(old).decisions)
        case "read both, intersect":
            first, second = document.read(old), document.read(new)
            before, started = time.perf_counter() - started, time.perf_counter()
            found = len(within(second, first).actions)
        case "digest":
            read = document.read(old)
            before, started = time.perf_counter() - started, time.perf_counter()
            found = document.digest(read)[:15]
        case "text":
            read = document.read(old)
            before, started = time.perf_counter() - started, time.perf_counter()
            found = sum(1 for _line in text(read, width=80))
        case "markdown":
            read = replace(document.read(old), incomplete=())
            before, started = time.perf_counter() - started, time.perf_counter()
            found = len(markdown(read))
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "step": name,
        "seconds": round(seconds, 1),
        "read_s": round(before, 1),
        "peak_mib": round(peak),
        "found": found,
    }


STEPS = (
    "empty",
    "write",
    "write another",
    "stream the actions",
    "compare two files, streamed",
    "read",
    "read both, intersect",
    "digest",
    "text",
    "markdown",
)


def main() -> None:
    if len(sys.argv) == 4:
        print(json.dumps(step(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
        return
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(f"{size:,} record deletions, {PARTITIONS} partitions per topic\n")
    print("| step | seconds | of these spent reading first | peak MiB | found |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in STEPS:
            done = subprocess.run(
                [sys.executable, __file__, name, str(size), folder], capture_output=True, text=True, check=True
            )
            row = json.loads(done.stdout)
            print(
                f"| {row['step']} | {row['seconds']} | {row['read_s']} | {row['peak_mib']:,} | {row['found']} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
