"""Exact names, globs and regular expressions, and the names that patterns never select."""

import pickle
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.selector import Selector, SelectorSet, may_share_name, select
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
        # A glob matches it: a removal by `billing*` took a group that `regex:billing.*` was to protect.
        ("regex:billing.*", True, ["billing\nold", "billing\0"], ["bill\ning"]),
    ],
)
def test_a_selector_matches_the_whole_name(text: str, is_pattern: bool, matching: list[str], other: list[str]) -> None:
    """A missing `$` can only select less."""
    selector = Selector(text)
    assert selector.is_pattern is is_pattern
    assert all(selector.matches(name) for name in matching)
    assert not any(selector.matches(name) for name in other)


@pytest.mark.parametrize(
    ("text", "error"),
    [("", "empty selector"), ("regex:", "empty selector"), ("regex:(", r"not a regular expression: missing \)")],
)
def test_a_selector_of_no_name_is_refused_with_its_error(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Selector(text)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"\d+", "٣"),
        (r"\w+", "größe"),
        (r"a\sb", "a\u00a0b"),
        (r"\bé", "é"),
        ("a$\n", "a\n"),
        ("(?i)etl-i", "ETL-İ"),
        ("a{,3}", "aa"),
    ],
)
def test_where_re2_and_re_differ_re2_selects_less(pattern: str, name: str) -> None:
    """Classes are ASCII, `$` is the end only, I with a dot is another letter, and {,3} is text."""
    assert re.fullmatch(pattern, name)
    assert not Selector(f"regex:{pattern}").matches(name)


@pytest.mark.parametrize(
    ("pattern", "name"), [(r"\D", "٣"), (r"\W", "é"), (r"\pL+", "größe"), (r"\x{e9}", "é"), (".{4}", "größe"[:4])]
)
def test_re2_selects_letters_not_bytes(pattern: str, name: str) -> None:
    """A negated class selects more than that of `re`; each letter is one character."""
    assert Selector(f"regex:{pattern}").matches(name)


def test_a_selector_can_be_copied_to_another_process() -> None:
    """Spark pickles the sources; a compiled expression of RE2 is made again."""
    assert pickle.loads(pickle.dumps(Selector("regex:a+"))).matches("aa")


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


def test_a_literal_is_looked_up_and_no_pattern() -> None:
    """Each group of a plan with a name like a pattern was once tried on every group of the cluster."""
    assert not any(Selector.literal(name).is_pattern for name in ("orders", "a/b \\ \n", "a*"))
    assert Selector.literal("a*") == Selector("regex:a\\*")
    assert select(["a*", "ab"], [Selector.literal("a*")]) == {"a*": True}


class CountedNames(frozenset[str]):
    """A set that counts how often its names are walked through."""

    walks = 0

    def __iter__(self) -> Iterator[str]:
        type(self).walks += 1
        return super().__iter__()


def test_exact_names_are_selected_without_a_walk_through_all_names() -> None:
    """A hundred policies of a thousand exact names once walked through all groups a hundred times."""
    names = CountedNames(["a", "b", "c"])
    assert select(names, selectors("b", "missing", "c"), excluding=selectors("c*")) == {"b": True}
    assert CountedNames.walks == 0
    assert list(select(names, selectors("b", "c*"))) == ["b", "c"]
    assert CountedNames.walks == 1


TEXTS = st.lists(st.sampled_from(["a", "b", "a*", "b*", "[a]", "regex:a|b", "regex:a\\*", "*"]), max_size=4)


@given(TEXTS, st.sampled_from(["a", "b", "c", "a*", "[a]", "regex:a|b"]))
def test_a_set_of_selectors_answers_like_its_selectors_one_by_one(texts: list[str], name: str) -> None:
    compiled = SelectorSet(selectors(*texts))
    assert compiled.matches(name) == any(selector.matches(name) for selector in selectors(*texts))
    covering = (selector for selector in selectors(*texts) if selector.matches(name) or selector.text == name)
    assert compiled.covering(name) == next(covering, None)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("orders", "orders", True),
        ("orders", "order", False),
        ("orders", "ord*", True),
        ("regex:o.*", "orders", True),
        ("regex:o", "orders", False),
        ("a-*", "*-b", True),
        ("a-*", "b-*", False),
        ("*-b", "*-c", False),
        ("a-*-b", "a-x-*", True),
        ("[ab]-x", "?-x", True),
        ("[ab]-x", "b-*", True),
        ("[ab]-x", "*-y", False),
        ("a[", "a[*", True),
        ("*", "regex:_.*", True),
    ],
)
def test_two_selectors_may_share_a_name(first: str, second: str, expected: bool) -> None:
    """In doubt they do: nothing is known of what stands for wildcards, or of a regular expression."""
    assert may_share_name(Selector(first), Selector(second)) is expected
    assert may_share_name(Selector(second), Selector(first)) is expected


GLOBS = st.text(alphabet="ab*?[]!", min_size=1, max_size=6)


@given(first=GLOBS, second=GLOBS, name=st.text(alphabet="ab[]!", max_size=6))
def test_selectors_that_share_a_name_are_found(first: str, second: str, name: str) -> None:
    """A pair that is missed would hide that a policy holds another one back."""
    one, other = Selector(first), Selector(second)
    if one.matches(name) and other.matches(name):
        assert may_share_name(one, other)
