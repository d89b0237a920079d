"""`reconciler sandbox up|down|status`: local brokers that keep running between commands."""

from typing import Annotated

import typer

from reconciler.cli import console
from reconciler.cli.app import new_app
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.errors import SandboxError
from reconciler.sandbox import jars, registry
from reconciler.sandbox.cluster import Cluster

sandbox = new_app(help="Run local Kafka brokers to try things on.", add_completion=False, no_args_is_help=True)

Name = Annotated[str, typer.Option("--name", help="Name of the sandbox.")]
DEFAULT_NAME = "default"


def _show(cluster: Cluster, settings: Settings) -> None:
    brokers = "".join(f"  broker {broker.id}   pid {broker.pid}   log {broker.log}\n" for broker in cluster.brokers)
    text = (
        f"sandbox {cluster.name}: {cluster.bootstrap_servers}   cluster id {cluster.cluster_id}\n"
        f"{brokers}  Kafka's own tools: java -cp '{cluster.jars}/*' org.apache.kafka.tools.TopicCommand "
        f"--bootstrap-server {cluster.bootstrap_servers} --list\n"
    )
    json = f"{registry.to_json(cluster)}\n"
    console.emit(settings, "a sandbox", text=lambda: text, json=lambda: json)


@sandbox.command()
@accepts_settings
def up(
    settings: Settings,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=9, help="Number of brokers.")] = 3,
    name: Name = DEFAULT_NAME,
    kafka: Annotated[
        str | None,
        typer.Option(
            "--kafka",
            metavar="VERSION",
            envvar=jars.VERSION_VARIABLE,
            help=f"Kafka version: {' or '.join(jars.versions())}.",
        ),
    ] = None,
) -> None:
    """Start brokers that keep running after this command."""
    with console.progress(settings) as progress:
        cluster = registry.up(name, nodes, version=kafka, progress=progress)
    _show(cluster, settings)


@sandbox.command()
@accepts_settings
def down(settings: Settings, name: Name = DEFAULT_NAME) -> None:
    """Stop the brokers and remove their data."""
    if not registry.down(name):
        raise SandboxError(f"no sandbox named {name} is running: check the name with `reconciler sandbox status`")
    if not settings.quiet:
        console.print_stderr(f"sandbox {name} is stopped, and its data is removed")


@sandbox.command()
@accepts_settings
def status(settings: Settings, name: Name = DEFAULT_NAME) -> None:
    """Show the addresses of a running sandbox. Exit 1 if none is running."""
    cluster = registry.status(name)
    if cluster is None:
        raise SandboxError(f"no sandbox named {name} is running: start one with `reconciler sandbox up --name {name}`")
    _show(cluster, settings)
