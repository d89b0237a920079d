"""What a model says when it refuses: a stable code, words, where below the model, and a hint. How it is printed is load's business.

One validator may find several problems; pydantic lets it raise only once, so they travel together.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

Path = tuple[str | int, ...]
"""From the model that refuses down to the value: manifest keys and list positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a manifest. `at`: which value below the refusing model; empty: the model as a whole.

    `on_key`: the key is what is wrong, not its value.
    """

    code: str
    message: str
    at: Path = ()
    hint: str = ""
    on_key: bool = False


def refusal(*problems: Problem) -> PydanticCustomError:
    """The one exception that carries all of `problems` through pydantic; they come out of the error's `ctx["problems"]`."""
    text = "; ".join(problem.message for problem in problems)
    return PydanticCustomError("problems", "{text}", {"text": text, "problems": problems})


def refuse_broken_rules(problems: Iterable[Problem]) -> None:
    """Like `refuse_any`, for rules about several fields: pydantic asks them only where each field is right by itself."""
    if found := tuple(problems):
        text = "; ".join(problem.message for problem in found)
        raise PydanticCustomError("broken_rules", "{text}", {"text": text, "problems": found})


def refuse_any(problems: Iterable[Problem]) -> None:
    """Raises where there is a problem."""
    if found := tuple(problems):
        raise refusal(*found)
