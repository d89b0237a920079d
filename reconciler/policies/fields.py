"""The field types that several kinds share: names, durations, instants, selectors. Each refuses what it cannot mean exactly.

Values are what the rest of the program uses: milliseconds for durations and instants, `Selector` for selectors.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from reconciler.model.selector import Selector
from reconciler.policies import glob_checks
from reconciler.policies.regex_checks import can_backtrack
from reconciler.policies.validation import ValidationIssue, raise_if_any, validation_error
from reconciler.text.formatting import format_duration, format_instant

_T = TypeVar("_T")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(0|[1-9][0-9]{0,8})(s|m|h|d)")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?(Z|[+-][0-9]{2}:[0-9]{2})")
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")
_TOPIC_GLOB = re.compile(r"[a-zA-Z0-9._*?!\[\]-]{1,500}")
_LONGEST_PATTERN = 500
_LARGEST_OFFSET = 9_223_372_036_854_775_807

PATTERN_TEXT = r"^regex:|[*?\[]"
"""What makes a selector a pattern, for schemas: the same reading as `Selector.is_pattern`."""

DURATION_TEXT = f"^{_DURATION.pattern}$"

NAME_TEXT = "[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?"
"""What a manifest may be called."""

TOPIC_TEXT = r"^(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}$"


def duration_ms(value: Any) -> int:
    """`30s`, `15m`, `12h` or `7d` as milliseconds. Raises ValueError for anything else; a bare number has no unit."""
    if isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        return int(found[1]) * _UNITS_MS[found[2]]
    raise ValueError("expected a duration such as 30s, 15m, 12h or 7d")


def instant_ms(value: Any) -> int:
    """An RFC 3339 instant with a zone as epoch milliseconds. Raises ValueError for anything else."""
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        try:
            return round(datetime.fromisoformat(value).astimezone(UTC).timestamp() * 1000)
        except (ValueError, OverflowError) as broken:  # 30 February; the year 0001 seen from a zone east of Greenwich
            raise ValueError(f"no such instant: {broken}") from None
    raise ValueError("expected an instant with a zone, such as 2026-11-01T00:00:00Z")


def _duration(value: Any) -> int:
    if isinstance(value, bool | float | list | dict):
        raise validation_error(
            ValidationIssue(code="M114", message="expected a duration", hint="such as 30s, 15m, 12h or 7d")
        )
    try:
        return duration_ms(value)
    except ValueError:
        hint = f'a number has no unit: say "{value}s"?' if isinstance(value, int) else "such as 30s, 15m, 12h or 7d"
        raise validation_error(ValidationIssue(code="M121", message=f"not a duration: `{value}`", hint=hint)) from None


def _instant(value: Any) -> int:
    if not isinstance(value, str):
        raise validation_error(
            ValidationIssue(code="M114", message="expected an instant", hint="such as 2026-11-01T00:00:00Z")
        )
    try:
        return instant_ms(value)
    except ValueError as broken:
        raise validation_error(
            ValidationIssue(code="M122", message=f"not an instant: `{value}`", hint=str(broken))
        ) from None


def _selector(value: Any) -> Selector:
    if isinstance(value, Selector):
        return value
    if not isinstance(value, str):
        raise validation_error(
            ValidationIssue(code="M114", message="expected text", hint="a name, a glob such as clicks-*, or regex:…")
        )
    if not value:
        raise validation_error(
            ValidationIssue(code="M116", message="empty text", hint="a name, a glob such as clicks-*, or regex:…")
        )
    if value.startswith("regex:") or len(value) > _LONGEST_PATTERN:
        raise_if_any(_regex_problems(value))
    try:
        selector = Selector(value)
    except ValueError as broken:
        raise validation_error(
            ValidationIssue(code="M123", message=str(broken), hint="a name, a glob or regex:…")
        ) from None
    if not value.startswith("regex:"):
        raise_if_any(_glob_problems(selector))
    return selector


def _glob_problems(selector: Selector) -> list[ValidationIssue]:
    text = selector.text
    if text.lower().startswith("regex:"):
        return [ValidationIssue(code="M123", message=f"`{text[:6]}` begins no regular expression", hint="write regex:")]
    found = glob_checks.ambiguous_glob(text) if selector.is_pattern else glob_checks.brace_error(text)
    return [ValidationIssue(code="M123", message=found[0], hint=found[1])] if found else []


def _regex_problems(value: str) -> list[ValidationIssue]:
    if len(value) > _LONGEST_PATTERN:
        return [
            ValidationIssue(
                code="M123", message=f"a selector of {len(value)} characters", hint=f"at most {_LONGEST_PATTERN}"
            )
        ]
    if can_backtrack(value):
        hint = "no repeated group with a choice or a repetition in it, no back reference, at most four repetitions"
        return [
            ValidationIssue(code="M123", message="a regular expression that may take forever on some name", hint=hint)
        ]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(value.removeprefix("regex:"))
    except Warning as ambiguous:  # re warns where a future version will read the same text differently
        return [
            ValidationIssue(
                code="M123", message=f"a regular expression with two readings: {ambiguous}", hint="escape it"
            )
        ]
    except (re.error, RecursionError, OverflowError) as broken:
        return [ValidationIssue(code="M123", message=f"not a regular expression: {broken}", hint="as Python's re")]
    return []


def _topic_selector(value: Selector) -> Selector:
    if value.text.startswith("regex:") or _TOPIC.fullmatch(value.text):
        return value
    if value.is_pattern and _TOPIC_GLOB.fullmatch(value.text):
        return value
    hint = "letters, digits, `.`, `_` and `-`, at most 249; a glob adds `*`, `?` and `[…]`"
    raise validation_error(ValidationIssue(code="M123", message=f"no topic can be called `{value.text}`", hint=hint))


def _topic_name(value: Any) -> str:
    if not isinstance(value, str):
        raise validation_error(ValidationIssue(code="M114", message="expected text", hint="the exact name of a topic"))
    if _TOPIC.fullmatch(value):
        return value
    hint = "one exact name: letters, digits, `.`, `_` and `-`, at most 249"
    raise validation_error(ValidationIssue(code="M119", message=f"no topic can be called `{value}`", hint=hint))


def matches_pattern(pattern: str, words: str) -> Callable[[str], str]:
    """A validator for text that has to match `pattern` as a whole; `words` say so to people."""
    form = re.compile(pattern)

    def checked(value: str) -> str:
        if form.fullmatch(value):
            return value
        raise validation_error(
            ValidationIssue(code="M119", message=f"`{value}` does not have the right form", hint=words)
        )

    return checked


def unique(values: tuple[_T, ...]) -> tuple[_T, ...]:
    """The values as they are. Raises where one is listed twice: the second was meant to be something else."""
    first: dict[_T, int] = {}
    raise_if_any(
        ValidationIssue(
            code="M117", message=f"listed twice: `{getattr(value, 'text', value)}`", at=(index,), hint="keep one"
        )
        for index, value in enumerate(values)
        if first.setdefault(value, index) != index
    )
    return values


def _number_keys(value: Any) -> Any:
    """Keys of JSON objects are text; `"0"` means what 0 means. Anything else is left for the number's own check to refuse."""
    if not isinstance(value, Mapping):
        return value
    return {int(k) if isinstance(k, str) and re.fullmatch("0|[1-9][0-9]{0,9}", k) else k: v for k, v in value.items()}


_SELECTOR_EXAMPLES = ["orders", "clicks-*", "regex:^test-[0-9]+$"]
_GROUPED = r"^[1-9][0-9]{0,2}(_[0-9]{3})+$"


def _grouped(least: int, most: int | None, example: int) -> dict[str, Any]:
    """Editors that read YAML by the letter see 1_000_000 as text, so the schema allows that text; load reads it as the number."""
    number = {"type": ["integer", "string"], "minimum": least, "pattern": _GROUPED, "examples": [example]}
    return number if most is None else number | {"maximum": most}


Duration = Annotated[
    int,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": DURATION_TEXT, "examples": ["30s", "15m", "12h", "7d"]}),
]
Instant = Annotated[
    int,
    BeforeValidator(_instant),
    PlainSerializer(format_instant, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "format": "date-time",
            "pattern": f"^{_INSTANT.pattern}$",
            "examples": ["2026-11-01T00:00:00Z"],
        }
    ),
]
SelectorField = Annotated[
    Selector,
    BeforeValidator(_selector),
    PlainSerializer(lambda selector: selector.text, return_type=str),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 500, "examples": _SELECTOR_EXAMPLES}),
]
TopicSelectorField = Annotated[
    SelectorField,
    AfterValidator(_topic_selector),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "pattern": rf"^regex:.|{TOPIC_TEXT}|^(?=.*[*?\[])[a-zA-Z0-9._*?!\[\]-]+$",
            "examples": _SELECTOR_EXAMPLES,
        }
    ),
]
LIST = Field(min_length=1, max_length=1000, strict=False, json_schema_extra={"uniqueItems": True})
"""Of all lists: something, nothing twice, and not so much that nobody reads it."""

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
    BeforeValidator(_topic_name),
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
