"""`reconciler sandbox up|down|status`: the demo's brokers, kept running, to try things on."""

from typing import Annotated

import typer

from reconciler.cli import console
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import SandboxError
from reconciler.sandbox import cluster as clusters
from reconciler.sandbox import jars, registry

sandbox_app = typer.Typer(
    help="Real local Kafka brokers, to try things on.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Option("--name", help="One of several sandboxes.")]
DEFAULT_NAME = "default"


def _show(sandbox: clusters.Cluster, settings: Settings) -> None:
    def rendered(chosen: Format, _colour: bool) -> str:
        if chosen is Format.JSON:
            return registry.to_json(sandbox) + "\n"
        rows = [f"  broker {broker.id}   pid {broker.pid}   log {broker.log}\n" for broker in sandbox.brokers]
        return (
            f"sandbox {sandbox.name}: {sandbox.bootstrap_servers}   cluster id {sandbox.cluster_id}\n"
            + "".join(rows)
            + f"  Kafka's own tools: java -cp '{sandbox.jars}/*' org.apache.kafka.tools.TopicCommand "
            f"--bootstrap-server {sandbox.bootstrap_servers} --list\n"
        )

    console.emit(settings, rendered)


@sandbox_app.command()
@accepts_settings
def up(
    settings: Settings,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=9, help="How many brokers.")] = 3,
    name: Name = DEFAULT_NAME,
    kafka: Annotated[
        str | None,
        typer.Option(
            "--kafka", metavar="VERSION", envvar=jars.VERSION_VARIABLE, help=f"One of {', '.join(jars.versions())}."
        ),
    ] = None,
) -> int:
    """Start brokers that stay after this command ends."""
    with console.progress(settings) as progress:
        sandbox = registry.up(name, nodes, version=kafka, progress=progress)
    _show(sandbox, settings)
    return 0


@sandbox_app.command()
@accepts_settings
def down(settings: Settings, name: Name = DEFAULT_NAME) -> int:
    """Stop the brokers and remove their data."""
    if not registry.down(name):
        raise SandboxError(f"no sandbox named {name} is running: see `reconciler sandbox status`")
    if not settings.quiet:
        console.print_stderr(f"sandbox {name} is gone")
    return 0


@sandbox_app.command()
@accepts_settings
def status(settings: Settings, name: Name = DEFAULT_NAME) -> int:
    """Show where a running sandbox is. Exit 1 where there is none."""
    sandbox = registry.status(name)
    if sandbox is None:
        raise SandboxError(f"no sandbox named {name} is running: start one with `reconciler sandbox up --name {name}`")
    _show(sandbox, settings)
    return 0
