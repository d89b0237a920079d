"""The field types that several kinds share: names, durations, instants, selectors.

Values are what the program uses: milliseconds for durations and instants, `Selector` for selectors.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from reconciler.model.selector import Selector
from reconciler.policies.selector_checks import MAX_LENGTH, selector_error
from reconciler.policies.validation import ValidationIssue, invalid, raise_if_any
from reconciler.text.formatting import format_duration, format_exact_instant

_T = TypeVar("_T")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(0|[1-9][0-9]{0,8})(s|m|h|d)")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?(Z|[+-][0-9]{2}:[0-9]{2})")
_TOPIC = r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}"
_TOPIC_SELECTOR = re.compile(rf"regex:.*|{_TOPIC}|(?=.*[*?\[])[a-zA-Z0-9._*?!\[\]-]+", re.DOTALL)
_SELECTOR_HINT = "a name, a glob such as clicks-*, or regex:…"
_LARGEST_OFFSET = 9_223_372_036_854_775_807

PATTERN_TEXT = r"^regex:|[*?\[]"
"""What makes a selector a pattern, for schemas: the same reading as `Selector.is_pattern`."""

ZERO_TEXT = "^0[smhd]$"
DURATION_TEXT = f"^{_DURATION.pattern}$"

NAME_TEXT = "[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?"
"""The name of a manifest."""

TOPIC_TEXT = f"^{_TOPIC}$"


def required(description: str, example: Any, **options: Any) -> Any:
    """Return a field that each manifest has to write. `options`: of pydantic's Field, here and below."""
    return Field(description=description, examples=[example], **options)


def optional(description: str, example: Any, default: Any = None, **options: Any) -> Any:
    """Return a field that a manifest may leave out."""
    return required(description, example, **({} if "default_factory" in options else {"default": default}), **options)


def where(name: str, condition: Any) -> dict[str, Any]:
    """Return the JSON Schema of a mapping that has this field, and in it what matches the condition."""
    return {"properties": {name: condition}, "required": [name]}


def duration_ms(value: Any) -> int:
    """Return `30s`, `15m`, `12h` or `7d` as milliseconds. Raises ValueError for anything else."""
    hint = "such as 30s, 15m, 12h or 7d"
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise invalid("M114", "expected a duration", hint)
    match = _DURATION.fullmatch(str(value))
    if match is None:
        hint = f"add the unit that you mean, {hint}" if str(value).isdigit() else hint
        raise invalid("M121", f"not a duration: `{value}`", hint)
    return int(match[1]) * _UNITS_MS[match[2]]


def instant_ms(value: Any) -> int:
    """Return an RFC 3339 instant with a zone as epoch milliseconds. Raises ValueError."""
    hint = "such as 2026-11-01T00:00:00Z"
    if not isinstance(value, str):
        raise invalid("M114", "expected an instant", hint)
    try:
        if _INSTANT.fullmatch(value):
            return round(datetime.fromisoformat(value).astimezone(UTC).timestamp() * 1000)
        hint = f"expected an instant with a zone, {hint}"
    except (ValueError, OverflowError) as error:  # 30 February; the year 0001 in a zone east of Greenwich
        hint = f"no such instant: {error}"
    raise invalid("M122", f"not an instant: `{value}`", hint)


def _selector(value: Any) -> Selector:
    if isinstance(value, Selector):
        return value
    if not isinstance(value, str):
        raise invalid("M114", "expected text", _SELECTOR_HINT)
    if not value:
        raise invalid("M116", "empty text", _SELECTOR_HINT)
    if error := selector_error(value):
        raise invalid(*error)
    return Selector(value)


def _topic_selector(value: Selector) -> Selector:
    if _TOPIC_SELECTOR.fullmatch(value.text):
        return value
    hint = "letters, digits, `.`, `_` and `-`, at most 249; a glob adds `*`, `?` and `[…]`"
    raise invalid("M123", f"no topic can have the name `{value.text}`", hint)


def matches_pattern(pattern: str, hint: str) -> Callable[[str], str]:
    """Return a validator of text that must match `pattern` as a whole."""

    def validate(value: str) -> str:
        if re.fullmatch(pattern, value):
            return value
        raise invalid("M119", f"`{value}` does not have the right form", hint)

    return validate


def unique(values: tuple[_T, ...]) -> tuple[_T, ...]:
    """Refuse a value that is listed twice: one of the two is probably a mistake."""
    first: dict[_T, int] = {}
    raise_if_any(
        ValidationIssue("M117", f"listed twice: `{getattr(value, 'text', value)}`", (index,), "keep one")
        for index, value in enumerate(values)
        if first.setdefault(value, index) != index
    )
    return values


def _number_keys(value: Any) -> Any:
    """Read keys such as "0" as numbers: keys of JSON objects are text."""
    if not isinstance(value, Mapping):
        return value
    return {int(k) if isinstance(k, str) and re.fullmatch("0|[1-9][0-9]{0,9}", k) else k: v for k, v in value.items()}


def _grouped(least: int, most: int | None, example: int) -> dict[str, Any]:
    """Return the schema of a number that editors may read as the text 1_000_000."""
    pattern = "^[1-9][0-9]{0,2}(_[0-9]{3})+$"
    number = {"type": ["integer", "string"], "minimum": least, "pattern": pattern, "examples": [example]}
    return number if most is None else number | {"maximum": most}


_SELECTOR_SCHEMA = {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH}
_SELECTOR_EXAMPLES = {"examples": ["orders", "clicks-*", "regex:^test-[0-9]+$"]}
_TOPIC_SELECTOR_TEXT = rf"^regex:.|{TOPIC_TEXT}|^(?=.*[*?\[])[a-zA-Z0-9._*?!\[\]-]+$"
_INSTANT_SCHEMA = {"type": "string", "format": "date-time", "pattern": f"^{_INSTANT.pattern}$"}

Duration = Annotated[
    int,
    BeforeValidator(duration_ms),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "pattern": DURATION_TEXT, "examples": ["30s", "15m", "12h", "7d"]}),
]
Instant = Annotated[
    int,
    BeforeValidator(instant_ms),
    PlainSerializer(format_exact_instant),
    WithJsonSchema(_INSTANT_SCHEMA | {"examples": ["2026-11-01T00:00:00Z"]}),
]
SelectorField = Annotated[
    Selector,
    BeforeValidator(_selector),
    PlainSerializer(lambda selector: selector.text),
    WithJsonSchema(_SELECTOR_SCHEMA | _SELECTOR_EXAMPLES),
]
TopicSelectorField = Annotated[
    SelectorField,
    AfterValidator(_topic_selector),
    WithJsonSchema(_SELECTOR_SCHEMA | {"pattern": _TOPIC_SELECTOR_TEXT} | _SELECTOR_EXAMPLES),
]
LIST = Field(min_length=1, max_length=1000, strict=False, json_schema_extra={"uniqueItems": True})
"""Every list has 1 to 1,000 items; `unique` refuses repeated ones."""

Selectors = Annotated[tuple[SelectorField, ...], LIST, AfterValidator(unique)]
TopicSelectors = Annotated[tuple[TopicSelectorField, ...], LIST, AfterValidator(unique)]
Name = Annotated[
    str,
    AfterValidator(
        matches_pattern(NAME_TEXT, "lower-case letters, digits, `.` and `-`, at most 63, ending in a letter or digit")
    ),
    Field(json_schema_extra={"pattern": f"^{NAME_TEXT}$"}, examples=["orders-gdpr"]),
]
TopicName = Annotated[
    str,
    AfterValidator(matches_pattern(_TOPIC, "one exact topic name: letters, digits, `.`, `_` and `-`, at most 249")),
    WithJsonSchema({"type": "string", "pattern": TOPIC_TEXT, "examples": ["orders"]}),
]
GroupName = Annotated[str, Field(min_length=1, examples=["billing"])]
GroupNames = Annotated[tuple[GroupName, ...], LIST, AfterValidator(unique)]
PartitionNumber = Annotated[int, Field(ge=0, le=2_147_483_647, examples=[3])]
Partitions = Annotated[tuple[PartitionNumber, ...], LIST, AfterValidator(unique)]
Offset = Annotated[int, Field(ge=0, le=_LARGEST_OFFSET)]
Offsets = Annotated[
    dict[PartitionNumber, Offset],
    BeforeValidator(_number_keys),
    Field(min_length=1),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": "^(0|[1-9][0-9]{0,9})$"},
            "additionalProperties": _grouped(0, _LARGEST_OFFSET, 1200),
        }
    ),
]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False, examples=[50])]
Count = Annotated[int, Field(ge=0), WithJsonSchema(_grouped(0, None, 40))]
AtLeastOne = Annotated[int, Field(ge=1), WithJsonSchema(_grouped(1, None, 1_000_000))]
