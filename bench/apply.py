"""Measures what an apply costs, against Kafka's own tools and the client library alone.

    python -m bench.apply [--quick] [--topics 1000] [--groups 5000] [--elections 5000] [--repetitions 3] [--only records …] [--dry]

All contenders run on one cluster, in rotating order, on the same state:

- Kafka's tool: a process, with the start of its JVM
- bare calls: a new client that pipelines all requests, without any check
- recheck: only the reads that the executor makes before it sends
- executor: the check before each request, intents on disk, the read-back, and outcomes on disk

Afterwards the whole command runs. Each turn counts its effect outside the measured time. The
snapshot before the command's first write is part of bench.scan.
"""

import argparse
import json
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from bench import apply_command, apply_memory, results
from bench.apply_cluster import (
    COMMITS_PER_GROUP,
    REMAINING_PREFIX,
    REMOVED_PREFIX,
    ApplyCluster,
    apply_cluster,
    leaders,
    log_starts,
)
from bench.clusters import batches
from bench.processes import measure_seconds, take_turns
from bench.sizes import FULL, QUICK, Apply
from reconciler.apply.context import ApplyContext
from reconciler.apply.executor import apply
from reconciler.companions.sandbox.jars import DEFAULT_VERSION
from reconciler.companions.sandbox.tools import run_tool
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.session import KafkaSession
from reconciler.model import names
from reconciler.model.outcome import Status
from reconciler.model.snapshot import GroupState
from reconciler.operations.base import Operation
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from tests.strategies.examples import election, purge, removal

TIMEOUT_S = 120.0
PARTITIONS_PER_REQUEST = 1_000
TOOL, BARE, RECHECK, EXECUTOR, COMMAND = "Kafka's tool", "bare calls", "recheck", "executor", "the command"
CONTENDERS = (TOOL, BARE, RECHECK, EXECUTOR)


class Workload(ABC):
    """One operation on many subjects, done by each contender in turn."""

    def __init__(self, cluster: ApplyCluster, sizes: Apply, folder: Path) -> None:
        self.cluster, self.sizes, self.folder = cluster, sizes, folder

    @abstractmethod
    def title(self) -> str:
        """Name of the table row."""

    @abstractmethod
    def prepare(self, contender: str) -> None:
        """Restore the state for a turn."""

    @abstractmethod
    def tool_arguments(self) -> tuple[str, ...]:
        """Name and arguments of Kafka's tool."""

    @abstractmethod
    def run_bare(self, client: AdminClient) -> None:
        """Send all requests with the client library."""

    @abstractmethod
    def recheck(self, gateway: KafkaGateway) -> None:
        """Make the executor's reads before the requests."""

    @abstractmethod
    def actions(self, gateway: KafkaGateway) -> Sequence[Operation]:
        """Build the planned actions from the present facts."""

    @abstractmethod
    def policy(self) -> str:
        """The manifest for the whole command."""

    @abstractmethod
    def action_count(self) -> int:
        """Number of actions of a turn."""

    @abstractmethod
    def check_effect(self, contender: str) -> None:
        """Assert that the turn had its full effect."""

    def turn(self, contender: str) -> float:
        """Run one turn of a contender and return its seconds."""
        self.prepare(contender)
        if contender == RECHECK:
            return measure_seconds(self._recheck_with_new_gateway)
        if contender == TOOL:
            name, *arguments = self.tool_arguments()
            seconds = measure_seconds(lambda: run_kafka_tool(self.cluster, name, *arguments))
        elif contender == BARE:
            properties = {"bootstrap.servers": self.cluster.servers, "socket.timeout.ms": int(TIMEOUT_S * 1000)}
            seconds = measure_seconds(lambda: self.run_bare(AdminClient(properties)))
        elif contender == COMMAND:
            seconds = apply_command.measure(self.cluster, self.policy(), self.action_count())
        else:
            with closing(KafkaSession(connection(self.cluster))) as session:
                gateway = KafkaGateway(session)
                actions = self.actions(gateway)
            seconds = measure_seconds(lambda: execute(self.cluster, actions, self.folder))
        self.check_effect(contender)
        return seconds

    def _recheck_with_new_gateway(self) -> None:
        with closing(KafkaSession(connection(self.cluster))) as session:
            gateway = KafkaGateway(session)
            self.recheck(gateway)

    def measure(self) -> dict[str, list[float]]:
        """Measure the seconds of each contender, then of the whole command.

        Each repetition starts with another contender.
        """
        self.cluster.progress(self.title())
        contenders = {contender: partial(self.turn, contender) for contender in CONTENDERS}
        seconds = take_turns(contenders, self.sizes.repetitions, self.cluster.progress)
        return seconds | {COMMAND: [self.turn(COMMAND) for _ in range(self.sizes.commands)]}

    def row(self) -> list[str]:
        """Measure, and render the table row."""
        seconds = self.measure()
        medians = {contender: median(seconds[contender]) for contender in CONTENDERS}
        row = [
            self.title(),
            *(
                results.summarize(seconds[contender], " s", digits=2)
                for contender in (EXECUTOR, TOOL, BARE, RECHECK, COMMAND)
            ),
            f"{medians[EXECUTOR] / medians[TOOL]:.2f} ×",
            f"{medians[EXECUTOR] / (medians[BARE] + medians[RECHECK]):.2f} ×",
        ]
        self.cluster.progress(" | ".join(row))
        return row


class RecordDeletions(Workload):
    """Delete one more record of every partition."""

    def __init__(self, cluster: ApplyCluster, sizes: Apply, folder: Path) -> None:
        super().__init__(cluster, sizes, folder)
        leader_of = leaders(cluster.servers)
        self.by_leader = [
            [key for key in cluster.partitions if leader_of[key] == broker]
            for broker in sorted(set(leader_of.values()))
        ]

    def title(self) -> str:
        return f"{self.action_count():,} record deletions on {self.sizes.topics:,} topics"

    def prepare(self, contender: str) -> None:
        if contender != RECHECK:
            self.cluster.deleted += 1

    def tool_arguments(self) -> tuple[str, ...]:
        rows = [
            {"topic": topic, "partition": number, "offset": self.cluster.deleted}
            for topic, number in self.cluster.partitions
        ]
        path = self.folder / "records.json"
        path.write_text(json.dumps({"version": 1, "partitions": rows}))
        return "kafka-delete-records", "--offset-json-file", str(path)

    def run_bare(self, client: AdminClient) -> None:
        futures: list[Any] = []
        for partitions in self.by_leader:
            for batch in batches(
                [TopicPartition(*key, self.cluster.deleted) for key in partitions], PARTITIONS_PER_REQUEST
            ):
                futures += client.delete_records(batch, request_timeout=TIMEOUT_S, operation_timeout=60).values()
        for future in futures:
            future.result()

    def recheck(self, gateway: KafkaGateway) -> None:
        for partitions in self.by_leader:
            for batch in batches([names.TopicPartition(*key) for key in partitions], DeleteRecords.BATCH_SIZE):
                gateway.read_partitions(batch, offsets=True)

    def actions(self, gateway: KafkaGateway) -> Sequence[Operation]:
        partitions = [names.TopicPartition(*key) for key in self.cluster.partitions]
        facts_by_partition: Any = gateway.read_partitions(partitions, offsets=True)
        return [
            purge(
                partition.topic,
                partition.partition,
                policy="bench",
                before_offset=self.cluster.deleted,
                topic_id=facts.topic_id,
                log_start=facts.log_start,
                end=facts.high_watermark,
                leader=facts.leader,
                replicas=facts.replicas,
                in_sync=facts.in_sync,
            )
            for partition, facts in facts_by_partition.items()
        ]

    def policy(self) -> str:
        return apply_command.records(self.cluster, self.cluster.deleted)

    def action_count(self) -> int:
        return len(self.cluster.partitions)

    def check_effect(self, contender: str) -> None:
        partitions = self.cluster.partitions
        starts = log_starts(self.cluster.servers, partitions)
        assert all(starts[key] == self.cluster.deleted for key in partitions), contender


class GroupRemovals(Workload):
    """Remove groups of ten commits each, while as many others remain.

    Each turn creates the groups again.
    """

    def __init__(self, cluster: ApplyCluster, sizes: Apply, folder: Path) -> None:
        super().__init__(cluster, sizes, folder)
        self.removed = [f"{REMOVED_PREFIX}{number:05}" for number in range(sizes.groups)]
        cluster.create_groups([f"{REMAINING_PREFIX}{number:05}" for number in range(sizes.groups)])

    def title(self) -> str:
        return f"{self.action_count():,} group removals, {COMMITS_PER_GROUP} commits each"

    def prepare(self, contender: str) -> None:  # noqa: ARG002  every contender needs the groups
        self.cluster.create_groups(self.removed)

    def tool_arguments(self) -> tuple[str, ...]:
        groups = [word for group in self.removed for word in ("--group", group)]
        return "kafka-consumer-groups", "--delete", *groups, "--timeout", "600000"

    def run_bare(self, client: AdminClient) -> None:
        for future in client.delete_consumer_groups(self.removed, request_timeout=TIMEOUT_S).values():
            future.result()

    def recheck(self, gateway: KafkaGateway) -> None:
        for batch in batches(self.removed, DeleteGroup.BATCH_SIZE):
            gateway.read_groups(batch)

    def actions(self, gateway: KafkaGateway) -> Sequence[Operation]:
        facts: dict[str, Any] = {}
        for batch in batches(self.removed, DeleteGroup.BATCH_SIZE):
            facts |= gateway.read_groups(batch)
        assert all(group.state is GroupState.EMPTY for group in facts.values())
        commits = {"commits": COMMITS_PER_GROUP, "commit_topics": 1}
        evidence = {"idle_for_ms": 0, "last_activity_ms": None, "newest_record": None}
        return [
            removal(name, policy="bench", fingerprint=group.fingerprint, **commits, **evidence)
            for name, group in facts.items()
        ]

    def policy(self) -> str:
        return apply_command.groups(self.sizes.groups)

    def action_count(self) -> int:
        return self.sizes.groups

    def check_effect(self, contender: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.servers})  # a reference: futures need their client
        listing = admin.list_consumer_groups(request_timeout=60).result()
        assert not listing.errors, listing.errors
        remaining = {group.group_id for group in listing.valid}
        assert not remaining & set(self.removed), contender
        assert sum(group.startswith(REMAINING_PREFIX) for group in remaining) == self.sizes.groups, contender


class Elections(Workload):
    """Elect the preferred leader of partitions that have another one.

    A turn rotates the replicas again.
    """

    def __init__(self, cluster: ApplyCluster, sizes: Apply, folder: Path) -> None:
        super().__init__(cluster, sizes, folder)
        self.partitions = cluster.partitions[: sizes.elections]

    def title(self) -> str:
        return f"{self.action_count():,} elections"

    def prepare(self, contender: str) -> None:  # noqa: ARG002  a recheck moves no leader
        if self.cluster.count_non_preferred(self.partitions) < len(self.partitions):
            self.cluster.rotate_replicas(self.partitions)

    def tool_arguments(self) -> tuple[str, ...]:
        rows = [{"topic": topic, "partition": number} for topic, number in self.partitions]
        path = self.folder / "elections.json"
        path.write_text(json.dumps({"partitions": rows}))
        return "kafka-leader-election", "--election-type", "preferred", "--path-to-json-file", str(path)

    def run_bare(self, client: AdminClient) -> None:
        partitions = [TopicPartition(*key) for key in self.partitions]
        errors = client.elect_leaders(ElectionType.PREFERRED, partitions).result()
        assert all(error is None for error in errors.values())

    def recheck(self, gateway: KafkaGateway) -> None:
        partitions = [names.TopicPartition(*key) for key in self.partitions]
        for batch in batches(partitions, ElectLeader.BATCH_SIZE):
            gateway.read_partitions(batch, offsets=False)

    def actions(self, gateway: KafkaGateway) -> Sequence[Operation]:
        partitions = [names.TopicPartition(*key) for key in self.partitions]
        facts_by_partition: Any = gateway.read_partitions(partitions, offsets=False)
        return [
            election(
                partition.topic,
                partition.partition,
                policy="bench",
                leader_wanted=facts.replicas[0],
                topic_id=facts.topic_id,
                leader=facts.leader,
                replicas=facts.replicas,
                in_sync=facts.in_sync,
            )
            for partition, facts in facts_by_partition.items()
        ]

    def policy(self) -> str:
        return apply_command.elections(self.partitions)

    def action_count(self) -> int:
        return len(self.partitions)

    def check_effect(self, contender: str) -> None:
        leader_of = leaders(self.cluster.servers)
        assert all(leader_of[key] == self.cluster.replicas[key][0] for key in self.partitions), contender


def connection(cluster: ApplyCluster) -> Connection:
    return Connection(tuple(cluster.servers.split(",")), timeout_s=TIMEOUT_S)


def run_kafka_tool(cluster: ApplyCluster, name: str, *arguments: str) -> None:
    result = run_tool(cluster.cluster, name, *arguments, timeout_s=900, as_script=True)
    assert result.returncode == 0, (result.stdout[-500:], result.stderr[-500:])


def execute(cluster: ApplyCluster, actions: Sequence[Operation], folder: Path) -> None:
    """Apply the actions with the executor; each of them must succeed."""
    journal = ActionJournal(JournalFile(folder / f"{time.monotonic_ns()}.jsonl"))
    with closing(KafkaSession(connection(cluster))) as session:
        gateway = KafkaGateway(session)
        outcomes = apply(
            actions,
            ApplyContext(
                gateway=gateway,
                journal=journal,
                run_id="bench",
                plan_digest="bench",
                clock=lambda: time.time_ns() // 1_000_000,
                sleep=time.sleep,
            ),
        )
        statuses = [outcome.status for outcome in outcomes]
    assert statuses == [Status.APPLIED] * len(actions), {status: statuses.count(status) for status in set(statuses)}


def main() -> None:
    options = parse_arguments()
    sizes, progress = select_sizes(options), results.timed_progress()
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="bench-apply-") as scratch:
        if set(options.only) - {"memory"}:
            with apply_cluster(
                sizes.topics,
                sizes.partitions,
                records_per_partition(sizes),
                heap_mib=options.heap,
                progress=progress,
            ) as cluster:
                rows = list(broker_rows(cluster, sizes, Path(scratch), options.only))
        memory_rows = apply_memory.rows(sizes.memory, progress) if "memory" in options.only else []
    head = (
        "work",
        "apply",
        "Kafka's tool",
        "bare calls",
        "recheck",
        "`reconciler apply`",
        "apply ÷ tool",
        "apply ÷ (bare + recheck)",
    )
    lines = [results.machine(DEFAULT_VERSION), ""]
    if rows:
        lines += [*results.table(head, rows), ""]
    if memory_rows:
        lines += [*results.table(apply_memory.HEAD, memory_rows), ""]
    lines.append(
        "Three brokers, two replicas of each partition, three of __consumer_offsets. Group removals run before the topics exist. "
        "Tool: a process, with the start of its JVM. Bare calls: a new client that pipelines all requests, without checks. "
        "Recheck: only the reads before a request. Apply: the executor, with a check before each request, intents and "
        "outcomes flushed to disk, and every effect read back. `reconciler apply`: the command as a process, with a cold "
        "Spark session and the snapshot before the first write. "
        "Goals: ÷ tool at most 1 (group removals: 3), ÷ (bare + recheck) at most 1.5. "
        f"Repeat: `python -m bench.apply{' --quick' if options.quick else ''}`."
    )
    results.publish(options, "apply", "Apply", lines)


def records_per_partition(sizes: Apply) -> int:
    """One record for each turn of a contender that deletes, and two that remain."""
    return (len(CONTENDERS) - 1) * sizes.repetitions + sizes.commands + 2


def broker_rows(cluster: ApplyCluster, sizes: Apply, folder: Path, only: Collection[str]) -> Iterator[list[str]]:
    """Measure the workloads that need brokers."""
    # Groups come first: the followers of thousands of partitions slow down each commit, and most of
    # the time would go into the creation of the groups.
    if "groups" in only:
        yield GroupRemovals(cluster, sizes, folder).row()
    if {"elections", "records"} & set(only):
        cluster.create_topics()
    if "elections" in only:
        yield Elections(cluster, sizes, folder).row()
    if "records" in only:
        yield RecordDeletions(cluster, sizes, folder).row()


def select_sizes(options: argparse.Namespace) -> Apply:
    """Sizes of a preset, with the values of the command line."""
    sizes = (QUICK if options.quick else FULL).apply
    values = {field.name: getattr(options, field.name, None) for field in fields(Apply)}
    return replace(sizes, **{name: value for name, value in values.items() if value is not None})


def parse_arguments() -> argparse.Namespace:
    parser = results.parser("Measure what an apply costs, against Kafka's own tools and the client library alone.")
    for name in ("topics", "partitions", "groups", "elections", "repetitions"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--memory", type=int, nargs="+")
    parser.add_argument("--heap", type=int, default=1024, help="heap of each broker in MiB")
    parser.add_argument("--only", nargs="+", default=["elections", "groups", "records", "memory"])
    return parser.parse_args()


if __name__ == "__main__":
    main()
