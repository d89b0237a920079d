"""Writes the suggested manifests as YAML, each below comments with the facts that it rests on."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.companions.suggest.findings import Finding, FindingKind, Suggestions
from reconciler.companions.suggest.starter import cluster_manifest, quoted_scalar
from reconciler.model.names import Address
from reconciler.text.escape import escape_sentence
from reconciler.text.formatting import format_time

_FACTS_MAX = 20
"""Findings that the comments of one manifest name; the others are counted."""
_WIDTH = 100
_UNQUOTED = frozenset({"apiVersion", "kind", "mode", "consumers", "election"})
"""Fields with a word of the program, and no name."""

ManifestText = tuple[Address, Sequence[Finding], str]
"""A manifest: its address, the findings that it is made of, and its text."""


def policy_texts(suggestions: Suggestions) -> Iterator[ManifestText]:
    """Yield the text of each suggested policy."""
    for draft in suggestions.drafts:
        document = draft.policy.model_dump(mode="json", by_alias=True, exclude_unset=True)
        yield draft.policy.address, draft.findings, _comments(draft.findings) + "\n".join(_lines(document, "")) + "\n"


def cluster_text(
    suggestions: Suggestions, *, cluster: Address, servers: Sequence[str], client: Mapping[str, str]
) -> ManifestText:
    """Return a Cluster manifest with the suggested protections and limits, read by any engine."""
    findings = _of_cluster(suggestions)
    text = cluster_manifest(
        suggestions.cluster_id,
        servers,
        suggestions.cluster,
        client=client,
        protected_topics=sorted(finding.subject for finding in findings if finding.kind is FindingKind.PROTECTION),
        limits={finding.subject: finding.value for finding in findings if finding.value is not None},
    )
    return cluster, findings, _comments(findings) + text


def file_text(suggestions: Suggestions, texts: Sequence[ManifestText]) -> str:
    """Return a file of manifests. Findings about a Cluster manifest in another file are comments."""
    at = format_time(suggestions.observed_at_ms)
    head = _comment(f"Suggested by `reconciler suggest` from a scan of {suggestions.cluster_id} at {at}.")
    head += _comment("Nothing of it was applied. Name an owner for each policy, and remove what you do not want.")
    advice = _of_cluster(suggestions)
    if advice and not any(address.kind == "Cluster" for address, _findings, _text in texts):
        head += _comment(f"For the manifest Cluster/{suggestions.cluster}, which has its own file:")
        head += _comments(advice)
    return head + "---\n".join(text for _address, _findings, text in texts)


def _of_cluster(suggestions: Suggestions) -> Sequence[Finding]:
    return [*suggestions.of(FindingKind.PROTECTION).findings, *suggestions.of(FindingKind.LIMIT).findings]


def _comments(findings: Sequence[Finding]) -> str:
    text = ""
    for finding in findings[:_FACTS_MAX]:
        text += _comment(f"{finding.id} ({finding.confidence} confidence): {'; '.join(finding.evidence)}.")
    against = dict.fromkeys(sentence for finding in findings[:_FACTS_MAX] for sentence in finding.counter_evidence)
    for sentence in list(against)[:_FACTS_MAX]:
        text += _comment(f"But: {sentence}.")
    if len(findings) > _FACTS_MAX:
        text += _comment(f"And {len(findings) - _FACTS_MAX:,} more findings, which the JSON output has.")
    return text


def _comment(sentence: str) -> str:
    """Return a sentence as lines of a comment; nothing in it ends the comment."""
    lines = textwrap.wrap(escape_sentence(sentence), _WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)


def _lines(document: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(value, f"{indent}  ")
        elif isinstance(value, list):
            yield f"{indent}{key}:"
            yield from (f"{indent}  - {_scalar(key, item)}" for item in value)
        else:
            yield f"{indent}{key}: {_scalar(key, value)}"


def _scalar(key: str, value: Any) -> str:
    return quoted_scalar(value) if isinstance(value, str) and key not in _UNQUOTED else str(value)
