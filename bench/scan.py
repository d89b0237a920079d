"""The scan against its opponents, side by side on one cluster in one run; writes its section of RESULTS.md (`--dry` only prints it).

    python -m bench.scan                        5,000 then 30,000 partitions, 1,000 then 5,000 groups, five million commit records
    python -m bench.scan --quick --dry          a tenth of that
    python -m bench.scan --only growth memory   these rows anew; the others stay as they were measured before

Decided here: the order of things. The rows are in `scan_rows`, the cluster is built in `world`, the plain opponent is `plain`.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench import results
from bench.scan_rows import (
    ARCHIVES,
    Bench,
    commit_log,
    growth,
    memory,
    partitions_alone,
    plan,
    plan_over_connect,
    session_start,
    units,
    warm_scan,
    whole_plan,
)
from bench.sizes import FULL, QUICK, Scan
from bench.world import PARTITIONS_PER_TOPIC, world
from reconciler.sandbox.jars import DEFAULT_VERSION

FIGURES = Path(__file__).with_name("scan.json")
"""Rows by phase and every run's figure; docs/scaling.md reckons with their medians."""
HEAD = ("work", "measured", "opponent, same run", "ratio", "goal")
PHASES = ("plan", "plan-connect", "scan", "session", "plan-more", "scan-more", "units", "growth", "memory", "log")


@contextmanager
def speaking() -> Iterator[Callable[[str], None]]:
    began = time.monotonic()
    yield lambda text: print(f"{time.monotonic() - began:7.1f} s  {text}", file=sys.stderr, flush=True)


def measure(sizes: Scan, *, heap_mib: int, dry: bool, only: Collection[str] = PHASES) -> None:
    kept = json.loads(FIGURES.read_text(encoding="utf-8")) if len(only) < len(PHASES) and FIGURES.is_file() else {}
    with (
        speaking() as say,
        tempfile.TemporaryDirectory(prefix="reconciler-bench-scan-") as folder,
        world(heap_mib=heap_mib, say=say) as made,
    ):
        bench = Bench(made, Path(folder), sizes, say, kept.get("rows", {}), kept.get("figures", {}))
        begin(bench)
        _warm_up(bench)
        for _phase in phases(bench, only):
            if not dry:
                results.write("scan", "Scan", section(bench))
                FIGURES.write_text(
                    json.dumps({"rows": bench.rows, "figures": bench.figures}, indent=1, ensure_ascii=False) + "\n",
                    encoding="utf-8",
                )
        print("\n".join(section(bench)))


def begin(bench: Bench) -> None:
    """The manifests, and the cluster as small as it is at first."""
    bench.write_manifests()
    bench.world.grow_topics(bench.sizes.partitions)
    bench.world.grow_groups(bench.sizes.groups)


def phases(bench: Bench, only: Collection[str]) -> Iterator[str]:
    """Measure these phases while the cluster grows; the name of each once its rows are there."""
    made, sizes = bench.world, bench.sizes

    def phase(name: str, work: Callable[[], object]) -> Iterator[str]:
        if name in only:
            bench.phase, bench.rows[name] = name, []
            work()
            yield name

    def after(name: str) -> bool:
        return any(each in only for each in PHASES[PHASES.index(name) :])

    yield from phase("plan", lambda: whole_plan(bench, "≤ 0.40 ×"))
    yield from phase("plan-connect", lambda: plan_over_connect(bench))
    yield from phase("scan", lambda: warm_scan(bench))
    yield from phase("session", lambda: session_start(bench))
    small = partitions_alone(bench) if "growth" in only else ([], [])
    if after("plan-more"):
        made.grow_groups(sizes.more_groups)
    yield from phase("plan-more", lambda: whole_plan(bench, "≤ 0.10 ×"))
    yield from phase("scan-more", lambda: warm_scan(bench))
    yield from phase("units", lambda: units(bench))
    if "growth" in only or "memory" in only:
        made.grow_topics(sizes.more_partitions)
    yield from phase("growth", lambda: growth(bench, small, sizes.partitions))
    yield from phase("memory", lambda: memory(bench))
    yield from phase("log", lambda: commit_log(bench))


def _warm_up(bench: Bench) -> None:
    """The second run on a machine leaves the archive of classes that later ones start from."""
    for _ in range(3):
        if not any(ARCHIVES.glob("*.jsa")):
            plan(bench)


def section(bench: Bench) -> list[str]:
    missing = [name for name in PHASES if not bench.rows.get(name)]
    return [
        results.machine(DEFAULT_VERSION),
        "",
        "Three brokers, one replica of each partition; every partition holds a record of ten days ago and one of now; the groups commit on the first",
        f"{bench.world.homes * PARTITIONS_PER_TOPIC:,} partitions, and a quarter of them is one record behind there. Ours and the opponent take turns on",
        "the same cluster. Median (lowest–highest, runs).",
        "",
        *results.table(HEAD, [row for name in PHASES for row in bench.rows.get(name, ())]),
        *([] if not missing else ["", f"Not measured yet: {', '.join(missing)} (`python -m bench.scan --only …`)."]),
    ]


def main() -> None:
    given = argparse.ArgumentParser(description="The scan against its opponents.")
    given.add_argument("--quick", action="store_true", help="a tenth of the size")
    given.add_argument("--dry", action="store_true", help="print, and leave RESULTS.md alone")
    given.add_argument("--only", nargs="+", choices=PHASES, default=PHASES, help="these phases")
    given.add_argument("--repeat", type=int, help="runs of ours, and of the plain calls")
    given.add_argument("--tools", type=int, help="runs of Kafka's tools")
    given.add_argument("--heap-mib", type=int, default=1_024, help="of each broker")
    chosen = given.parse_args()
    sizes = (QUICK if chosen.quick else FULL).scan
    sizes = replace(sizes, repeat=chosen.repeat or sizes.repeat, tools=chosen.tools or sizes.tools)
    measure(sizes, heap_mib=chosen.heap_mib, dry=chosen.dry, only=chosen.only)


if __name__ == "__main__":
    main()
