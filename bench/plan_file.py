"""Measures the time and peak memory of each step with a plan of a million actions.

    python -m bench.plan_file [--quick]        # writes its section of bench/RESULTS.md only at full size

Each step runs in a new process, so that its peak memory is its own; `empty` is the interpreter with
its imports. A generator makes the plan to write, so that the figure is the writer's memory and not
the plan's.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from bench import results
from bench.processes import run_module
from bench.sizes import FULL, QUICK
from reconciler.model.action import Mode
from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.plan import Decision, Plan
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy, ObservedPartition, Preconditions
from reconciler.plan import plan_file
from reconciler.plan.review import intersect, restrict_to
from reconciler.report.markdown import write_markdown
from reconciler.report.plan import plan_report
from reconciler.report.terminal import write_lines

PARTITIONS = 50
LOCATION = SourceLocation("manifests/prod-eu/clicks.yaml", 9, 3)
LAG_ACCEPTED = Preconditions(consumers=LagPolicy.IGNORE, accepted=(AcceptedLag("billing", 52_000),))
LAG_BLOCKS = Preconditions(consumers=LagPolicy.BLOCK)


def action(number: int, *, shift: int = 0) -> DeleteRecords:
    topic, partition = f"clicks-{number // PARTITIONS:07d}", number % PARTITIONS
    target = 98_213 + number % 1000 + shift
    return DeleteRecords(
        address=Address("RetentionFloor", "clicks", topic, partition),
        declared_at=LOCATION,
        reason=f"newerThan 7d resolves to offset {target}",
        mode=Mode.MERGE,
        partition=TopicPartition(topic, partition),
        before_offset=target,
        seen=ObservedPartition(
            topic_id=f"kAwXdc4bS8uMf{number // PARTITIONS:09d}",
            log_start=1000 + number % 77,
            last_stable_offset=250_000 + number,
            high_watermark=250_000 + number,
            leader=number % 3 + 1,
            replicas=(1, 2, 3),
            in_sync=(1, 2, 3),
        ),
        guard=LAG_ACCEPTED if number % 10 == 0 else LAG_BLOCKS,
        consumed_by_named=False,
        drift=True,
    )


class GeneratedDecisions(Sequence[Decision]):
    """A sequence that creates each decision on access."""

    def __init__(self, size: int, *, shift: int = 0) -> None:
        self.size, self.shift = size, shift

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        return action(index, shift=self.shift)

    def __iter__(self) -> Iterator[Decision]:
        return (action(number, shift=self.shift) for number in range(self.size))


def plan(size: int, *, shift: int = 0) -> Plan:
    decisions = cast("tuple[Decision, ...]", GeneratedDecisions(size, shift=shift))
    return Plan(
        cluster="prod-eu", cluster_id="5L6g3nShT-eMCtK--X86sw", observed_at_ms=0, expires_at_ms=1, decisions=decisions
    )


def step(name: str, size: int, folder: Path) -> dict[str, Any]:
    """Run one step in this process.

    `read_s` is the part of `seconds` that reads a full plan first.
    """
    old, new = folder / "old.json", folder / "new.json"
    read_s, measured_processes = 0.0, resource.RUSAGE_SELF
    start = time.process_time()
    output: object = ""
    match name:
        case "empty":
            pass
        case "write":
            plan_file.write(plan(size), old)
            output = f"{old.stat().st_size / 1e6:.0f} MB"
        case "write another":
            plan_file.write(plan(size, shift=5), new)
            output = f"{new.stat().st_size / 1e6:.0f} MB"
        case "stream the actions":
            output = f"{sum(1 for _action in plan_file.open_plan(old, proven=False).actions):,} actions"
        case "intersect as it streams":
            decisions = intersect(GeneratedDecisions(size, shift=5), plan_file.open_plan(old, proven=False).actions)
            output = f"{sum(1 for _decision in decisions):,} decisions"
        case "read in full":
            output = f"{len(plan_file.read(old).decisions):,} decisions"
        case "read in full, intersect with a file":
            plan_to_apply = plan_file.read(new)
            read_s = time.process_time() - start
            output = f"{len(restrict_to(plan_to_apply, plan_file.open_plan(old)).actions):,} actions"
        case "read in full, text":
            full_plan = plan_file.read(old)
            read_s = time.process_time() - start
            output = f"{sum(1 for _line in write_lines(plan_report(full_plan), width=80)):,} lines"
        case "read in full, Markdown":
            full_plan = plan_file.read(old)
            read_s = time.process_time() - start
            output = f"{len(write_markdown(plan_report(full_plan))):,} characters"
        case _:
            measured_processes = resource.RUSAGE_CHILDREN
            output = command(name, old, new)
    usage = resource.getrusage(measured_processes)
    seconds = (
        usage.ru_utime + usage.ru_stime
        if measured_processes == resource.RUSAGE_CHILDREN
        else time.process_time() - start
    )
    peak = usage.ru_maxrss / 1024
    return {"step": name, "seconds": seconds, "read_s": read_s, "peak_mib": peak, "output": output}


def command(name: str, old: Path, new: Path) -> str:
    """Run the command line as a process and count its output."""
    arguments = [
        str(old) if argument == "OLD" else str(new) if argument == "NEW" else argument for argument in name.split()[1:]
    ]
    with subprocess.Popen([sys.executable, "-m", "reconciler", *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        size = 0
        while block := process.stdout.read(1 << 20):
            size += len(block)
    assert process.returncode == 0, name
    return f"{size / 1e6:.1f} MB of output"


STEPS = {
    "empty": "the interpreter and its imports",
    "write": "bounded memory",
    "write another": "",
    "stream the actions": "bounded memory",
    "reconciler plan diff OLD NEW": "bounded memory",
    "intersect as it streams": "bounded memory",
    "read in full": "",
    "read in full, intersect with a file": "the plan in memory, not the reviewed one",
    "read in full, text": "",
    "read in full, Markdown": "",
    "reconciler show OLD": "holds the plan",
}


def main() -> None:
    parser = results.parser("Measure each step with a plan of a million actions.")
    parser.add_argument("step", nargs="*", metavar="STEP SIZE FOLDER", help="one step in this process")
    options = parser.parse_args()
    if options.step:
        name, actions, folder = options.step
        print(json.dumps(step(name, int(actions), Path(folder))))
        return
    size = (QUICK if options.quick else FULL).plan_file
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in STEPS:
            figures[name] = run_module("bench.plan_file", name, str(size), folder)
            print(f"{name}: {figures[name]}", file=sys.stderr, flush=True)
    results.publish(options, "plan_file", "A plan of a million actions", render(size, figures))


def render(size: int, figures: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Render the lines of the section."""
    empty_mib, plan_mib = figures["empty"]["peak_mib"], figures["read in full"]["peak_mib"]
    yield (
        f"{size:,} record deletions, {PARTITIONS} partitions per topic; every tenth one has a lagging group that "
        "the policy ignores. Each step ran once, in a new process. Memory is the peak of the process with its "
        "imports. Seconds are CPU time, because the machine had other work."
    )
    yield ""
    rows = [
        (
            f"`{name}`" if name.startswith("reconciler ") else name,
            f"{row['seconds']:.1f} s" + (f", of these {row['read_s']:.1f} s reading" if row["read_s"] else ""),
            f"{row['peak_mib']:,.0f} MiB",
            STEPS[name],
            row["output"],
        )
        for name, row in figures.items()
    ]
    yield from results.table(("step", "CPU time", "peak memory", "goal", "output"), rows)
    yield ""
    yield (
        f"A plan in memory costs {(plan_mib - empty_mib) * 2**20 / size:,.0f} bytes per action. In memory: planning, "
        "because limits apply to the full plan, `apply`, `show`, `explain`, and the text and Markdown reports. "
        "Streamed: writing, `plan diff`, and the reviewed plan of `plan --within`."
    )


if __name__ == "__main__":
    main()
