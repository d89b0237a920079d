"""Checks of single values that come from a plan file. Each answers the value or raises ValueError saying what was expected.

A plan file may have been edited, cut or made by another version, so nothing in it has a type until it has passed here. `true` is
not 1, 1.0 is not 1, and nothing is filled in where a value is missing.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

MAX_INT64 = 2**63 - 1
MAX_INT32 = 2**31 - 1

_E = TypeVar("_E", bound=StrEnum)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z")


def shown(value: object) -> str:
    """A value as an error message may quote it: ASCII, one line, short."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def keys(row: object, wanted: frozenset[str], *, where: str, newer: bool) -> Mapping[str, Any]:
    """The object, if it has exactly the wanted fields; a file of a `newer` minor version may have more."""
    if type(row) is not dict:
        raise ValueError(f"{where} is {shown(row)}, expected an object")
    if row.keys() != wanted:
        if missing := wanted - row.keys():
            raise ValueError(f"{where} lacks {', '.join(sorted(missing))}")
        if not newer:
            raise ValueError(f"{where} has unknown fields: {', '.join(shown(k) for k in sorted(row.keys() - wanted))}")
    return row


def integer(value: object, name: str, low: int = 0, high: int = MAX_INT64) -> int:
    """A whole number from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name} is {shown(value)}, expected a whole number from {low} to {high}")
    return value


def number(value: object, name: str) -> float:
    """An int stays an int, so that what is written again is the same text."""
    if type(value) is not int and type(value) is not float:
        raise ValueError(f"{name} is {shown(value)}, expected a number")
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{name} is {shown(value)}, expected a finite number")
    return value


def text(value: object, name: str) -> str:
    """A text, perhaps empty."""
    if type(value) is not str:
        raise ValueError(f"{name} is {shown(value)}, expected a text")
    return value


def non_empty(value: object, name: str) -> str:
    """A text that is not empty."""
    if type(value) is not str or not value:
        raise ValueError(f"{name} is {shown(value)}, expected a text that is not empty")
    return value


def flag(value: object, name: str) -> bool:
    """True or false, and not 1 or 0."""
    if type(value) is not bool:
        raise ValueError(f"{name} is {shown(value)}, expected true or false")
    return value


def array(value: object, name: str) -> list[Any]:
    """A list, its entries unchecked."""
    if type(value) is not list:
        raise ValueError(f"{name} is {shown(value)}, expected a list")
    return value


def texts(value: object, name: str) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(text(item, f"{name}[]") for item in array(value, name))


def integers(value: object, name: str) -> tuple[int, ...]:
    """Broker ids."""
    return tuple(integer(item, f"{name}[]", 0, MAX_INT32) for item in array(value, name))


def member(value: object, kind: type[_E], name: str) -> _E:
    """The enumeration's member of that value."""
    try:
        return kind(text(value, name))
    except ValueError:
        allowed = ", ".join(member.value for member in kind)
        raise ValueError(f"{name} is {shown(value)}, expected one of {allowed}") from None


def instant_ms(value: object, name: str) -> int:
    """An RFC 3339 instant in UTC as epoch milliseconds, exact: no floating point on the way."""
    if type(value) is str and _INSTANT.fullmatch(value):
        try:
            return (datetime.fromisoformat(value) - _EPOCH) // timedelta(milliseconds=1)
        except ValueError:
            pass
    raise ValueError(f"{name} is {shown(value)}, expected an instant such as 2026-11-21T10:00:00Z")


def instant(ms: int) -> str:
    """The inverse of `instant_ms`. Raises ValueError for an instant outside the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        raise ValueError(f"{ms} ms since 1970 is not an instant of the years 1 to 9999") from None
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")
