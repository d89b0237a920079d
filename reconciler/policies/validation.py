"""What a model says when it refuses: a stable code, words, where below the model, and a hint. How it is printed is load's business.

One validator may find several problems; pydantic lets it raise only once, so they travel together.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

FieldPath = tuple[str | int, ...]
"""From the model that refuses down to the value: manifest keys and list positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationIssue:
    """One thing that is wrong with a manifest. `at`: which value below the refusing model; empty: the model as a whole.

    `on_key`: the key is what is wrong, not its value.
    """

    code: str
    message: str
    at: FieldPath = ()
    hint: str = ""
    on_key: bool = False


def validation_error(*problems: ValidationIssue) -> PydanticCustomError:
    """The one exception that carries all of `problems` through pydantic; they come out of the error's `ctx["problems"]`."""
    text = "; ".join(problem.message for problem in problems)
    return PydanticCustomError("problems", "{text}", {"text": text, "problems": problems})


def raise_cross_field(problems: Iterable[ValidationIssue]) -> None:
    """Like `refuse_any`, for rules about several fields: pydantic asks them only where each field is right by itself."""
    if found := tuple(problems):
        text = "; ".join(problem.message for problem in found)
        raise PydanticCustomError("broken_rules", "{text}", {"text": text, "problems": found})


def raise_if_any(problems: Iterable[ValidationIssue]) -> None:
    """Raises where there is a problem."""
    if found := tuple(problems):
        raise validation_error(*found)
