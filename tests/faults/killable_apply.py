"""Applies pickled actions in a process that a trial kills. Prints each outcome."""

import pickle
import sys
import time
from pathlib import Path

from reconciler.apply.context import ApplyContext, Tuning
from reconciler.apply.executor import apply
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.session import KafkaSession


def main() -> None:
    actions_path, journal_path, servers, timeout_s, tuning_path = sys.argv[1:]
    actions = pickle.loads(Path(actions_path).read_bytes())
    tuning: Tuning = pickle.loads(Path(tuning_path).read_bytes())
    gateway = KafkaGateway(KafkaSession(Connection(tuple(servers.split(",")), timeout_s=float(timeout_s))))
    for outcome in apply(
        actions,
        ApplyContext(
            gateway=gateway,
            journal=ActionJournal(JournalFile(Path(journal_path))),
            run_id="killed",
            plan_digest="killed",
            clock=lambda: time.time_ns() // 1_000_000,
            sleep=time.sleep,
            tuning=tuning,
        ),
    ):
        print(outcome.action.address, outcome.status, flush=True)


if __name__ == "__main__":
    main()
