"""docs/tables.md and docs/scaling.md: columns, options, code and figures are those of the program and
of the bench.
"""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench import scaling
from reconciler.companions.sources import export
from reconciler.companions.sources.data_sources import (
    KafkaConsumerOffsets,
    KafkaGroupCommits,
    KafkaPartitions,
    KafkaSource,
    parse_options,
)
from reconciler.companions.sources.target import Folder
from reconciler.errors import UsageError
from reconciler.model.snapshot import Unknown
from tests.strategies.facts import partition, reader, snapshot
from tests.unit.docs.pages import ROOT, assert_fresh, code_blocks, fenced, read

PAGE = ROOT / "docs" / "tables.md"
EXAMPLE = ROOT / "examples" / "lag.py"


def rows(heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, without its head."""
    text = read(PAGE).split(f"{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    lines = table[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def column_type(data_type: pa.DataType) -> str:
    if pa.types.is_map(data_type):
        return "map"
    return "list" if pa.types.is_list(data_type) else str(data_type)


@pytest.mark.parametrize("name", export.SCHEMAS)
def test_columns_are_those_of_the_files(name: str) -> None:
    """Names, order and types agree; a new column needs an explanation."""
    columns = [[f"`{field.name}`", column_type(field.type)] for field in export.SCHEMAS[name]]
    assert [row[:2] for row in rows(f"### {name}")] == columns[2:-1]
    assert [row[:2] for row in rows("### All tables")] == [*columns[:2], columns[-1]]


@pytest.mark.parametrize("source", [KafkaPartitions, KafkaGroupCommits, KafkaConsumerOffsets])
def test_columns_of_the_sources_are_on_the_page(source: type[KafkaSource]) -> None:
    """Each is one of the files, or explained beside the sources; seven were nowhere."""
    of_files = {name for schema in export.SCHEMAS.values() for name in schema.names}
    table = rows("- Other columns than those of the [files](#columns):")
    explained = {name for row in table if source.NAME in row[1] for name in re.findall(r"`(\w+)`", row[0])}
    assert set(source.SCHEMA.names) - of_files - explained == {"error"}  # in the text above
    assert explained <= set(source.SCHEMA.names)


def test_options_are_those_of_the_sources() -> None:
    """The example of each option changes the options that are read, and no source has another one."""
    examples = {row[0].strip("`"): row[1].strip("`") for row in rows("## The sources in your own session")}
    required = {"bootstrap.servers": "other:1"}
    own = {name for source in (KafkaPartitions, KafkaGroupCommits, KafkaConsumerOffsets) for name in source.OPTIONS}
    defaults = parse_options(required, own)
    assert own < examples.keys()
    for name, example in examples.items():
        given = {name: example} if name.endswith("servers") else {**required, name: example}
        assert parse_options(given, own) != defaults, name
        assert parse_options({name.lower(): value for name, value in given.items()}, own) == parse_options(given, own)
    topics = [name for name in examples if "topic" in name or "subscribe" in name]
    exact, pattern, any_of = (parse_options({**required, name: examples[name]}, own) for name in topics)
    selected = [[s.text for s in request.topics[0].topics] for _connection, request in (exact, pattern, any_of)]
    assert selected == [["orders", "clicks"], ["regex:orders-[0-9]{1,3}"], ["orders", "clicks-*"]]
    secure, _request = parse_options({**required, "kafka.security.protocol": examples["kafka.security.protocol"]}, own)
    assert secure.properties == {"security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "kafka.bootstrap.servers"),
        ({"bootstrap.server": "b:1"}, "unknown option bootstrap.server; did you mean bootstrap.servers"),
        ({"bootstrap.servers": "a:1", "kafka.bootstrap.servers": "b:1"}, "differ"),
        ({"bootstrap.servers": "b:1", "path": "orders"}, "unknown option path; known: "),
        ({"bootstrap.servers": "b:1", "subscribe": "a", "topics": "a"}, "topics and subscribe both select topics"),
        ({"bootstrap.servers": "b:1", "subscribePattern": "("}, "subscribePattern: not a regular expression"),
        ({"bootstrap.servers": "b:1", "instants_ms": "now"}, "instants_ms: "),
        ({"bootstrap.servers": "b:1", "timeout_s": "5s"}, "timeout_s: "),
    ],
)
def test_a_wrong_option_is_named(options: Mapping[str, str], reason: str) -> None:
    """A word with a typing error was once ignored, and a wrong value was an error of Python."""
    with pytest.raises(UsageError, match=reason):
        parse_options(options, KafkaPartitions.OPTIONS)


def test_the_example_of_the_page_is_the_tested_one() -> None:
    """tests/spark runs examples/lag.py on real brokers (UPDATE_DOCS=1 copies it to the page)."""
    assert_fresh(PAGE, {"example": fenced(read(EXAMPLE), "python")})


def test_estimates_follow_the_measured_figures() -> None:
    """docs/scaling.md follows bench/scan.json of the bench (UPDATE_DOCS=1 rewrites the page)."""
    assert_fresh(ROOT / "docs" / "scaling.md", scaling.sections())


def test_code_that_reads_the_files_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Python code of the page runs on files that the scan wrote, and a lag that is not known is no number.

    Of a group without a commit it was once all records, and without a log start all after the commit.
    """
    (code,) = (block for block in code_blocks(PAGE, "python") if "facts/partitions" in block)
    new = reader("new", 0, without_commit=True)
    facts = snapshot(
        partition(end=20, readers=(reader("billing", 7), new)),
        partition(1, end=20, log_start=Unknown("silent"), readers=(reader("billing", 7),)),
    )
    export.write(facts, Folder(tmp_path / "facts"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(ast.parse(code), "tables.md", "exec"), names)  # the page's own code
    assert "orders" in capsys.readouterr().out
    rows = names["lag"][["group", "partition", "lag"]].values.tolist()
    assert [[None if value != value else value for value in row] for row in rows] == [
        ["billing", 0, 13],
        ["new", 0, None],
        ["billing", 1, None],
    ]
