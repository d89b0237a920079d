"""Bounds of numbers and texts in files: annotations that codec.py checks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of a number, or the least length of a text. `high` None: unbounded."""

    low: int
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Instant:
    """Marks epoch milliseconds that files show as RFC 3339 text, in a field without `_ms`."""


OMIT_DEFAULT: Mapping[str, bool] = {"omit_default": True}
"""Metadata of a field that a file holds only where it is not its default, so that older files lack it."""
Int32 = Annotated[int, Bounds(0, 2**31 - 1)]
"""A partition number or a broker id."""
Int64 = Annotated[int, Bounds(0, 2**63 - 1)]
"""An offset, a count of one subject, a duration in ms. The codec takes a plain int as this."""
Total = Annotated[int, Bounds(0)]
"""A sum over many subjects."""
EpochMs = Annotated[int, Bounds(-(2**63), 2**63 - 1)]
"""Milliseconds since 1970 as a log holds them. A producer may write any number."""
InstantMs = Annotated[int, Instant()]
"""Milliseconds since 1970 of an instant in the years 1 to 9999."""
NonEmpty = Annotated[str, Bounds(1)]
"""A text of at least one character."""
