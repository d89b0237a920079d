"""What every operation has to say about itself. A class that lacks a method cannot be instantiated."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from reconciler.model.action import Action
from reconciler.model.description import Description, Fact, SizeChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Action):
    """An action that this program knows how to limit, review, recheck, send and verify."""

    # --- reports

    TITLE: ClassVar[str]
    """What reports call one action of this operation: `record deletion`."""
    DRIFT_TYPE: ClassVar[str]
    """What is wrong with a subject that the action would correct; a value in drift reports: `records`."""
    DRIFT_TEXT: ClassVar[str]
    """The same in words: `records below the floor are still there`."""

    @property
    def is_foldable(self) -> bool:
        """Whether a report may hide the action in the sum of its topic. True needs `describe_many`."""
        return False

    @abstractmethod
    def describe(self) -> Description:
        """Describe the action for any report."""

    @classmethod
    def describe_many(cls, actions: Sequence[Any]) -> Description:
        """Describe many foldable actions of one topic as one."""
        raise NotImplementedError(f"actions of {cls.OPERATION} are not foldable")

    @classmethod
    def total_loss(cls, actions: Sequence[Any]) -> str:  # noqa: ARG003 (for those who override it)
        """Return what all these actions lose at most, beyond their number; empty: nothing to add."""
        return ""

    @abstractmethod
    def explain(self) -> tuple[Fact, ...]:
        """Return request, facts, arithmetic and recheck of the action, for one who wants to check it."""

    def compare_size(self, old: Action) -> SizeChange | None:  # noqa: ARG002 (for those who override it)
        """Compare with the action at the same address in an older plan.

        None: the size is the same, or more than the size differs.
        """
        return None
