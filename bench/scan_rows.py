"""The rows of bench.scan: each function measures one phase and adds its rows.

bench.scan orders the phases.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import results
from bench.processes import ProcessResult, check, run, run_module
from bench.programs import Program
from bench.scan_cluster import COMMITS_PER_GROUP, CONSUMER_OFFSETS_LOG, ScanCluster, log_records
from bench.sizes import Scan
from reconciler.companions.sandbox.tools import tool_command
from tests.build import cluster_manifest, policy
from tests.spark.servers import connect_server

SPARK_MASTER = "local[2]"


def manifests(cluster_id: str, servers: str) -> str:
    """Return a Cluster and a policy of each kind, with limits above every size."""
    limits = (
        "topics: 100_000, recordsPercent: 100, recordsPercentPerTopic: 100, groups: 1_000_000, elections: 1_000_000"
    )
    documents = (
        cluster_manifest(servers, limits=limits, cluster_id=cluster_id, name="bench"),
        policy("RetentionFloor", "week", 'topics: ["bench-*"], expectAtMost: 100_000, keep: {newerThan: 7d}'),
        policy("GroupRemoval", "idle", 'groups: ["bench-group-*"], expectAtMost: 1_000_000, idleFor: 7d'),
        policy("LeaderPolicy", "preferred", 'topics: ["bench-*"]'),
    )
    return "---\n".join(documents)


def measure_in_process(*arguments: str) -> Any:
    """Run a measurement of bench.scan_process in a new process."""
    return run_module("bench.scan_process", *arguments)


@dataclass(slots=True)
class Bench:
    """One run of the bench.

    `rows` maps phases to their rows, `figures` names to the values of each run; both include
    earlier runs. `now` and `before` are the versions that run `plan`. `measure` runs a measurement of bench.scan_process with a warm Spark.
    """

    cluster: ScanCluster
    now: Program
    before: Program
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

    def add_comparison(self, work: str, seconds: list[float], before: list[float], goal: str) -> None:
        """Add a row that compares runs of this version with those of the earlier one."""
        baseline = f"{self.before.label}: {results.summarize(before, ' s')}"
        self.add_row(work, results.summarize(seconds, " s"), baseline, results.ratio(seconds, before), goal)

    @property
    def manifests(self) -> Path:
        return self.folder / "manifests"

    def write_manifests(self) -> None:
        self.manifests.mkdir(exist_ok=True)
        text = manifests(self.cluster.cluster.cluster_id, self.cluster.servers)
        (self.manifests / "bench.yaml").write_text(text, encoding="utf-8")


TOOLS = (("kafka-get-offsets",), ("kafka-consumer-groups", "--describe", "--all-groups"))
TOOL_NAMES = "`kafka-get-offsets` + `kafka-consumer-groups --describe --all-groups`"


def full_plan(bench: Bench, *, goal_before: str, goal_tools: str) -> None:
    """Measure `plan` as a process against the earlier version and two of Kafka's tools.

    They take turns, so that the load of the machine is the same for all.
    """
    sizes = bench.sizes
    plans: list[float] = []
    inline: list[float] = []
    before: list[float] = []
    tools: list[float] = []
    for turn in range(max(sizes.scan_runs, sizes.tool_runs)):
        if turn < sizes.scan_runs:
            plans.append(plan(bench, bench.now).seconds)
            inline.append(plan(bench, bench.now, "--engine", "inline").seconds)
            before.append(plan(bench, bench.before).seconds)
        if turn < sizes.tool_runs:
            tools.append(sum(run_kafka_tool(bench, *arguments) for arguments in TOOLS))
        last = {"Spark": plans[-1:], "inline": inline[-1:], "before": before[-1:], "Kafka's tools": tools[-1:]}
        bench.progress("plan: " + ", ".join(f"{name} {values[0]:.1f} s" for name, values in last.items() if values))
    cluster = bench.cluster
    work = (
        f"`plan` as a process, cold, {cluster.partitions:,} partitions, {cluster.groups:,} groups × {COMMITS_PER_GROUP} commits, "
        f"{log_records(cluster.servers):,} records of __consumer_offsets"
    )
    of_tools = f"{TOOL_NAMES}: {results.summarize(tools, ' s')}"
    bench.add_comparison(work, plans, before, goal_before)
    bench.add_row("the same", results.summarize(plans, " s"), of_tools, results.ratio(plans, tools), goal_tools)
    bench.add_row(
        "the same with `--engine inline`", results.summarize(inline, " s"), of_tools, results.ratio(inline, tools)
    )
    key = f"{cluster.groups} groups"
    bench.figures |= {f"plan_s {key}": plans, f"plan_s {key} inline": inline, f"tools_s {key}": tools}
    bench.figures[f"plan_s {key} before"] = before
    peaks = plan(bench, bench.now, memory=True).peaks
    bench.figures[f"driver_mib {cluster.partitions} partitions"] = [peaks.driver]
    bench.figures[f"jvm_mib {cluster.partitions} partitions"] = [peaks.jvm]


def run_kafka_tool(bench: Bench, name: str, *arguments: str) -> float:
    """Run a tool with a larger heap and return its seconds."""
    command = [
        "-Xmx2g" if argument == "-Xmx256m" else argument
        for argument in tool_command(bench.cluster.cluster, name, *arguments, as_script=True)
    ]
    result = run(command)
    check(result, name)
    return result.seconds


def plan(bench: Bench, program: Program, *arguments: str, memory: bool = False) -> ProcessResult:
    """Run `plan`. The memory is measured on request only, because that slows the process."""
    engine = arguments or ("--spark-master", SPARK_MASTER)
    return program.run(
        "plan", str(bench.manifests), "--out", str(bench.folder / "plan.json"), *engine, cwd=bench.folder, memory=memory
    )


def warm_scan(bench: Bench) -> None:
    """Measure the same request on a warm Spark and inline, against the same calls in plain Python."""
    arguments = (bench.cluster.servers, str(bench.sizes.scan_runs))
    plain = bench.measure("plain", *arguments)
    parts = ", ".join(f"{name} {statistics.median(plain[f'{name}_s']):.2f}" for name in ("offsets", "commits", "log"))
    size = f"{bench.cluster.partitions:,} partitions, {bench.cluster.groups:,} groups"
    for engine, words in ((SPARK_MASTER, "warm Spark"), ("inline", "`--engine inline`")):
        seconds = bench.measure("scans", engine, *arguments, str(bench.manifests))[str(bench.manifests)]
        bench.add_row(
            f"scan alone, {words}, {size}",
            results.summarize(seconds, " s", digits=2),
            f"the same librdkafka calls in plain Python: {results.summarize(plain['plain_s'], ' s', digits=2)} (of these {parts})",
            results.ratio(seconds, plain["plain_s"]),
            "≤ 1.5 ×" if engine == SPARK_MASTER else "",
        )


def lookups(bench: Bench) -> None:
    """Measure what a plan adds to a scan if every partition loses records by a rule about time.

    The first scan of a process starts Spark, as that of a command does. Further ones are those of a loop.
    """
    arguments = (bench.cluster.servers, "2", str(bench.manifests))
    runs = {
        engine: [bench.measure("lookups", engine, *arguments) for _ in range(2 * bench.sizes.scan_runs)]
        for engine in (SPARK_MASTER, "inline")
    }
    for engine, turn, words in (
        (SPARK_MASTER, 0, "Spark, which starts for it"),
        ("inline", 0, "inline"),
        (SPARK_MASTER, 1, "warm Spark, in a loop"),
    ):
        scan_s, lookups_s = ([run[name][turn] for run in runs[engine]] for name in ("scan_s", "lookups_s"))
        bench.add_row(
            f"first and last record of {runs[engine][0]['partitions'][0]:,} partitions that lose records",
            results.summarize(lookups_s, " s", digits=2),
            f"the scan before, {words}: {results.summarize(scan_s, ' s', digits=2)}",
            results.ratio(lookups_s, scan_s),
            "≤ 0.10 ×",
        )


def plan_over_connect(bench: Bench) -> None:
    """Measure the same plan with a Spark Connect server that has served a plan before.

    Both versions take turns on one server.
    """
    log = bench.folder / "plans"
    log.mkdir(exist_ok=True)
    seconds: list[float] = []
    before: list[float] = []
    with connect_server(log) as remote:
        for turn in range(bench.sizes.scan_runs + 1):
            for program, values in ((bench.now, seconds), (bench.before, before)):
                last_s = plan(bench, program, "--spark-remote", remote).seconds
                bench.progress(f"{program.name} over Connect, run {turn}: {last_s:.1f} s")
                values += [last_s] * bool(turn)
    bench.figures[f"plan_s {bench.cluster.groups} groups connect"] = seconds
    work = (
        f"`plan` over a warm Connect server, {bench.cluster.partitions:,} partitions, {bench.cluster.groups:,} groups"
    )
    bench.add_comparison(work, seconds, before, "≤ 0.60 ×")


def session_start(bench: Bench) -> None:
    """Measure the start of Spark in new processes, cold and with a warm Connect server."""
    runs, arguments = range(bench.sizes.scan_runs), ("session", SPARK_MASTER, bench.cluster.servers)
    cold_runs = [measure_in_process(*arguments) for _ in runs]
    bench.figures["session_s cold"] = [run["session_s"] for run in cold_runs]
    _add_session(bench, f"start of Spark, `{SPARK_MASTER}`", cold_runs, "≤ 6 s")
    bare_runs = [measure_in_process(*arguments, "bare") for _ in runs]
    _add_session(bench, "the same without the archive of classes", bare_runs, "≤ 6 s")
    log = bench.folder / "connect"
    log.mkdir(exist_ok=True)
    with connect_server(log) as remote:
        _first_run, *warm_runs = (
            measure_in_process("session", remote, bench.cluster.servers) for _ in range(bench.sizes.scan_runs + 1)
        )
    _add_session(bench, "start of a session, warm Connect server", warm_runs, "≤ 1 s")


def _add_session(bench: Bench, work: str, runs: list[dict[str, float]], goal: str) -> None:
    first_answer_s = statistics.median(run["first_answer_s"] for run in runs)
    bench.add_row(
        work,
        results.summarize([run["session_s"] for run in runs], " s", digits=2),
        f"first answer of a task after {first_answer_s:.1f} s",
        goal=goal,
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
        f"≤ {1.1 * factor:.1f} ×",
    )


def memory(bench: Bench) -> None:
    """Measure the peak memory of `plan`; the command's process has the planner and the plan."""
    runs = [plan(bench, bench.now, memory=True) for _ in range(bench.sizes.tool_runs)]
    typical = sorted(runs, key=lambda run: run.peaks.total)[len(runs) // 2].peaks
    bench.add_row(
        f"peak memory of the command, Spark's process and its JVM, `plan` at {bench.cluster.partitions:,} partitions and "
        f"{bench.cluster.groups * COMMITS_PER_GROUP:,} commits",
        results.summarize([run.peaks.total for run in runs], " MiB", digits=0),
        f"command {typical.driver:.0f}, Spark's process {typical.spark:.0f}, JVM {typical.jvm:.0f}; and the Python workers "
        f"{typical.workers:.0f} MiB; the plan takes {results.summarize([plan(bench, bench.now).seconds], ' s')}",
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
        "record": "record of __consumer_offsets, with distinct keys",
    }
    summary = "; ".join(f"per {unit} {results.summarize(microseconds[name], ' µs')}" for name, unit in names.items())
    bench.add_row("reading one task's chunk in one process, without Spark", f"CPU time {summary}")


def consumer_offsets(bench: Bench) -> None:
    """Measure how fast a scan on a warm Spark, the reader without Spark, and Kafka's tool read `__consumer_offsets`."""
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
            CONSUMER_OFFSETS_LOG,
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
        f"__consumer_offsets, {records:,} records, warm session, with listings and reduction",
        f"{results.summarize(rates, ' thousand records/s', digits=0)} on two cores",
        f"`kafka-console-consumer` with Kafka's own formatter: {results.summarize(console, ' thousand/s', digits=0)}; "
        f"the reader without Spark, one process: {results.summarize(single, ' thousand/s', digits=0)}",
        results.ratio(seconds_by_run, [records / rate / 1_000 for rate in console]),
        "≥ 600 thousand/s",
    )
