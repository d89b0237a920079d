"""An operation that the reports do not know appears in all of them by its own description."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import pytest

from reconciler import operations
from reconciler.model.action import Action
from reconciler.model.description import Description, Fact
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.operations.base import NO_LIMITS
from reconciler.operations.delete_group import DeleteGroup
from reconciler.plan import drift
from reconciler.plan.diff import compare
from reconciler.text.phrase import name, strong
from tests import rendering
from tests.strategies.examples import plan, removal


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAlias(DeleteGroup):
    """An operation that only this test has."""

    TITLE: ClassVar[str] = "alias removal"
    HEADING: ClassVar[str] = "aliases removed"
    DRIFT_TYPE: ClassVar[str] = "alias"
    DRIFT_TEXT: ClassVar[str] = "the alias is still there"

    def describe(self) -> Description:
        return Description(subject=(name(self.group),), loss=(strong("1 alias"),))

    @classmethod
    def count_effects(cls, addresses: Collection[Address]) -> str:
        return f"{len(addresses)} alias removed"

    @classmethod
    def total_loss(cls, _actions: Sequence[Action], _observed: Mapping[str, float] = NO_LIMITS) -> str:
        return ""

    def explain(self) -> tuple[Fact, ...]:
        return (("Request", ("RemoveAlias ", name(self.group))),)


def test_a_new_operation_is_reported_without_a_change_to_the_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan, page, comparison, drift, results and explanation have its texts."""
    monkeypatch.setattr(operations, "OPERATIONS", (*operations.OPERATIONS, RemoveAlias))
    template = removal("old-alias")
    action = RemoveAlias(**{field.name: getattr(template, field.name) for field in fields(template)})
    example = plan(action)
    text = rendering.plain(rendering.text(example))
    assert "  old-alias (dead-etl): 1 alias" in text
    assert "Irreversible: aliases removed" in text
    assert "Cannot be undone: 1 alias removed" in text
    assert "- `old-alias`: **1 alias**" in rendering.markdown(example).splitlines()
    assert "1 alias removed" in rendering.github(example)
    (row,) = rendering.plain(rendering.diff_text(compare(plan(), example)))[2:-3]
    assert row == "new: GroupRemoval/dead-etl/old-alias — alias removal, 1 alias"
    assert "the alias is still there" in rendering.drift_markdown(drift.report(example))
    applied = Outcome(action=action, status=Status.APPLIED, detail="gone")
    assert any("gone" in line.plain for line in rendering.results_text(example, [applied]))
    explained = "\n".join(rendering.plain(rendering.explain(example, action.address)))
    assert ": alias removal\n" in explained
    assert "RemoveAlias old-alias" in explained
