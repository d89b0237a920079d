"""Applies pickled actions in a process that a trial kills. Prints each outcome."""

import pickle
import sys
import time
from pathlib import Path

from reconciler.apply.executor import apply
from reconciler.apply.tuning import BatchLimits
from reconciler.journal.file import FileJournal
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway


def main() -> None:
    actions_path, journal_path, servers, timeout_s, limits_path = sys.argv[1:]
    actions = pickle.loads(Path(actions_path).read_bytes())
    limits: BatchLimits = pickle.loads(Path(limits_path).read_bytes())
    gateway = KafkaGateway(Connection(tuple(servers.split(",")), timeout_s=float(timeout_s)))
    for outcome in apply(
        actions,
        gateway=gateway,
        journal=FileJournal(Path(journal_path)),
        run_id="killed",
        plan_digest="killed",
        clock=lambda: time.time_ns() // 1_000_000,
        sleep=time.sleep,
        settings=limits,
    ):
        print(outcome.action.address, outcome.status, flush=True)


if __name__ == "__main__":
    main()
