"""The rows of bench.scan: each function measures one phase and adds its rows.

bench.scan orders the phases.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from bench import results
from bench.processes import ProcessResult, run, run_module
from bench.scan_cluster import COMMIT_LOG, COMMITS_PER_GROUP, ScanCluster, log_records
from bench.sizes import Scan
from reconciler.sandbox.tools import tool_command
from tests.spark.servers import connect_server

SPARK_MASTER = "local[2]"
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


def measure_in_process(*arguments: str) -> Any:
    """Run a measurement of bench.scan_process in a new process."""
    return run_module("bench.scan_process", *arguments)


@dataclass(slots=True)
class Bench:
    """One run of the bench.

    `rows` maps phases to their rows, `figures` names to the values of each run; both include
    earlier runs. `measure` runs a measurement of bench.scan_process in a warm session.
    """

    cluster: ScanCluster
    folder: Path
    sizes: Scan
    progress: Callable[[str], None]
    rows: dict[str, list[list[str]]] = field(default_factory=dict)
    figures: dict[str, list[float]] = field(default_factory=dict)
    phase: str = ""
    measure: Callable[..., Any] = measure_in_process

    def add_row(self, work: str, measured: str, baseline: str = "", ratio: str = "", goal: str = "") -> None:
        self.rows[self.phase].append([work, measured, baseline, ratio, goal])
        self.progress(f"{work}: {measured}; {baseline} {ratio} (goal {goal})")

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    def write_manifests(self) -> None:
        self.manifests.mkdir(exist_ok=True)
        servers = ", ".join(f'"{server}"' for server in self.cluster.servers.split(","))
        text = MANIFESTS % {"cluster_id": self.cluster.cluster.cluster_id, "servers": servers}
        (self.manifests / "bench.yaml").write_text(text, encoding="utf-8")


def full_plan(bench: Bench, goal: str) -> None:
    """Measure `plan` as a process against two of Kafka's tools.

    They alternate, so that the load of the machine is the same for both.
    """
    sizes, plans, tools = bench.sizes, [], []
    for turn in range(max(sizes.scan_runs, sizes.tool_runs)):
        if turn < sizes.scan_runs:
            plans.append(plan(bench).seconds)
            bench.progress(f"plan {plans[-1]:.1f} s")
        if turn < sizes.tool_runs:
            tools.append(sum(run_kafka_tool(bench, *arguments) for arguments in TOOLS))
            bench.progress(f"Kafka's tools {tools[-1]:.1f} s")
    cluster = bench.cluster
    bench.add_row(
        f"`plan` as a process, cold, {cluster.partitions:,} partitions, {cluster.groups:,} groups × {COMMITS_PER_GROUP} commits, "
        f"{log_records(cluster.servers):,} records of the commit log",
        results.summarize(plans, " s"),
        f"`kafka-get-offsets` + `kafka-consumer-groups --describe --all-groups`: {results.summarize(tools, ' s')}",
        ratio(plans, tools),
        goal,
    )
    bench.figures[f"plan_s {cluster.groups} groups"], bench.figures[f"tools_s {cluster.groups} groups"] = plans, tools
    peaks = plan(bench, memory=True).peaks
    bench.figures[f"driver_mib {cluster.partitions} partitions"] = [peaks.driver]
    bench.figures[f"jvm_mib {cluster.partitions} partitions"] = [peaks.jvm]


TOOLS = (("kafka-get-offsets",), ("kafka-consumer-groups", "--describe", "--all-groups"))


def run_kafka_tool(bench: Bench, name: str, *arguments: str) -> float:
    """Run a tool with a larger heap and return its seconds."""
    command = [
        "-Xmx2g" if argument == "-Xmx256m" else argument
        for argument in tool_command(bench.cluster.cluster, name, *arguments)
    ]
    result = run(command)
    check(result, name)
    return result.seconds


def plan(bench: Bench, *arguments: str, memory: bool = False) -> ProcessResult:
    """Run `plan`. The memory is measured on request only, because that slows the process."""
    path = bench.folder / "plan.json"
    command = [sys.executable, "-m", "reconciler", "plan", str(bench.manifests), "--out", str(path)]
    result = run([*command, *(arguments or ("--spark-master", SPARK_MASTER))], memory=memory, cwd=bench.folder)
    check(result, "plan")
    return result


def check(result: ProcessResult, name: str) -> None:
    if result.exit_code:
        raise RuntimeError(f"{name}: exit code {result.exit_code}\n{result.stdout[-1_000:]}\n{result.stderr[-2_000:]}")


def warm_scan(bench: Bench) -> None:
    """Measure the same request in a warm session, against the same calls in plain Python."""
    arguments = (bench.cluster.servers, str(bench.sizes.scan_runs))
    seconds = bench.measure("scans", SPARK_MASTER, *arguments, str(bench.manifests))[str(bench.manifests)]
    plain = bench.measure("plain", *arguments)
    parts = ", ".join(f"{name} {statistics.median(plain[f'{name}_s']):.2f}" for name in ("offsets", "commits", "log"))
    bench.add_row(
        f"scan alone, warm session, {bench.cluster.partitions:,} partitions, {bench.cluster.groups:,} groups",
        results.summarize(seconds, " s", digits=2),
        f"the same librdkafka calls in plain Python: {results.summarize(plain['plain_s'], ' s', digits=2)} (of these {parts})",
        ratio(seconds, plain["plain_s"]),
        "≤ 1.5 ×",
    )


def plan_over_connect(bench: Bench) -> None:
    """Measure the same plan with a Spark Connect server that has served a plan before."""
    log = bench.folder / "plans"
    log.mkdir(exist_ok=True)
    with connect_server(log) as remote:
        _first_run, *warm_seconds = (
            plan(bench, "--spark-remote", remote).seconds for _ in range(bench.sizes.scan_runs + 1)
        )
    bench.figures[f"plan_s {bench.cluster.groups} groups connect"] = warm_seconds
    bench.add_row(
        f"`plan` over a warm Connect server, {bench.cluster.partitions:,} partitions, {bench.cluster.groups:,} groups",
        results.summarize(warm_seconds, " s"),
    )


def session_start(bench: Bench) -> None:
    """Measure the start of a session in new processes, cold and with a warm Connect server."""
    cold_runs = [measure_in_process("session", SPARK_MASTER) for _ in range(bench.sizes.scan_runs)]
    runs_without_archive = [measure_in_process("session", SPARK_MASTER, "bare") for _ in range(bench.sizes.scan_runs)]
    first_row_s = statistics.median(run["first_row_s"] for run in cold_runs)
    bench.figures["session_s cold"] = [run["session_s"] for run in cold_runs]
    bench.add_row(
        f"start of a cold session, `{SPARK_MASTER}`",
        results.summarize([run["session_s"] for run in cold_runs], " s"),
        f"first row from a Python worker after {first_row_s:.1f} s",
        goal="≤ 6 s",
    )
    first_row_s = statistics.median(run["first_row_s"] for run in runs_without_archive)
    bench.add_row(
        "the same without the archive of classes, as on a machine's first run",
        results.summarize([run["session_s"] for run in runs_without_archive], " s"),
        f"first row from a Python worker after {first_row_s:.1f} s",
        goal="≤ 6 s",
    )
    log = bench.folder / "connect"
    log.mkdir(exist_ok=True)
    with connect_server(log) as remote:
        _first_run, *warm_runs = (measure_in_process("session", remote) for _ in range(bench.sizes.scan_runs + 1))
    first_row_s = statistics.median(run["first_row_s"] for run in warm_runs)
    bench.add_row(
        "start of a session, warm Connect server",
        results.summarize([run["session_s"] for run in warm_runs], " s", digits=2),
        f"first row from a Python worker after {first_row_s:.1f} s",
        goal="≤ 1 s",
    )


def measure_partitions(bench: Bench) -> tuple[list[float], list[float]]:
    """Measure warm scans of an empty request and of all partitions' offsets."""
    arguments = (SPARK_MASTER, bench.cluster.servers, str(bench.sizes.scan_runs), "empty", "partitions")
    seconds = bench.measure("scans", *arguments)
    bench.progress(
        f"{bench.cluster.partitions:,} partitions {results.summarize(seconds['partitions'], ' s', digits=2)}"
    )
    bench.figures |= {f"{name}_s {bench.cluster.partitions} partitions": values for name, values in seconds.items()}
    return seconds["empty"], seconds["partitions"]


def growth(bench: Bench, small: tuple[list[float], list[float]], small_count: int) -> None:
    """Measure how the time of a scan grows with the number of partitions."""
    large = measure_partitions(bench)
    net_s = [statistics.median(scans) - statistics.median(empty) for empty, scans in (small, large)]
    factor = bench.cluster.partitions / small_count
    bench.add_row(
        f"growth from {small_count:,} to {bench.cluster.partitions:,} partitions (× {factor:.1f}), warm, an empty scan subtracted",
        f"{net_s[0]:.2f} s → {net_s[1]:.2f} s",
        f"empty scan: {results.summarize(large[0], ' s', digits=2)}; full scan: {results.summarize(large[1], ' s', digits=2)}",
        f"{net_s[1] / net_s[0]:.1f} ×",
        f"≤ {factor:.0f} ×",
    )


def memory(bench: Bench) -> None:
    """Measure the peak memory of `plan`; the driver has the planner and the plan."""
    runs = [plan(bench, memory=True) for _ in range(bench.sizes.tool_runs)]
    totals = [run.peaks.driver + run.peaks.jvm for run in runs]
    typical = sorted(runs, key=lambda run: run.peaks.driver + run.peaks.jvm)[len(runs) // 2].peaks
    bench.add_row(
        f"peak memory of driver and JVM, `plan` at {bench.cluster.partitions:,} partitions and "
        f"{bench.cluster.groups * COMMITS_PER_GROUP:,} commits",
        results.summarize(totals, " MiB", digits=0),
        f"driver {typical.driver:.0f}, JVM {typical.jvm:.0f}; and the Python workers {typical.workers:.0f} MiB; "
        f"the plan takes {results.summarize([plan(bench).seconds], ' s')}",
        goal="≤ 1,024 MiB",
    )
    bench.figures[f"driver_mib {bench.cluster.partitions} partitions"] = [run.peaks.driver for run in runs]
    bench.figures[f"jvm_mib {bench.cluster.partitions} partitions"] = [run.peaks.jvm for run in runs]


def unit_costs(bench: Bench) -> None:
    """Measure the CPU time of a task's first chunk of each source, in one process without Spark."""
    microseconds = bench.measure("chunks", bench.cluster.servers, str(bench.sizes.scan_runs), str(bench.manifests))
    bench.figures |= {f"{name}_us": values for name, values in microseconds.items()}
    names = {
        "partition": "partition",
        "commit": "commit",
        "record": "record of the commit log, with distinct keys",
    }
    summary = "; ".join(f"per {unit} {results.summarize(microseconds[name], ' µs')}" for name, unit in names.items())
    bench.add_row("reading one task's chunk in one process, without Spark", f"CPU time {summary}")


def commit_log(bench: Bench) -> None:
    """Measure how fast a scan, the reader without Spark, and Kafka's tool read the commit log."""
    bench.cluster.grow_log(bench.sizes.records)
    records = log_records(bench.cluster.servers)
    runs = str(bench.sizes.scan_runs)
    seconds_by_run = bench.measure("scans", SPARK_MASTER, bench.cluster.servers, runs, "log")["log"]
    reader = bench.measure("log", bench.cluster.servers, runs)
    bench.figures["record_us"] = [
        seconds * 1e6 / count for count, seconds in zip(reader["records"], reader["cpu_s"], strict=True)
    ]
    rates = [records / seconds / 1_000 for seconds in seconds_by_run]
    bench.figures["log_records_per_s"] = [rate * 1_000 for rate in rates]
    bench.figures["log_records_per_s one process"] = [
        count / seconds for count, seconds in zip(reader["records"], reader["log_s"], strict=True)
    ]
    single = [count / seconds / 1_000 for count, seconds in zip(reader["records"], reader["log_s"], strict=True)]
    arguments = (
        *(
            "--topic",
            COMMIT_LOG,
            "--from-beginning",
            "--max-messages",
            str(reader["records"][-1]),
            "--timeout-ms",
            "20000",
        ),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
    )
    console = [
        records / run_kafka_tool(bench, "kafka-console-consumer", *arguments) / 1_000
        for _ in range(bench.sizes.tool_runs)
    ]
    bench.add_row(
        f"commit log, {records:,} records, warm session, with listings and reduction",
        f"{results.summarize(rates, ' thousand records/s', digits=0)} on two cores",
        f"`kafka-console-consumer` with Kafka's own formatter: {results.summarize(console, ' thousand/s', digits=0)}; "
        f"the reader without Spark, one process: {results.summarize(single, ' thousand/s', digits=0)}",
        ratio(seconds_by_run, [records / rate / 1_000 for rate in console]),
        "≥ 300 thousand/s",
    )


def ratio(seconds: list[float], baseline_s: list[float]) -> str:
    return f"{statistics.median(seconds) / statistics.median(baseline_s):.2f} ×"
