"""Reads high watermarks again where a commit lies above them.

A live group often commits after the scan has read the partition's end. Only the high watermark is
replaced: it decides whether a commit can be true. The stable end, which caps every floor, stays that of
the scan, so records that were produced in between cannot be removed.
"""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.kafka.offsets import read_watermarks, requests_by_leader
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import PartitionFacts, Unknown


def refresh_watermarks(
    session: KafkaSession, partitions: Mapping[TopicPartition, PartitionFacts]
) -> dict[TopicPartition, PartitionFacts]:
    """The same facts, with a new high watermark for partitions whose readers stand above the scan's.

    A leader that does not answer leaves the first value in place: the commit stays unproven then.
    """
    refreshed = dict(partitions)
    requests = requests_by_leader(facts for facts in partitions.values() if _is_overtaken(facts))
    for partition, (_log_start, end) in read_watermarks(session, requests).items():
        facts = partitions[partition]
        if isinstance(end, int) and isinstance(facts.high_watermark, int) and end > facts.high_watermark:
            refreshed[partition] = replace(facts, high_watermark=end)
    return refreshed


def _is_overtaken(facts: PartitionFacts) -> bool:
    end = facts.high_watermark
    if isinstance(end, Unknown) or isinstance(facts.readers, Unknown):
        return False
    return any(reader.committed > end for reader in facts.readers)
