"""`reconciler sandbox up|down|status`: local brokers that keep running between commands."""

from typing import Annotated

import typer

from reconciler.cli import console
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import SandboxError
from reconciler.sandbox import cluster as clusters
from reconciler.sandbox import jars, registry

sandbox_app = typer.Typer(
    help="Run local Kafka brokers to try things on.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Option("--name", help="Name of the sandbox.")]
DEFAULT_NAME = "default"


def _show(sandbox: clusters.Cluster, settings: Settings) -> None:
    rows = [f"  broker {broker.id}   pid {broker.pid}   log {broker.log}\n" for broker in sandbox.brokers]
    text = (
        f"sandbox {sandbox.name}: {sandbox.bootstrap_servers}   cluster id {sandbox.cluster_id}\n"
        + "".join(rows)
        + f"  Kafka's own tools: java -cp '{sandbox.jars}/*' org.apache.kafka.tools.TopicCommand "
        f"--bootstrap-server {sandbox.bootstrap_servers} --list\n"
    )
    renderers: dict[Format, console.Renderer] = {
        Format.TEXT: lambda _color: text,
        Format.JSON: lambda _color: registry.to_json(sandbox) + "\n",
    }
    console.emit_formats(settings, "a sandbox", renderers)


@sandbox_app.command()
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
) -> int:
    """Start brokers that keep running after this command."""
    with console.progress(settings) as progress:
        sandbox = registry.up(name, nodes, version=kafka, progress=progress)
    _show(sandbox, settings)
    return 0


@sandbox_app.command()
@accepts_settings
def down(settings: Settings, name: Name = DEFAULT_NAME) -> int:
    """Stop the brokers and remove their data."""
    if not registry.down(name):
        raise SandboxError(f"no sandbox named {name} is running: check the name with `reconciler sandbox status`")
    if not settings.quiet:
        console.print_stderr(f"sandbox {name} is stopped, and its data is removed")
    return 0


@sandbox_app.command()
@accepts_settings
def status(settings: Settings, name: Name = DEFAULT_NAME) -> int:
    """Show the addresses of a running sandbox. Exit 1 if none is running."""
    sandbox = registry.status(name)
    if sandbox is None:
        raise SandboxError(f"no sandbox named {name} is running: start one with `reconciler sandbox up --name {name}`")
    _show(sandbox, settings)
    return 0
