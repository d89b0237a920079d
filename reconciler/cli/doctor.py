"""`reconciler doctor`: can this principal plan, and apply, what the manifests want? Reads only; says what a missing right breaks."""

import dataclasses
import json
import platform
from collections.abc import Iterator
from importlib import metadata
from typing import Annotated

import typer
from rich.text import Text

from reconciler import __version__, onboarding
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import SandboxError, UsageError
from reconciler.kafka import acls
from reconciler.kafka.doctor import BrokerVersion, ClockSkew, DoctorReport
from reconciler.kafka.journal import create_command
from reconciler.kafka.permissions import Permission, Role
from reconciler.model.snapshot import Unknown
from reconciler.onboarding import ClusterCheck
from reconciler.report.terminal import wrapped
from reconciler.sandbox.java import find_java, major_version
from reconciler.text import escape, formatting

EXIT_MISSING = 1
_NAMES_SHOWN = 5
_INDENT = " " * 9
_COMMENTS = {
    Role.PLAN: "reads: plan, drift, and pull requests",
    Role.APPLY: "also deletes these records and groups, and elects nobody",
    Role.ELECTIONS: "also elects leaders; ALTER on the cluster can grant everything, so keep this principal apart",
}


@accepts_settings
def doctor(
    settings: Settings,
    paths: Paths = None,
    purpose: Annotated[
        Role, typer.Option("--for", help="Which rights must be there; elections: for the LeaderPolicies alone.")
    ] = Role.PLAN,
    show_acls: Annotated[
        bool, typer.Option("--acls", help="Print only the kafka-acls commands for least-privilege principals.")
    ] = False,
    principal: Annotated[
        str, typer.Option("--principal", help="Begin of the principals' names in those commands.")
    ] = "User:reconciler",
) -> int:
    """Connect, check versions, clock and rights. Exit 1 where something that is needed is missing or could not be checked."""
    manifests = common.load(paths, settings)
    checkups = []
    for part in common.clusters(manifests, settings):
        with common.running(settings) as run:
            apart = purpose is Role.ELECTIONS and not show_acls
            checkups.append(onboarding.checkup(part, run, elections_only=apart))

    def rendered(chosen: Format, color: bool) -> str:
        match chosen:
            case Format.TEXT if show_acls:
                return "".join(f"{line}\n" for checkup in checkups for line in _commands(checkup, principal))
            case Format.TEXT:
                lines = [*_own_versions(), *(line for checkup in checkups for line in _text(checkup, purpose))]
                width = common.terminal_width()
                fitted = (
                    part
                    for line in lines
                    for part in wrapped(line.plain, width=width, style=str(line.style), indent=_INDENT)
                )
                return console.styled(fitted, color=color)
            case Format.JSON:
                return _json(checkups, principal)
            case Format.MD | Format.GITHUB | Format.SARIF:
                raise UsageError(f"-o {chosen}: an examination comes as text or json")

    console.emit(settings, rendered)
    return 0 if show_acls or all(_fit(checkup.found, purpose) for checkup in checkups) else EXIT_MISSING


def _needed(right: Permission, purpose: Role) -> bool:
    return right.purpose in (Role.PLAN, purpose)


def _fit(found: DoctorReport, purpose: Role) -> bool:
    return (
        all(right.held for right in found.rights if _needed(right, purpose))
        and not found.unseen
        and not found.journal_missing
        and not found.clock.behind
        and not any(version.lacking for version in found.versions)
    )


def _own_versions() -> Iterator[Text]:
    try:
        java = f"Java {major_version(find_java())}"
    except SandboxError:
        java = "no Java found (only policies without offsets work)"
    told = (
        f"reconciler {__version__}, Python {platform.python_version()}, PySpark {metadata.version('pyspark')}, {java}"
    )
    yield Text(told)


def _text(checkup: ClusterCheck, purpose: Role) -> Iterator[Text]:
    found = checkup.found
    brokers = ", ".join(map(str, found.brokers))
    yield Text("")
    yield Text(
        f"Cluster {escape.display_name(checkup.cluster)} ({escape.display_name(found.cluster_id)}): {formatting.count(len(found.brokers), 'broker')} "
        f"({brokers}), {formatting.count(len(found.topics), 'topic')}, {formatting.count(len(found.groups), 'group')}",
        style="bold",
    )
    yield Text(f"  client   {found.client}")
    yield from _versions(found.versions)
    yield _clock(found.clock)
    for sentence in found.unseen:
        yield Text(f"  MISSING  {escape.escape_sentence(sentence)}", style="bold red")
    if found.journal_missing and checkup.wanted.journal_topic is not None:
        how = create_command(escape.display_name(checkup.wanted.journal_topic))
        yield Text(f"  MISSING  the journal's topic is not there; to make it: {how}", style="bold red")
    for each in Role:
        rights = [right for right in found.rights if right.purpose is each]
        if rights:
            yield Text(f"Rights to {'elect' if each is Role.ELECTIONS else each}", style="bold")
        for right in rights:
            yield from _right(right, needed=_needed(right, purpose))
    if found.beyond:
        yield Text("More than planning needs", style="bold")
        for sentence in found.beyond:
            yield Text(f"  note     {sentence}")
    yield Text("Least-privilege grants: reconciler doctor --acls")


def _versions(versions: tuple[BrokerVersion, ...]) -> Iterator[Text]:
    if not versions:
        yield Text("  unknown  no broker told which protocols it speaks")
    alike: dict[tuple[bool, tuple[str, ...]], list[str]] = {}
    for version in versions:
        told = tuple(f"{name} {low}..{high}" for name, (low, high) in sorted(version.operations.items()))
        alike.setdefault((version.kafka_4, told), []).append(version.broker)
        if version.lacking:
            yield Text(
                f"  MISSING  {escape.display_name(version.broker)} does not know {', '.join(version.lacking)}",
                style="bold red",
            )
    for (kafka_4, told), brokers in alike.items():
        kafka = "Apache Kafka 4.0 or later" if kafka_4 else "Apache Kafka before 4.0"
        yield Text(
            f"  brokers  {formatting.first_few([escape.display_name(b) for b in brokers])}: {kafka}; {', '.join(told)}"
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
                f"  clock    a broker's newest stamp is {formatting.approximate_duration(max(0, age_ms))} old: the clocks agree"
            )
        case age_ms:
            return Text(
                f"  clock    a broker's newest stamp is {formatting.approximate_duration(age_ms)} old: nobody has committed since, or this "
                "machine's clock is ahead, which makes groups look idle: compare it"
            )


def _right(right: Permission, *, needed: bool) -> Iterator[Text]:
    what = f"{right.operation} on {_resources(right)}"
    if right.held:
        yield Text(f"  ok       {what}")
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


def _commands(checkup: ClusterCheck, principal: str) -> Iterator[str]:
    """Lines for a shell: comments and commands, for the three principals."""
    yield f"# Cluster {escape.display_name(checkup.cluster)} ({escape.display_name(checkup.found.cluster_id)})"
    for purpose in Role:
        if purpose is Role.ELECTIONS and not checkup.wanted.elections:
            continue
        if purpose is Role.APPLY and not (checkup.wanted.purges or checkup.wanted.removals):
            continue
        yield f"# {principal}-{purpose}: {_COMMENTS[purpose]}"
        granted = acls.grants(checkup.wanted, purpose, topics=checkup.found.topics, groups=checkup.found.groups)
        yield from acls.commands(f"{principal}-{purpose}", granted, bootstrap_servers=checkup.bootstrap_servers)


def _json(checkups: list[ClusterCheck], principal: str) -> str:
    def plain(value: object) -> object:
        return {"unread": value.reason} if isinstance(value, Unknown) else str(value)

    found = [
        {
            "cluster": checkup.cluster,
            "fit_for": {purpose: _fit(checkup.found, purpose) for purpose in Role},
            "examination": dataclasses.asdict(checkup.found),
            "acls": list(_commands(checkup, principal)),
        }
        for checkup in checkups
    ]
    return (
        json.dumps({"format_version": "1.0", "kind": "Examination", "clusters": found}, default=plain, indent=1) + "\n"
    )
