"""Arrow schemas and batches of the three sources: what a row is, and what its nulls mean.

Every row has a status: `error` null means that the row was read. A null number beside an `error` was
not read; it is never zero. The data sources for users have these columns (docs/scan.md).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from reconciler.kafka.groups import Commit
from reconciler.kafka.offsets import Answers, OffsetsRequest
from reconciler.model.fingerprint import fingerprint
from reconciler.model.snapshot import Unknown

PARTITIONS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("log_start", pa.int64()),
        # The read-committed end; null also where only the records were requested.
        pa.field("stable_end", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        # Instants in epoch ms, and per instant the first offset at or after it: -1 none, null unknown.
        pa.field("instants", pa.list_(pa.int64())),
        pa.field("offsets_at", pa.list_(pa.int64())),
        pa.field("error", pa.string()),
    ]
)
"""One row per requested partition."""

GROUP_COMMITS = pa.schema(
    [
        pa.field("group", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("committed", pa.int64()),
        pa.field("commits", pa.int32()),
        pa.field("commit_topics", pa.int32()),
        pa.field("fingerprint", pa.string()),
        pa.field("error", pa.string()),
    ]
)
"""One row per committed offset, then one per group (topic null) with its counts and fingerprint, or an error."""

COMMIT_LOG = pa.schema(
    [
        pa.field("group", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("committed", pa.int64()),
        pa.field("topic_id", pa.string()),
        pa.field("last_activity_ms", pa.int64()),
        pa.field("log_partition", pa.int32()),
        pa.field("log_offset", pa.int64()),
        pa.field("seems", pa.string()),
        pa.field("live", pa.bool_()),
        pa.field("commit_keys", pa.int32()),
        pa.field("records", pa.int64()),
        pa.field("skipped", pa.int64()),
        pa.field("garbled", pa.int64()),
        pa.field("error", pa.string()),
    ]
)
"""Three shapes of rows.

Group and topic: a topic id that the group's commits on the partition were made for, with the newest
offset committed under it (`topic_id` null: by a value version without ids). Group only: its newest
activity, where its newest record is, the type that its records suggest, whether any of its keys is
still set, and the number of set commit keys. Neither: one partition of the log, with its number of
records, of skipped ones (unknown key types) and of malformed ones (`garbled`), or an error.
"""


def offset_batch(requests: Sequence[OffsetsRequest], answers: Answers) -> pa.RecordBatch:
    """One row of `PARTITIONS` for each requested partition."""
    rows: list[dict[str, Any]] = []
    for request in requests:
        for number in request.partitions:
            ends = {end: answers[request.query(end, number)] for end in request.ends}
            at = [answers.get(request.query(instant, number)) for instant in request.instants]
            facts = (*ends.items(), *(("offset at an instant", fact) for fact in at))
            failures = [f"{what}: {fact.reason}" for what, fact in facts if isinstance(fact, Unknown)]
            rows.append(
                {
                    "topic": request.topic,
                    "partition": number,
                    **{end.replace(" ", "_"): _number(fact) for end, fact in ends.items()},
                    "instants": request.instants,
                    "offsets_at": [_number(fact) for fact in at],
                    "error": f"{failures[0]} (leader {request.leader})" if failures else None,
                }
            )
    return pa.RecordBatch.from_pylist(rows, schema=PARTITIONS)


def _number(answer: int | Unknown | None) -> int | None:
    return answer if isinstance(answer, int) else None


def commit_batch(
    read: Mapping[str, list[Commit] | Unknown], *, topics: Collection[str] | None = None
) -> pa.RecordBatch:
    """Rows of `GROUP_COMMITS`. `topics`: rows of commits only for these (None: all).

    Counts and fingerprint always cover all commits of a group.
    """
    rows: list[dict[str, Any]] = []
    for group, answer in read.items():
        if isinstance(answer, Unknown):
            rows.append({"group": group, "error": answer.reason})
            continue
        rows += (
            {"group": group, "topic": topic, "partition": partition, "committed": committed}
            for topic, partition, committed in answer
            if topics is None or topic in topics
        )
        counts = {"commits": len(answer), "commit_topics": len({topic for topic, _, _ in answer})}
        rows.append({"group": group, **counts, "fingerprint": fingerprint(answer)})
    return pa.RecordBatch.from_pylist(rows, schema=GROUP_COMMITS)
