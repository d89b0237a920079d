"""Ends read once more where a commit lies above them: with a live group the commits of a scan are often younger than its ends.

Only the high watermark is replaced, since it says whether a commit can be true. The stable end, which caps every floor, stays the
one of the scan: nothing that was produced in between can go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.kafka.connect import Connection
from reconciler.kafka.offsets import OffsetsRequest, read_partitions
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import PartitionFacts, Unknown


def refresh_watermarks(
    connection: Connection, partitions: Mapping[TopicPartition, PartitionFacts]
) -> dict[TopicPartition, PartitionFacts]:
    """The same facts, with the high watermark of now for partitions whose readers stand above the one of the scan.

    A leader that does not answer leaves the first answer in place: then the commit stays unproven.
    """
    overtaken = [facts for facts in partitions.values() if _overtaken(facts)]
    if not overtaken:
        return dict(partitions)
    later: dict[TopicPartition, PartitionFacts] = {}
    for batch in read_partitions(connection, list(_asks(overtaken))):
        for row in batch.to_pylist():
            partition = TopicPartition(row["topic"], row["partition"])
            before = partitions[partition]
            end = row["high_watermark"]
            if isinstance(end, int) and isinstance(before.high_watermark, int) and end > before.high_watermark:
                later[partition] = replace(before, high_watermark=end)
    return {**partitions, **later}


def _overtaken(facts: PartitionFacts) -> bool:
    end = facts.high_watermark
    if isinstance(end, Unknown) or isinstance(facts.readers, Unknown) or not isinstance(facts.leader, int):
        return False
    return any(reader.committed > end for reader in facts.readers)


def _asks(overtaken: Iterable[PartitionFacts]) -> Iterable[OffsetsRequest]:
    wanted: dict[tuple[str, int], list[int]] = {}
    for facts in overtaken:
        assert isinstance(facts.leader, int)
        wanted.setdefault((facts.partition.topic, facts.leader), []).append(facts.partition.partition)
    for (topic, leader), numbers in sorted(wanted.items()):
        yield OffsetsRequest(topic, sorted(numbers), leader, full=False)
