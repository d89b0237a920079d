"""Positions from checkpoints of real queries, and from what real queries can leave behind.

`checkpoints/*.json` were recorded by `record_checkpoints.py` with Spark 4.2.0: the files of a query in the order of
their creation, and where the query really restarted after each of them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.external.places import PositionUnreadable
from reconciler.external.spark import read_checkpoint
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import ExternalPosition

RECORDED = {path.stem: json.loads(path.read_text()) for path in Path(__file__).parent.glob("checkpoints/*.json")}
LAYOUTS = sorted(RECORDED)
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)
START = '\0v1\n{"orders":{"0":%d}}'


class Recording:
    """The files of a checkpoint: text and time by path. `on_read` acts like the query between two calls."""

    def __init__(self, files: Mapping[str, str], at_ms: int = 0) -> None:
        self.files = {"metadata": '{"id":"x"}', **files}
        self.at_ms = at_ms
        self.after_names: dict[str, Mapping[str, str]] = {}

    def names(self, *below: str) -> Mapping[str, int]:
        head = "".join(f"{name}/" for name in below)
        names = {path.removeprefix(head): self.at_ms for path in self.files if path.startswith(head)}
        self.files = dict(self.after_names.pop(below[0], self.files))
        return {name: at_ms for name, at_ms in names.items() if "/" not in name}

    def read(self, *below: str) -> bytes | None:
        text = self.files.get("/".join(below))
        return None if text is None else text.encode()


def position(files: Mapping[str, str]) -> Mapping[TopicPartition, int]:
    return read_checkpoint(Recording(files)).offsets


def refusal(files: Mapping[str, str]) -> str:
    with pytest.raises(PositionUnreadable) as refused:
        read_checkpoint(Recording(files))
    assert "planted" not in str(refused.value)
    return str(refused.value)


def batch(*lines: str, version: str = "v1") -> str:
    return "\n".join([version, "", *lines])


def prefixes(layout: str) -> list[tuple[dict[str, str], Any]]:
    files, restarts = RECORDED[layout]["files"], RECORDED[layout]["restarts"]
    return [
        ({path: text for path, text, _ms in files[:length]}, restart)
        for length, restart in enumerate(restarts)
        if length and restart is not None
    ]


def flat(restart: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, int(number)): at for topic, of in restart.items() for number, at in of.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_prefix_of_a_real_checkpoint_is_above_its_restart(layout: str) -> None:
    """Wherever a query dies. The newest `offsets/N` is above it: that batch runs again."""
    known = 0
    for files, restart in prefixes(layout):
        try:
            found = position(files)
        except PositionUnreadable:
            continue
        known += 1
        for partition, offset in flat(restart).items():
            assert found.get(partition, 0) <= offset, (layout, list(files)[-1], partition)
    assert known >= len(prefixes(layout)) - 4, "a position is unknown only until the first batch is planned"


def test_the_newest_offsets_are_above_the_restart() -> None:
    """The recordings have teeth: the tempting rule, the newest file of `offsets/`, would lose records."""
    losses = 0
    for files, restart in prefixes("micro-batch"):
        newest = max((int(path.rpartition("/")[2]) for path in files if path.startswith("offsets/")), default=None)
        if newest is not None:
            tempting = position({**files, f"commits/{newest}": "v1"})
            losses += any(tempting[at] > offset for at, offset in flat(restart).items())
    assert losses >= 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_position_of_a_finished_query_is_its_restart(layout: str) -> None:
    """The bound is exact where nothing is under way: it keeps no record that the query has read."""
    files, restart = prefixes(layout)[-1]
    assert position(files) == flat(restart)


def test_the_time_of_the_newest_commit_is_that_of_the_position() -> None:
    """Plans say since when a reader has not moved."""
    files = {"commits/7": "v1", "offsets/7": batch('{"orders":{"0":5}}')}
    assert read_checkpoint(Recording(files, at_ms=1234)) == ExternalPosition({ORDERS: 5}, 1234)


def orders(*offsets: int) -> str:
    """Return a batch with a source of `orders` for each offset."""
    return batch(*(f'{{"orders":{{"0":{offset}}}}}' for offset in offsets))


DONE, FIRST, SECOND = {"commits/0": "v1"}, {"sources/0/0": START % 7}, {"sources/1/0": START % 2}
OTHERS = ('{"logOffset":3}', "17", '{"reservoirId":"a","index":1}', '{"shard-0":{"iteratorType":"LATEST"}}', "-")
WITHOUT_OFFSET = {**DONE, "offsets/0": batch('{"orders":{"0":9}}', "-")}
GAPS = {f"offsets/{number}": orders(number) for number in (2, 7, 10, 11)}
CRASHED = {"commits/4": "v1\n{}", "offsets/4": orders(40), "offsets/5": orders(50)}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        # Of two sources of one topic, only the first has written its start: the second can begin below it.
        ({}, "has not planned"),
        (FIRST, "has not planned"),
        ({**FIRST, **SECOND, "offsets/0": orders(9, 9)}, {ORDERS: 2}),
        # A planned batch of Kafka without `sources/S/0` runs from where no file says.
        ({**FIRST, "offsets/0": orders(9, 9)}, "sources/1/0"),
        # `-` is not an offset: not "read to the end", and no reason to leave the source out.
        ({**WITHOUT_OFFSET, **SECOND}, {ORDERS: 2}),
        ({**WITHOUT_OFFSET, "sources/1/0": "v1\n{}"}, {ORDERS: 9}),
        # Two sources of one topic give the minimum. A partition that one has not seen counts from its log start.
        ({**DONE, "offsets/0": orders(9, 4)}, {ORDERS: 4}),
        (
            {**DONE, "offsets/0": batch('{"orders":{"0":9}}', '{"orders":{"1":4},"payments":{"0":1}}')},
            {PAYMENTS: 1},
        ),
        # Asynchronous progress leaves gaps, so the batch before the newest one may be any number.
        ({**GAPS, "commits/2": "v1", "commits/10": "v1", ".11.crc": "", "commits/12.tmp": ""}, {ORDERS: 10}),
        # Numbers of rates, files, tables of Delta and shards of Kinesis are not offsets of Kafka.
        ({**DONE, "offsets/0": batch(*OTHERS, '{"orders":{"0":9}}')}, {ORDERS: 9}),
        ({**DONE, "offsets/0": batch(*OTHERS)}, "no source of the query reads Kafka"),
        # A crash of the machine leaves an empty file; Spark starts once it is removed, and runs the batch again.
        (CRASHED, {ORDERS: 40}),
        *(({**CRASHED, "commits/5": commit}, "commits/5") for commit in ("", "{}", "\0\0")),
        ({**CRASHED, "commits/5": "v2\n{}"}, {ORDERS: 50}),
    ],
)
def test_the_position_of_what_a_query_can_leave_behind(
    files: Mapping[str, str], expected: str | Mapping[TopicPartition, int]
) -> None:
    if isinstance(expected, str):
        assert expected in refusal(files)
    else:
        assert position(files) == expected


def test_a_query_that_moves_is_listed_again_once() -> None:
    """A running query removes old batches between the listing and the reading."""
    later = {"metadata": "", "commits/9": "v1", "offsets/9": orders(9)}
    moving = Recording({"commits/7": "v1"})
    moving.after_names["commits"] = later
    assert read_checkpoint(moving).offsets == {ORDERS: 9}
    assert "faster than it can be read" in refusal({"commits/7": "v1", "offsets/8": orders(8)})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1",
        "v1\n",
        "v3\n\n{}",
        batch('{"orders":{"0":9}}', ""),
        batch('{"orders":{"0":9'),
        batch('{"orders":{"0":9,"0":8}}'),
        batch('{"orders":{"0":9},"orders":{"0":8}}'),
        batch('{"orders":{"0":-1}}'),
        batch('{"orders":{"0":9.0}}'),
        batch('{"orders":{"0":true}}'),
        batch('{"orders":{"0":"planted"}}'),
        batch('{"orders":{"0":9223372036854775808}}'),
        batch("[" * 100_000),
        batch("planted"),
        batch('{"orders":{"0":9}}', version="v2"),
        batch('../../x:{"orders":{"0":9}}', version="v2"),
        batch('0:{"orders":{"0":9}}', '0:{"orders":{"0":8}}', version="v2"),
        "not a checkpoint",
    ],
)
def test_what_is_garbled_is_unknown(text: str) -> None:
    """Torn, negative, doubled or of another version: no position, and no word of the content."""
    refusal({"commits/0": "v1", "offsets/0": text})


def test_a_folder_without_metadata_is_not_a_checkpoint() -> None:
    """A path with a typing error is not a query that has read nothing."""
    recording = Recording({"commits/0": "v1", "offsets/0": batch('{"orders":{"0":9}}')})
    del recording.files["metadata"]
    with pytest.raises(PositionUnreadable, match="not a checkpoint"):
        read_checkpoint(recording)
