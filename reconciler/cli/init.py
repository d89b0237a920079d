"""`reconciler init`: write the first manifests of a cluster, and the workflows that run them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from reconciler import init as first_run
from reconciler.cli import common, console
from reconciler.cli.settings import Settings, accepts_settings, key_values
from reconciler.errors import ReconcilerError, UsageError

Servers = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        envvar="KAFKA_BOOTSTRAP_SERVERS",
        help="Addresses of some brokers as HOST:PORT, separated by commas.",
    ),
]
Client = Annotated[
    list[str] | None,
    typer.Option(
        "--client", metavar="KEY=VALUE", help="A librdkafka property; a secret as '${env:NAME}'. May be repeated."
    ),
]
Journal = Annotated[
    str | None,
    typer.Option("--journal-topic", help="Create this topic with unlimited retention, and use it as the journal."),
]
Workflows = Annotated[
    bool, typer.Option("--workflows/--no-workflows", help="Whether to write .github/workflows as well.")
]
Action = Annotated[
    str | None,
    typer.Option(
        "--action",
        metavar="OWNER/NAME@COMMIT",
        help="GitHub repository and commit of this program for the workflows. Default: the source of this installation.",
    ),
]


@accepts_settings
def init(
    settings: Settings,
    bootstrap_server: Servers,
    directory: Annotated[Path, typer.Argument(help="The root of the repository.")] = Path(),
    name: Annotated[str, typer.Option("--name", help="Name of the Cluster manifest.")] = "my-cluster",
    client: Client = None,
    journal_topic: Journal = None,
    workflows: Workflows = True,
    action: Action = None,
) -> int:
    """Write the first manifests and workflows for a cluster.

    Reads the cluster id from the brokers, and adds harmless examples. Overwrites no file.

    A repository that has the files of another cluster keeps every file with the same content.
    """
    servers = [server.strip() for server in bootstrap_server.split(",") if server.strip()]
    if not servers:
        raise UsageError(
            f"--bootstrap-server {bootstrap_server!r}: expected host:port of some brokers, separated by commas"
        )
    properties = dict(key_values("--client", client, "KEY=VALUE"))
    workflow_files = first_run.workflow_files(action) if workflows else {}
    with common.running(settings) as run:
        files = first_run.first_files(
            servers, name, run, client=properties, journal=journal_topic, workflows=workflow_files
        )
        _write(files, directory)
        if journal_topic:  # last, because it changes the cluster
            first_run.create_journal_topic(servers, name, run, client=properties, topic=journal_topic)
    console.print_stderr("next: run reconciler validate, then reconciler doctor, then reconciler plan")
    return 0


def _write(files: Mapping[str, str], directory: Path) -> None:
    """Write the files that do not exist; refuse all if one exists with other content."""
    missing = {path: text for path, text in files.items() if not _exists(directory / path, text)}
    for path, text in missing.items():
        try:
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ReconcilerError(f"{directory / path} could not be written: {error.strerror or error}") from error
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
            f"{path} exists with other content, and init overwrites no file: choose another --name or folder, or move the file; "
            f"--no-workflows writes nothing below .github"
        )
    console.print_stderr(f"{path} exists with the same content")
    return True
