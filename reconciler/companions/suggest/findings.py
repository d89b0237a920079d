"""What `suggest` found on a cluster, as data, as JSON, and as ids that a file can ignore.

An id depends on the kind of a finding and on its subject only: the next run gives the same one.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from reconciler.codec import Codec, document
from reconciler.model.bounds import NonEmpty
from reconciler.model.names import Address
from reconciler.model.snapshot import Lookups
from reconciler.policies import Policy
from reconciler.policies.external_reader import ExternalReader
from reconciler.text.formatting import first_few, format_exact_instant

FORMAT_VERSION = "1.0"
NAMES_MAX = 1_000
"""Topics or groups that one manifest names."""
_LONGEST_PART = 120
_LONGEST_BEGIN = 150
"""Characters of a name in an id; group ids may be of any length."""


class FindingKind(StrEnum):
    """What a finding is about, in the order of a report. The values begin ids: add, never rename."""

    IDLE_GROUP = "idle-group"
    READ_RECORDS = "read-records"
    LEADER = "leader"
    LAGGING_GROUP = "lagging-group"
    UNREAD_TOPIC = "unread-topic"
    EXTERNAL_READER = "external-reader"
    PROTECTION = "protection"
    LIMIT = "limit"


class Confidence(StrEnum):
    """How well the facts support a finding; in the order of a report."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding about one subject.

    `title`: the suggestion in a few words. `evidence`, `counter_evidence`: sentence fragments without
    a full stop, names in them escaped. `records`: how many it would free or is about at most, of the
    `topic_records` of its topic; `partitions`: how many of them it concerns; `value`: of a limit; None: that does not apply.
    `manifest`: the manifest that has it; None: it is a question, and no manifest follows from it.
    """

    id: NonEmpty
    kind: FindingKind
    subject: NonEmpty
    title: str
    confidence: Confidence
    evidence: tuple[str, ...]
    counter_evidence: tuple[str, ...]
    records: int | None = None
    topic_records: int | None = None
    partitions: int | None = None
    value: int | None = None
    manifest: Address | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingSection:
    """The findings of one kind, the best first.

    `unknown`: what cannot be told, and why. `is_unknown`: of no subject at all. `ignored`: how many
    findings the ids of a file left out.
    """

    kind: FindingKind
    findings: tuple[Finding, ...] = ()
    unknown: tuple[str, ...] = ()
    is_unknown: bool = False
    ignored: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A manifest to review, and the findings that it is made of."""

    policy: Policy | ExternalReader
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """All findings of one scan of one cluster.

    `sections`: one for each kind, in the order of `Kind`. `unmatched`: ids to ignore that no finding
    has. `idle_for_ms`: how long a group has to be without activity. `size`: of what could be read, the
    number of brokers, topics, partitions and groups. `asked`: lookups of records that findings wait for.
    """

    cluster: str
    cluster_id: str
    observed_at_ms: int
    idle_for_ms: int
    size: Mapping[str, int]
    sections: tuple[FindingSection, ...]
    drafts: tuple[Draft, ...]
    unmatched: tuple[str, ...] = ()
    asked: Lookups = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for section in self.sections for finding in section.findings)

    def of(self, kind: FindingKind) -> FindingSection:
        return next(section for section in self.sections if section.kind is kind)


@dataclass(slots=True)
class Collector:
    """Findings of one kind, and what cannot be told: by reason, the subjects."""

    kind: FindingKind
    ignored_ids: frozenset[str]
    findings: list[Finding] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)

    def is_ignored(self, *subject: str) -> bool:
        """Whether a file leaves this finding out. Remembers that there is one."""
        identifier = finding_id(self.kind, *subject)
        if identifier not in self.ignored_ids:
            return False
        self.ignored.add(identifier)
        return True

    def add(self, *subject: str, **facts: Any) -> str:
        """Add a finding, unless a file leaves it out. Returns its id; empty: it is left out."""
        if self.is_ignored(*subject):
            return ""
        finding = Finding(id=finding_id(self.kind, *subject), kind=self.kind, subject=subject[0], **facts)
        self.findings.append(finding)
        return finding.id

    def cannot_tell(self, reason: str, subject: str = "") -> None:
        """Say why there is no finding about a subject; empty: about any."""
        subjects = self.unknown.setdefault(reason, [])
        if subject:
            subjects.append(subject)

    def ranked(self) -> list[Finding]:
        """Return the findings, the best first."""
        order = list(Confidence)
        return sorted(
            self.findings, key=lambda f: (order.index(f.confidence), -(f.records or 0), -(f.partitions or 0), f.id)
        )

    def section(self, manifests: Mapping[str, Address]) -> FindingSection:
        """Return the section, with the manifest of each finding id."""
        ranked = [replace(finding, manifest=manifests.get(finding.id)) for finding in self.ranked()]
        unknown = tuple(
            f"{first_few(sorted(subjects))}: {reason}" if subjects else reason
            for reason, subjects in sorted(self.unknown.items())
        )
        return FindingSection(
            kind=self.kind,
            findings=tuple(ranked),
            unknown=unknown,
            is_unknown=not all(self.unknown.values()),
            ignored=len(self.ignored),
        )


def finding_id(kind: FindingKind, *subject: str) -> str:
    """Return the id of a finding: one word of ASCII without `#`, such as `idle-group/old-etl`."""
    return "/".join((kind, *map(_part, subject)))


def _part(name: str) -> str:
    text = quote(name, safe="", errors="surrogatepass")
    if len(text) <= _LONGEST_PART:
        return text
    # `%s` begins no escape of `quote`, so no other name has this text.
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    begin = re.sub("%.?$", "", quote(name[:20], safe="", errors="surrogatepass")[:_LONGEST_BEGIN])
    return f"{begin}%sha256-{digest}"


def parse_ignored(text: str) -> tuple[str, ...]:
    """Return the ids of a file: one a line. `#` begins a comment; empty lines do not count."""
    lines = (line.partition("#")[0].strip() for line in text.split("\n"))
    return tuple(dict.fromkeys(line for line in lines if line))


_CODEC = Codec(Finding)


def dumps(suggestions: Suggestions, manifests: Iterable[tuple[Address, Sequence[Finding], str]]) -> Iterator[str]:
    """Yield the JSON document, piece by piece. `manifests`: address, findings and text of each.

    One finding per line, for `diff` and `grep`; of a section, only the number of its findings.
    """
    yield from document(
        {
            "format_version": FORMAT_VERSION,
            "kind": "Suggestions",
            "cluster": suggestions.cluster,
            "cluster_id": suggestions.cluster_id,
            "observed_at": format_exact_instant(suggestions.observed_at_ms),
            "idle_for_ms": suggestions.idle_for_ms,
            "size": suggestions.size,
            "unmatched": suggestions.unmatched,
            "sections": [
                {"kind": of.kind, "findings": len(of.findings), "unknown": of.unknown, "ignored": of.ignored}
                for of in suggestions.sections
            ],
            "findings": map(_CODEC.encode, suggestions.findings),
            "manifests": [
                {"address": str(address), "findings": [finding.id for finding in findings], "text": text}
                for address, findings, text in manifests
            ],
        }
    )
