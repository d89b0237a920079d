"""The report as JSON, for the next run's `--previous` and for anyone's own tools. `format_version` is its own.

One subject per line, so that `diff` of two reports is readable. What a report says is decided in report.py.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reconciler.model.names import Address
from reconciler.plan.document import checks
from reconciler.plan.document.canonical import line
from reconciler.plan.document.canonical import parse as parse_json
from reconciler.plan.drift.report import UNREAD, DriftReport, PolicyTally, Subject

FORMAT_VERSION = "1.0"
_KIND = "DriftReport"
_DOCUMENT = frozenset({"format_version", "kind", "clusters"})
_CLUSTER = frozenset(
    {"cluster", "cluster_id", "observed_at", "in_sync", "refused", "incomplete", "policies", "drift", "unread"}
)
_SUBJECT = frozenset({"address", "sort", "code", "since", "detail", "next_step"})
_UNREAD = _SUBJECT | {"drift_since"}
_TALLY = frozenset({"policy", "drift", "unread", "pending", "waiting", "skipped", "satisfied"})


def dumps(reports: Sequence[DriftReport]) -> str:
    """The JSON document of these reports, clusters in the order given."""
    clusters = ",\n".join("".join(_cluster(each)) for each in reports)
    return f'{{"format_version": {line(FORMAT_VERSION)}, "kind": {line(_KIND)}, "clusters": [\n{clusters}\n]}}\n'


def read(path: Path) -> tuple[DriftReport, ...]:
    """The reports of a file that `dumps` made. Raises OSError, and ValueError for anything that is not such a document."""
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> tuple[DriftReport, ...]:
    """The inverse of `dumps`. Raises ValueError for anything else; a newer minor version may hold more fields."""
    document = parse_json(text)
    version = checks.text(document.get("format_version"), "format_version") if type(document) is dict else ""
    major, _, minor = version.partition(".")
    if major != FORMAT_VERSION.partition(".")[0]:
        raise ValueError(f"format_version is {checks.shown(version)}, expected {FORMAT_VERSION}")
    newer = minor != FORMAT_VERSION.partition(".")[2]
    row = checks.keys(document, _DOCUMENT, where="the report", newer=newer)
    if row["kind"] != _KIND:
        raise ValueError(f"kind is {checks.shown(row['kind'])}, expected {_KIND}")
    return tuple(_parse_cluster(each, newer=newer) for each in checks.array(row["clusters"], "clusters"))


def _cluster(report: DriftReport) -> Iterator[str]:
    head = {
        "cluster": report.cluster,
        "cluster_id": report.cluster_id,
        "observed_at": checks.instant(report.observed_at_ms),
        "in_sync": report.in_sync,
        "refused": list(report.refused),
        "incomplete": list(report.incomplete),
    }
    yield line(head).removesuffix("}")
    for name, rows in (
        ("policies", [_tally(each) for each in report.tallies]),
        ("drift", [_subject(each) for each in report.subjects]),
        ("unread", [_subject(each) for each in report.unread]),
    ):
        body = ",\n".join(f"  {line(row)}" for row in rows)
        yield f', "{name}": [\n{body}\n ]' if rows else f', "{name}": []'
    yield "}"


def _tally(tally: PolicyTally) -> dict[str, Any]:
    return {
        "policy": str(tally.policy),
        "drift": tally.drift,
        "unread": tally.unread,
        "pending": tally.pending,
        "waiting": tally.waiting,
        "skipped": tally.skipped,
        "satisfied": tally.satisfied,
    }


def _subject(subject: Subject) -> dict[str, Any]:
    row: dict[str, Any] = {
        "address": str(subject.address),
        "sort": subject.sort,
        "code": subject.code,
        "since": checks.instant(subject.since_ms),
        "detail": subject.detail,
        "next_step": subject.next_step,
    }
    if subject.sort == UNREAD:
        row["drift_since"] = None if subject.drift_since_ms is None else checks.instant(subject.drift_since_ms)
    return row


def _parse_cluster(value: object, *, newer: bool) -> DriftReport:
    row = checks.keys(value, _CLUSTER, where="a cluster of the report", newer=newer)
    return DriftReport(
        cluster=checks.non_empty(row["cluster"], "cluster"),
        cluster_id=checks.non_empty(row["cluster_id"], "cluster_id"),
        observed_at_ms=checks.instant_ms(row["observed_at"], "observed_at"),
        refused=checks.texts(row["refused"], "refused"),
        incomplete=checks.texts(row["incomplete"], "incomplete"),
        tallies=tuple(_parse_tally(each, newer=newer) for each in checks.array(row["policies"], "policies")),
        subjects=tuple(_parse_subject(each, _SUBJECT, newer=newer) for each in checks.array(row["drift"], "drift")),
        unread=tuple(_parse_subject(each, _UNREAD, newer=newer) for each in checks.array(row["unread"], "unread")),
    )


def _parse_tally(value: object, *, newer: bool) -> PolicyTally:
    row = checks.keys(value, _TALLY, where="a policy of the report", newer=newer)
    return PolicyTally(
        policy=_address(row["policy"], "policy"),
        drift=checks.integer(row["drift"], "drift"),
        unread=checks.integer(row["unread"], "unread"),
        pending=checks.integer(row["pending"], "pending"),
        waiting=checks.integer(row["waiting"], "waiting"),
        skipped=checks.integer(row["skipped"], "skipped"),
        satisfied=checks.integer(row["satisfied"], "satisfied"),
    )


def _parse_subject(value: object, wanted: frozenset[str], *, newer: bool) -> Subject:
    row = checks.keys(value, wanted, where="a subject of the report", newer=newer)
    drift_since = row.get("drift_since") if "drift_since" in wanted else None
    return Subject(
        address=_address(row["address"], "address"),
        sort=checks.text(row["sort"], "sort"),
        code=None if row["code"] is None else checks.non_empty(row["code"], "code"),
        since_ms=checks.instant_ms(row["since"], "since"),
        detail=checks.text(row["detail"], "detail"),
        next_step=checks.text(row["next_step"], "next_step"),
        drift_since_ms=None if drift_since is None else checks.instant_ms(drift_since, "drift_since"),
    )


def _address(value: object, name: str) -> Address:
    return Address.parse(checks.non_empty(value, name))
