"""`reconciler doctor`: checks whether this principal can plan and apply the manifests. Reads only."""

import dataclasses
import json
import platform
from collections.abc import Iterator
from importlib import metadata
from typing import Annotated

import typer
from rich.text import Text

from reconciler import __version__
from reconciler import doctor as cluster_doctor
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.doctor import ClusterCheck
from reconciler.errors import SandboxError, UsageError
from reconciler.kafka import permissions
from reconciler.kafka.doctor import BrokerVersion, ClockSkew, DoctorReport
from reconciler.kafka.journal_topic import create_command
from reconciler.kafka.permissions import Permission, Role
from reconciler.model.snapshot import Unknown
from reconciler.report.terminal import wrapped
from reconciler.sandbox.java import find_java, major_version
from reconciler.text import escape, formatting

EXIT_MISSING = 1
_NAMES_SHOWN = 5
_INDENT = " " * 9
_COMMENTS = {
    Role.PLAN: "reads: plan, drift, and pull requests",
    Role.APPLY: "also deletes these records and groups, without elections",
    Role.ELECTIONS: "also elects leaders; ALTER on the cluster can grant everything, so keep this principal apart",
}


@accepts_settings
def doctor(
    settings: Settings,
    paths: Paths = None,
    purpose: Annotated[
        Role, typer.Option("--for", help="Which rights are required; elections: for the LeaderPolicies only.")
    ] = Role.PLAN,
    show_acls: Annotated[
        bool, typer.Option("--acls", help="Print only the kafka-acls commands for least-privilege principals.")
    ] = False,
    principal: Annotated[
        str, typer.Option("--principal", help="Prefix of the principals' names in those commands.")
    ] = "User:reconciler",
) -> int:
    """Check versions, clock and rights of a cluster.

    Exits with 1 where something that is required is missing or could not be read.
    """
    manifests = common.load(paths, settings)
    checks = []
    for part in common.clusters(manifests, settings):
        with common.running(settings) as run:
            elections_only = purpose is Role.ELECTIONS and not show_acls
            checks.append(cluster_doctor.check_cluster(part, run, elections_only=elections_only))

    def rendered(chosen: Format, color: bool) -> str:
        match chosen:
            case Format.TEXT if show_acls:
                return "".join(f"{line}\n" for check in checks for line in _commands(check, principal))
            case Format.TEXT:
                lines = [*_own_versions(), *(line for check in checks for line in _text(check, purpose))]
                width = common.terminal_width()
                fitted = (
                    part
                    for line in lines
                    for part in wrapped(line.plain, width=width, style=str(line.style), indent=_INDENT)
                )
                return console.styled(fitted, color=color)
            case Format.JSON:
                return _json(checks, principal)
            case Format.MD | Format.GITHUB | Format.SARIF:
                raise UsageError(f"-o {chosen}: doctor prints text or json")

    console.emit(settings, rendered)
    return 0 if show_acls or all(_passes(check.report, purpose) for check in checks) else EXIT_MISSING


def _needed(right: Permission, purpose: Role) -> bool:
    return right.purpose in (Role.PLAN, purpose)


def _passes(report: DoctorReport, purpose: Role) -> bool:
    return (
        all(right.held for right in report.rights if _needed(right, purpose))
        and not report.unseen
        and not report.journal_missing
        and not report.clock.behind
        and not any(version.lacking for version in report.versions)
    )


def _own_versions() -> Iterator[Text]:
    try:
        java = f"Java {major_version(find_java())}"
    except SandboxError:
        java = "no Java found (only policies without offsets work)"
    yield Text(
        f"reconciler {__version__}, Python {platform.python_version()}, PySpark {metadata.version('pyspark')}, {java}"
    )


def _text(check: ClusterCheck, purpose: Role) -> Iterator[Text]:
    report = check.report
    brokers = ", ".join(map(str, report.brokers))
    yield Text("")
    yield Text(
        f"Cluster {escape.display_name(check.cluster)} ({escape.display_name(report.cluster_id)}): {formatting.count(len(report.brokers), 'broker')} "
        f"({brokers}), {formatting.count(len(report.topics), 'topic')}, {formatting.count(len(report.groups), 'group')}",
        style="bold",
    )
    yield Text(f"  client   {report.client}")
    yield from _versions(report.versions)
    yield _clock(report.clock)
    for sentence in report.unseen:
        yield Text(f"  MISSING  {escape.escape_sentence(sentence)}", style="bold red")
    if report.journal_missing and check.required.journal_topic is not None:
        command = create_command(escape.display_name(check.required.journal_topic))
        yield Text(f"  MISSING  the journal's topic does not exist; to create it: {command}", style="bold red")
    for role in Role:
        rights = [right for right in report.rights if right.purpose is role]
        if rights:
            yield Text(f"Rights to {'elect' if role is Role.ELECTIONS else role}", style="bold")
        for right in rights:
            yield from _right(right, needed=_needed(right, purpose))
    if report.beyond:
        yield Text("More than planning needs", style="bold")
        for sentence in report.beyond:
            yield Text(f"  note     {sentence}")
    yield Text("Least-privilege grants: reconciler doctor --acls")


def _versions(versions: tuple[BrokerVersion, ...]) -> Iterator[Text]:
    if not versions:
        yield Text("  unknown  no broker told its protocol versions")
    by_protocols: dict[tuple[bool, tuple[str, ...]], list[str]] = {}
    for version in versions:
        ranges = tuple(f"{name} {low}..{high}" for name, (low, high) in sorted(version.operations.items()))
        by_protocols.setdefault((version.kafka_4, ranges), []).append(version.broker)
        if version.lacking:
            yield Text(
                f"  MISSING  {escape.display_name(version.broker)} does not support {', '.join(version.lacking)}",
                style="bold red",
            )
    for (kafka_4, ranges), brokers in by_protocols.items():
        kafka = "Apache Kafka 4.0 or later" if kafka_4 else "Apache Kafka before 4.0"
        yield Text(
            f"  brokers  {formatting.first_few([escape.display_name(b) for b in brokers])}: {kafka}; {', '.join(ranges)}"
        )


def _clock(clock: ClockSkew) -> Text:
    match clock.age_ms:
        case Unknown(reason):
            return Text(f"  clock    not compared: {escape.escape_sentence(reason)}")
        case age_ms if clock.behind:
            return Text(
                f"  MISSING  this machine's clock is at least {formatting.approximate_duration(-age_ms)} behind a broker's: set it",
                style="bold red",
            )
        case age_ms if clock.proven:
            return Text(
                f"  clock    a broker's newest timestamp is {formatting.approximate_duration(max(0, age_ms))} old: the clocks agree"
            )
        case age_ms:
            return Text(
                f"  clock    a broker's newest timestamp is {formatting.approximate_duration(age_ms)} old: no group has committed since, or this "
                "machine's clock is ahead, which makes groups look idle: compare it"
            )


def _right(right: Permission, *, needed: bool) -> Iterator[Text]:
    if right.held:
        yield Text(f"  ok       {right.operation} on {_resources(right)}")
        return
    word, style = ("MISSING", "bold red") if needed else ("absent ", "")
    if right.missing:
        yield Text(f"  {word}  {right.operation} on {_named(right, right.missing)}: {right.breaks}", style=style)
    if right.unread:
        names = tuple(name for name, _ in right.unread)
        reason = escape.escape_sentence(right.unread[0][1])
        yield Text(
            f"  unknown  {right.operation} on {_named(right, names)}: {reason}", style="bold magenta" if needed else ""
        )


def _resources(right: Permission) -> str:
    return "the cluster" if right.resource == "cluster" else formatting.count(right.total, right.resource)


def _named(right: Permission, names: tuple[str, ...]) -> str:
    if right.resource == "cluster":
        return "the cluster"
    shown = [escape.quoted(name) if right.resource == "group" else escape.display_name(name) for name in names]
    return f"{right.resource} {formatting.first_few(shown, limit=_NAMES_SHOWN)}"


def _commands(check: ClusterCheck, principal: str) -> Iterator[str]:
    """Shell comments and commands for the three principals."""
    yield f"# Cluster {escape.display_name(check.cluster)} ({escape.display_name(check.report.cluster_id)})"
    for purpose in Role:
        if purpose is Role.ELECTIONS and not check.required.elections:
            continue
        if purpose is Role.APPLY and not (check.required.purges or check.required.removals):
            continue
        yield f"# {principal}-{purpose}: {_COMMENTS[purpose]}"
        granted = permissions.grants(check.required, purpose, topics=check.report.topics, groups=check.report.groups)
        yield from permissions.commands(f"{principal}-{purpose}", granted, bootstrap_servers=check.bootstrap_servers)


def _json(checks: list[ClusterCheck], principal: str) -> str:
    def plain(value: object) -> object:
        return {"unread": value.reason} if isinstance(value, Unknown) else str(value)

    clusters = [
        {
            "cluster": check.cluster,
            "fit_for": {purpose: _passes(check.report, purpose) for purpose in Role},
            "examination": dataclasses.asdict(check.report),
            "acls": list(_commands(check, principal)),
        }
        for check in checks
    ]
    return (
        json.dumps({"format_version": "1.0", "kind": "Examination", "clusters": clusters}, default=plain, indent=1)
        + "\n"
    )
