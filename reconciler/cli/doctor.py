"""`reconciler doctor`: checks whether a principal can plan and apply. Reads only."""

import json
import platform
from collections.abc import Iterator
from dataclasses import asdict
from importlib import metadata
from typing import Annotated

import typer
from rich.text import Text

from reconciler import __version__
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.doctor import ClusterCheck, check_cluster, doctor_report
from reconciler.errors import ExitCode, SandboxError
from reconciler.kafka.permissions import Role
from reconciler.model.snapshot import Unknown
from reconciler.sandbox.java import find_java, major_version


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
    checks = []
    for manifests in common.load_clusters(paths, settings):
        with common.open_run(settings, manifests) as run:
            checks.append(check_cluster(run, elections_only=purpose is Role.ELECTIONS and not show_acls))

    def text() -> Iterator[str | Text]:
        if show_acls:
            yield from (f"{line}\n" for check in checks for line in check.acl_commands(principal))
            return
        yield f"{_versions()}\n"
        for check in checks:
            yield "\n"
            yield from common.lines(doctor_report(check, purpose))

    console.emit(settings, "doctor", text=text, json=lambda: _json(checks, principal))
    return ExitCode.DONE if show_acls or all(check.passes(purpose) for check in checks) else ExitCode.ERROR


def _versions() -> str:
    try:
        java = f"Java {major_version(find_java())}"
    except SandboxError:
        java = "no Java found (only policies without offsets work)"
    return (
        f"reconciler {__version__}, Python {platform.python_version()}, PySpark {metadata.version('pyspark')}, {java}"
    )


def _json(checks: list[ClusterCheck], principal: str) -> str:
    def plain(value: object) -> object:
        return {"unread": value.reason} if isinstance(value, Unknown) else str(value)

    clusters = [
        {
            "cluster": check.cluster,
            "fit_for": {purpose: check.passes(purpose) for purpose in Role},
            "examination": asdict(check.report),
            "acls": list(check.acl_commands(principal)),
        }
        for check in checks
    ]
    document = {"format_version": "1.0", "kind": "Examination", "clusters": clusters}
    return json.dumps(document, default=plain, indent=1) + "\n"
