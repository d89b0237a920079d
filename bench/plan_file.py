"""What a plan of a million actions costs: written, streamed, compared, intersected, read whole and rendered. Seconds and peak memory.

    python -m bench.plan_file [--quick]        # writes the section of bench/RESULTS.md only at full size

Each step runs in a process of its own, so that its peak resident memory is its own; `empty` is the interpreter with the imports.
The plan that is written is generated as it is asked for: what shows is the writer's memory and not the plan's.
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
from bench.sizes import FULL, QUICK
from reconciler.model.action import Mode
from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.plan import Decision, Plan
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy, ObservedPartition, Preconditions
from reconciler.plan import plan_file
from reconciler.plan.review import intersect, restrict_to
from reconciler.report import plan_report, write_lines, write_markdown

PARTITIONS = 50
PLACE = SourceLocation("manifests/prod-eu/clicks.yaml", 9, 3)
GUARD = Preconditions(consumers=LagPolicy.IGNORE, accepted=(AcceptedLag("billing", 52_000),))
PLAIN = Preconditions(consumers=LagPolicy.BLOCK)


def action(number: int, *, more: int = 0) -> DeleteRecords:
    topic, partition = f"clicks-{number // PARTITIONS:07d}", number % PARTITIONS
    target = 98_213 + number % 1000 + more
    return DeleteRecords(
        address=Address("RetentionFloor", "clicks", topic, partition),
        declared_at=PLACE,
        reason=f"newerThan 7d resolves to offset {target}",
        mode=Mode.MERGE,
        partition=TopicPartition(topic, partition),
        before_offset=target,
        seen=ObservedPartition(
            topic_id=f"kAwXdc4bS8uMf{number // PARTITIONS:09d}",
            log_start=1000 + number % 77,
            stable_end=250_000 + number,
            high_watermark=250_000 + number,
            leader=number % 3 + 1,
            replicas=(1, 2, 3),
            in_sync=(1, 2, 3),
        ),
        guard=GUARD if number % 10 == 0 else PLAIN,
        vouched=False,
        drift=True,
    )


class Generated(Sequence[Decision]):
    """A million decisions that are made when they are looked at."""

    def __init__(self, size: int, *, more: int = 0) -> None:
        self.size, self.more = size, more

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        return action(index, more=self.more)

    def __iter__(self) -> Iterator[Decision]:
        return (action(number, more=self.more) for number in range(self.size))


def plan(size: int, *, more: int = 0) -> Plan:
    decisions = cast("tuple[Decision, ...]", Generated(size, more=more))
    return Plan(
        cluster="prod-eu", cluster_id="5L6g3nShT-eMCtK--X86sw", observed_at_ms=0, expires_at_ms=1, decisions=decisions
    )


def step(name: str, size: int, folder: Path) -> dict[str, Any]:
    """One step in this process. `read_s`: what of `seconds` went by before the work itself, reading a plan whole."""
    old, new = folder / "old.json", folder / "new.json"
    before, whose = 0.0, resource.RUSAGE_SELF
    started = time.process_time()
    found: object = ""
    match name:
        case "empty":
            pass
        case "write":
            plan_file.write(plan(size), old)
            found = f"{old.stat().st_size / 1e6:.0f} MB"
        case "write another":
            plan_file.write(plan(size, more=5), new)
            found = f"{new.stat().st_size / 1e6:.0f} MB"
        case "stream the actions":
            found = f"{sum(1 for _action in plan_file.open_plan(old, proven=False).actions):,} actions"
        case "intersect as it streams":
            kept = intersect(Generated(size, more=5), plan_file.open_plan(old, proven=False).actions)
            found = f"{sum(1 for _decision in kept):,} decisions"
        case "read whole":
            found = f"{len(plan_file.read(old).decisions):,} decisions"
        case "read whole, intersect with a file":
            planned = plan_file.read(new)
            before = time.process_time() - started
            found = f"{len(restrict_to(planned, plan_file.open_plan(old)).actions):,} actions"
        case "read whole, text":
            read = plan_file.read(old)
            before = time.process_time() - started
            found = f"{sum(1 for _line in write_lines(plan_report(read), width=80)):,} lines"
        case "read whole, Markdown":
            read = plan_file.read(old)
            before = time.process_time() - started
            found = f"{len(write_markdown(plan_report(read))):,} characters"
        case _:
            whose = resource.RUSAGE_CHILDREN
            found = command(name, old, new)
    used = resource.getrusage(whose)
    seconds = used.ru_utime + used.ru_stime if whose == resource.RUSAGE_CHILDREN else time.process_time() - started
    peak = used.ru_maxrss / 1024
    return {"step": name, "seconds": seconds, "read_s": before, "peak_mib": peak, "found": found}


def command(name: str, old: Path, new: Path) -> str:
    """The command line as a process; its output is counted, not kept."""
    words = [str(old) if word == "OLD" else str(new) if word == "NEW" else word for word in name.split()[1:]]
    with subprocess.Popen([sys.executable, "-m", "reconciler", *words], stdout=subprocess.PIPE) as process:
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
    "read whole": "",
    "read whole, intersect with a file": "the plan, not the reviewed one",
    "read whole, text": "",
    "read whole, Markdown": "",
    "reconciler show OLD": "holds the plan",
}


def main() -> None:
    if len(sys.argv) == 4:
        print(json.dumps(step(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
        return
    size = QUICK.plan_file if sys.argv[1:] == ["--quick"] else FULL.plan_file
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in STEPS:
            done = subprocess.run(
                [sys.executable, "-m", "bench.plan_file", name, str(size), folder],
                capture_output=True,
                text=True,
                check=True,
                cwd=Path(__file__).parents[1],
            )
            found[name] = json.loads(done.stdout)
            print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    lines = list(told(size, found))
    print("\n".join(lines))
    if size == FULL.plan_file:
        results.write("plan_file", "A plan of a million actions", lines)


def told(size: int, found: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """The section's lines."""
    empty, whole = found["empty"]["peak_mib"], found["read whole"]["peak_mib"]
    yield f"{size:,} record deletions, {PARTITIONS} partitions per topic, every tenth with a reader that skips; each step once, in a process of"
    yield "its own. Memory is the process's peak, imports included; seconds are CPU time, since the machine was busy with other things."
    yield ""
    rows = [
        (
            f"`{name}`" if name.startswith("reconciler ") else name,
            f"{row['seconds']:.1f} s" + (f", of these {row['read_s']:.1f} s reading" if row["read_s"] else ""),
            f"{row['peak_mib']:,.0f} MiB",
            STEPS[name],
            row["found"],
        )
        for name, row in found.items()
    ]
    yield from results.table(("step", "CPU time", "peak memory", "goal", "made"), rows)
    yield ""
    yield f"A plan that is held whole costs {(whole - empty) * 2**20 / size:,.0f} bytes per action. Held whole: by planning (limits look at all of it), by"
    yield "`apply`, `show` and `explain`, and by what makes text and Markdown of a plan. Streamed: writing, `plan diff`, and the reviewed plan of"
    yield "`plan --within`."


if __name__ == "__main__":
    main()
