"""Measures small plans and applies on the demo's cluster, as the program is now and as it was.

    python -m bench.demo [--quick] [--dry] [--only offline plan first apply tail stalls]

All contenders take turns on one cluster. `tail` repeats whole plans, because random stalls of a
client show only in the slowest of many runs. `stalls` opens many clients, each with its first call.
"""

import statistics
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench import programs, results
from bench.processes import measure_seconds, take_turns
from bench.programs import Program
from bench.sizes import FULL, QUICK, Demo
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.companions.sandbox.demo_data import create_demo_data
from reconciler.companions.sandbox.jars import DEFAULT_VERSION
from reconciler.model.progress import Progress
from tests.build import cluster_manifest, policy

HEAD = ("work", "measured", "baseline, same run", "ratio", "goal")
SPARK, INLINE, AUTO = (("--engine", name) for name in ("spark", "inline", "auto"))
STALL_S = 0.9
TIMEOUT_S = 300.0
ONE_ACTION = "one-action"
"""The topic whose records the measured `apply` deletes."""


def manifests(cluster_id: str, *policies: str) -> str:
    """Return the manifests of a measured command."""
    limits = "recordsPercent: 100, recordsPercentPerTopic: 100"
    cluster = cluster_manifest("${env:KAFKA_BOOTSTRAP_SERVERS}", limits=limits, cluster_id=cluster_id, name="bench")
    return "---\n".join((cluster, *policies))


def one_more(before: int) -> str:
    """Return the floor that deletes the records of one topic below this offset."""
    return policy("RetentionFloor", ONE_ACTION, f"topics: [{ONE_ACTION}], keep: {{fromOffset: {{0: {before}}}}}")


POLICIES = (
    policy(
        "RetentionFloor",
        "week",
        f'topics: ["*"], exceptTopics: [{ONE_ACTION}, customers], expectAtMost: 100, keep: {{newerThan: 7d}}',
    ),
    policy("GroupRemoval", "idle", 'groups: ["old-*", billing, "nightly-*"], expectAtMost: 100, idleFor: 5s'),
    policy("LeaderPolicy", "preferred", 'topics: ["*"]'),
)


class DemoBench:
    """The demo's cluster with manifests in a folder of each contender."""

    def __init__(self, cluster: SandboxCluster, folder: Path, sizes: Demo, progress: Progress) -> None:
        self.cluster, self.folder, self.sizes, self.progress = cluster, folder, sizes, progress
        self.now = programs.current(folder)
        self.before = programs.at_commit(programs.BEFORE, folder)
        self.floor = 0
        self.rows: list[list[str]] = []

    @property
    def environment(self) -> dict[str, str]:
        return {"KAFKA_BOOTSTRAP_SERVERS": self.cluster.bootstrap_servers, "RECONCILER_ALLOW_ENV": "KAFKA_*"}

    def add_row(self, *cells: str) -> None:
        self.rows.append([*cells])
        self.progress(" | ".join(cells))

    def plan(self, program: Program, *arguments: str) -> float:
        """Run a `plan` of all policies and return its seconds."""
        folder = self._workspace(program, *POLICIES)
        return program.run("plan", *arguments, cwd=folder, environment=self.environment).seconds

    def offline(self, program: Program, command: str) -> float:
        """Run a command without a network and return its seconds."""
        folder = self._workspace(program, *POLICIES)
        return program.run(command, cwd=folder, environment=self.environment).seconds

    def apply(self, program: Program) -> float:
        """Plan the deletion of one more record, and return the seconds of its `apply`."""
        self.floor += 1
        folder = self._workspace(program, one_more(self.floor))
        program.run("plan", "--out", "plan.json", cwd=folder, environment=self.environment)
        seconds = program.run("apply", "plan.json", cwd=folder, environment=self.environment).seconds
        log_start, _end = client.watermarks(self.cluster.bootstrap_servers, ONE_ACTION, 0)
        if log_start != self.floor:
            raise RuntimeError(f"{program.name}: apply left the log start at {log_start}, planned is {self.floor}")
        return seconds

    def _workspace(self, program: Program, *policies: str) -> Path:
        """Write the manifests of one contender. Its journal is beside them."""
        folder = self.folder / f"work-{program.name}"
        (folder / "manifests").mkdir(parents=True, exist_ok=True)
        (folder / "manifests" / "all.yaml").write_text(manifests(self.cluster.cluster_id, *policies), encoding="utf-8")
        return folder

    def take_turns(self, contenders: Mapping[str, Callable[[], float]], runs: int) -> dict[str, list[float]]:
        return take_turns(contenders, runs, self.progress)

    def take_turns_before_and_now(self, measure: Callable[[Program], float]) -> dict[str, list[float]]:
        """Measure this version and the earlier one, by their names."""
        contenders = {program.name: partial(measure, program) for program in (self.before, self.now)}
        return self.take_turns(contenders, self.sizes.runs)

    def add_comparison(self, work: str, turns: Mapping[str, Sequence[float]], name: str, goal: str) -> None:
        """Add a row that compares a contender with the earlier version."""
        seconds, before = turns[name], turns[self.before.name]
        baseline = f"{self.before.label}: {results.summarize(before, ' s', digits=2)}"
        self.add_row(work, results.summarize(seconds, " s", digits=2), baseline, results.ratio(seconds, before), goal)


def measure_offline(bench: DemoBench) -> None:
    """Measure commands that read only manifests."""
    for command in ("validate", "clusters"):
        turns = bench.take_turns_before_and_now(partial(bench.offline, command=command))
        bench.add_comparison(f"`{command}` of four manifests", turns, "now", "≤ 0.50 ×")


def measure_plan(bench: DemoBench) -> None:
    """Measure a cold `plan` with each engine."""
    turns = bench.take_turns(
        {
            bench.before.name: lambda: bench.plan(bench.before),
            "Spark": lambda: bench.plan(bench.now, *SPARK),
            "inline": lambda: bench.plan(bench.now, *INLINE),
            "auto": lambda: bench.plan(bench.now, *AUTO),
        },
        bench.sizes.runs,
    )
    for name, goal in (("Spark", "≤ 0.55 ×"), ("auto", "≤ 0.20 ×"), ("inline", "")):
        bench.add_comparison(f"cold `plan`, demo cluster, {name}", turns, name, goal)


def measure_first(bench: DemoBench) -> None:
    """Measure the first `plan` on a machine: after `make setup`, which writes the archive, and without it."""

    def run_bare(program: Program) -> float:
        with tempfile.TemporaryDirectory(dir=bench.folder) as cache:
            return bench.plan(replace(program, cache=Path(cache)), *(SPARK if program is bench.now else ()))

    turns = bench.take_turns(
        {
            bench.before.name: lambda: run_bare(bench.before),
            "after setup": lambda: bench.plan(bench.now, *SPARK),
            "without archive": lambda: run_bare(bench.now),
        },
        bench.sizes.runs,
    )
    bench.add_comparison("the very first `plan`, demo cluster, after `make setup`", turns, "after setup", "≤ 0.60 ×")
    bench.add_comparison("the same without the archive of classes", turns, "without archive", "≤ 0.60 ×")


def measure_apply(bench: DemoBench) -> None:
    """Measure `apply` of one action, from its start to the prompt."""
    turns = bench.take_turns_before_and_now(bench.apply)
    bench.add_comparison("`apply` of one action, demo cluster, start to prompt", turns, "now", "≤ 0.25 ×")


def measure_tail(bench: DemoBench) -> None:
    """Measure many whole plans, for their slowest runs."""
    turns = bench.take_turns(
        {
            bench.before.name: lambda: bench.plan(bench.before),
            "Spark": lambda: bench.plan(bench.now, *SPARK),
            "inline": lambda: bench.plan(bench.now, *INLINE),
        },
        bench.sizes.tail,
    )
    before = turns.pop(bench.before.name)
    for name, seconds in turns.items():
        work = f"{bench.sizes.tail} whole plans, demo cluster, {name}: median, p95, maximum"
        bench.add_row(
            work,
            _tail(seconds),
            f"{bench.before.label}: {_tail(before)}",
            f"p95 {_p95(seconds) / _p95(before):.2f} ×",
            "",
        )


def _tail(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f}, {_p95(seconds):.2f}, {max(seconds):.2f} s"


def _p95(seconds: Sequence[float]) -> float:
    return sorted(seconds)[round(0.95 * (len(seconds) - 1))]


def measure_stalls(bench: DemoBench) -> None:
    """Add the rows of many clients."""
    for row in stall_rows(bench.cluster.bootstrap_servers, bench.sizes.clients):
        bench.add_row(*row)


def stall_rows(servers: str, count: int) -> Iterator[list[str]]:
    """Count slow first calls of new clients, and slow calls of one client that is used again."""
    partitions = [
        TopicPartition(name, partition)
        for name, topic in client.admin_client(servers).list_topics(timeout=30).topics.items()
        for partition in topic.partitions
    ]
    reused = AdminClient({"bootstrap.servers": servers})
    list_offsets(reused, partitions)

    def list_with_metadata_first() -> None:
        new = AdminClient({"bootstrap.servers": servers})
        new.list_topics(timeout=30)
        list_offsets(new, partitions)

    contenders: dict[str, Callable[[], float]] = {
        "new client, ListOffsets first": lambda: measure_seconds(
            lambda: list_offsets(AdminClient({"bootstrap.servers": servers}), partitions)
        ),
        "new client, metadata first": lambda: measure_seconds(list_with_metadata_first),
        "one client used again": lambda: measure_seconds(lambda: list_offsets(reused, partitions)),
    }
    for name, values in take_turns(contenders, count, lambda *_step: None).items():
        stalls = sum(value >= STALL_S for value in values)
        yield [
            f"{count} trials: {name}",
            f"{stalls} of {count} took {STALL_S} s or longer",
            f"median {statistics.median(values) * 1_000:.0f} ms, maximum {max(values) * 1_000:.0f} ms",
            "",
            "",
        ]


def list_offsets(admin: AdminClient, partitions: Sequence[TopicPartition]) -> object:
    answers = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest()), request_timeout=30)
    return [answer.result() for answer in answers.values()]


MEASUREMENTS: dict[str, Callable[[DemoBench], None]] = {
    "offline": measure_offline,
    "plan": measure_plan,
    "first": measure_first,
    "apply": measure_apply,
    "tail": measure_tail,
    "stalls": measure_stalls,
}


@contextmanager
def demo_cluster(progress: Progress) -> Iterator[SandboxCluster]:
    """Run the demo's brokers with its data, and the topic of the measured `apply`."""
    with (
        stopping(start(3, name="bench-demo", timeout_s=TIMEOUT_S, progress=progress)) as cluster,
        create_demo_data(cluster, progress) as data,
    ):
        client.create_topics(cluster.bootstrap_servers, [Topic(ONE_ACTION, 1)])
        client.produce(cluster.bootstrap_servers, ONE_ACTION, {0: [Record(b"x")] * 1_000})
        data.wait_until_idle()
        yield cluster


def measure(
    cluster: SandboxCluster, folder: Path, sizes: Demo, only: Collection[str], progress: Progress
) -> list[list[str]]:
    """Run these phases and return the rows of the table."""
    bench = DemoBench(cluster, folder, sizes, progress)
    if {"plan", "first", "apply", "tail"}.intersection(only):
        programs.prepare(bench.now, bench.before, bench.plan, progress)
    for name in MEASUREMENTS:
        if name in only:
            MEASUREMENTS[name](bench)
    return bench.rows


def main() -> None:
    parser = results.parser("Measure small plans and applies on the demo's cluster.")
    parser.add_argument("--only", nargs="+", choices=tuple(MEASUREMENTS), default=tuple(MEASUREMENTS))
    options = parser.parse_args()
    sizes, progress = (QUICK if options.quick else FULL).demo, results.timed_progress()
    with tempfile.TemporaryDirectory(prefix="reconciler-bench-demo-") as folder, demo_cluster(progress) as cluster:
        rows = measure(cluster, Path(folder), sizes, options.only, progress)
    lines = [
        results.machine(DEFAULT_VERSION),
        "",
        (
            "The demo's cluster: three brokers, 28 partitions, 6 groups, with producers, a member and a committer at work. "
            f"{programs.BEFORE} is this program before the scan became map-only, with the same interpreter and packages. "
            "All contenders take turns. Median (lowest–highest, runs)."
        ),
        "",
        *results.table(HEAD, rows),
    ]
    whole = len(options.only) == len(MEASUREMENTS)
    results.publish(options, "demo", "Small plans and applies", lines, whole=whole)


if __name__ == "__main__":
    main()
