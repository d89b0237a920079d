"""Measures the scan against its baselines on one cluster and writes its section of RESULTS.md.

    python -m bench.scan                        5,000 then 30,000 partitions, 1,000 then 5,000 groups, five million commit records
    python -m bench.scan --quick --dry          a tenth of that, without writing RESULTS.md
    python -m bench.scan --only growth memory   only these phases; the other rows keep their earlier figures

This module orders the phases. `scan_rows` has the rows, `scan_cluster` the cluster, and `baseline`
the plain Python calls.
"""

import json
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import programs, results
from bench.scan_cluster import OLD_RECORDS, PARTITIONS_PER_TOPIC, scan_cluster
from bench.scan_rows import (
    Bench,
    consumer_offsets,
    full_plan,
    growth,
    lookups,
    measure_partitions,
    memory,
    plan,
    plan_over_connect,
    session_start,
    unit_costs,
    warm_scan,
)
from bench.sizes import FULL, QUICK, Scan
from reconciler.companions.sandbox.jars import DEFAULT_VERSION

FIGURES = Path(__file__).with_name("scan.json")
"""Rows by phase, and the figures of each run; docs/scaling.md uses their medians."""
HEAD = ("work", "measured", "baseline, same run", "ratio", "goal")
PHASES = (
    "plan",
    "plan-connect",
    "scan",
    "lookups",
    "session",
    "plan-more",
    "scan-more",
    "units",
    "growth",
    "memory",
    "log",
)

COLD_PHASES = {"plan", "plan-more", "memory"}
"""Phases with `plan` as a process that starts a JVM."""


def measure(sizes: Scan, *, heap_mib: int, dry: bool, only: Collection[str] = PHASES) -> None:
    earlier = json.loads(FIGURES.read_text(encoding="utf-8")) if len(only) < len(PHASES) and FIGURES.is_file() else {}
    progress = results.timed_progress()
    with (
        tempfile.TemporaryDirectory(prefix="reconciler-bench-scan-") as folder,
        scan_cluster(heap_mib=heap_mib, progress=progress) as cluster,
    ):
        bench = Bench(
            cluster,
            now=programs.current(Path(folder)),
            before=programs.at_commit(programs.BEFORE, Path(folder)),
            folder=Path(folder),
            sizes=sizes,
            progress=progress,
            rows=earlier.get("rows", {}),
            figures=earlier.get("figures", {}),
        )
        prepare(bench)
        if COLD_PHASES.intersection(only):
            programs.prepare(bench.now, bench.before, partial(plan, bench), progress)
        for _phase in phases(bench, only):
            if not dry:
                results.write("scan", "Scan", section(bench))
                FIGURES.write_text(
                    json.dumps({"rows": bench.rows, "figures": bench.figures}, indent=1, ensure_ascii=False) + "\n",
                    encoding="utf-8",
                )
        print("\n".join(section(bench)))


def prepare(bench: Bench) -> None:
    """Write the manifests and build the cluster at its first size."""
    bench.write_manifests()
    bench.cluster.grow_topics(bench.sizes.partitions)
    bench.cluster.grow_groups(bench.sizes.groups)


def phases(bench: Bench, only: Collection[str]) -> Iterator[str]:
    """Run these phases while the cluster grows, and yield the name of each finished phase."""
    cluster, sizes = bench.cluster, bench.sizes

    def run_phase(name: str, measure_rows: Callable[[], object]) -> Iterator[str]:
        if name in only:
            bench.phase, bench.rows[name] = name, []
            measure_rows()
            yield name

    def is_needed_from(name: str) -> bool:
        return any(phase in only for phase in PHASES[PHASES.index(name) :])

    yield from run_phase("plan", lambda: full_plan(bench, goal_before="≤ 0.65 ×", goal_tools="≤ 0.40 ×"))
    yield from run_phase("plan-connect", lambda: plan_over_connect(bench))
    yield from run_phase("scan", lambda: warm_scan(bench))
    yield from run_phase("lookups", lambda: lookups(bench))
    yield from run_phase("session", lambda: session_start(bench))
    small = measure_partitions(bench) if "growth" in only else ([], [])
    if is_needed_from("plan-more"):
        cluster.grow_groups(sizes.more_groups)
    yield from run_phase("plan-more", lambda: full_plan(bench, goal_before="", goal_tools="≤ 0.20 ×"))
    yield from run_phase("scan-more", lambda: warm_scan(bench))
    yield from run_phase("units", lambda: unit_costs(bench))
    if "growth" in only or "memory" in only:
        cluster.grow_topics(sizes.more_partitions)
    yield from run_phase("growth", lambda: growth(bench, small, sizes.partitions))
    yield from run_phase("memory", lambda: memory(bench))
    yield from run_phase("log", lambda: consumer_offsets(bench))


def section(bench: Bench) -> list[str]:
    """Render the lines of the section."""
    missing = [name for name in PHASES if not bench.rows.get(name)]
    return [
        results.machine(DEFAULT_VERSION),
        "",
        (
            "Three brokers, one replica of each partition. Every partition has "
            f"{OLD_RECORDS} records of ten days ago and one of now. The groups commit on the first {bench.cluster.commit_topics * PARTITIONS_PER_TOPIC:,} partitions, "
            "and a quarter of them lags by one record. The scan and the baseline take turns on the same cluster. "
            f"{programs.BEFORE} is this program before the scan became map-only, with the same interpreter and packages. "
            "Median (lowest–highest, runs)."
        ),
        "",
        *results.table(HEAD, [row for name in PHASES for row in bench.rows.get(name, ())]),
        *([] if not missing else ["", f"Not measured yet: {', '.join(missing)} (`python -m bench.scan --only …`)."]),
    ]


def main() -> None:
    parser = results.parser("Measure the scan against its baselines.")
    parser.add_argument("--only", nargs="+", choices=PHASES, default=PHASES, help="run only these phases")
    parser.add_argument("--scan-runs", type=int, help="runs of the scan and of the plain calls")
    parser.add_argument("--tool-runs", type=int, help="runs of Kafka's tools")
    parser.add_argument("--heap-mib", type=int, default=1_024, help="heap of each broker in MiB")
    options = parser.parse_args()
    sizes = (QUICK if options.quick else FULL).scan
    sizes = replace(
        sizes,
        scan_runs=options.scan_runs or sizes.scan_runs,
        tool_runs=options.tool_runs or sizes.tool_runs,
    )
    measure(sizes, heap_mib=options.heap_mib, dry=options.dry or options.quick, only=options.only)


if __name__ == "__main__":
    main()
