"""Measures the memory of an apply as its plan grows, without a network.

Each size runs in a new process, which reads the plan file, applies it and writes results.json. The
gateway is a fake that keeps one bit per subject, so that the figures are the program's memory.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from bench import plan_file
from bench.processes import memory_mib, run_module
from reconciler.apply import results
from reconciler.apply.context import ApplyContext
from reconciler.apply.executor import apply
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, ItemResult
from reconciler.model.snapshot import Consumers, GroupFacts, PartitionFacts, Unknown
from reconciler.plan import plan_file as plans

HEAD = ("apply without a network", "seconds", "peak MiB, plan read", "peak MiB, applied", "peak MiB, results written")
DONE = ItemResult("NONE")


class FakeGateway:
    """What deletions ask of a `model.ports.Gateway`; it executes those of `bench.plan_file`."""

    def __init__(self, size: int) -> None:
        self._deleted = bytearray(size)

    def cluster_id(self) -> str:
        return "5L6g3nShT-eMCtK--X86sw"

    def read_partitions(
        self, partitions: Iterable[TopicPartition], *, offsets: bool
    ) -> Mapping[TopicPartition, PartitionFacts | None]:
        assert offsets
        facts: dict[TopicPartition, PartitionFacts | None] = {}
        for partition in partitions:
            number = _number(partition)
            action = plan_file.action(number)
            facts[partition] = PartitionFacts(
                partition=partition,
                topic_id=action.seen.topic_id,
                leader=action.seen.leader,
                replicas=action.seen.replicas,
                in_sync=action.seen.in_sync,
                log_start=action.before_offset if self._deleted[number] else action.seen.log_start,
                high_watermark=action.seen.high_watermark,
            )
        return facts

    def read_positions(
        self, requested: Mapping[str, Sequence[TopicPartition]]
    ) -> Mapping[tuple[str, TopicPartition], int | Unknown | None]:
        return {(group, key): 52_000 for group, partitions in requested.items() for key in partitions}

    def read_consumers(self, topics: Collection[str], _log_starts: Mapping[int, int]) -> Consumers:
        return Consumers(groups={}, commits={topic: {} for topic in topics})

    def read_groups(self, groups: Sequence[str], **_options: object) -> Mapping[str, GroupFacts]:
        assert not groups
        return {}

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemResult]:
        for partition in before_offsets:
            self._deleted[_number(partition)] = 1
        return dict.fromkeys(before_offsets, DONE)

    def connect_for_deletions(self) -> None:
        pass


def _number(partition: TopicPartition) -> int:
    return int(partition.topic.removeprefix("clicks-")) * plan_file.PARTITIONS + partition.partition


def peak_mib() -> float:
    # ru_maxrss is not usable: it starts with the memory of the parent process.
    return memory_mib("self", "VmHWM")


def measure(path: Path, size: int) -> dict[str, Any]:
    """Apply like the command, with the full plan and all outcomes in memory."""
    plan = plans.read(path)
    read_mib = peak_mib()
    start = time.perf_counter()
    outcomes: list[Outcome] = list(
        apply(
            plan.actions,
            ApplyContext(
                gateway=cast("Gateway", FakeGateway(size)),
                journal=ActionJournal(JournalFile(path.with_name("journal.jsonl"))),
                run_id="bench",
                plan_digest="bench",
                clock=lambda: time.time_ns() // 1_000_000,
                sleep=time.sleep,
            ),
        )
    )
    applied_s, applied_mib = time.perf_counter() - start, peak_mib()
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    header = results.ResultsHeader(
        run_id="bench",
        plan_digest="bench",
        cluster="prod-eu",
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        started_at_ms=0,
        finished_at_ms=1,
        interrupted=False,
        exit_code=0,
        tool_version="0",
    )
    results.write(path.with_name("results.json"), outcomes, header)
    return {"seconds": applied_s, "read": read_mib, "applied": applied_mib, "written": peak_mib()}


def rows(sizes: Sequence[int], progress: Callable[[str], None]) -> list[list[str]]:
    table_rows = []
    for size in (1, *sizes):
        with tempfile.TemporaryDirectory(prefix="bench-apply-") as folder:
            path = Path(folder) / "plan.json"
            plans.write(plan_file.plan(size), path)
            figures = run_module("bench.apply_memory", str(path), str(size))
        progress(f"memory: {size:,} actions {figures}")
        table_rows.append(
            [
                f"{size:,} action{'' if size == 1 else 's'}",
                f"{figures['seconds']:.1f} s",
                *(f"{figures[step]:.0f}" for step in ("read", "applied", "written")),
            ]
        )
    return table_rows


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]))))
