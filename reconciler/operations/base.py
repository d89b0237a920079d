"""What every operation has to say about itself. A class that lacks a method cannot be instantiated."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from reconciler.model.action import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Action):
    """An action that this program knows how to limit, review, recheck, send and verify."""

    DERIVED: ClassVar[tuple[str, ...]] = ("OPERATION", "irreversible", "request", "approved", "impact")
    """What the plan file shows beside the fields."""

    @abstractmethod
    def approved(self) -> Mapping[str, object]:
        """Return what an approval binds besides address and request: every value that recheck tests for equality.

        The plan's digest covers these values in this order. Another order or name makes every digest another.
        """

    @abstractmethod
    def impact(self) -> Mapping[str, object]:
        """Return the upper bound of what the action costs, by the field names of the plan file.

        `records_removed_max`, where there is one, is summed up over a plan; None: unbounded.
        """

    def check_subject(self, name: str, partition: int = -1) -> None:
        """Raise ValueError where the address names another subject than the request."""
        if self.address.name != name or self.address.partition != partition:
            raise ValueError(f"the address {str(self.address)!a} names another subject than the request")
