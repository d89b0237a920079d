"""`reconciler init`: write the first manifests of a cluster, and the workflows that run them."""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from reconciler import gitops, pipeline
from reconciler.cli import console
from reconciler.cli.settings import KeyValue, Settings, accepts_settings, parse_key_value
from reconciler.errors import UsageError
from reconciler.gitops.starter_manifests import SCHEMA, starter_manifests
from reconciler.kafka import connect, journal_topic
from reconciler.kafka.session import KafkaSession
from reconciler.manifest.schema import schemas
from reconciler.policies.cluster import Cluster

FOREVER_MS = -1


@accepts_settings
def init(
    settings: Settings,
    bootstrap_server: Annotated[
        str,
        typer.Option(
            "--bootstrap-server",
            envvar="KAFKA_BOOTSTRAP_SERVERS",
            help="Addresses of some brokers as HOST:PORT, separated by commas.",
        ),
    ],
    directory: Annotated[Path, typer.Argument(help="The root of the repository.")] = Path(),
    name: Annotated[str, typer.Option("--name", help="Name of the Cluster manifest.")] = "my-cluster",
    client: Annotated[
        list[KeyValue] | None,
        typer.Option(
            "--client",
            metavar="KEY=VALUE",
            parser=parse_key_value,
            help="A librdkafka property; a secret as '${env:NAME}'. May be repeated.",
        ),
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal-topic", help="Create this topic with unlimited retention, and use it as the journal."),
    ] = None,
    workflows: Annotated[
        bool, typer.Option("--workflows/--no-workflows", help="Whether to write .github/workflows as well.")
    ] = True,
    action: Annotated[
        str | None,
        typer.Option(
            "--action",
            metavar="OWNER/NAME@COMMIT",
            help="GitHub repository and commit of this program for the workflows. Default: the source of this installation.",
        ),
    ] = None,
) -> None:
    """Write the first manifests and workflows for a cluster.

    Reads the cluster id from the brokers, and adds harmless examples. Overwrites no file.

    A repository that has the files of another cluster keeps every file with the same content.
    """
    console.start_logging(settings)
    servers = [server.strip() for server in bootstrap_server.split(",") if server.strip()]
    if not servers:
        raise UsageError(
            f"--bootstrap-server {bootstrap_server!r}: expected host:port of some brokers, separated by commas"
        )
    properties = dict(client or ())
    files = dict(gitops.workflows(action)) if workflows else {}
    connection = pipeline.connection(_cluster(servers, name, properties, journal), settings.timeout)
    with console.progress(settings) as progress:
        progress(f"reading the cluster id from {', '.join(servers)}")
        cluster_id = connect.cluster_id(connection)
        manifests = starter_manifests(cluster_id, servers, name, client=properties, journal_topic=journal)
        _write(manifests | {SCHEMA: schemas()["manifest.json"]} | files, directory)
        if journal:  # last, because it changes the cluster; an existing topic stays as it is
            progress(f"creating the topic {journal}")
            with closing(KafkaSession(connection)) as session:
                journal_topic.create_topic(session, journal)
    console.print_stderr("next: run reconciler validate, then reconciler doctor, then reconciler plan")


def _cluster(servers: Sequence[str], name: str, properties: Mapping[str, str], journal: str | None) -> Cluster:
    """Return a Cluster manifest with these values. Raises UsageError if one is invalid."""
    spec = {
        "clusterId": "unknown",
        "bootstrapServers": servers,
        "client": properties,
        "journal": {} if journal is None else {"topic": journal},
    }
    manifest = {"apiVersion": "reconciler/v1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
    try:
        return Cluster.model_validate(manifest)
    except ValidationError as error:
        problems = error.errors(include_input=False)
        text = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
        raise UsageError(f"no manifest may have these values: {text}") from None


def _write(files: Mapping[str, str], directory: Path) -> None:
    """Write the files that do not exist; refuse all if one exists with other content."""
    missing = {}
    for relative, text in files.items():
        path = directory / relative
        same = False
        with suppress(OSError, ValueError):
            same = path.read_text(encoding="utf-8") == text
        if same:
            console.print_stderr(f"{path} exists with the same content")
        elif os.path.lexists(path):
            raise UsageError(
                f"{path} exists with other content, and init overwrites no file: choose another --name or folder, or "
                f"move the file; --no-workflows writes nothing below .github"
            )
        else:
            missing[path] = text
    for path, text in missing.items():
        with console.write_errors(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        console.write(f"{path}\n")
