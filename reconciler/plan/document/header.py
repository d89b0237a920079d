"""The header of a plan file: everything about a plan but its decisions, with counts that must agree with the rows below it.

Written in full before the first row, so that a reader knows cluster, expiry, verdict and digest before it reads any action.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from reconciler import __version__
from reconciler.model.election import Election
from reconciler.model.plan import (
    Blocked,
    Decision,
    LimitVerdict,
    ManifestFile,
    Plan,
    PolicyInfo,
    Satisfied,
    Skipped,
    Source,
    UsedWaiver,
    Waiting,
)
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan.document import checks, rows
from reconciler.plan.document.digest import FORMAT_MAJOR
from reconciler.plan.document.parse import RowParser

FORMAT_MINOR = 0
FORMAT_VERSION = f"{FORMAT_MAJOR}.{FORMAT_MINOR}"
SCHEMA_ID = f"urn:kafka-reconciler:schema:plan:{FORMAT_MAJOR}"

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HEADER = frozenset(
    {"format_version", "kind", "$schema", "tool", "created_at", "expires_at", "source", "cluster", "scope", "summary"}
    | {"limits", "notes", "plan_digest"}
)
_LIMIT = frozenset({"id", "limit", "observed", "verdict", "message", "worst", "waivers"})
_WAIVER = frozenset({"name", "policy", "limit", "value", "expires", "declared_at"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A plan without its decisions. `summary`: how many of each sort; `digest`: of the actions that follow."""

    cluster: str
    cluster_id: str
    observed_at_ms: int
    expires_at_ms: int
    source: Source
    targets: tuple[str, ...]
    incomplete: tuple[str, ...]
    limits: tuple[LimitVerdict, ...]
    notes: tuple[PolicyInfo, ...]
    summary: Mapping[str, int]
    digest: str

    def plan(self, decisions: Sequence[Decision]) -> Plan:
        """The plan of this header and these decisions."""
        return Plan(
            cluster=self.cluster,
            cluster_id=self.cluster_id,
            observed_at_ms=self.observed_at_ms,
            expires_at_ms=self.expires_at_ms,
            decisions=tuple(decisions),
            limits=self.limits,
            source=self.source,
            targets=self.targets,
            incomplete=self.incomplete,
            notes=self.notes,
        )


@dataclass(slots=True)
class Summary:
    """Counts in the making: `add` each decision. `unbounded`: elections that may lose any number of records."""

    delete_records: int = 0
    delete_group: int = 0
    elect_leader: int = 0
    waiting: int = 0
    blocked: int = 0
    unread: int = 0
    skipped: int = 0
    satisfied: int = 0
    irreversible: int = 0
    records_removed_max: int = 0
    unbounded: int = 0

    def add(self, decision: Decision) -> None:
        match decision:
            case DeleteRecords():
                self.delete_records += 1
                self.irreversible += 1
                self.records_removed_max += decision.records_max
            case DeleteGroup():
                self.delete_group += 1
                self.irreversible += 1
            case ElectLeader():
                self.elect_leader += 1
                if decision.election is Election.UNCLEAN:
                    self.irreversible += 1
                    self.unbounded += 1
            case Waiting():
                self.waiting += 1
            case Blocked():
                if decision.unread:
                    self.unread += 1
                else:
                    self.blocked += 1
            case Skipped():
                self.skipped += 1
            case Satisfied():
                self.satisfied += 1
            case _:
                assert_never(decision)

    def row(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


def fields(plan: Plan, summary: Summary) -> list[tuple[str, Any]]:
    """The header's one-line fields, in file order; `limits` and `notes`, one entry per line, and the digest follow them."""
    if plan.observed_at_ms > plan.expires_at_ms:
        raise ValueError(f"the plan expires at {plan.expires_at_ms} ms, before its scan at {plan.observed_at_ms} ms")
    return [
        ("format_version", FORMAT_VERSION),
        ("kind", "Plan"),
        ("$schema", SCHEMA_ID),
        ("tool", {"name": "reconciler", "version": __version__}),
        # The scan's instant is the only clock that a plan knows, so the same facts always make the same file.
        ("created_at", checks.instant(plan.observed_at_ms)),
        ("expires_at", checks.instant(plan.expires_at_ms)),
        (
            "source",
            {
                "commit": plan.source.commit,
                "dirty": plan.source.dirty,
                "manifests": [{"path": file.path, "sha256": file.sha256} for file in plan.source.manifests],
            },
        ),
        (
            "cluster",
            {
                "name": plan.cluster,
                "cluster_id": plan.cluster_id,
                "observed_at": checks.instant(plan.observed_at_ms),
            },
        ),
        ("scope", {"targets": plan.targets, "complete": not plan.incomplete, "incomplete": plan.incomplete}),
        ("summary", summary.row()),
    ]


def limit_row(verdict: LimitVerdict) -> rows.Row:
    """One line of `limits`."""
    return {
        "id": verdict.id,
        "limit": verdict.limit,
        "observed": verdict.observed,
        "verdict": "within" if verdict.passed else "refused",
        "message": verdict.message,
        "worst": None if verdict.worst is None else str(verdict.worst),
        "waivers": [
            {
                "name": waiver.name,
                "policy": str(waiver.policy),
                "limit": waiver.limit,
                "value": waiver.value,
                "expires": checks.instant(waiver.expires_ms),
                "declared_at": rows.place_row(waiver.declared_at),
            }
            for waiver in verdict.waivers
        ],
    }


def note_row(note: PolicyInfo) -> rows.Row:
    """One line of `notes`."""
    return {"policy": str(note.policy), "owner": note.owner, "reason": note.reason}


def parse(found: dict[str, Any], parser: RowParser, *, newer: bool) -> Header:
    """The header from its fields. Raises ValueError for a missing, unknown or mistyped one; format and kind are checked before."""
    top = checks.keys(found, _HEADER, where="the header", newer=newer)

    def part(name: str, wanted: set[str]) -> Mapping[str, Any]:
        return checks.keys(top[name], frozenset(wanted), where=name, newer=newer)

    source, cluster = (
        part("source", {"commit", "dirty", "manifests"}),
        part("cluster", {"name", "cluster_id", "observed_at"}),
    )
    scope, summary = part("scope", {"targets", "complete", "incomplete"}), part("summary", set(Summary().row()))
    tool = part("tool", {"name", "version"})
    checks.non_empty(tool["name"], "tool.name")
    checks.non_empty(tool["version"], "tool.version")
    checks.text(top["$schema"], "$schema")
    checks.instant_ms(top["created_at"], "created_at")
    incomplete = checks.texts(scope["incomplete"], "scope.incomplete")
    if checks.flag(scope["complete"], "scope.complete") is bool(incomplete):
        raise ValueError("scope.complete says something else than scope.incomplete")
    observed_at_ms = checks.instant_ms(cluster["observed_at"], "cluster.observed_at")
    expires_at_ms = checks.instant_ms(top["expires_at"], "expires_at")
    if expires_at_ms < observed_at_ms:
        raise ValueError("expires_at lies before cluster.observed_at")
    digest = checks.text(top["plan_digest"], "plan_digest")
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"plan_digest is {checks.shown(digest)}, expected sha256: and 64 hexadecimal digits")
    return Header(
        cluster=checks.non_empty(cluster["name"], "cluster.name"),
        cluster_id=checks.non_empty(cluster["cluster_id"], "cluster.cluster_id"),
        observed_at_ms=observed_at_ms,
        expires_at_ms=expires_at_ms,
        source=Source(
            commit=None if source["commit"] is None else checks.non_empty(source["commit"], "source.commit"),
            dirty=checks.flag(source["dirty"], "source.dirty"),
            manifests=tuple(
                _manifest(item, newer=newer) for item in checks.array(source["manifests"], "source.manifests")
            ),
        ),
        targets=checks.texts(scope["targets"], "scope.targets"),
        incomplete=incomplete,
        limits=tuple(_limit(row, parser, newer=newer) for row in checks.array(top["limits"], "limits")),
        notes=tuple(_note(row, parser, newer=newer) for row in checks.array(top["notes"], "notes")),
        summary={name: checks.integer(count, f"summary.{name}", 0, 2**100) for name, count in summary.items()},
        digest=digest,
    )


def _manifest(row: object, *, newer: bool) -> ManifestFile:
    item = checks.keys(row, frozenset({"path", "sha256"}), where="source.manifests[]", newer=newer)
    sha256 = checks.text(item["sha256"], "source.manifests[].sha256")
    if not _SHA256.fullmatch(sha256):
        raise ValueError(f"source.manifests[].sha256 is {checks.shown(sha256)}, expected 64 hexadecimal digits")
    return ManifestFile(path=checks.text(item["path"], "source.manifests[].path"), sha256=sha256)


def _limit(row: object, parser: RowParser, *, newer: bool) -> LimitVerdict:
    item = checks.keys(row, _LIMIT, where="limits[]", newer=newer)
    verdict = checks.text(item["verdict"], "limits[].verdict")
    if verdict not in ("within", "refused"):
        raise ValueError(f"limits[].verdict is {checks.shown(verdict)}, expected within or refused")
    observed, worst = item["observed"], item["worst"]
    return LimitVerdict(
        id=checks.non_empty(item["id"], "limits[].id"),
        limit=checks.number(item["limit"], "limits[].limit"),
        observed=None if observed is None else checks.number(observed, "limits[].observed"),
        passed=verdict == "within",
        message=checks.text(item["message"], "limits[].message"),
        worst=None if worst is None else parser.address(worst),
        waivers=tuple(_waiver(used, parser, newer=newer) for used in checks.array(item["waivers"], "limits[].waivers")),
    )


def _waiver(row: object, parser: RowParser, *, newer: bool) -> UsedWaiver:
    item = checks.keys(row, _WAIVER, where="limits[].waivers[]", newer=newer)
    return UsedWaiver(
        name=checks.text(item["name"], "limits[].waivers[].name"),
        policy=parser.address(item["policy"]),
        limit=checks.text(item["limit"], "limits[].waivers[].limit"),
        value=checks.number(item["value"], "limits[].waivers[].value"),
        expires_ms=checks.instant_ms(item["expires"], "limits[].waivers[].expires"),
        declared_at=parser.place(item["declared_at"]),
    )


def _note(row: object, parser: RowParser, *, newer: bool) -> PolicyInfo:
    item = checks.keys(row, frozenset({"policy", "owner", "reason"}), where="notes[]", newer=newer)
    owner, reason = item["owner"], item["reason"]
    return PolicyInfo(
        policy=parser.address(item["policy"]),
        owner=None if owner is None else checks.text(owner, "notes[].owner"),
        reason=None if reason is None else checks.text(reason, "notes[].reason"),
    )
