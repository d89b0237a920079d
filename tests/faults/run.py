"""`python -m tests.faults.run --trials N --seed S`: fault trials on brokers of their own, with a summary; exit 1 for any violation."""

import argparse
import faulthandler
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from reconciler.sandbox import client
from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.scan import session
from reconciler.scan.session import SparkTarget
from tests.faults.kinds import Kind
from tests.faults.trial import Report, chosen, run_trial
from tests.toolbox import Toolbox

OPERATIONS = ("elect_leader", "delete_group", "delete_records")


def ready(cluster: Cluster) -> None:
    """The commit log is there, so that the first trial is as good as the last."""
    client.create_topics(cluster.bootstrap_servers, [client.Topic("warm", 1, 3)])
    client.produce(cluster.bootstrap_servers, "warm", {0: [client.Record(b"x")]})
    client.commit(cluster.bootstrap_servers, "warm", {("warm", 0): 1}, deadline_s=60)


def summary(reports: list[Report], seed: int, seconds: float) -> str:
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
        f"{len(reports)} trials, seed {seed}, {seconds:.0f} s: {len(broken)} with violations",
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


def lane(asked: argparse.Namespace) -> list[Report]:
    """Every `--lanes`-th trial, one after another, on three brokers of its own; each is on disk as soon as it is over."""
    told = {report.number for report in reported(asked.out, asked.lane)}
    mine = [number for number in numbers(asked, asked.lane) if number not in told]
    cluster = start(3, name=f"faults-{asked.lane}", heap_mib=384)
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    asked.out.mkdir(parents=True, exist_ok=True)
    reports: list[Report] = []
    stack = ExitStack()
    try:
        ready(cluster)
        toolbox = stack.enter_context(Toolbox(cluster))
        for number in mine:
            report = run_trial(
                cluster, toolbox, number, asked.seed, folder / str(number), SparkTarget(master="local[2]")
            )
            reports.append(report)
            said = "; ".join(report.violations).splitlines()[-1:] if report.violations else ["ok"]
            print(
                f"{time.strftime('%H:%M:%S')} trial {number} {report.seconds:.0f} s ({', '.join(report.kinds)}): {said[0]}",
                flush=True,
            )
            with (asked.out / f"trials-{asked.lane}.jsonl").open("a") as file:
                file.write(dump(report) + "\n")
    finally:
        stack.close()
        session.close()
        stop(cluster)
        shutil.rmtree(folder, ignore_errors=True)
    return reports


def side_by_side(asked: argparse.Namespace) -> list[Report]:
    """A process per lane, since a trial mostly waits for brokers to come back; the trials are the same in any number of lanes."""
    words = [f"--trials={asked.trials}", f"--seed={asked.seed}", f"--first={asked.first}", f"--lanes={asked.lanes}"]
    command = [sys.executable, "-m", "tests.faults.run", *words, f"--out={asked.out}"]
    with ThreadPoolExecutor(asked.lanes) as pool:
        list(pool.map(lambda number: _supervised([*command, f"--lane={number}"], asked, number), range(asked.lanes)))
    return sorted(
        (r for lane in range(asked.lanes) for r in reported(asked.out, lane)), key=lambda report: report.number
    )


def _supervised(command: list[str], asked: argparse.Namespace, lane: int) -> None:
    """A process that dies is a violation of the trial it died of, and another goes on behind that trial."""
    while True:
        done = subprocess.run(command, check=False)
        told = {report.number for report in reported(asked.out, lane)}
        left = [number for number in numbers(asked, lane) if number not in told]
        if not left or done.returncode in (0, 130):
            return
        died = Report(
            left[0], chosen(left[0], asked.seed), violations=[f"BROKEN the process ended with {done.returncode}"]
        )
        with (asked.out / f"trials-{lane}.jsonl").open("a") as file:
            file.write(dump(died) + "\n")


def numbers(asked: argparse.Namespace, lane: int) -> range:
    """The trials of one lane."""
    return range(asked.first + lane, asked.first + asked.trials, asked.lanes)


def reported(out: Path, lane: int) -> list[Report]:
    """Trials of a lane that are over."""
    path = out / f"trials-{lane}.jsonl"
    return [parse(line) for line in path.read_text().splitlines()] if path.exists() else []


def dump(report: Report) -> str:
    """One line of JSON."""
    values = {name: getattr(report, name) for name in ("number", "kinds", "violations", "statuses", "seconds")}
    return json.dumps(values | {"cells": [[*cell, count] for cell, count in report.cells.items()]})


def parse(line: str) -> Report:
    """What `dump` wrote."""
    values = json.loads(line)
    return Report(
        number=values["number"],
        kinds=tuple(map(Kind, values["kinds"])),
        violations=values["violations"],
        statuses=Counter(values["statuses"]),
        cells=Counter({(kind, operation): count for kind, operation, count in values["cells"]}),
        seconds=values["seconds"],
    )


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--trials", type=int, default=300)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--first", type=int, default=0, help="number of the first trial, to repeat one")
    words.add_argument(
        "--out", type=Path, default=Path("faults-report"), help="an empty folder: the summary, a JSON line per trial"
    )
    words.add_argument("--lanes", type=int, default=1, help="clusters side by side")
    words.add_argument("--lane", type=int, help="only this lane")
    asked = words.parse_args()
    faulthandler.enable()
    if asked.lane is not None:
        return 1 if any(report.violations for report in lane(asked)) else 0
    if asked.out.exists() and any(asked.out.iterdir()):
        words.error(f"{asked.out} holds an earlier run: move it away, or name another folder with --out")
    began = time.monotonic()
    reports = side_by_side(asked)
    text = summary(reports, asked.seed, time.monotonic() - began)
    print(text)
    (asked.out / "summary.txt").write_text(text + "\n")
    return 1 if any(report.violations for report in reports) or len(reports) < asked.trials else 0


if __name__ == "__main__":
    sys.exit(main())
