"""What every operation has to say about itself. A class that lacks a method cannot be instantiated."""

from dataclasses import dataclass

from reconciler.model.action import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Action):
    """An action that this program knows how to limit, review, recheck, send and verify."""
