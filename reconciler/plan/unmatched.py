"""Warns of policies that select nothing, of removals that name no group but nearly one, and of empty guards.

A misspelt policy would otherwise look in sync for ever, and a misspelt protection would protect
nothing. A warning changes no decision.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from reconciler.model.plan import Unmatched
from reconciler.model.selector import Selector, SelectorSet, select
from reconciler.model.snapshot import ClusterSnapshot, ExternalPosition
from reconciler.operations.consumers import undeclared_syncs
from reconciler.plan.rules import RuleSet
from reconciler.policies import Policy
from reconciler.policies.base import Selection
from reconciler.policies.cluster import Cluster
from reconciler.policies.external_reader import ExternalReader
from reconciler.text.escape import quoted
from reconciler.text.formatting import count, first_few
from reconciler.text.suggest import NAMES_MAX, did_you_mean, question

_CITED_MAX = 3
_COMPARISONS_MAX = 100_000
"""Pairs of an absent and a present group that are compared, in about a second."""
_SIMILAR = 0.8
"""Lowest similarity of a group's name for a warning; a hint beside an error may be bolder."""
_LITERAL_MIN = 3
"""Least characters of a pattern's literal part that a hint corrects."""
_GLOB_HEAD, _GLOB_TAIL = re.compile(r"^([^*?\[]+)"), re.compile(r"([^*?\[\]]+)$")
_REGEX_HEAD = re.compile(r"^regex:\^?((?:[\w-]|\\\W)+)")
_REGEX_SYNTAX = re.compile(r"[.^$*+?{}\[\]|()\\]")


def find_unmatched(
    rules: RuleSet | None, planned: Sequence[Selection], snapshot: ClusterSnapshot
) -> Iterator[Unmatched]:
    """Yield the warnings about policies and guards. `rules` None: the plan is narrowed, so of policies only."""
    if rules is not None:
        yield from _guards(rules.cluster, snapshot)
        yield from _readers(rules, planned, snapshot)
    for selection in planned:
        yield from _policy(selection, snapshot)
        yield from _guards(selection.policy, snapshot)


def _policy(selection: Selection, snapshot: ClusterSnapshot) -> Iterator[Unmatched]:
    """Yield the warning about one policy, if any.

    A removal whose groups are gone has done its work: it warns only of names like those of groups
    that exist. Nothing is said where `expectAtMost` is 0, or where the list of names is incomplete.
    """
    policy = selection.policy
    names, incomplete = snapshot.listed(policy.SUBJECTS)
    if policy.expect_at_most == 0 or incomplete is not None:
        return
    if policy.ABSENCE_IS_DESIRED:
        reason, end = _misspelt(selection, names), "take out what is gone; expectAtMost: 0 says that nothing is left"
    else:
        reason, end = _nothing_selected(selection, names), "write expectAtMost: 0 while none is expected"
    if reason:
        yield _warning(policy, reason, f"correct {policy.SUBJECTS}, or {end}")


def _guards(manifest: Cluster | Policy | ExternalReader, snapshot: ClusterSnapshot) -> Iterator[Unmatched]:
    """Yield a warning for each list of guards of a manifest with some that match no name; not under `expectNone`.

    An exception guards what its policy would select. Nothing is said where the list of names is incomplete.
    """
    expected = frozenset(manifest.metadata.expect_none or ())
    for field, (subjects, selectors) in manifest.guards.items():
        names, incomplete = snapshot.listed(subjects)
        if incomplete is not None:
            continue
        own = (
            select(names, manifest.selectors) if isinstance(manifest, Policy) and subjects == manifest.SUBJECTS else {}
        )
        names, among = (own.keys(), " that it would select") if own else (names, "")
        empty = [
            selector
            for selector in selectors
            if selector.text not in expected
            and selector.name not in names  # thousands of exact names are never compared with all
            and not (selector.is_pattern and any(map(SelectorSet([selector]).covering, names)))
        ]
        if empty:
            cited = first_few([_cite_similar(guard.text, _similar_selector(guard, names)) for guard in empty])
            part = "" if len(empty) == len(selectors) else "a part of "
            yield _warning(
                manifest,
                f"{part}{field} guards nothing: of {count(len(names), subjects.removesuffix('s'))}{among}, none matches {cited}",
                f"correct {field}, or write the same text under metadata.expectNone while none is expected",
            )


def _readers(rules: RuleSet, planned: Sequence[Selection], snapshot: ClusterSnapshot) -> Iterator[Unmatched]:
    """Yield the warnings about external readers, and about offset syncs of MirrorMaker 2 that none names.

    `planned`: what the policies select. A reader guards only where a policy waits for consumers.
    """
    waiting = [selection for selection in planned if selection.policy.waits_for_consumers is not None]
    for reader in rules.readers:
        yield from _guards(reader, snapshot)
        position = snapshot.external.get(reader.request)
        named = position.topics if isinstance(position, ExternalPosition) else frozenset[str]()
        unlisted = sorted(topic for topic in named & snapshot.topics.keys() if not reader.request.selects(topic))
        if unlisted:
            reason = f"its position names more topics than its manifest, and they count, too: {first_few(unlisted)}"
            yield _warning(reader, reason, "add them to topics: while the position cannot be read, only these are held")
        of_reader = [s for s in waiting if any(reader.request.selects(topic) or topic in named for topic in s.subjects)]
        if of_reader and not any(selection.policy.waits_for_consumers for selection in of_reader):
            reason = "it guards nothing: every floor of its topics says consumers: ignore"
            yield _warning(reader, reason, "say consumers: block or clamp, or remove the reader")
    cluster = rules.cluster
    syncs = [topic for topic in undeclared_syncs(snapshot) if topic not in (cluster.metadata.expect_none or ())]
    if syncs and any(selection.subjects for selection in waiting):
        reason = f"MirrorMaker 2 keeps offset syncs here, and no ExternalReader holds what it has not mirrored: {first_few(syncs)}"
        next_step = "declare it (suggest drafts one), or its topic under metadata.expectNone where it only writes here"
        yield _warning(cluster, reason, next_step)


def _warning(manifest: Cluster | Policy | ExternalReader, reason: str, next_step: str) -> Unmatched:
    return Unmatched(policy=manifest.address, declared_at=manifest.declared_at, reason=reason, next_step=next_step)


def _nothing_selected(selection: Selection, names: Collection[str]) -> str:
    """Return why a policy selects none of the names of the cluster; empty: it selects some."""
    policy = selection.policy
    if selection.matched:
        return ""
    cited = first_few([quoted(selector.text) for selector in policy.selectors])
    if not names:
        return f"it selects nothing: the cluster lists no {policy.SUBJECTS}"
    if any(selector.matches(name) for selector in policy.selectors for name in names):
        left_out = f"except{policy.SUBJECTS.capitalize()}"
        skipped = " or the rule that patterns select no name with a leading _" * policy.PATTERNS_SKIP_UNDERSCORE
        return f"it selects nothing: {left_out}{skipped} leaves out all that {cited} would select"
    hints = (_similar_selector(selector, names) for selector in policy.selectors[:_CITED_MAX])
    meant = ", ".join(quoted(hint) for hint in hints if hint)
    hint = question(meant, before="; ", quote=str)
    return f"it selects nothing: of {count(len(names), policy.SUBJECTS.removesuffix('s'))}, none matches {cited}{hint}"


def _misspelt(selection: Selection, names: Collection[str]) -> str:
    """Return which names of a removal look misspelt; empty: none. Names it selects are not hints."""
    policy = selection.policy
    others = frozenset(select(names, [Selector("*")], excluding=policy.excluding)) - selection.subjects.keys()
    absent = [name for name, exact in selection.subjects.items() if exact and name not in names]
    similar = []
    for name in islice(absent, _COMPARISONS_MAX // max(1, len(others))):
        # Other numbers make another group, and no mistake.
        candidates = (other for other in others if _without_numbers(other) != _without_numbers(name))
        if near := did_you_mean(name, candidates, cutoff=_SIMILAR):
            similar.append((name, near))
    if selection.matched == 0:
        patterns = (selector for selector in policy.selectors if selector.is_pattern)
        similar += [(pattern.text, near) for pattern in patterns if (near := _similar_selector(pattern, others))]
    if not similar:
        return ""
    cited = first_few([_cite_similar(name, near) for name, near in similar])
    return f"the cluster has no group {cited}"


def _without_numbers(name: str) -> str:
    return re.sub("[0-9]+", "0", name)


def _similar_selector(selector: Selector, names: Collection[str]) -> str | None:
    """Return a similar selector that selects some of the names."""
    if len(names) > NAMES_MAX:
        return None
    if not selector.is_pattern:
        return did_you_mean(selector.text, names)
    # What every selected name begins with, and what it ends with.
    expressions = [_REGEX_HEAD] if selector.text.startswith("regex:") else [_GLOB_HEAD, _GLOB_TAIL]
    parts = filter(None, (expression.search(selector.text) for expression in expressions))
    candidates = (_correct(part, names) for part in parts)
    return next((text for text in candidates if text and any(map(Selector(text).matches, names))), None)


def _correct(literal: re.Match[str], names: Iterable[str]) -> str | None:
    """Return the pattern with its literal part replaced by the closest part of a name."""
    pattern, (start, end) = literal.string, literal.span(1)
    is_regex, at_end = literal.re is _REGEX_HEAD, literal.re is _GLOB_TAIL
    word = literal[1].replace("\\", "") if is_regex else literal[1]
    if len(word) < _LITERAL_MIN:
        return None
    lengths = range(len(word) - 1, len(word) + 2)
    parts = {name[-length:] if at_end else name[:length] for name in names for length in lengths}
    closest = did_you_mean(word, parts)
    if closest is None or re.search(r"[*?\[\]]", closest):
        return None
    return pattern[:start] + (_REGEX_SYNTAX.sub(r"\\\g<0>", closest) if is_regex else closest) + pattern[end:]


def _cite_similar(name: str, near: str | None) -> str:
    return quoted(name) + (f" ({question(near, quote=quoted)})" if near else "")
