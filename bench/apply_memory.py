"""How much memory an apply takes as its plan grows: the plan read from its file, sent, and told in results.json. No network.

Each size is a process of its own. Brokers are played by a gateway that remembers one bit for each subject, so that what is measured
is the program's memory.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import plan_file
from bench.processes import mebibytes
from reconciler.apply import results
from reconciler.apply.executor import apply
from reconciler.journal.journal import file_journal
from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import ItemResult, ResponseAction
from reconciler.model.snapshot import GroupFacts, PartitionFacts, Unknown
from reconciler.plan import plan_file as plans

HEAD = ("apply without a network", "seconds", "peak MiB, plan read", "peak MiB, applied", "peak MiB, results written")
DONE = ItemResult(ResponseAction.DONE, "NONE")


class Obedient:
    """`model.ports.Gateway`: every purge of `bench.plan_file` is carried out."""

    def __init__(self, size: int) -> None:
        self._purged = bytearray(size)

    def cluster_id(self) -> str:
        return "5L6g3nShT-eMCtK--X86sw"

    def read_partitions(
        self, partitions: Iterable[TopicPartition], *, offsets: bool
    ) -> Mapping[TopicPartition, PartitionFacts | None]:
        assert offsets
        found: dict[TopicPartition, PartitionFacts | None] = {}
        for at in partitions:
            number = _number(at)
            seen = plan_file.action(number)
            found[at] = PartitionFacts(
                partition=at,
                topic_id=seen.seen.topic_id,
                leader=seen.seen.leader,
                replicas=seen.seen.replicas,
                in_sync=seen.seen.in_sync,
                log_start=seen.before_offset if self._purged[number] else seen.seen.log_start,
                high_watermark=seen.seen.high_watermark,
            )
        return found

    def read_positions(
        self, requested: Mapping[str, Sequence[TopicPartition]]
    ) -> Mapping[tuple[str, TopicPartition], int | Unknown | None]:
        return {(group, at): 52_000 for group, partitions in requested.items() for at in partitions}

    def read_groups(self, groups: Sequence[str]) -> Mapping[str, GroupFacts]:
        assert not groups
        return {}

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemResult]:
        for at in before_offsets:
            self._purged[_number(at)] = 1
        return dict.fromkeys(before_offsets, DONE)

    def delete_groups(self, groups: Sequence[str]) -> Mapping[str, ItemResult]:
        assert not groups
        return {}

    def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ItemResult]:
        raise AssertionError(election, partitions)

    def refresh(self) -> None:
        raise AssertionError("nothing is tried twice")


def _number(at: TopicPartition) -> int:
    return int(at.topic.removeprefix("clicks-")) * plan_file.PARTITIONS + at.partition


def peak_mib() -> float:
    # Not ru_maxrss, which begins at what the process that started this one held.
    return mebibytes(os.getpid(), "VmHWM")


def measure(path: Path, size: int) -> dict[str, Any]:
    """As the command does it: the plan whole, outcomes kept until results.json is written."""
    planned = plans.read(path)
    read_mib = peak_mib()
    began = time.perf_counter()
    outcomes: list[Outcome] = list(
        apply(
            planned.actions,
            gateway=Obedient(size),
            journal=file_journal(path.with_name("journal.jsonl")),
            run_id="bench",
            plan_digest="bench",
            clock=lambda: time.time_ns() // 1_000_000,
            sleep=time.sleep,
        )
    )
    applied_s, applied_mib = time.perf_counter() - began, peak_mib()
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


def rows(sizes: Sequence[int], say: Callable[[str], None]) -> list[list[str]]:
    made = []
    for size in (1, *sizes):
        with tempfile.TemporaryDirectory(prefix="bench-apply-") as folder:
            path = Path(folder) / "plan.json"
            plans.write(plan_file.plan(size), path)
            done = subprocess.run(
                [sys.executable, "-m", "bench.apply_memory", str(path), str(size)],
                capture_output=True,
                text=True,
                check=True,
            )
        found = json.loads(done.stdout)
        say(f"memory: {size:,} actions {found}")
        made.append(
            [
                f"{size:,} action{'' if size == 1 else 's'}",
                f"{found['seconds']:.1f} s",
                *(f"{found[step]:.0f}" for step in ("read", "applied", "written")),
            ]
        )
    return made


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]))))
