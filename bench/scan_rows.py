"""The rows of bench.scan: what is run beside what, and what is told of it. Which rows, in which order, is decided in bench.scan."""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from bench import results
from bench.processes import Ran, ours, run
from bench.sizes import Scan
from bench.world import COMMITS_PER_GROUP, LOG, World, log_records
from reconciler.sandbox.tools import tool_command
from tests.spark.servers import connect_server

ENGINE = "local[2]"
ARCHIVES = platformdirs.user_cache_path("kafka-reconciler", appauthor=False) / "spark"
MANIFESTS = """apiVersion: reconciler/v1
kind: Cluster
metadata: {name: bench}
spec:
  clusterId: %(cluster_id)s
  bootstrapServers: [%(servers)s]
  limits: {topics: 100_000, recordsPercent: 100, recordsPercentPerTopic: 100, groups: 1_000_000, elections: 1_000_000}
---
apiVersion: reconciler/v1
kind: RetentionFloor
metadata: {name: week}
spec:
  topics: ["bench-*"]
  expectAtMost: 100_000
  keep: {newerThan: 7d}
---
apiVersion: reconciler/v1
kind: GroupRemoval
metadata: {name: idle}
spec:
  groups: ["bench-group-*"]
  expectAtMost: 1_000_000
  idleFor: 7d
---
apiVersion: reconciler/v1
kind: LeaderPolicy
metadata: {name: preferred}
spec:
  topics: ["bench-*"]
"""


def measured_apart(*words: str) -> Any:
    """A measurement of bench.scanning in a process of its own."""
    return ours("bench.scanning", *words)


@dataclass(slots=True)
class Bench:
    """One run: the cluster, a folder with manifests; rows by phase and every run's figure, those of earlier runs included.

    `measured`: how a measurement of bench.scanning is run where its session is warm.
    """

    world: World
    folder: Path
    sizes: Scan
    say: Callable[[str], None]
    rows: dict[str, list[list[str]]] = field(default_factory=dict)
    figures: dict[str, list[float]] = field(default_factory=dict)
    phase: str = ""
    measured: Callable[..., Any] = measured_apart

    def row(self, work: str, measured: str, opponent: str = "", ratio: str = "", goal: str = "") -> None:
        self.rows[self.phase].append([work, measured, opponent, ratio, goal])
        self.say(f"ROW {work}: {measured}; {opponent} {ratio} (goal {goal})")

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    def write_manifests(self) -> None:
        self.manifests.mkdir(exist_ok=True)
        servers = ", ".join(f'"{server}"' for server in self.world.servers.split(","))
        text = MANIFESTS % {"cluster_id": self.world.cluster.cluster_id, "servers": servers}
        (self.manifests / "bench.yaml").write_text(text, encoding="utf-8")


def whole_plan(bench: Bench, goal: str) -> None:
    """`plan` as a process, against Kafka's own two tools run one after the other. In turns, so that both meet the same noise."""
    sizes, plans, tools = bench.sizes, [], []
    for turn in range(max(sizes.repeat, sizes.tools)):
        if turn < sizes.repeat:
            plans.append(plan(bench).seconds)
            bench.say(f"plan {plans[-1]:.1f} s")
        if turn < sizes.tools:
            tools.append(sum(tool(bench, *words) for words in TOOLS))
            bench.say(f"Kafka's tools {tools[-1]:.1f} s")
    world = bench.world
    bench.row(
        f"whole `plan`, cold, {world.partitions:,} partitions, {world.groups:,} groups × {COMMITS_PER_GROUP} commits, "
        f"{log_records(world.servers):,} records of the commit log",
        results.told(plans, " s"),
        f"`kafka-get-offsets` + `kafka-consumer-groups --describe --all-groups`: {results.told(tools, ' s')}",
        ratio(plans, tools),
        goal,
    )
    bench.figures[f"plan_s {world.groups} groups"], bench.figures[f"tools_s {world.groups} groups"] = plans, tools
    watched = plan(bench, memory=True).peaks
    bench.figures[f"driver_mib {world.partitions} partitions"] = [watched.driver]
    bench.figures[f"jvm_mib {world.partitions} partitions"] = [watched.jvm]


TOOLS = (("kafka-get-offsets",), ("kafka-consumer-groups", "--describe", "--all-groups"))


def tool(bench: Bench, name: str, *words: str) -> float:
    command = ["-Xmx2g" if word == "-Xmx256m" else word for word in tool_command(bench.world.cluster, name, *words)]
    ran = run(command)
    check(ran, name)
    return ran.seconds


def plan(bench: Bench, *words: str, memory: bool = False) -> Ran:
    """Watching its memory slows it, so that either the one or the other is measured."""
    saved = bench.folder / "plan.json"
    command = [sys.executable, "-m", "reconciler", "plan", str(bench.manifests), "--out", str(saved)]
    ran = run([*command, *(words or ("--spark-master", ENGINE))], memory=memory, cwd=bench.folder)
    check(ran, "plan")
    return ran


def check(ran: Ran, what: str) -> None:
    if ran.exit_code:
        raise RuntimeError(f"{what}: exit code {ran.exit_code}\n{ran.stdout[-1_000:]}\n{ran.stderr[-2_000:]}")


def warm_scan(bench: Bench) -> None:
    """The same needs in a session that is warm, against the same calls in plain Python."""
    words = (bench.world.servers, str(bench.sizes.repeat))
    found = bench.measured("scans", ENGINE, *words, str(bench.manifests))[str(bench.manifests)]
    other = bench.measured("plain", *words)
    parts = ", ".join(f"{name} {statistics.median(other[f'{name}_s']):.2f}" for name in ("offsets", "commits", "log"))
    bench.row(
        f"scan alone, warm session, {bench.world.partitions:,} partitions, {bench.world.groups:,} groups",
        results.told(found, " s", digits=2),
        f"the same librdkafka calls in plain Python: {results.told(other['plain_s'], ' s', digits=2)} (of these {parts})",
        ratio(found, other["plain_s"]),
        "≤ 1.5 ×",
    )


def plan_over_connect(bench: Bench) -> None:
    """The same plan where a server keeps the session: what is left without a JVM of its own. The server has served a plan before."""
    log = bench.folder / "plans"
    log.mkdir(exist_ok=True)
    with connect_server(log) as remote:
        _first, *warm = (plan(bench, "--spark-remote", remote).seconds for _ in range(bench.sizes.repeat + 1))
    bench.figures[f"plan_s {bench.world.groups} groups connect"] = warm
    bench.row(
        f"whole `plan` over a warm Connect server, {bench.world.partitions:,} partitions, {bench.world.groups:,} groups",
        results.told(warm, " s"),
    )


def session_start(bench: Bench) -> None:
    """Each start in a process of its own; the server of the second row has served one session before."""
    cold = [measured_apart("session", ENGINE) for _ in range(bench.sizes.repeat)]
    bare = [measured_apart("session", ENGINE, "bare") for _ in range(bench.sizes.repeat)]
    first = statistics.median(each["first_row_s"] for each in cold)
    bench.figures["session_s cold"] = [each["session_s"] for each in cold]
    bench.row(
        f"start of a session, cold, `{ENGINE}`",
        results.told([each["session_s"] for each in cold], " s"),
        f"first row from a Python worker after {first:.1f} s",
        goal="≤ 6 s",
    )
    first = statistics.median(each["first_row_s"] for each in bare)
    bench.row(
        "the same without the archive of classes, as on a machine's first run",
        results.told([each["session_s"] for each in bare], " s"),
        f"first row from a Python worker after {first:.1f} s",
        goal="≤ 6 s",
    )
    log = bench.folder / "connect"
    log.mkdir(exist_ok=True)
    with connect_server(log) as remote:
        _first, *warm = (measured_apart("session", remote) for _ in range(bench.sizes.repeat + 1))
    first = statistics.median(each["first_row_s"] for each in warm)
    bench.row(
        "start of a session, warm Connect server",
        results.told([each["session_s"] for each in warm], " s", digits=2),
        f"first row from a Python worker after {first:.1f} s",
        goal="≤ 1 s",
    )


def partitions_alone(bench: Bench) -> tuple[list[float], list[float]]:
    """Warm scans of an empty need and of all partitions' offsets."""
    words = (ENGINE, bench.world.servers, str(bench.sizes.repeat), "empty", "partitions")
    found = bench.measured("scans", *words)
    bench.say(f"{bench.world.partitions:,} partitions {results.told(found['partitions'], ' s', digits=2)}")
    bench.figures |= {f"{name}_s {bench.world.partitions} partitions": each for name, each in found.items()}
    return found["empty"], found["partitions"]


def growth(bench: Bench, small: tuple[list[float], list[float]], few: int) -> None:
    large = partitions_alone(bench)
    net = [statistics.median(scans) - statistics.median(empty) for empty, scans in (small, large)]
    times = bench.world.partitions / few
    bench.row(
        f"growth from {few:,} to {bench.world.partitions:,} partitions (× {times:.1f}), warm, an empty scan subtracted",
        f"{net[0]:.2f} s → {net[1]:.2f} s",
        f"empty scan: {results.told(large[0], ' s', digits=2)}; whole: {results.told(large[1], ' s', digits=2)}",
        f"{net[1] / net[0]:.1f} ×",
        f"≤ {times:.0f} ×",
    )


def memory(bench: Bench) -> None:
    """Peaks of a whole `plan`; the planner and the plan itself are in the driver's."""
    runs = [plan(bench, memory=True) for _ in range(bench.sizes.tools)]
    both = [ran.peaks.driver + ran.peaks.jvm for ran in runs]
    middle = sorted(runs, key=lambda ran: ran.peaks.driver + ran.peaks.jvm)[len(runs) // 2].peaks
    bench.row(
        f"driver and JVM, peak, whole `plan` at {bench.world.partitions:,} partitions and "
        f"{bench.world.groups * COMMITS_PER_GROUP:,} commits",
        results.told(both, " MiB", digits=0),
        f"driver {middle.driver:.0f}, JVM {middle.jvm:.0f}; Python workers beside them {middle.workers:.0f} MiB; "
        f"the plan takes {results.told([plan(bench).seconds], ' s')}",
        goal="≤ 1,024 MiB",
    )
    bench.figures[f"driver_mib {bench.world.partitions} partitions"] = [ran.peaks.driver for ran in runs]
    bench.figures[f"jvm_mib {bench.world.partitions} partitions"] = [ran.peaks.jvm for ran in runs]


def units(bench: Bench) -> None:
    """What the tasks themselves cost: one chunk of each source in one process without Spark, CPU seconds of that process."""
    found = bench.measured("chunks", bench.world.servers, str(bench.sizes.repeat), str(bench.manifests))
    bench.figures |= {f"{name}_us": each for name, each in found.items()}
    names = {
        "partition": "of a partition",
        "commit": "of a commit",
        "record": "of a record of the log, every key another",
    }
    told = "; ".join(f"{what} {results.told(found[name], ' µs')}" for name, what in names.items())
    bench.row("reading alone, one task's chunk in one process", f"CPU {told}")


def commit_log(bench: Bench) -> None:
    """Five million records: from asking to facts in the driver, on two cores; ours without Spark; and Kafka's own reader."""
    bench.world.grow_log(bench.sizes.records)
    records = log_records(bench.world.servers)
    repeat = str(bench.sizes.repeat)
    found = bench.measured("scans", ENGINE, bench.world.servers, repeat, "log")["log"]
    alone = bench.measured("log", bench.world.servers, repeat)
    bench.figures["record_us"] = [
        seconds * 1e6 / count for count, seconds in zip(alone["records"], alone["cpu_s"], strict=True)
    ]
    rates = [records / seconds / 1_000 for seconds in found]
    bench.figures["log_records_per_s"] = [rate * 1_000 for rate in rates]
    bench.figures["log_records_per_s one process"] = [
        count / seconds for count, seconds in zip(alone["records"], alone["log_s"], strict=True)
    ]
    single = [count / seconds / 1_000 for count, seconds in zip(alone["records"], alone["log_s"], strict=True)]
    words = (
        *("--topic", LOG, "--from-beginning", "--max-messages", str(alone["records"][-1]), "--timeout-ms", "20000"),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
    )
    console = [records / tool(bench, "kafka-console-consumer", *words) / 1_000 for _ in range(bench.sizes.tools)]
    bench.row(
        f"commit log, {records:,} records, warm session, listings and reduction included",
        f"{results.told(rates, ' thousand records/s', digits=0)} on two cores",
        f"`kafka-console-consumer` with Kafka's own formatter: {results.told(console, ' thousand/s', digits=0)}; "
        f"our reader without Spark, one process: {results.told(single, ' thousand/s', digits=0)}",
        ratio(found, [records / rate / 1_000 for rate in console]),
        "≥ 300 thousand/s",
    )


def ratio(ours_s: list[float], theirs_s: list[float]) -> str:
    return f"{statistics.median(ours_s) / statistics.median(theirs_s):.2f} ×"
