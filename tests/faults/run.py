"""`python -m tests.faults.run --trials N --seed S`: fault trials on brokers of their own, with a summary; exit 1 for any violation."""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from reconciler.kafka import workload
from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.scan import session
from reconciler.scan.session import Engine
from tests.faults.kinds import Kind
from tests.faults.toolbox import Toolbox
from tests.faults.trial import Report, run_trial

OPERATIONS = ("elect_leader", "delete_group", "delete_records")


def ready(cluster: Cluster) -> None:
    """The commit log is there, so that the first trial is as good as the last."""
    workload.create_topics(cluster.bootstrap_servers, [workload.Topic("warm", 1, 3)])
    workload.produce(cluster.bootstrap_servers, "warm", {0: [workload.Record(b"x")]})
    workload.commit(cluster.bootstrap_servers, "warm", {("warm", 0): 1}, deadline_s=60)


def summary(reports: list[Report], seed: int) -> str:
    """Trials, faults by kind and operation, outcomes by status, violations."""
    cells: Counter[tuple[str, str]] = Counter()
    statuses: Counter[str] = Counter()
    trials: Counter[str] = Counter()
    for report in reports:
        cells.update(report.cells)
        statuses.update(report.statuses)
        trials.update(kind.value for kind in report.kinds)
    broken = [report for report in reports if report.violations]
    lines = [
        f"{len(reports)} trials, seed {seed}, {sum(r.seconds for r in reports):.0f} s: {len(broken)} with violations",
        "",
    ]
    lines.append(f"{'fault':34}{'trials':>8}" + "".join(f"{operation:>16}" for operation in OPERATIONS))
    for kind in Kind:
        row = "".join(f"{cells[kind.value, operation]:>16}" for operation in OPERATIONS)
        lines.append(f"{kind.value:34}{trials[kind.value]:>8}{row}")
    lines += ["", *(f"{status:34}{count:>8}" for status, count in sorted(statuses.items()))]
    for report in broken:
        lines.append(f"\ntrial {report.number} ({', '.join(report.kinds)})")
        lines += [f"  {violation}" for violation in report.violations]
    return "\n".join(lines)


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--trials", type=int, default=300)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--first", type=int, default=0, help="number of the first trial, to repeat one")
    words.add_argument("--out", type=Path, help="write the summary and one JSON line per trial there")
    asked = words.parse_args()
    cluster = start(3, name="faults", heap_mib=384)
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    reports: list[Report] = []
    stack = ExitStack()
    try:
        ready(cluster)
        toolbox = stack.enter_context(Toolbox(cluster))
        for number in range(asked.first, asked.first + asked.trials):
            report = run_trial(cluster, toolbox, number, asked.seed, folder / str(number), Engine(master="local[2]"))
            reports.append(report)
            said = "; ".join(report.violations).splitlines()[-1:] if report.violations else ["ok"]
            print(
                f"{time.strftime('%H:%M:%S')} trial {number} {report.seconds:.0f} s ({', '.join(report.kinds)}): {said[0]}",
                flush=True,
            )
            if asked.out:
                asked.out.mkdir(parents=True, exist_ok=True)
                with (asked.out / "trials.jsonl").open("a") as file:
                    line = {
                        "trial": number,
                        "kinds": report.kinds,
                        "violations": report.violations,
                        "statuses": report.statuses,
                    }
                    file.write(json.dumps(line) + "\n")
    finally:
        stack.close()
        session.close()
        stop(cluster)
        shutil.rmtree(folder, ignore_errors=True)
        text = summary(reports, asked.seed)
        print(text)
        if asked.out:
            (asked.out / "summary.txt").write_text(text + "\n")
    return 1 if any(report.violations for report in reports) or len(reports) < asked.trials else 0


if __name__ == "__main__":
    sys.exit(main())
