"""Measures what a month of journal entries costs a `converge`.

    python -m bench.journal [--quick] [--dry]

The month: 50 partitions purged every 30 s, each round with an intent and an outcome for all of them.
`--quick`: a day. A `converge` reads the journal three times: for the plan, for interrupted runs and for
the recheck. A round of `watch` reads it for interrupted runs only.
"""

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench import results
from bench.plan_file import action
from bench.processes import measure_seconds
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import start, stopping
from reconciler.companions.sandbox.jars import DEFAULT_VERSION
from reconciler.journal.entry import create, dump_batch
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal, LineStore
from reconciler.kafka.connect import Connection
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.kafka.session import KafkaSession
from reconciler.model.outcome import Outcome, Status

PARTITIONS, EVERY_MS, DAY_MS = 50, 30_000, 86_400_000
TOPIC = "_reconciler.journal"
RUNS = 5


def month(days: int, now_ms: int) -> Iterator[tuple[int, bytes]]:
    """Yield time and text of each line, oldest first, up to a round that ends now."""
    actions = [action(number) for number in range(PARTITIONS)]
    outcomes = [
        Outcome(
            action=a,
            status=Status.APPLIED,
            detail=a.APPLIED,
            code="NONE",
            read_back="log start 98213",
            sends=1,
            removed_max=98_213,
        )
        for a in actions
    ]
    author: dict[str, Any] = {"who": "ci@runner", "commit": "4f2c9aa" * 5, "plan_digest": "sha256:" + "0" * 64}
    templates = []
    for events in (actions, outcomes):
        entries = [create(event, run_id="RUN", at_ms=1, **author) for event in events]
        [text] = dump_batch(entries)
        templates.append(text)
    for at_ms in range(now_ms - days * DAY_MS, now_ms + 1, EVERY_MS):
        for number, text in enumerate(templates):
            stamped = text.replace('"at_ms":1,', f'"at_ms":{at_ms + number},', 1).replace('"RUN"', f'"{at_ms:012x}"', 1)
            yield at_ms + number, stamped.encode("ascii")


def read_as_a_round_does(store: LineStore, now_ms: int) -> None:
    """Read for the plan; then for interrupted runs, and for the recheck."""
    assert len(ActionJournal(store).last_purges(every_ms=EVERY_MS, now_ms=now_ms)) == PARTITIONS
    journal = ActionJournal(store)
    journal.open_intents("sha256:plan", since_ms=now_ms)
    journal.last_purges(every_ms=EVERY_MS, now_ms=now_ms)


def rows(name: str, store: LineStore, size: int, days: int, now_ms: int) -> Iterator[tuple[str, str]]:
    rounds = [measure_seconds(lambda: read_as_a_round_does(store, now_ms)) for _ in range(RUNS)]
    whole = measure_seconds(lambda: [None for _ in store.lines()])
    megabytes = size / days / 1_000_000
    yield f"{name}: a day of entries", f"{megabytes:,.1f} MB"
    yield f"{name}: all reading of a round, after {days} days", results.summarize(rounds, " s", digits=2)
    yield f"{name}: all {days} days read once, without parsing", f"{whole:,.1f} s"


def fill_topic(servers: str, lines: Iterable[tuple[int, bytes]]) -> None:
    """Fill a topic whose records have their own times, which a topic for a bench needs."""
    configs = {"retention.ms": "-1", "max.message.bytes": "1000000"}
    client.create_topics(servers, [client.Topic(TOPIC, configs=configs)])
    producer = Producer(
        {"bootstrap.servers": servers, "compression.type": "zstd", "linger.ms": 0, "batch.size": 20_000}
    )
    for at_ms, line in lines:
        while True:
            try:
                producer.produce(TOPIC, line, partition=0, timestamp=at_ms)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(300) == 0


def main() -> None:
    options = results.parser("Measure what a month of journal entries costs a `converge`.").parse_args()
    days = 1 if options.quick else 30
    now_ms = time.time_ns() // 1_000_000
    measured: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        path = Path(folder) / "journal.jsonl"
        with path.open("wb") as file:
            file.writelines(line + b"\n" for _at_ms, line in month(days, now_ms))
        measured += rows("file", JournalFile(path), path.stat().st_size, days, now_ms)
    with stopping(start(1, name=f"bench-journal-{os.getpid()}", progress=lambda *_step: None), timeout_s=60) as cluster:
        fill_topic(cluster.bootstrap_servers, month(days, now_ms))
        size = sum(file.stat().st_size for file in cluster.dir.rglob("*.log") if file.parent.name == f"{TOPIC}-0")
        session = KafkaSession(Connection((cluster.bootstrap_servers,), timeout_s=60.0))
        measured += rows("topic", JournalTopic(session, TOPIC), size, days, now_ms)
        session.close()
    text = [
        results.machine(DEFAULT_VERSION),
        "",
        f"{PARTITIONS} partitions that are purged every 30 s for {days} days. One process, which also reads.",
        "",
        *results.table(("work", "measured"), measured),
    ]
    results.publish(options, "journal", "A month of journal entries", text)


if __name__ == "__main__":
    main()
