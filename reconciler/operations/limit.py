"""Limits: bounds on what one plan may do. Each operation names its own and counts its actions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.model.snapshot import ClusterSnapshot, Unknown

DAY_MS = 86_400_000

Whole = Callable[[ClusterSnapshot, str], int | Unknown]
"""What a share is taken of, for one bucket, from the facts of the scan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit of a Cluster manifest. A count where `whole` is None, otherwise a share in percent.

    `field`: its name in Python. `words` complete a sentence such as "groups removed: 3".
    `waiver_max_ms`: how far ahead a waiver of it may expire.
    """

    field: str
    default: int
    description: str
    words: str
    whole: Whole | None = None
    waiver_max_ms: int = 30 * DAY_MS

    @property
    def id(self) -> str:
        """Its name in manifests, such as `groupsPercent`."""
        first, *others = self.field.split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def is_percent(self) -> bool:
        return self.whole is not None


class LimitUsage(NamedTuple):
    """How much one action counts towards one limit.

    `bucket`: what is bound on its own, such as one topic; empty: the whole plan. `name`: set where
    the limit counts distinct names and not amounts.
    """

    limit: Limit
    amount: int = 1
    bucket: str = ""
    name: str = ""
