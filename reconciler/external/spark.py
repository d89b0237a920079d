"""Reads where a Structured Streaming query restarts from its checkpoint.

Decided here: which files say it. Spark begins behind the newest batch in `commits/`. A newer batch in
`offsets/` runs again, and asynchronous progress leaves gaps between them, so only the offsets of the
newest commit count. A query without a commit begins where `sources/` says.

Layouts: Apache Spark, OffsetSeqLog (v1, and v2 since 4.1), CommitLog and KafkaSourceInitialOffsetWriter.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from reconciler.external.places import NUMBER, Files, PositionUnreadable, without_repetition
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import ExternalPosition

_SOURCE = re.compile(r"[A-Za-z0-9_-]+")
_NO_OFFSET = "-"
_TRIES = 2
"""A running query removes old batches. Their names are listed again once."""

_Offsets = Mapping[TopicPartition, int]


def read_checkpoint(files: Files) -> ExternalPosition:
    """Return the lowest offset with which a restart begins on each partition. Raises PositionUnreadable.

    A partition without an entry is absent: Spark reads a new one from its beginning.
    """
    if files.read("metadata") is None:
        raise PositionUnreadable("it is not a checkpoint of Spark: it has no file metadata")
    for _ in range(_TRIES):
        # In this order: between the two a query may commit a batch, and remove an older one.
        committed = _batches(files, "commits")
        batches = committed or _batches(files, "offsets")
        if not batches:
            raise PositionUnreadable("the query has not planned its first batch")
        number = max(committed) if committed else min(batches)
        # Spark does not start from an empty commit, as a crash leaves it; without the file the batch runs again.
        commit = files.read("commits", str(number)) if committed else b"v1"
        content = files.read("offsets", str(number))
        if commit is not None and content is not None:
            if not commit.startswith((b"v1", b"v2")):
                raise _garbled(f"commits/{number}")
            sources = list(_sources(f"offsets/{number}", content))
            offsets = _lowest(_of_source(files, name, line, is_committed=bool(committed)) for name, line in sources)
            return ExternalPosition(offsets, batches[number])
    raise PositionUnreadable(f"a file of batch {number} is not there: the query moves faster than it can be read")


def _batches(files: Files, folder: str) -> Mapping[int, int]:
    """Return the batches in a folder, with their times. Files such as `.7.crc` and `7.tmp` are none."""
    return {int(name): at_ms for name, at_ms in files.names(folder).items() if NUMBER.fullmatch(name)}


def _sources(path: str, content: bytes) -> Iterator[tuple[str, str]]:
    """Yield each source of a batch and its offsets: line by line in v1, by name in v2."""
    version, *lines = _text(path, content).split("\n")
    if version not in ("v1", "v2") or len(lines) < 2:
        raise _garbled(path)
    named = [(str(number), line) for number, line in enumerate(lines[1:])]
    if version == "v2":
        named = [(name, offsets) for name, _colon, offsets in (line.partition(":") for line in lines[1:])]
    if len(dict(named)) < len(named) or not all(_SOURCE.fullmatch(name) for name, _offsets in named):
        raise _garbled(path)
    yield from named


def _of_source(files: Files, name: str, line: str, *, is_committed: bool) -> _Offsets | None:
    """Return where one source begins; None: it does not read Kafka. `line`: its offsets of the batch."""
    path = f"offsets of source {name}"
    offsets = None if line == _NO_OFFSET else _kafka_offsets(path, line)
    if is_committed and line != _NO_OFFSET:
        return offsets
    # Without a commit the batch runs again; a source without an offset has not read anything.
    content = files.read("sources", name, "0")
    # A NUL byte, for Spark 2.1, marks the source of Kafka; other sources have other files of this name.
    if content is None or not content.startswith(b"\0v1\n"):
        if offsets is None:
            return None
        raise PositionUnreadable(f"sources/{name}/0 is not there, and the query has not committed a batch")
    start = _kafka_offsets(f"sources/{name}/0", _text(f"sources/{name}/0", content[4:]))
    if start is None:
        raise _garbled(f"sources/{name}/0")
    return start


def _lowest(of_sources: Iterable[_Offsets | None]) -> dict[TopicPartition, int]:
    """Return the minimum of all sources: two may read one topic, and a partition counts if each has it."""
    known = [offsets for offsets in of_sources if offsets is not None]
    if not known:
        raise PositionUnreadable("no source of the query reads Kafka")
    lowest: dict[TopicPartition, int] = {}
    for partition in set[TopicPartition]().union(*known):
        readers = [of for of in known if partition.topic in {at.topic for at in of}]
        if all(partition in of for of in readers):
            lowest[partition] = min(of[partition] for of in readers)
    return lowest


def _kafka_offsets(path: str, text: str) -> _Offsets | None:
    """Return the offsets in `{topic: {partition: offset}}`; None: they are of another kind of source."""
    try:
        topics = json.loads(text, object_pairs_hook=without_repetition)
    except (ValueError, RecursionError, PositionUnreadable):
        raise _garbled(path) from None
    if not isinstance(topics, dict) or not all(isinstance(of_topic, dict) for of_topic in topics.values()):
        return None
    if not all(NUMBER.fullmatch(number) for of_topic in topics.values() for number in of_topic):
        return None
    offsets = {TopicPartition(topic, int(number)): at for topic, of in topics.items() for number, at in of.items()}
    if not all(type(offset) is int and 0 <= offset < 1 << 63 for offset in offsets.values()):
        raise PositionUnreadable(f"{path}: an offset is negative, or not a number")
    return offsets


def _text(path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _garbled(path) from None


def _garbled(path: str) -> PositionUnreadable:
    return PositionUnreadable(f"{path} has not the layout of Spark")
