"""Edge cases of the codec: instants, numbers, shared values, and one text for each value."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from reconciler import codec
from reconciler.codec import Codec
from reconciler.model.bounds import EpochMs, InstantMs, Int32, NonEmpty
from reconciler.model.names import Address
from reconciler.text import formatting


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    name: NonEmpty
    brokers: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A value of each kind. More text."""

    DERIVED: ClassVar[tuple[str, ...]] = ("SORT", "double", "triple")
    SORT: ClassVar[str] = "sample"

    address: Address
    count: int
    share: float
    seen_at_ms: InstantMs
    logged_ms: EpochMs | None
    inner: Inner | None = None

    @property
    def double(self) -> int:
        return self.count * 2

    def triple(self) -> Mapping[str, object]:
        return {"count": self.count * 3}

    def __post_init__(self) -> None:
        if self.count == 13:
            raise ValueError("13 is not a count")


VALUE = Sample(
    address=Address("RetentionFloor", "a", "orders", 3),
    count=2,
    share=0.5,
    seen_at_ms=1_795_255_200_000,
    logged_ms=-1,
    inner=Inner(name="::x\x7f", brokers=(1, 2)),
)
SAMPLES = Codec(Sample)
TEXT = (
    '{"address":"RetentionFloor/a/orders[3]","count":2,"share":0.5,"seen_at":"2026-11-21T10:00:00Z","logged_ms":-1,'
    '"inner":{"name":"\\u003a:x\\u007f","brokers":[1,2]},"sort":"sample","double":4,"triple":{"count":6}}'
)


def test_a_value_is_one_line_and_survives() -> None:
    """Addresses and instants are texts, derived values beside the fields; no command."""
    assert SAMPLES.encode(VALUE) == TEXT
    assert SAMPLES.decode(TEXT) == VALUE
    assert SAMPLES.fields(VALUE)["seen_at"] == "2026-11-21T10:00:00Z"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"count":2', '"count":2.0', "count is 2.0"),
        ('"count":2', '"count":true', "count is true"),
        ('"count":2', '"count":"2"', "count is '2'"),
        ('"count":2', '"count":-2', "count is -2"),
        ('"count":2', '"count":13', "13 is not a count"),
        ('"count":2', '"count":9223372036854775808', "count is 9223372036854775808"),
        ('"count":2,', "", "it lacks count"),
        ('"count":2', '"count":2,"more":1', "it has unknown fields: 'more'"),
        ('"count":2', '"count":1,"count":2', "'count' is there twice"),
        ('"share":0.5', '"share":NaN', "share is NaN"),
        ('"share":0.5', '"share":"0.5"', "share is '0.5'"),
        ('"share":0.5', '"share":0.50', "do not reformat"),
        ('"seen_at":"2026-11-21T10:00:00Z"', '"seen_at":"2026-11-21T11:00:00+01:00"', "seen_at is"),
        ('"seen_at":"2026-11-21T10:00:00Z"', '"seen_at":"2026-11-21T10:00:00.0001Z"', "seen_at is"),
        ('"seen_at":"2026-11-21T10:00:00Z"', '"seen_at":"2026-11-21T10:00:00"', "seen_at is"),
        ('"seen_at":"2026-11-21T10:00:00Z"', '"seen_at":5', "seen_at is 5"),
        ('"address":"RetentionFloor/a/orders[3]"', '"address":"RetentionFloor"', "address is 'RetentionFloor'"),
        ('"address":"RetentionFloor/a/orders[3]"', '"address":3', "address is 3"),
        ('"brokers":[1,2]', '"brokers":[1,2147483648]', "inner.brokers[1] is 2147483648"),
        ('"brokers":[1,2]', '"brokers":"12"', "inner.brokers is '12'"),
        ('"brokers":[1,2]', '"brokers":{}', "inner.brokers is {}"),
        ('"name":"', '"name":"\\ud800', "not one complete JSON value"),
        ('"name":"\\u003a:x\\u007f"', '"name":""', "inner.name is ''"),
        ('"double":4', '"double":5', "double is 5"),
        ('"triple":{"count":6}', '"triple":{"count":6.0}', "triple.count is 6.0"),
        ('"sort":"sample"', '"sort":"other"', "sort is 'other'"),
        ('"count":2', '"count": 2', "do not reformat"),
        ("\\u007f", "\x7f", "do not reformat"),
    ],
)
def test_a_text_that_differs_from_the_written_one_is_refused(old: str, new: str, message: str) -> None:
    """Each value has one text, and the message names the field."""
    assert old in TEXT
    with pytest.raises(ValueError, match=re.escape(message)):
        SAMPLES.decode(TEXT.replace(old, new))


def test_a_newer_text_may_only_have_more_fields() -> None:
    text = TEXT.replace('"count":2', '"later":[1],"count":2').replace('"brokers"', '"later":{},"brokers"')
    assert SAMPLES.decode(text, newer=True) == VALUE
    with pytest.raises(ValueError, match="double is 5"):
        SAMPLES.decode(text.replace('"double":4', '"double":5'), newer=True)
    with pytest.raises(ValueError, match="lacks double"):
        SAMPLES.decode(text.replace('"double":4,', ""), newer=True)
    with pytest.raises(ValueError, match="'later' is there twice"):
        SAMPLES.decode(text.replace('"later":[1]', '"later":[1],"later":[1]'), newer=True)
    with pytest.raises(ValueError, match="NaN is not JSON"):
        SAMPLES.decode(text.replace('"later":[1]', '"later":[NaN]'), newer=True)


@pytest.mark.parametrize("changes", [{"count": "2"}, {"inner": Inner(name="\ud800")}, {"seen_at_ms": 10**18}])
def test_a_value_without_a_text_is_refused(changes: dict[str, Any]) -> None:
    """Half a surrogate pair, a text instead of a number, an instant beyond the calendar."""
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        SAMPLES.encode(replace(VALUE, **changes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    DERIVED: ClassVar[tuple[str, ...]] = ("double",)

    count: int

    @property
    def double(self) -> int:
        raise KeyboardInterrupt


def test_an_interrupt_is_no_error_of_the_value() -> None:
    """Ctrl-C while `apply` read a plan once said that the plan is not usable, and to plan again."""
    with pytest.raises(KeyboardInterrupt):
        Codec(Interrupted).encode(Interrupted(count=1))
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        SAMPLES.encode(replace(VALUE, count="Error: KeyboardInterrupt: "))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "{", "[1", '{"a":1}{}', "[" * 100_000, "[]", "Infinity"])
def test_texts_that_are_not_one_json_object_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not one complete JSON value|expected an object"):
        SAMPLES.decode(text)


def test_the_schema_has_the_fields_their_bounds_and_the_derived_values() -> None:
    [schema], _ = SAMPLES.schemas()
    assert schema["description"] == "A value of each kind. More text."
    assert schema["required"] == [*schema["properties"]]
    assert schema["properties"]["seen_at"]["format"] == "date-time"
    assert schema["properties"]["count"] == {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    assert schema["properties"]["sort"]["const"] == "sample"


@pytest.mark.parametrize("ms", [0, 1, 999, 1_000, 1_795_255_200_123, -1, -62_135_596_800_000, 253_402_300_799_999])
def test_instants_are_exact(ms: int) -> None:
    """The codec uses no floating point: the first and the last millisecond of the calendar survive."""
    assert codec._parse_instant(formatting.format_exact_instant(ms)) == ms


@pytest.mark.parametrize("ms", [-62_135_596_800_001, 253_402_300_800_000, 10**30])
def test_instants_outside_the_calendar_are_refused_but_shown(ms: int) -> None:
    """A header cannot have them; a timestamp of a log is shown as a number."""
    with pytest.raises(ValueError, match="years 1 to 9999"):
        formatting.format_exact_instant(ms)
    assert formatting.format_time(ms) == f"{ms} ms since 1970"


def test_shared_values_do_not_grow_without_bound() -> None:
    """Different reasons of all actions take bounded memory; equal values are one object."""
    inners = Codec(Inner, shared=True)
    for number in range(5_000):
        inners.decode(f'{{"name":"{number}","brokers":[1]}}')
    assert codec._share.cache_info().currsize <= 4_096
    first, second = (
        inners.decode('{"name":"a name that is the same in every row of the file, and long","brokers":[1,2]}')
        for _ in "ab"
    )
    assert first.brokers is second.brokers
