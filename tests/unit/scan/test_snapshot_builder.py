"""The snapshot from rows and listings: which facts are Unknown, and when a listing is complete."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.group_listing import GroupListing
from reconciler.kafka.topics import RetentionFacts
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import (
    NOT_ASKED,
    Cause,
    ConsumerPosition,
    GroupState,
    GroupType,
    PartitionFacts,
    PendingCommit,
    Unknown,
)
from reconciler.scan import snapshot_builder
from reconciler.scan.chunks import PartitionRequest
from reconciler.scan.rows import PartitionRow, Position, Row, Rows, combine
from reconciler.scan.snapshot_builder import ConsumerOffsetsLog
from reconciler.scan.task_rows import SCHEMAS, Answer, encode
from tests.unit.scan.listings import ListedTopic, groups, partition, reason, topic, topics, unknown_topic

READ = ConsumerOffsetsLog(partitions=50)
NOW_MS = 1_800_000_000_000
UNSURE = 'the topic id that "g" committed for: __consumer_offsets does not say'
NO_PURGES: Mapping[TopicPartition, int] = {}
T0 = TopicPartition("t", 0)
Origin = tuple[str, int, str | None]
"""A group, an offset that it has committed, and the topic id of the commit."""
LED = partition()


def partition_request(listed: PartitionFacts = LED, *, full: bool = True, **asked: Any) -> PartitionRequest:
    """Return a request of one partition. `asked`: what else, such as its readers."""
    of_topic = {"topic": listed.partition.topic, "partitions": (listed,), "full": full}
    nothing_else = {"instants": (), "readers": False, "named": frozenset(), "last_purge": False}
    return PartitionRequest(**(of_topic | nothing_else | asked))


def answer(**tables: list[Mapping[str, Any]]) -> Answer:
    """An answer with these rows, as it arrives."""
    return {name: encode(pa.RecordBatch.from_pylist(rows, schema=SCHEMAS[name])) for name, rows in tables.items()}


def partition_row(**columns: Any) -> Row:
    read = {"log_start": 5, "last_stable_offset": 20, "high_watermark": 30}
    return {"error": None, **read, "offsets_at": [], **columns}


def facts(
    request: PartitionRequest,
    row: Row | None,
    log: ConsumerOffsetsLog = READ,
    purges: Mapping[TopicPartition, int] | Unknown = NO_PURGES,
    readers: Sequence[Position] = (),
    origins: Iterable[Origin] = (),
) -> PartitionFacts:
    by_group: dict[tuple[str, int, str], list[tuple[int, str | None]]] = {}
    for group, *origin in origins:
        by_group.setdefault(("t", 0, group), []).append(tuple(origin))
    rows = Rows({} if row is None else {"t": {0: PartitionRow(**row)}}, {}, {}, [], {("t", 0): readers}, by_group)
    (result,) = snapshot_builder.partition_facts([request], rows, log, purges, NOW_MS).values()
    return result


def facts_with_readers(
    *readers: tuple[str, int | None],
    named: Iterable[str] = (),
    origins: Iterable[Origin] = (),
    log: ConsumerOffsetsLog = READ,
    **columns: Any,
) -> PartitionFacts:
    """Facts with the readers at these positions, of which only those of named groups are requested, if any."""
    request = partition_request(named=frozenset(named)) if named else partition_request(readers=True)
    positions = [Position(*reader) for reader in readers]
    return facts(request, partition_row(**columns), log, readers=positions, origins=origins)


def test_partition_that_was_read() -> None:
    """The numbers of the row; "no record at or after" is None and never -1."""
    row = partition_row(offsets_at=[6, -1], stamps_at=[NOW_MS + 1, -1])
    result = facts(partition_request(instants=(7, 9)), row)
    assert result.future_stamps == {7: NOW_MS + 1}
    assert (result.log_start, result.last_stable_offset, result.high_watermark) == (5, 20, 30)
    assert result.offsets_at == {7: 6, 9: None}
    assert (result.leader, result.replicas, result.in_sync, result.topic_id) == (1, (1, 2), (1,), "id")
    assert result.readers is NOT_ASKED
    assert result.readers_below is NOT_ASKED


def test_partition_with_partial_answers() -> None:
    """Answers stay; each missing number is Unknown with the row's reason."""
    result = facts(
        partition_request(instants=(7,)),
        partition_row(last_stable_offset=None, offsets_at=[None], error="last stable offset: timed out"),
    )
    assert result.log_start == 5
    assert reason(result.last_stable_offset) == reason(result.offsets_at[7]) == "last stable offset: timed out"


@pytest.mark.parametrize(
    ("leader", "row", "expected"),
    [
        (None, None, "no leader"),
        (Unknown("leader: unknown"), None, "leader: unknown"),
        (1, None, "no answer"),
        (1, {"error": None}, "not read"),
    ],
)
def test_partition_without_numbers_is_unknown(leader: int | Unknown | None, row: Row | None, expected: str) -> None:
    """A missing row makes the facts Unknown like a row with an error; no fact becomes zero."""
    result = facts(partition_request(partition(leader=leader), instants=(7,), readers=True), row)
    numbers = (result.log_start, result.last_stable_offset, result.high_watermark, result.offsets_at[7])
    assert all(expected in reason(fact) for fact in (*numbers, result.readers_below))


def test_partition_with_leadership_only() -> None:
    """Offsets that were not requested are Unknown, even if there is a row."""
    result = facts(partition_request(full=False), partition_row())
    assert result.log_start is NOT_ASKED
    assert result.leader == 1


def test_last_purge_is_the_journals() -> None:
    """None means never purged, Unknown an unreadable journal, and "not asked" not requested."""
    assert facts(partition_request(), None, purges={T0: 8}).last_purge is NOT_ASKED
    assert facts(partition_request(last_purge=True), None, purges={T0: 8}).last_purge == 8
    assert facts(partition_request(last_purge=True), None, purges={}).last_purge is None
    assert reason(facts(partition_request(last_purge=True), None, purges=Unknown("torn")).last_purge) == "torn"


def test_readers_are_sorted_and_implied_ones_stand_at_the_log_start() -> None:
    """A group with commits on the topic, but not on this partition, would read from the log start."""
    result = facts_with_readers(("b", 7), ("a", None))
    assert result.readers == (ConsumerPosition("a", 5, without_commit=True), ConsumerPosition("b", 7))
    assert result.readers_below == 20


def test_an_implied_reader_at_an_unknown_log_start_makes_the_readers_unknown() -> None:
    """A group with an unknown position is not an absent group."""
    assert '"a"' in reason(facts_with_readers(("a", None), ("b", 7), log_start=None, error="no answer").readers)


def test_only_named_readers_where_only_they_are_requested() -> None:
    """With `named` and without `readers`, the facts say nothing about other groups."""
    result = facts_with_readers(("g", 7), ("other", 6), named="g", origins=[("g", 7, "id")])
    assert result.readers == (ConsumerPosition("g", 7, topic_id="id"),)
    assert result.readers_below is NOT_ASKED


ORIGINS: dict[str, tuple[list[Origin], str | None]] = {
    "one": ([("g", 7, "id")], "id"),
    "one, since moved": ([("g", 3, "id")], "id"),
    "no id written": ([("g", 7, None)], None),
    "made again": ([("g", 7, "new"), ("g", 3, "old")], "new"),
    "another's": ([("other", 7, "id")], UNSURE),
    "none": ([], UNSURE),
    "two alike": ([("g", 7, "new"), ("g", 7, "old")], UNSURE),
    "neither in force": ([("g", 1, "new"), ("g", 3, "old")], UNSURE),
}


@pytest.mark.parametrize(("origins", "expected"), ORIGINS.values(), ids=ORIGINS)
def test_topic_id_that_a_named_reader_committed_for(origins: list[Origin], expected: str | None) -> None:
    """From `__consumer_offsets`; Unknown where the current topic id is ambiguous."""
    (reader,) = facts_with_readers(("g", 7), named="g", origins=origins).readers  # type: ignore[misc]
    assert reader.topic_id == (Unknown(UNSURE) if expected is UNSURE else expected)


@pytest.mark.parametrize(
    ("committed", "expected"), [(7, "old"), (8, NOT_ASKED)], ids=["in force", "overtaken by a newer commit"]
)
def test_topic_id_of_a_reader_that_committed_for_another_topic(committed: int, expected: object) -> None:
    """Only commits of named groups were compared with the topic's id, so any other group whose commit
    was for a deleted topic of that name, and below the end of its successor, counted as having read.
    """
    origins: list[Origin] = [("g", 7, "old"), ("h", 8, "old")]
    (reader,) = facts_with_readers(("g", committed), origins=origins).readers  # type: ignore[misc]
    assert reader.topic_id == expected


def test_topic_id_is_unknown_where_the_groups_log_partition_is() -> None:
    """An unread partition of the log makes the topic ids of its groups Unknown, and only theirs."""
    unread_log = log_partition("g", 50)
    other = next(name for name in map(str, range(100)) if log_partition(name, 50) != unread_log)
    log = ConsumerOffsetsLog(partitions=50, unread={unread_log: Unknown("lost")})
    origins: list[Origin] = [("g", 7, "id"), (other, 7, "id")]
    readers = facts_with_readers(("g", 7), (other, 7), named=("g", other), origins=origins, log=log).readers
    assert isinstance(readers, tuple)
    assert {reader.group: reader.topic_id for reader in readers} == {"g": Unknown("lost"), other: "id"}


def group_row(**columns: Any) -> Row:
    read = {"error": None, "commits": 2, "commit_topics": 1, "fingerprint": "f" * 64, "live": None, "seems": None}
    activity = {"log_offset": 9, "log_partition": 3, "last_activity_ms": 1_000}
    return {**read, **activity, **columns}


READERS = ScanRequest(topics=(TopicRequest(topics=(Selector("t"),), readers=True),))
NEEDS_ACTIVITY = ScanRequest(groups=(GroupRequest(groups=(Selector("g"),), activity=True),))


def group_facts(
    row: Row | None,
    *,
    needs: ScanRequest = NEEDS_ACTIVITY,
    listing: GroupListing | None = None,
    log: ConsumerOffsetsLog = READ,
) -> Any:
    rows = Rows({}, {} if row is None else {"g": row}, {}, [])
    result = snapshot_builder.group_facts(needs, listing or groups("g"), rows, log)
    return result.get("g")


OWN_LOG = log_partition("g", 50)
LOST_LOG = ConsumerOffsetsLog(partitions=50, unread={OWN_LOG: Unknown("lost")})
OTHER_LOG = ConsumerOffsetsLog(partitions=50, unread={(OWN_LOG + 1) % 50: Unknown("lost")})
NO_COMMITS = {"commits": None, "commit_topics": None, "fingerprint": None}
HIDDEN_G, UNTYPED = groups(hidden=("g",)), replace(groups("g"), without_types=True)
NEW_PROTOCOL = replace(HIDDEN_G, groups={"g": replace(groups("g").groups["g"], type=GroupType.CONSUMER)})
ONE_LOG = ConsumerOffsetsLog(partitions=1)
UNANSWERED = ConsumerOffsetsLog(partitions=50, unanswered={3: Unknown("no answer")})
KNOWN = {"commits": 2, "commit_topics": 1, "fingerprint": "f" * 64}


OPEN_TRANSACTION = "…open transaction of __consumer_offsets[3]"


def ends_at(last_stable_offset: int) -> ConsumerOffsetsLog:
    return ConsumerOffsetsLog(partitions=50, last_stable_offsets={3: last_stable_offset})


def of_commits(keys: int, commits: int) -> dict[str, Any]:
    """Return the facts of a group of which the log holds more commits than its coordinator told."""
    words = f"…__consumer_offsets holds {keys} commits of the group, its coordinator has {commits}"
    return {**dict.fromkeys(KNOWN, words), "newest_record": (3, 9)}


def streams(members: int = 0, **columns: Any) -> Row:
    return group_row(live=True, seems="streams", members=members, **columns)


@pytest.mark.parametrize(
    ("row", "options", "expected"),
    [
        # Counts and fingerprint are from the commits, activity and newest record from the log.
        (
            group_row(),
            {},
            {"listed": True, "type": GroupType.CLASSIC, "state": GroupState.EMPTY, "last_activity_ms": 1_000, **KNOWN},
        ),
        # A group without a record of a member may be that of a consumer that assigns its partitions itself.
        *(
            (group_row(live=True, seems="classic", may_read=topics), {}, {"commits_only": commits_only})
            for topics, commits_only in (([], True), (None, False))
        ),
        (group_row(live=True, seems="consumer", may_read=None), {}, {"commits_only": False}),
        *(
            (group_row(live=True, seems=kind, may_read=["t"]), {"listing": listing}, {"may_read": frozenset({"t"})})
            for kind, listing in (("classic", groups("g")), ("consumer", NEW_PROTOCOL))
        ),
        # Silence is not idleness: without records in the log, or without times.
        (group_row(log_offset=None), {}, {"last_activity_ms": "…no record", "newest_record": "…no record"}),
        (group_row(last_activity_ms=None), {}, {"last_activity_ms": "…carries a time", "newest_record": (3, 9)}),
        # What may be of an open transaction is activity: its removal took the next commit of a producer.
        (group_row(), {"log": ends_at(10)}, {"last_activity_ms": 1_000, "newest_record": (3, 9)}),
        *(
            (group_row(), {"log": ends_at(end)}, {"last_activity_ms": OPEN_TRANSACTION, "newest_record": "…"})
            for end in (9, 4)
        ),
        # An end that was not read is no proof that no transaction is open.
        (group_row(), {"log": UNANSWERED}, {"last_activity_ms": Unknown("no answer"), "newest_record": "…"}),
        # The group's own partition of the log decides, not the others.
        (group_row(), {"log": LOST_LOG}, {"last_activity_ms": Unknown("lost")}),
        (
            group_row(),
            {"log": ConsumerOffsetsLog(missing=Unknown("no right"))},
            {"last_activity_ms": Unknown("no right")},
        ),
        (group_row(), {"log": OTHER_LOG}, {"last_activity_ms": 1_000}),
        # Every fact from commits has the row's error, or says that there is no row.
        (group_row(error="timed out", **NO_COMMITS), {}, dict.fromkeys(KNOWN, Unknown("timed out"))),
        (None, {}, {"commits": "…no answer"}),
        # The coordinator omits topics that the caller may not describe: a removal would name too few.
        *((group_row(commit_keys=keys), {}, {**KNOWN, "newest_record": (3, 9)}) for keys in (2, 1, None)),
        (group_row(commit_keys=3), {}, of_commits(3, 2)),
        (group_row(commits=0, commit_keys=1), {}, of_commits(1, 0)),
        # Not listed, with the type of its records; a removed one is absent.
        *(
            (
                group_row(live=True, seems="share", **NO_COMMITS),
                {"listing": listing},
                {"listed": False, "type": GroupType.SHARE, "commits": "…no list call names"},
            )
            for listing in (groups(), HIDDEN_G)
        ),
        (group_row(live=False, seems="classic"), {"listing": groups()}, None),
        # Brokers before Kafka 3.8 tell no type; a key of another protocol, of any group, makes all unknown.
        (group_row(live=True, seems="classic"), {"log": ONE_LOG, "listing": UNTYPED}, {"type": GroupType.CLASSIC}),
        *(
            (group_row(live=True, seems=seems), {"log": log, "listing": UNTYPED}, {"type": "…"})
            for seems, log in (
                ("consumer", ONE_LOG),  # of the early access in Kafka 3.7
                ("classic", ConsumerOffsetsLog(partitions=1, unread={0: Unknown("away")})),
                ("classic", ConsumerOffsetsLog(partitions=1, skipped=1)),
                ("classic", ConsumerOffsetsLog(missing=Unknown("hidden"))),
            )
        ),
        # Without the log they are classic if no broker knows another protocol, which Kafka 3.7 may.
        *(
            (
                group_row(log_offset=None),
                {"log": ConsumerOffsetsLog(hidden=True), "listing": replace(UNTYPED, classic_only=classic_only)},
                {"type": GroupType.CLASSIC if classic_only else "…"},
            )
            for classic_only in (True, False)
        ),
        # Its first record names no protocol, like Connect's; a consumer would be listed.
        *(
            (group_row(live=True, seems=seems, **NO_COMMITS), {"listing": listing}, {"type": kind})
            for seems in ("classic", "consumer")
            for listing, kind in ((HIDDEN_G, GroupType.HIDDEN), (groups(), GroupType(seems)))
        ),
        # Members of a Streams group cannot be described: before its first commit it may read any topic.
        (streams(), {"needs": READERS, "listing": HIDDEN_G}, {"type": GroupType.STREAMS, "consumption_unread": None}),
        (
            streams(commits=0),
            {"needs": READERS, "listing": HIDDEN_G},
            {"consumption_unread": "…Streams group without a commit"},
        ),
        # The log says whether it has members. Without the whole log its state is unknown, and never EMPTY.
        *(
            (
                streams(members),
                {"listing": HIDDEN_G, "log": log},
                {"type": GroupType.STREAMS, "listed": True, "state": state},
            )
            for members, log, state in (
                (0, ConsumerOffsetsLog(partitions=50), GroupState.EMPTY),
                (1, ConsumerOffsetsLog(partitions=50), GroupState.STABLE),
                (0, LOST_LOG, Unknown("lost")),
            )
        ),
        (streams(), {"listing": groups()}, {"type": GroupType.STREAMS, "listed": False}),
        # A group that is not requested has its listing only.
        (
            group_row(),
            {"needs": ScanRequest()},
            {"state": GroupState.EMPTY, "commits": NOT_ASKED, "last_activity_ms": NOT_ASKED},
        ),
    ],
)
def test_facts_of_a_group(row: Row | None, options: dict[str, Any], expected: dict[str, Any] | None) -> None:
    """`…`: the fact is Unknown, with these words."""
    facts = group_facts(row, **options)
    if expected is None:
        assert facts is None
        return
    for name, value in expected.items():
        fact = getattr(facts, name)
        if isinstance(value, str) and value.startswith("…"):
            assert value[1:] in reason(fact)
        else:
            assert fact == value, name


def test_groups_are_counted_whose_rows_are_left_out() -> None:
    """A scan is complete if each group was read; no policy needs the rows of most. A lost chunk counts none."""
    read = {"error": None, "commits": 3, "commit_topics": 1, "fingerprint": "f"}
    failed = {"group": "c", "error": "no right"}
    chunks = [answer(groups=[{"group": "a", **read}, {"group": "b", **read}]), answer(groups=[failed]), {}]
    rows = combine(chunks, READERS, {})
    assert (rows.groups_read, rows.commits_read, sorted(rows.groups)) == (3, 6, ["c"])


def test_consumers_of_a_topic_are_all_groups_that_consume_it_wherever_they_stand() -> None:
    """A group at the end holds nothing back, so its position is left out; it is a consumer all the same."""
    consumers = [{"group": "ahead", "topic": "t"}, {"group": "behind", "topic": "t"}]
    rows = combine([answer(consumers=consumers)], ScanRequest(), {})
    listing = topics(topic("t"), topic("quiet"), topic("other"))
    result = snapshot_builder.topic_facts(listing, {}, rows, frozenset(), {"t", "quiet"})
    assert result["t"].consumers == {"ahead", "behind"}
    assert result["quiet"].consumers == frozenset()
    assert result["other"].consumers is NOT_ASKED


def test_a_group_whose_consumption_failed_says_so() -> None:
    """Only that group blocks; where no readers are requested, all are "not asked"."""
    rows = Rows({}, {"g": group_row(error="timed out")}, {}, [])
    facts = snapshot_builder.group_facts(READERS, groups("f", "g"), rows, READ)
    assert reason(facts["g"].consumption_unread) == "timed out"
    assert facts["f"].consumption_unread is None
    assert snapshot_builder.group_facts(ScanRequest(), groups("f"), rows, READ)["f"].consumption_unread is NOT_ASKED


OLD_CALL = groups("g", hidden_unread=Unknown("old call"))
ONE_UNREAD = ConsumerOffsetsLog(partitions=50, unread={1: Unknown("x")})
INCOMPLETE: dict[str, tuple[GroupListing, int, ConsumerOffsetsLog, str | None]] = {
    "all read": (groups("g"), 1, READ, None),
    "a task that read no group": (groups("g"), 0, READ, "0 of 1 groups"),
    "listing short": (groups("g", incomplete=Unknown("short")), 1, READ, "short"),
    "log makes up for the old call": (OLD_CALL, 1, READ, None),
    "nothing does": (OLD_CALL, 1, ONE_UNREAD, "x"),
    # Groups of a leaderless partition are in no list.
    "the old call does not replace the log": (groups("g"), 1, ONE_UNREAD, "x"),
    "nor for a log that may not be seen": (groups("g"), 1, ConsumerOffsetsLog(missing=Unknown("no right")), "no right"),
    "unknown keys may be of groups": (OLD_CALL, 1, ConsumerOffsetsLog(partitions=50, skipped=1), "old call"),
    "garbled keys may be of groups": (OLD_CALL, 1, ConsumerOffsetsLog(partitions=50, malformed=1), "old call"),
    "the old call makes up for keys": (groups("g"), 1, ConsumerOffsetsLog(partitions=50, skipped=1, malformed=1), None),
    "no log, no groups": (groups(), 0, ConsumerOffsetsLog(), None),
    "a hidden log, which the Cluster declares": (groups("g"), 1, ConsumerOffsetsLog(hidden=True), None),
    "a hidden log does not make up for the old call": (OLD_CALL, 1, ConsumerOffsetsLog(hidden=True), "old call"),
}


@pytest.mark.parametrize(("listing", "read", "log", "expected"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_readers_incomplete(listing: GroupListing, read: int, log: ConsumerOffsetsLog, expected: str | None) -> None:
    """The readers are complete only if every group is listed and the tasks read as many groups. None: all."""
    rows = Rows({}, {}, {}, [], groups_read=read)
    result = snapshot_builder.readers_incomplete(READERS, listing, rows, log)
    assert (result is None) if expected is None else expected in reason(result)
    assert snapshot_builder.readers_incomplete(ScanRequest(), listing, rows, log) is NOT_ASKED


def run_row(number: int, *, error: str | None = None) -> Row:
    return {"log_partition": number, "error": error, "records": 4, "skipped": 1, "garbled": 2, "log_offset": 9}


def test_consumer_offsets_with_missing_partitions() -> None:
    """Partitions with an error or without a row are unread; the counts cover the others."""
    log = ConsumerOffsetsLog(partitions=3).with_rows([run_row(0), run_row(2, error="no data")])
    assert set(log.unread) == {1, 2}
    assert "no leader" in log.unread[1].reason
    assert "no data" in log.unread[2].reason
    assert (log.records, log.skipped, log.malformed) == (8, 2, 4)
    assert log.ends == {0: 9}
    assert ConsumerOffsetsLog(partitions=1).with_rows([run_row(0)]).unread == {}


def test_consumer_offsets_that_does_not_exist_or_was_not_requested() -> None:
    """Without commits the log is complete and empty; an invisible one is Unknown for all."""
    nothing = ConsumerOffsetsLog().with_rows([])
    assert (nothing.missing, nothing.unread) == (None, {})
    assert nothing.reason_for("g") is None
    hidden = ConsumerOffsetsLog(missing=Unknown("no right")).with_rows([])
    assert reason(hidden.reason_for("g")) == "no right"
    assert ConsumerOffsetsLog(missing=NOT_ASKED).with_rows([]).reason_for("g") is NOT_ASKED


TOPIC_RECORDS: list[tuple[ListedTopic, list[tuple[int, int]], int | str]] = [
    (topic("t"), [(5, 1)], 5),
    (topic("t", 0), [], 0),
    (topic("t", 2, leaders=(1, None)), [(5, 1)], "1 of 2 partitions"),
    (topic("t"), [], "0 of 1 partitions"),
    (topic("t"), [(5, 0)], "0 of 1 partitions"),
    (unknown_topic("t"), [], "metadata"),
    # Without the answer of one leader's chunk the sum once counted as that of the topic.
    *((topic("t", 2), [(5, 1)] * count, told) for count, told in ((2, 10), (1, "1 of 2 partitions"))),
    *((topic("t", 2), [(5, 1)] * count, f"{count} of 2 partitions") for count in (0, 3)),  # an answer twice
]


@pytest.mark.parametrize(("listed", "answered", "expected"), TOPIC_RECORDS)
def test_topic_records(listed: ListedTopic, answered: list[tuple[int, int]], expected: int | str) -> None:
    """A sum over all partitions; Unknown if one of them is leaderless, failed or without a row.

    `answered`: records, and partitions that were read, of each chunk.
    """
    answers = [answer(topics=[{"topic": "t", "records": records, "read": read}]) for records, read in answered]
    rows = combine(answers, ScanRequest(), {})
    for counted in (frozenset("t"), frozenset[str]()):
        (facts,) = snapshot_builder.topic_facts(topics(listed), {"t": retained()}, rows, counted, ()).values()
        assert (facts.cleanup_policy, facts.partitions) == (frozenset({"delete"}), listed.facts.partitions)
        if not counted:
            assert facts.records is NOT_ASKED
        else:
            assert facts.records == expected or str(expected) in reason(facts.records)


def retained(policy: frozenset[str] | Unknown = frozenset({"delete"})) -> RetentionFacts:
    return RetentionFacts(policy, None)


def test_cluster_records() -> None:
    """Kafka's own topics and compacted ones do not count, and neither does what was not read."""
    names = ("__remote_log_metadata", "a", "b")
    listed = topics(*(topic(name, internal=False) for name in names))
    counts = {name: {"records": records, "read": 1} for name, records in zip(names, (7, 5, 6), strict=True)}
    counts["b"]["read"] = 0

    def records(policy: frozenset[str] | Unknown = frozenset({"delete"}), counts: Any = counts) -> int | Unknown:
        policies = dict.fromkeys(names, retained()) | {"b": retained(policy)}
        rows = Rows({}, {}, counts, [])
        of_topics = snapshot_builder.topic_facts(listed, policies, rows, frozenset("ab"), ()).values()
        assert snapshot_builder.cluster_records(ScanRequest(), of_topics) is NOT_ASKED
        return snapshot_builder.cluster_records(ScanRequest(cluster_records=True), of_topics)

    assert records() == 11
    for policy in (frozenset({"compact"}), frozenset({"compact", "delete"}), Unknown("no right")):
        assert records(policy) == 5
    assert records(counts={}) == 0


def test_rows_keep_every_column_of_the_facts() -> None:
    """A forgotten column would be an unknown fact. The answers go through their encoding."""
    everything = ScanRequest(groups=(GroupRequest(groups=(Selector("*"),), activity=True),))
    activity = {name: group_row()[name] for name in SCHEMAS["activity"].names if name in group_row()}
    commits = {name: group_row()[name] for name in ("commits", "commit_topics", "fingerprint")}
    share = {**activity, "live": True, "seems": "share", "commit_keys": 3, "may_read": ["a", "b"]}
    app = {**activity, "live": True, "seems": "streams", "members": 1, "may_read": ["t"]}
    waiting = {**activity, "live": True, "seems": "consumer", "may_read": ["t"]}
    answers = [
        answer(
            partitions=[
                {"topic": "t", "partition": 0, **partition_row(offsets_at=[6, -1])},
                {"topic": "t", "partition": 1, "error": "no answer", "unanswered": True},
                {"topic": "a", "partition": 0, **partition_row()},
            ],
            topics=[{"topic": "t", "records": 2, "read": 1}],
        ),
        answer(topics=[{"topic": "t", "records": 3, "read": 0}]),
        answer(
            groups=[
                {"group": "g", **commits},
                {"group": "h", **commits},
                {"group": "f", "error": "timed out", "unanswered": True},
                {"group": "e", "error": "no right", "unanswered": False},
            ],
            positions=[{"group": "g", "topic": "t", "partition": 0, "committed": 7}],
        ),
        answer(
            activity=[
                {"group": "g", **activity},
                {"group": "h", **activity, "commit_keys": 3},
                {"group": "s", **share},
                {"group": "app", **app},
                {"group": "stopped", **app, "members": 0},
                {"group": "gone", **app, "live": False},
                {"group": "unlisted", **activity, "live": True, "may_read": ["t"]},
                {"group": "waiting", **waiting},
            ],
            origins=[{"topic": "t", "partition": 0, "group": "g", "committed": 7, "topic_id": "id"}],
            runs=[run_row(0, error="lost") | {"unanswered": True}],
        ),
    ]
    rows = combine(answers, everything, {"t": frozenset({"g"})})
    assert rows.consumers == {"a": {"s"}, "t": {"app", "unlisted", "waiting"}}, "of topics that the request asks for"
    for number in (0, 1):
        positions = [Position(group, None) for group in ("app", "unlisted", "waiting")]
        assert rows.readers["t", number][-3:] == positions, "with a member that subscribes and has no partition yet"

    result = snapshot_builder.group_facts(everything, groups("e", "f", "g", "h"), rows, READ)
    assert result["g"] == group_facts(group_row())
    assert (result["s"].listed, result["s"].type, result["s"].may_read) == (False, GroupType.SHARE, {"a", "b"})
    for name in ("unlisted", "waiting"):
        assert result[name].may_read is None, "nobody reads its commits, which may be on more topics"
    assert "3 commits of the group" in reason(result["h"].commits)
    assert result["f"].commits == Unknown("timed out", Cause.NO_ANSWER)
    assert result["e"].commits == Unknown("no right")
    read, unread = snapshot_builder.partition_facts(
        [
            partition_request(instants=(7, 9), named=frozenset({"g"})),
            partition_request(partition(number=1), instants=(7, 9)),
        ],
        rows,
        READ,
        NO_PURGES,
        NOW_MS,
    ).values()
    assert (read.log_start, read.last_stable_offset, read.high_watermark) == (5, 20, 30)
    assert (read.offsets_at, read.readers) == ({7: 6, 9: None}, (ConsumerPosition("g", 7, topic_id="id"),))
    assert unread.high_watermark == Unknown("no answer", Cause.NO_ANSWER)
    complete = topic("t")
    (expected,) = snapshot_builder.topic_facts(topics(complete), {}, rows, frozenset({"t"}), ()).values()
    assert expected.records == 5
    log = ConsumerOffsetsLog(partitions=1).with_rows(rows.runs)
    assert (log.records, log.skipped, log.malformed) == (4, 1, 2)
    assert "lost" in log.unread[0].reason
    assert log.unread[0].unanswered


def pending_row(group: str, number: int, committed: int | None) -> Row:
    return {"group": group, "topic": "t", "partition": number, "committed": committed, "log_partition": 7}


def test_pending_commits_reach_the_positions() -> None:
    """A group whose first commit was pending was not a consumer; a transaction then committed what was gone.

    `first` has no visible commit: it consumes all partitions of the topic, as one with a commit does.
    """
    answers = [
        answer(
            partitions=[{"topic": "t", "partition": number, **partition_row()} for number in (0, 1)],
            pending=[pending_row("first", 0, 6), pending_row("both", 1, 8)],
        ),
        answer(
            positions=[{"group": "both", "topic": "t", "partition": number, "committed": 20} for number in (0, 1)],
            consumers=[{"group": "both", "topic": "t"}],
        ),
    ]
    rows = combine(answers, ScanRequest(), {})
    assert rows.consumers["t"] == {"first", "both"}
    # At the last stable offset a visible commit holds nothing back; a pending one may.
    assert rows.readers["t", 0] == [Position("first", None, PendingCommit(6, 7))]
    assert sorted(rows.readers["t", 1]) == [Position("both", 20, PendingCommit(8, 7)), Position("first", None)]
    requests = [partition_request(partition(number=number), readers=True) for number in (0, 1)]
    (_first, second) = snapshot_builder.partition_facts(requests, rows, READ, NO_PURGES, NOW_MS).values()
    assert second.readers == (
        ConsumerPosition("both", 20, pending=PendingCommit(8, 7)),
        ConsumerPosition("first", 5, without_commit=True),
    )
