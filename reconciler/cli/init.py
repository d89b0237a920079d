"""`reconciler init`: a first set of manifests from a live cluster, and the workflows that run them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from reconciler import init as first_run
from reconciler.cli import common, console
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.errors import ReconcilerError, UsageError

Servers = Annotated[
    str,
    typer.Option(
        "--bootstrap-server", envvar="KAFKA_BOOTSTRAP_SERVERS", help="host:port of some brokers, comma-separated."
    ),
]
Client = Annotated[
    list[str] | None,
    typer.Option(
        "--client", metavar="KEY=VALUE", help="A librdkafka property; secrets as '${env:NAME}'. May be repeated."
    ),
]
Journal = Annotated[
    str | None, typer.Option("--journal-topic", help="Make this topic (kept for ever) and keep the journal there.")
]
Action = Annotated[
    str | None,
    typer.Option(
        "--action",
        metavar="OWNER/NAME@COMMIT",
        help="Where the workflows install this program from, on GitHub. Default: where this installation came from.",
    ),
]


@accepts_settings
def init(
    settings: Settings,
    bootstrap_server: Servers,
    directory: Annotated[Path, typer.Argument(help="The repository's root.")] = Path(),
    name: Annotated[str, typer.Option("--name", help="The Cluster manifest's name.")] = "my-cluster",
    client: Client = None,
    journal_topic: Journal = None,
    workflows: Annotated[bool, typer.Option("--workflows/--no-workflows", help="Also write .github/workflows.")] = True,
    action: Action = None,
) -> int:
    """Write first manifests and workflows for a cluster.

    Asks the cluster for its id, and adds harmless examples. Overwrites nothing.

    In a repository that has some already, for one more cluster, files that are there with the same content stay.
    """
    servers = [server.strip() for server in bootstrap_server.split(",") if server.strip()]
    if not servers:
        raise UsageError(
            f"--bootstrap-server {bootstrap_server!r}: expected host:port of some brokers, comma-separated"
        )
    properties = _properties(client or [])
    workflow_texts = first_run.workflow_files(action) if workflows else {}
    with common.running(settings) as run:
        texts = first_run.first_files(
            servers, name, run, client=properties, journal=journal_topic, workflows=workflow_texts
        )
        _write(texts, directory)
        if journal_topic:  # last, because only this step changes the cluster
            first_run.create_journal_topic(servers, name, run, client=properties, topic=journal_topic)
    console.print_stderr("next: reconciler validate, then reconciler doctor, then reconciler plan")
    return 0


def _write(texts: Mapping[str, str], directory: Path) -> None:
    """Write all files, except those that exist with the same content."""
    missing = {path: text for path, text in texts.items() if not _exists(directory / path, text)}
    for path, text in missing.items():
        try:
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ReconcilerError(f"{directory / path}: {error.strerror or error}") from error
        console.write(f"{directory / path}\n")


def _exists(path: Path, text: str) -> bool:
    if not os.path.lexists(path):
        return False
    try:
        same = path.read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        same = False
    if not same:
        raise UsageError(
            f"{path} exists with another content and init overwrites nothing: choose another --name or folder, or move it away; "
            f"--no-workflows leaves .github alone"
        )
    console.print_stderr(f"{path} is there already, just so")
    return True


def _properties(options: list[str]) -> dict[str, str]:
    pairs = [option.partition("=") for option in options]
    if wrong := [key for key, equals, _ in pairs if not equals or not key]:
        raise UsageError(f"--client {wrong[0]}: expected KEY=VALUE")
    return {key: value for key, _, value in pairs}
