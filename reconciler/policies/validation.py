"""What a validator of a manifest reports. `manifest/` adds positions and prints it."""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

FieldPath = tuple[str | int, ...]
"""Manifest keys and list positions, from the validated model or value downwards."""


@dataclass(frozen=True, slots=True)
class ValidationIssue:
    """One error in a manifest, `at` a path from the validated value. `on_key`: the key is wrong."""

    code: str
    message: str
    at: FieldPath = ()
    hint: str = ""
    on_key: bool = False


def invalid(code: str, message: str, hint: str = "") -> PydanticCustomError:
    """Return the exception for one issue about the validated value."""
    return _exception("problems", (ValidationIssue(code, message, hint=hint),))


def raise_if_any(issues: Iterable[ValidationIssue], kind: str = "problems") -> None:
    """Raise all issues in one exception. `broken_rules` is for rules about several fields."""
    if all_issues := tuple(issues):
        raise _exception(kind, all_issues)


def _exception(kind: str, issues: tuple[ValidationIssue, ...]) -> PydanticCustomError:
    text = "; ".join(text for issue in issues for text in (issue.message, issue.hint) if text)
    return PydanticCustomError(kind, "{text}", {"text": text, "problems": issues})
