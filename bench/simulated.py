"""Measures the driver's part of a plan for a large cluster that a generator replaces.

    python -m bench.simulated [--quick] [--dry]
    python -m bench.simulated PARTITIONS GROUPS COMMITS     one size in this process, as JSON

Listings and the facts that tasks read are generated; everything else is the program's own code: the
selection, the chunks, the tasks' answers as bytes, the snapshot, the plan with its limits, the plan
file, the text, and the recheck of `apply`. Each size runs in a new process, so that its peak memory
is its own. The time of the generator is left out.
"""

import json
import pickle
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from unittest.mock import patch

from bench import results
from bench.processes import memory_mib, run_module
from bench.scan_cluster import DAY_MS, OLD_RECORDS, RECORDS_PER_PARTITION, group_name, topic_name
from bench.scan_rows import manifests
from bench.sizes import FULL, QUICK
from reconciler import pipeline
from reconciler.companions.sources import export
from reconciler.companions.sources.command import EVERYTHING
from reconciler.companions.sources.target import Folder
from reconciler.kafka.connect import Connection
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.coordinators import Consumption
from reconciler.kafka.group_listing import GroupListing
from reconciler.kafka.offsets import OffsetsRequest, Watermarks
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC, RetentionFacts, TopicListing
from reconciler.manifest.files import ClusterManifests, load
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import (
    ClusterSnapshot,
    GroupFacts,
    GroupState,
    GroupType,
    Lookups,
    PartitionFacts,
    RecordLookup,
    RecordStamp,
    TopicFacts,
)
from reconciler.plan import limits, plan_file, planner, recheck
from reconciler.report.plan import plan_report
from reconciler.report.terminal import write_lines
from reconciler.scan import read_chunks, task_rows
from reconciler.scan import rows as answer_rows
from reconciler.scan import scan as scan_module
from reconciler.scan.chunks import Chunk
from reconciler.scan.engine_choice import Engine
from reconciler.scan.task_rows import Answer, ScanTask, read_chunk
from reconciler.text.formatting import count

PARTITIONS_PER_TOPIC = 50
BROKERS, LOG_PARTITIONS = 12, 50
NOW_MS = 1_800_000_000_000
CLUSTER_ID = "simulated-cluster-id-0"
GENERATED = "generated"
"""Name of the step whose time is that of the generator."""
START = "interpreter and imports"
MAX_MIB = 1_024


class SimulatedCluster:
    """Generates what brokers would answer.

    Every partition has an old and a new record. Each group commits on the partitions of one topic.
    Every fourth group lags, every second one is idle, and every hundredth partition has a leader
    that is not its preferred one.
    """

    def __init__(self, partitions: int, groups: int, commits: int) -> None:
        self.topics = [topic_name(number) for number in range(partitions // PARTITIONS_PER_TOPIC)]
        self.groups = {group_name(number): number for number in range(groups)}
        self.commits_per_group = min(PARTITIONS_PER_TOPIC, commits // groups)
        self.log_records = commits // LOG_PARTITIONS

    def list_topics(self, *_arguments: object) -> TopicListing:
        partitions = {name: self._partitions(number, name) for number, name in enumerate(self.topics)}
        topics = {
            name: TopicFacts(name=name, topic_id=f"{name}-id", internal=False, partitions=PARTITIONS_PER_TOPIC)
            for name in self.topics
        }
        log = [self._partition(number, CONSUMER_OFFSETS_TOPIC, number) for number in range(LOG_PARTITIONS)]
        partitions[CONSUMER_OFFSETS_TOPIC] = tuple(log)
        topics[CONSUMER_OFFSETS_TOPIC] = TopicFacts(
            name=CONSUMER_OFFSETS_TOPIC, topic_id="log-id", internal=True, partitions=LOG_PARTITIONS
        )
        brokers = tuple(range(1, BROKERS + 1))
        return TopicListing(brokers=brokers, topics=topics, partitions=partitions, cluster_id=CLUSTER_ID)

    def _partitions(self, topic: int, name: str) -> tuple[PartitionFacts, ...]:
        return tuple(self._partition(topic + number, name, number) for number in range(PARTITIONS_PER_TOPIC))

    @staticmethod
    def _partition(first: int, topic: str, number: int) -> PartitionFacts:
        replicas = tuple((first + offset) % BROKERS + 1 for offset in range(3))
        return PartitionFacts(
            partition=TopicPartition(topic, number),
            topic_id=f"{topic}-id",
            leader=replicas[first % 100 == 0],
            replicas=replicas,
            in_sync=replicas,
        )

    def describe(self, _session: object, names: Sequence[str]) -> dict[str, None]:
        return dict.fromkeys(names)  # no transactions

    def describe_topics(self, _session: object, listing: TopicListing, _names: object) -> TopicListing:
        return listing

    def list_groups(self, *_arguments: object, **_options: object) -> GroupListing:
        groups = {
            name: GroupFacts(group=name, listed=True, type=GroupType.CLASSIC, state=GroupState.EMPTY)
            for name in self.groups
        }
        return GroupListing(groups=groups, hidden_unread=None, cluster_id=CLUSTER_ID)

    def retention_facts(self, _session: object, names: Sequence[str]) -> dict[str, RetentionFacts]:
        return {name: RetentionFacts(frozenset({"delete"}), None) for name in names}

    def read_ends(self, _session: object, _topic: str, numbers: Sequence[int], *_ends: str) -> dict[int, Watermarks]:
        return {number: Watermarks(0, self.log_records, self.log_records) for number in numbers}

    def read_offsets(self, _session: object, requests: Sequence[OffsetsRequest]) -> list[dict[str, Any]]:
        offsets = {"log_start": 0, "last_stable_offset": RECORDS_PER_PARTITION, "high_watermark": RECORDS_PER_PARTITION}
        return [
            {
                "topic": part.topic,
                "partition": number,
                **offsets,
                "offsets_at": [OLD_RECORDS] * len(part.instants),
                "stamps_at": [NOW_MS] * len(part.instants),
                "error": None,
            }
            for part in requests
            for number in part.partitions
        ]

    @staticmethod
    def look_up(
        _session: object, asked: Lookups, _facts: object
    ) -> dict[TopicPartition, dict[RecordLookup, RecordStamp]]:
        old_ms = NOW_MS - 30 * DAY_MS
        return {
            at: {of: RecordStamp(of.start if of.end else 0, old_ms) for of in lookups} for at, lookups in asked.items()
        }

    @staticmethod
    def _committed(group: int) -> int:
        return RECORDS_PER_PARTITION - int(group % 4 == 0)

    def read_consumption(
        self, _session: object, groups: Sequence[str], **_options: object
    ) -> Iterator[dict[str, Consumption]]:
        consumption: dict[str, Consumption] = {}
        for group in groups:
            number = self.groups[group]
            topic, committed = self.topics[number % len(self.topics)], self._committed(number)
            commits = [(topic, partition, committed, None) for partition in range(self.commits_per_group)]
            consumption[group] = Consumption(commits, frozenset())
        yield consumption

    def read_consumer_offsets(
        self,
        _session: object,
        partitions: Sequence[int],
        *,
        origins: Mapping[str, Collection[str]],
        **_options: object,
    ) -> dict[str, list[dict[str, Any]]]:
        counts = {"records": self.log_records, "skipped": 0, "garbled": 0, "error": None}
        runs = [{"log_partition": number, **counts, "log_offset": self.log_records} for number in partitions]
        rows: list[dict[str, Any]] = []
        commits: list[dict[str, Any]] = []
        for group, number in self.groups.items():
            if (of_group := log_partition(group, LOG_PARTITIONS)) in partitions:
                days = 30 if number % 2 == 0 else 1
                activity = {"last_activity_ms": NOW_MS - days * DAY_MS, "log_partition": of_group, "log_offset": number}
                keys = {"seems": "consumer", "live": True, "commit_keys": self.commits_per_group}
                rows.append({"group": group, **activity, **keys})
                topic = self.topics[number % len(self.topics)]
                if group in origins.get(topic, ()):
                    commit: dict[str, Any] = {"group": group, "topic": topic, "topic_id": f"{topic}-id"}
                    commit["committed"] = self._committed(number)
                    commits += [{**commit, "partition": at} for at in range(self.commits_per_group)]
        return {"runs": runs, "activity": rows, "origins": commits}


class Steps:
    """CPU seconds and peak memory of consecutive steps: a mark ends one and starts the next.

    A peak resets the kernel's high-water mark, so it starts at what is resident.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.peak_mib: defaultdict[str, float] = defaultdict(float)
        self.prefix = ""
        self._name = START
        self._lock = Lock()
        self._start_s = 0.0

    def mark(self, name: str) -> None:
        self._switch(self.prefix + name)

    def timed(self, name: str, call: Callable[..., Any], after: str | None = None) -> Callable[..., Any]:
        """Return the function as a step of its own. `after`: the step that follows; None: the one before goes on."""

        def call_in_step(*arguments: Any, **options: Any) -> Any:
            following = self._name if after is None else self.prefix + after
            self.mark(name)
            try:
                return call(*arguments, **options)
            finally:
                self._switch(following)

        return call_in_step

    def without(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function without its CPU time, which the current step does not count. Any thread may call it."""

        def call_uncounted(*arguments: Any, **options: Any) -> Any:
            start_s = time.thread_time()
            try:
                return call(*arguments, **options)
            finally:
                with self._lock:
                    self.seconds[self._name] -= time.thread_time() - start_s

        return call_uncounted

    def _switch(self, name: str) -> None:
        with self._lock:
            self.seconds[self._name] += time.process_time() - self._start_s
        self.peak_mib[self._name] = max(self.peak_mib[self._name], memory_mib("self", "VmHWM"))
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
        self._name, self._start_s = name, time.process_time()


def measure(partitions: int, groups: int, commits: int) -> dict[str, Any]:
    """Plan and recheck for one size in this process, and return the figures of each step."""
    steps, cluster = Steps(), SimulatedCluster(partitions, groups, commits)
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="bench-simulated-") as folder, ExitStack() as stack:
        path = Path(folder) / "all.yaml"
        path.write_text(manifests(CLUSTER_ID, "127.0.0.1:9"), encoding="utf-8")
        for name in (
            "list_topics",
            "describe",
            "describe_topics",
            "list_groups",
            "retention_facts",
            "read_ends",
        ):
            stack.enter_context(patch.object(scan_module, name, steps.without(getattr(cluster, name))))
        stack.enter_context(patch.object(pipeline, "look_up", steps.without(cluster.look_up)))
        for name in ("read_offsets", "read_consumption", "read_consumer_offsets"):
            stack.enter_context(patch.object(task_rows, name, getattr(cluster, name)))
        stack.enter_context(patch.object(read_chunks, "read", partial(_read, steps, sizes)))
        combine = steps.timed("rows of the answers", answer_rows.combine, after="snapshot")
        stack.enter_context(patch.object(scan_module, "combine", combine))
        stack.enter_context(patch.object(limits, "verdicts", steps.timed("limits", limits.verdicts)))
        loaded = load([path], now_ms=NOW_MS).for_cluster()
        decisions = _plan_and_recheck(steps, loaded, Path(folder) / "plan.json")
    return {
        "seconds": {name: value for name, value in steps.seconds.items() if not name.endswith(GENERATED)},
        "peak_mib": {name: value for name, value in steps.peak_mib.items() if not name.endswith(GENERATED)},
        "sizes": sizes | decisions,
    }


def _plan_and_recheck(steps: Steps, manifests: ClusterManifests, path: Path) -> dict[str, int]:
    """Run the steps of `plan`, then the recheck of `apply`, then `scan --append`."""
    steps.mark("selection and chunks")
    snapshot = _scan(planner.scan_request(manifests.policies, NOW_MS))
    steps.mark("plan")

    plan = partial(planner.plan, manifests)
    planned, snapshot = pipeline.decide_with_lookups(_session(), snapshot, plan, lambda *_step: None)
    del snapshot
    steps.mark("plan file")
    plan_file.write(planned, path)
    steps.mark("text")
    for _line in write_lines(plan_report(planned), width=80):
        pass
    steps.prefix = "recheck: "
    steps.mark("selection and chunks")
    snapshot = _scan(recheck.scan_request(planned, manifests.policies, NOW_MS))
    steps.mark("decisions")

    check = partial(recheck.recheck, planned, manifests)
    checked, _snapshot = pipeline.decide_with_lookups(_session(), snapshot, check, lambda *_step: None)
    sizes = {"decisions": len(planned.decisions), "actions": len(planned.actions), "rechecked": len(checked.remaining)}
    del snapshot, _snapshot
    steps.prefix = "history: "
    steps.mark("selection and chunks")
    snapshot = _scan(EVERYTHING)
    steps.mark("tables written")
    files = export.append(snapshot, Folder(path.parent))
    steps.mark("")
    return sizes | {"history": sum((path.parent / name).stat().st_size for name in files)}


def _session() -> KafkaSession:
    return KafkaSession(Connection(("127.0.0.1:9",)), cluster_id=CLUSTER_ID)


def _scan(request: ScanRequest) -> ClusterSnapshot:
    return scan_module.scan(
        request, _session(), observed_at_ms=NOW_MS, last_purges={}, engine=Engine(), progress=lambda *_step: None
    )


def _read(
    steps: Steps,
    sizes: dict[str, int],
    _request: ScanRequest,
    _engine: Engine,
    session: KafkaSession,
    task: ScanTask,
    chunks: Sequence[Chunk],
    **_options: object,
) -> list[Answer]:
    """Answer each chunk with the task's own code, as `read_chunks.read` does."""
    steps.mark("chunks and what tasks share, pickled")
    pickled = [len(pickle.dumps(chunk)) for chunk in chunks]
    shared = len(pickle.dumps(task))
    steps.mark(GENERATED)
    answers = [pickle.dumps(read_chunk(session, task, chunk)) for chunk in chunks]
    if not steps.prefix:
        sizes |= {
            "chunks": len(chunks),
            "largest_chunk": max(pickled),
            "shared": shared,
            "answers": sum(map(len, answers)),
        }
    steps.mark("answers decoded")
    return list(map(pickle.loads, answers))


def combine(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the least CPU seconds and the highest memory of each step."""
    return {
        "seconds": {name: min(run["seconds"][name] for run in runs) for name in runs[0]["seconds"]},
        "peak_mib": {name: max(run["peak_mib"][name] for run in runs) for name in runs[0]["peak_mib"]},
        "sizes": runs[0]["sizes"],
    }


def render(figures: Sequence[tuple[tuple[int, int, int], Mapping[str, Any]]]) -> list[str]:
    """Render a table with the columns of each size, and a growth column from the first to the last."""
    (small_size, small), *_others, (large_size, large) = figures
    factor = large_size[0] / small_size[0]
    words = [f"{size[0]:,} partitions, {size[1]:,} groups, {size[2]:,} commits" for size, _ in figures]
    head = ("step", *(f"{name}: CPU, peak memory" for name in words), f"growth (linear: {factor:.0f} ×)")
    rows = []
    for name in large["seconds"]:
        cells = [f"{of['seconds'][name]:.2f} s, {of['peak_mib'][name]:,.0f} MiB" for _, of in figures]
        growth = large["seconds"][name] / max(small["seconds"][name], 0.001)
        rows.append((name, *cells, f"{growth:.1f} ×"))
    seconds = [sum(value for name, value in of["seconds"].items() if name != START) for _, of in figures]
    totals = [
        f"{total:.2f} s, {max(of['peak_mib'].values()):,.0f} MiB (goal ≤ {MAX_MIB:,} MiB)"
        for total, (_, of) in zip(seconds, figures, strict=True)
    ]
    rows.append(("all without the imports", *totals, f"{seconds[-1] / seconds[0]:.1f} ×"))
    sizes = large["sizes"]
    return [
        *results.table(head, rows),
        "",
        (
            f"{words[-1]}: {sizes['chunks']:,} chunks, the largest {sizes['largest_chunk'] / 1024:,.0f} KiB, "
            f"{sizes['shared'] / 1024:,.0f} KiB that each task gets, {sizes['answers'] / 2**20:,.1f} MiB of answers; "
            f"{sizes['decisions']:,} decisions, {sizes['actions']:,} actions, {sizes['rechecked']:,} after the recheck; "
            f"{sizes['history'] / 1e6:,.1f} MB of one scan in a history."
        ),
    ]


def main() -> None:
    parser = results.parser("Measure the driver with the facts of a simulated cluster.")
    parser.add_argument(
        "size", nargs="*", type=int, metavar="PARTITIONS GROUPS COMMITS", help="one size in this process"
    )
    options = parser.parse_args()
    if options.size:
        print(json.dumps(measure(*options.size)))
        return
    sizes = (QUICK if options.quick else FULL).simulated
    runs: dict[tuple[int, int, int], list[Mapping[str, Any]]] = {size: [] for size in sizes.clusters}
    for _ in range(sizes.runs):
        for size, of_size in runs.items():
            of_size.append(run_module("bench.simulated", *map(str, size)))
            print(size, of_size[-1], file=sys.stderr, flush=True)
    figures = [(size, combine(of_size)) for size, of_size in runs.items()]
    lines = [
        (
            "Listings and the facts that tasks read are generated; no brokers and no Spark run. Each run is a new process, "
            "and the sizes take turns. CPU seconds of the program's own steps, without the generator, are those of the fastest of "
            f"{count(sizes.runs, 'run')}, because other work on the machine can only add time; memory is the highest peak "
            "of the process during the step."
        ),
        "",
        *render(figures),
    ]
    results.publish(options, "simulated", "A simulated cluster", lines)


if __name__ == "__main__":
    main()
