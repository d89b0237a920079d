"""Runs one scan as a process and prints the snapshot, for engines that cannot share a process.

`python -m tests.spark.scan_once BOOTSTRAP TOPIC GROUP ENGINE [CONF=VALUE …]`; ENGINE:
`inline`, a Spark master or an sc:// address. It scans once more for each line of standard input. An
empty line follows each snapshot. OBSERVED_AT_MS is fixed, so that equal clusters give equal snapshots.
"""

import pprint
import sys
from contextlib import closing
from dataclasses import replace

from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, Unknown
from reconciler.scan.scan import scan
from tests.spark.reading import parse_engine, print_step, repeat

OBSERVED_AT_MS = 1_000_000


def needs(topic: str, group: str) -> ScanRequest:
    return ScanRequest(
        topics=(
            TopicRequest(
                topics=(Selector(topic),),
                offsets=True,
                instants_ms=(0, 5_000),
                readers=True,
                named_groups=frozenset({group}),
            ),
        ),
        groups=(GroupRequest(groups=(Selector(f"{group}*"),), activity=True),),
        topic_records=True,
    )


def as_text(snapshot: ClusterSnapshot, topic: str, group: str) -> str:
    """The facts of this topic and these groups only, a line each; other tests change the shared cluster."""
    of_topic = snapshot.topics[topic]
    consumers = of_topic.consumers if isinstance(of_topic.consumers, Unknown) else sorted(of_topic.consumers)
    facts = [
        (replace(of_topic, consumers=NOT_ASKED), consumers),  # the order of a set differs between processes
        *snapshot.partitions.items(),
        *sorted((name, facts) for name, facts in snapshot.groups.items() if name.startswith(group)),
        (snapshot.topics_incomplete, snapshot.groups_incomplete, snapshot.readers_incomplete),
    ]
    return "\n".join(pprint.pformat(fact, width=sys.maxsize) for fact in facts)


def main(bootstrap: str, topic: str, group: str, engine: str, *conf: str) -> None:
    with closing(KafkaSession(Connection(tuple(bootstrap.split(","))))) as session:

        def scan_once() -> None:
            snapshot = scan(
                needs(topic, group),
                session,
                observed_at_ms=OBSERVED_AT_MS,
                last_purges={},
                engine=parse_engine(engine, conf),
                progress=print_step,
            )
            print(as_text(snapshot, topic, group), end="\n\n", flush=True)

        repeat(scan_once)


if __name__ == "__main__":
    main(*sys.argv[1:])
