"""ExternalReader manifests: the sentences of the documentation about their fields."""

import pytest

from reconciler.model.scan_request import ExternalReaderRequest, PositionKind
from reconciler.model.selector import Selector
from reconciler.policies.external_reader import ExternalReader
from tests.strategies.facts import manifest as as_data
from tests.unit.manifest.broken import GOOD, floor, manifest
from tests.unit.manifest.checking import accepted, codes, diagnostics_of


def reader(position: str, *, topics: str = "[orders]", more: str = "") -> str:
    spec = f"topics: {topics}\nposition: {position}"
    return manifest("ExternalReader", "orders-lake", spec, more=more) + "---\n" + floor(GOOD)


@pytest.mark.parametrize(
    ("field", "at"),
    [
        ("sparkCheckpoint", "s3://lake/checkpoints/orders"),
        ("sparkCheckpoint", "/data/checkpoints/orders/"),
        ("sparkCheckpoint", "abfss://lake/orders"),
        ("mirrorMakerSyncs", "mm2-offset-syncs.B.internal"),
        ("table", "file:///data/positions.csv"),
        ("table", "/data/positions.jsonl"),
    ],
)
def test_a_reader_says_what_a_scan_reads(field: str, at: str) -> None:
    """Each position gives one request, under a name that no group shares with its manifest."""
    accepted(reader(f"{{{field}: '{at}'}}"))
    loaded = ExternalReader.model_validate(
        as_data("ExternalReader", "orders-lake", {"topics": ["orders", "x-*"], "position": {field: at}})
    )
    topics = (Selector("orders"), Selector("x-*"))
    assert loaded.request == ExternalReaderRequest(
        name="ExternalReader/orders-lake", topics=topics, kind=PositionKind(field), at=at
    )


@pytest.mark.parametrize(
    ("position", "code"),
    [
        ("{}", "M222"),
        ("{sparkCheckpoint: /a, table: /b.csv}", "M222"),
        ("{sparkCheckpoint: checkpoints/orders}", "M221"),
        ("{sparkCheckpoint: 's3a://lake/x'}", "M221"),
        ("{sparkCheckpoint: 's3://key@lake/x'}", "M221"),
        ("{sparkCheckpoint: 's3://lake/../x'}", "M221"),
        ("{table: '/data/x?format=csv'}", "M221"),
        ("{table: /data/positions}", "M221"),
        ("{table: /data/positions.xlsx}", "M221"),
        ("{mirrorMakerSyncs: 'mm2-*'}", "M119"),
        ("{flinkSavepoint: /a}", "M112"),
    ],
)
def test_a_position_is_one_place(position: str, code: str) -> None:
    """Exactly one position, and its path can choose no host, no account and no option."""
    assert code in codes(reader(position))


def test_the_error_says_what_to_write() -> None:
    """The message of a refused place names what is wrong, and the hint how to write it."""
    (only,) = diagnostics_of(reader("{sparkCheckpoint: 's3://lake:9000/x'}"))
    assert (only.message, only.hint) == ("it has a port", "write SCHEME://BUCKET/PATH; the machine names the endpoint")


def test_topics_are_required_and_modes_unknown() -> None:
    """An unreadable position names no topic, and a reader changes nothing that needs a mode."""
    assert codes(manifest("ExternalReader", "x", "position: {table: /x.csv}") + "---\n" + floor(GOOD)) == ["M113"]
    assert codes(reader("{table: /x.csv}", more="mode: merge\n")) == ["M112"]
