"""Exact names, globs and regular expressions, and the names that patterns never select."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.selector import Selector, select
from tests.strategies.plans import NASTY


def selectors(*texts: str) -> tuple[Selector, ...]:
    return tuple(Selector(text) for text in texts)


@pytest.mark.parametrize(
    ("text", "is_pattern", "matching", "other"),
    [
        ("orders", False, ["orders"], ["orders2", "Orders", "my-orders"]),
        ("clicks-*", True, ["clicks-", "clicks-a"], ["clicks", "my-clicks-a"]),
        ("a?c", True, ["abc"], ["ac", "abbc"]),
        ("[ab]x", True, ["ax", "bx"], ["cx", "[ab]x"]),
        ("regex:^test-[0-9]+$", True, ["test-1"], ["test-", "test-1x", "xtest-1", "test-1\n"]),
        ("regex:test", True, ["test"], ["test1", "atest"]),
        ("regex:a|ab", True, ["a", "ab"], ["abc"]),
    ],
)
def test_a_selector_matches_the_whole_name(text: str, is_pattern: bool, matching: list[str], other: list[str]) -> None:
    """A missing `$` can only select less."""
    selector = Selector(text)
    assert selector.is_pattern is is_pattern
    assert all(selector.matches(name) for name in matching)
    assert not any(selector.matches(name) for name in other)


@pytest.mark.parametrize("text", ["", "regex:"])
def test_an_empty_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="empty selector"):
        Selector(text)


def test_an_invalid_regular_expression_is_refused_with_its_error() -> None:
    with pytest.raises(ValueError, match="not a regular expression: missing \\)"):
        Selector("regex:(")


def test_selectors_are_compared_by_their_text() -> None:
    """The compiled pattern does not count."""
    assert sorted(selectors("b*", "a")) == list(selectors("a", "b*"))
    assert Selector("a*") == Selector("a*")


def test_exact_names_have_priority_over_patterns_and_exceptions_over_both() -> None:
    selected = select(["a1", "a2", "a3", "b"], selectors("a1", "a*"), excluding=selectors("a3"))
    assert selected == {"a1": True, "a2": False}
    assert select(["a"], selectors("a"), excluding=selectors("a")) == {}
    assert list(select(["app[blue]", "appb", "appx"], selectors("*"), excluding=selectors("app[blue]"))) == ["appx"]
    assert list(select(["c", "a", "b", "a"], selectors("*"))) == ["a", "b", "c"]


def test_patterns_skip_a_leading_underscore_only_on_request() -> None:
    names = ["_schemas", "__offsets", "orders"]
    assert list(select(names, selectors("*"), patterns_skip_underscore=True)) == ["orders"]
    assert list(select(names, selectors("regex:.*", "_schemas"), patterns_skip_underscore=True)) == [
        "_schemas",
        "orders",
    ]
    assert len(select(names, selectors("*"))) == 3


@given(st.one_of(st.sampled_from(NASTY), st.text(min_size=1), st.sampled_from(["regex:x", "a*", "[", "regex:"])))
def test_a_literal_selector_matches_exactly_its_name(name: str) -> None:
    """Also a name that looks like a pattern."""
    selector = Selector.literal(name)
    assert selector.matches(name)
    assert not selector.matches(name + "x")
    assert not selector.matches("x" + name)


def test_a_literal_of_a_plain_name_is_no_pattern() -> None:
    """The program looks up exact names and tries patterns on every name."""
    assert not Selector.literal("orders").is_pattern
    assert not Selector.literal("a/b \\ \n").is_pattern
