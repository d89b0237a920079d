"""Builds the report of the findings of `suggest`: by kind, with evidence, what speaks against it, and ids."""

from collections.abc import Iterator, Sequence

from reconciler.companions.suggest import findings
from reconciler.companions.suggest.findings import Finding, FindingKind, Suggestions
from reconciler.model.description import Fact
from reconciler.model.names import format_address
from reconciler.policies.cluster import Cluster
from reconciler.report.tree import Item, Report, Section, Severity, group_equal
from reconciler.text.escape import display_name, quoted
from reconciler.text.formatting import count, first_few, format_duration, format_time
from reconciler.text.phrase import Phrase, escaped_name, name, sentence, strong

ITEMS_MAX = 12
"""Findings of one section that a report shows; the others are counted."""
_UNKNOWN_MAX = 5
_NAMES_MAX = 20
"""Names in one folded item."""
_GROUP_KINDS = frozenset({FindingKind.IDLE_GROUP, FindingKind.LAGGING_GROUP})
_FOLDED = frozenset({FindingKind.LEADER, FindingKind.PROTECTION})
"""Kinds whose findings are many and alike: those with the same facts are one item."""
_HEADINGS: dict[FindingKind, str] = {
    FindingKind.IDLE_GROUP: "Groups without activity for {idle_for} or longer",
    FindingKind.READ_RECORDS: "Records that every group has read",
    FindingKind.LEADER: "Leaders that are not the preferred ones",
    FindingKind.LAGGING_GROUP: "Groups that hold purges back",
    FindingKind.UNREAD_TOPIC: "Questions: topics that no group reads",
    FindingKind.EXTERNAL_READER: "Readers that Kafka does not list",
    FindingKind.PROTECTION: "Topics to protect",
    FindingKind.LIMIT: "Limits that fit the cluster",
}


def suggest_report(suggestions: Suggestions, *, next_steps: Sequence[str] = (), items_max: int = ITEMS_MAX) -> Report:
    """The report of one cluster. `next_steps`: escaped. `items_max`: items that one section shows."""
    cluster: Phrase = (name(suggestions.cluster), " (", name(suggestions.cluster_id), ")")
    parts = [count(number, noun.removesuffix("s")) for noun, number in suggestions.size.items()]
    drafted = sum(len(draft.findings) for draft in suggestions.drafts)
    policies = f"{len(suggestions.drafts):,} {'policy' if len(suggestions.drafts) == 1 else 'policies'}"
    total = f"{count(len(suggestions.findings), 'finding')}, {drafted:,} of them in {policies} to review"
    sections = [_section(section, suggestions, items_max) for section in suggestions.sections]
    ids: Phrase = (escaped_name(first_few(list(map(display_name, suggestions.unmatched)), limit=_NAMES_MAX)),)
    unmatched = Item(label="Ignored ids that no finding has now", text=ids, severity=Severity.WARNING)
    return Report(
        title="suggestions",
        headline=("Suggestions for ", *cluster),
        opening=("Cluster ", *cluster, f", scanned {format_time(suggestions.observed_at_ms)}: {', '.join(parts)}"),
        summary=(f"{total}. Nothing was changed.",),
        sections=(*sections, Section(items=(unmatched,) * bool(suggestions.unmatched), labelled=False)),
        next_steps=tuple((escaped_name(step),) for step in next_steps),
        remainder=("in the JSON output",),
        marker=("reconciler:suggest", (("cluster", suggestions.cluster), ("id", suggestions.cluster_id))),
    )


def _section(section: findings.FindingSection, suggestions: Suggestions, items_max: int) -> Section:
    heading = _HEADINGS[section.kind].format(idle_for=format_duration(suggestions.idle_for_ms))
    manifests = sorted({format_address(f.manifest) for f in section.findings if f.manifest is not None})
    number = "cannot tell" if section.is_unknown and not section.findings else f"{len(section.findings):,}"
    location: Phrase = (", in ", escaped_name(first_few(manifests))) if manifests else ()
    return Section(
        heading=(f"{heading}: {number}", *location),
        items=tuple(_items(section, items_max)),
        severity=Severity.PLAIN,
        labelled=False,
    )


def _items(section: findings.FindingSection, items_max: int) -> Iterator[Item]:
    is_folded = section.kind in _FOLDED
    shared = _shared_counter_evidence(section.findings)
    groups = list(group_equal(section.findings, _facts if is_folded else lambda finding: finding.id))
    for same in groups[:items_max]:
        yield _item(same, shared)
    if omitted := [finding for same in groups[items_max:] for finding in same]:
        drafted, more = _count_drafted(omitted), f"and {len(omitted):,} more (-o json lists them all)"
        severity = Severity.CHANGE if drafted else Severity.QUIET
        yield Item(text=(more,), severity=severity, counts={"finding": drafted})
    for text in shared:
        yield Item(label="But", text=(sentence(text),))
    for reason in section.unknown[:_UNKNOWN_MAX]:
        yield Item(label="Cannot tell", text=(sentence(reason),), severity=Severity.WARNING)
    if len(section.unknown) > _UNKNOWN_MAX:
        more = f"{len(section.unknown) - _UNKNOWN_MAX:,} more reasons (-o json lists them all)"
        yield Item(label="Cannot tell", text=(more,), severity=Severity.WARNING)
    if section.ignored:
        yield Item(text=(f"{count(section.ignored, 'finding')} ignored",), severity=Severity.QUIET)


def _facts(finding: Finding) -> tuple[object, ...]:
    """What folded findings have in common."""
    evidence = finding.evidence if finding.kind is FindingKind.PROTECTION else None
    return finding.title, finding.confidence, evidence, finding.counter_evidence


def _shared_counter_evidence(of_section: Sequence[Finding]) -> list[str]:
    """Return what speaks against each of several findings: it is said once."""
    if len(of_section) < 2:
        return []
    return [text for text in of_section[0].counter_evidence if all(text in f.counter_evidence for f in of_section)]


def _subject(finding: Finding) -> str:
    return quoted(finding.subject) if finding.kind in _GROUP_KINDS else display_name(finding.subject)


def _item(same: Sequence[Finding], shared: Sequence[str]) -> Item:
    """The item of one finding, or of many with the same facts."""
    first = same[0]
    known = sum(finding.partitions or 0 for finding in same)
    size: Phrase = (f"{count(known, 'partition')} of ",) if first.kind is FindingKind.LEADER else ()
    names = first_few([_subject(finding) for finding in same], limit=_NAMES_MAX)
    evidence = list(first.evidence)
    if len(same) > 1 and first.kind is not FindingKind.PROTECTION:
        evidence = [f"{_subject(finding)}: {'; '.join(finding.evidence)}" for finding in same[:_UNKNOWN_MAX]]
    more = len(same) - len(evidence) if len(same) > _UNKNOWN_MAX and first.kind is not FindingKind.PROTECTION else 0
    drafted = _count_drafted(same)
    return Item(
        counts={"finding": drafted},
        subject=(*size, escaped_name(names)),
        text=(sentence(first.title), " (", strong(f"{first.confidence} confidence"), ")"),
        severity=Severity.CHANGE if drafted else Severity.PLAIN,
        code=first.id,
        facts=(
            *_labelled("Because", evidence),
            *((("", (f"and {more:,} more topics",)),) if more else ()),
            *_labelled("But", [text for text in first.counter_evidence if text not in shared]),
            ("Ids" if len(same) > 1 else "Id", (escaped_name(first_few([finding.id for finding in same])),)),
        ),
    )


def _count_drafted(same: Sequence[Finding]) -> int:
    """Return how many findings are in the draft of a policy. What the Cluster could say changes no topic or group."""
    return sum(finding.manifest is not None and finding.manifest.kind != Cluster.__name__ for finding in same)


def _labelled(label: str, sentences: Sequence[str]) -> Iterator[Fact]:
    for number, text in enumerate(sentences):
        yield "" if number else label, (sentence(text),)
