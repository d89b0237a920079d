"""What every action has in common. The operations are in operations/, one file each."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from reconciler.model.bounds import OMIT_DEFAULT
from reconciler.model.description import Figure
from reconciler.model.names import Address, SourceLocation, TopicPartition

Subject = TopicPartition | str
"""What a request names: a partition, a group, or a topic."""


class Mode(StrEnum):
    """How a policy is carried out: from a reviewed plan only, or also by converge and watch."""

    MERGE = "merge"
    CONTINUOUS = "continuous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(ABC):
    """One change to the cluster.

    `drift`: whether the subject counts as drift until it is done. `caveat`: what its reader has to know
    beside the numbers, such as that no consumer guards the records; empty: nothing. No approval binds it.
    """

    OPERATION: ClassVar[str]
    """The operation's name in files: `delete_records`."""

    address: Address
    declared_at: SourceLocation
    reason: str
    mode: Mode
    drift: bool = True
    caveat: str = field(default="", metadata=OMIT_DEFAULT)

    @property
    def subject(self) -> Subject:
        """What the request names. A plan holds one action of an operation for a subject."""
        name, partition = self.address.name, self.address.partition
        return name if partition < 0 else TopicPartition(name, partition)

    @property
    def irreversible(self) -> bool:
        return True

    def records_removed_max(self, start: int | None) -> int:  # noqa: ARG002  most remove none
        """Return the most records it may have removed; `start`: lowest log start read, or None."""
        return 0

    def figure(self) -> Figure | None:
        """Return what a report with pictures draws of the action; None: nothing."""
        return None

    @abstractmethod
    def request(self) -> Mapping[str, str | int]:
        """Return what the request asks for, by the field names of plan and journal."""
