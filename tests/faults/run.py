"""Runs fault trials on new brokers: `python -m tests.faults.run --trials N --seed S`.

Live consumers read through each trial; a record that one of them loses without an announcement in
the plan is a violation. It prints a summary. The exit code is 1 for any violation.
"""

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
from pathlib import Path

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stop
from reconciler.scan import spark_process
from reconciler.scan.engine_choice import Engine
from tests.faults.fault_types import FaultType
from tests.faults.trial import TrialReport, choose_faults, run_trial
from tests.toolbox import close_toolboxes

OPERATIONS = ("elect_leader", "delete_group", "delete_records")


def create_consumer_offsets(cluster: SandboxCluster) -> None:
    """Create `__consumer_offsets`, so that the first trial starts like the last one."""
    client.create_topics(cluster.bootstrap_servers, [client.Topic("warm", 1, 3)])
    client.produce(cluster.bootstrap_servers, "warm", {0: [client.Record(b"x")]})
    client.commit(cluster.bootstrap_servers, "warm", {("warm", 0): 1}, deadline_s=60)


def render_summary(reports: list[TrialReport], seed: int, seconds: float) -> str:
    """Render the numbers of trials, actions and outcomes, and all violations."""
    statuses = Counter[str]()
    for report in reports:
        statuses.update(report.statuses)
    failed = [report for report in reports if report.violations]
    lines = [f"{len(reports)} trials, seed {seed}, {seconds:.0f} s: {len(failed)} with violations", ""]
    lines.append(f"{'fault':34}{'trials':>8}" + "".join(f"{operation:>16}" for operation in OPERATIONS))
    for fault in FaultType:
        of_fault = [report for report in reports if fault in report.faults]
        counts = [sum(report.actions(operation) for report in of_fault) for operation in OPERATIONS]
        lines.append(f"{fault.value:34}{len(of_fault):>8}" + "".join(f"{count:>16}" for count in counts))
    lines += ["", *(f"{status:34}{count:>8}" for status, count in sorted(statuses.items()))]
    for report in failed:
        lines.append(f"\ntrial {report.number} ({', '.join(report.faults)})")
        lines += [f"  {violation}" for violation in report.violations]
    return "\n".join(lines)


def run_lane(options: argparse.Namespace) -> list[TrialReport]:
    """Run every `--lanes`-th trial on three brokers, and write each report to disk at once."""
    cluster = start(3, name=f"faults-{options.lane}", heap_mib=384)
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    options.out.mkdir(parents=True, exist_ok=True)
    reports: list[TrialReport] = []
    try:
        create_consumer_offsets(cluster)
        for number in pending_trials(options, options.lane):
            report = run_trial(cluster, number, options.seed, folder / str(number), Engine(master="local[2]"))
            reports.append(report)
            result = "; ".join(report.violations).splitlines()[-1:] if report.violations else ["ok"]
            print(
                f"{time.strftime('%H:%M:%S')} trial {number} {report.seconds:.0f} s ({', '.join(report.faults)}): {result[0]}",
                flush=True,
            )
            add_report(options.out, options.lane, report)
    finally:
        close_toolboxes()
        spark_process.close()
        stop(cluster)
        shutil.rmtree(folder, ignore_errors=True)
    return reports


def run_lanes(options: argparse.Namespace) -> list[TrialReport]:
    """Run a process per lane, because a trial mostly waits for brokers.

    The trials do not depend on the number of lanes.
    """
    arguments = [f"--{name}={getattr(options, name)}" for name in ("trials", "seed", "first", "lanes", "out")]
    command = [sys.executable, "-m", "tests.faults.run", *arguments]

    def run_until_the_last_trial(lane: int) -> None:
        """If the process ends early, its present trial has a violation."""
        while True:
            result = subprocess.run([*command, f"--lane={lane}"], check=False)
            pending = pending_trials(options, lane)
            if not pending or result.returncode in (0, 130):
                return
            error = f"ERROR the process ended with {result.returncode}"
            faults = choose_faults(pending[0], options.seed)
            add_report(options.out, lane, TrialReport(pending[0], faults, violations=[error]))

    lanes = range(options.lanes)
    with ThreadPoolExecutor(options.lanes) as pool:
        list(pool.map(run_until_the_last_trial, lanes))
    reports = (report for lane in lanes for report in read_reports(options.out, lane))
    return sorted(reports, key=lambda report: report.number)


def pending_trials(options: argparse.Namespace, lane: int) -> list[int]:
    """Numbers of the trials of one lane that have no report yet."""
    finished = {report.number for report in read_reports(options.out, lane)}
    numbers = range(options.first + lane, options.first + options.trials, options.lanes)
    return [number for number in numbers if number not in finished]


def add_report(out: Path, lane: int, report: TrialReport) -> None:
    with (out / f"trials-{lane}.jsonl").open("a") as file:
        file.write(json.dumps(vars(report)) + "\n")


def read_reports(out: Path, lane: int) -> list[TrialReport]:
    path = out / f"trials-{lane}.jsonl"
    return [_parse(line) for line in path.read_text().splitlines()] if path.exists() else []


def _parse(line: str) -> TrialReport:
    values = json.loads(line)
    faults = tuple(map(FaultType, values.pop("faults")))
    return TrialReport(faults=faults, statuses=Counter(values.pop("statuses")), **values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial, for a repetition")
    parser.add_argument(
        "--out", type=Path, default=Path("faults-report"), help="an empty folder: the summary, a JSON line per trial"
    )
    parser.add_argument("--lanes", type=int, default=1, help="number of clusters at the same time")
    parser.add_argument("--lane", type=int, help="run only this lane")
    options = parser.parse_args()
    faulthandler.enable()
    if options.lane is not None:
        return 1 if any(report.violations for report in run_lane(options)) else 0
    if options.out.exists() and any(options.out.iterdir()):
        parser.error(f"{options.out} contains an earlier run: move it away, or choose another folder with --out")
    start_s = time.monotonic()
    reports = run_lanes(options)
    text = render_summary(reports, options.seed, time.monotonic() - start_s)
    print(text)
    (options.out / "summary.txt").write_text(text + "\n")
    return 1 if any(report.violations for report in reports) or len(reports) < options.trials else 0


if __name__ == "__main__":
    sys.exit(main())
