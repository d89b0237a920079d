"""`reconciler sandbox` and `demo`: local brokers to try things on."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli import console, documents
from reconciler.cli.app import Application
from reconciler.cli.settings import NO_CLUSTER, Settings, accepts_settings
from reconciler.companions.sandbox import demo_data, jars, registry
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stop
from reconciler.companions.sandbox.java import find_java
from reconciler.companions.sandbox.registry import DEFAULT_NAME
from reconciler.companions.sandbox.tools import run_tool, tool_command, tool_names
from reconciler.errors import Interrupted, ReconcilerError, SandboxError, UsageError
from reconciler.references import ALLOW_ENV, CONNECTION
from reconciler.report.document import SANDBOX, Document
from reconciler.text.suggest import suggestion

sandbox = Application(help="Run local Kafka brokers to try things on.", add_completion=False, no_args_is_help=True)


def _complete_name(incomplete: str) -> list[str]:
    return [name for name in registry.names() if name.startswith(incomplete)]


Name = Annotated[str, typer.Option(help="Name of the sandbox.", autocompletion=_complete_name)]
BrokerId = Annotated[int, typer.Argument(metavar="BROKER", help="The id of the broker, as `sandbox status` shows it.")]
MANIFESTS = Path(__file__).parent / "demo"


def _show(cluster: SandboxCluster, settings: Settings) -> None:
    brokers = "".join(
        f"  broker {broker.id}   {f'pid {broker.pid}' if cluster.alive(broker.id) else 'stopped'}   log {broker.log}\n"
        for broker in cluster.brokers
    )
    name = "" if cluster.name == DEFAULT_NAME else f"--name {cluster.name} "
    text = (
        f"sandbox {cluster.name}: {cluster.bootstrap_servers}   cluster id {cluster.cluster_id}\n"
        f"{brokers}  Kafka's own tools: reconciler sandbox tools {name}-- kafka-topics --list\n"
        f"  Suggestions: reconciler suggest --bootstrap-server {cluster.bootstrap_servers}\n"
    )
    writers = {"text": lambda: text, "json": lambda: f"{registry.to_json(cluster)}\n"}
    documents.emit(settings, Document(kind=SANDBOX, writers=writers))


@sandbox.command()
@accepts_settings(SANDBOX, without=NO_CLUSTER)
def up(
    settings: Settings,
    nodes: Annotated[int, typer.Option(min=1, max=9, help="Number of brokers.")] = 3,
    name: Name = DEFAULT_NAME,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            envvar=jars.VERSION_VARIABLE,
            help=f"Kafka version: {' or '.join(jars.versions())}.",
        ),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Cluster id: 16 bytes in base64url without padding. Default: a random one."),
    ] = None,
) -> None:
    """Start brokers that keep running after this command."""
    with console.progress(settings) as progress:
        cluster = registry.up(name, nodes, version=kafka, cluster_id=cluster_id, progress=progress)
    _show(cluster, settings)


@sandbox.command()
@accepts_settings(None, without=NO_CLUSTER)
def down(settings: Settings, name: Name = DEFAULT_NAME) -> None:
    """Stop the brokers and remove their data."""
    if not registry.down(name):
        raise SandboxError(f"no sandbox named {name} is running: check the name with `reconciler sandbox status`")
    if not settings.quiet:
        console.print_stderr(f"sandbox {name} is stopped, and its data is removed")


@sandbox.command()
@accepts_settings(SANDBOX, without=NO_CLUSTER)
def status(settings: Settings, name: Name = DEFAULT_NAME) -> None:
    """Show the addresses of a running sandbox. Exit 1 if none is running."""
    _show(registry.find(name), settings)


@sandbox.command("stop")
@accepts_settings(None, without=NO_CLUSTER)
def stop_broker(
    settings: Settings,
    broker: BrokerId,
    kill: Annotated[
        bool, typer.Option("--kill", help="Kill it, as in a crash, before it can move its leaders.")
    ] = False,
    name: Name = DEFAULT_NAME,
) -> None:
    """Stop one broker of a sandbox, and keep its data."""
    with console.progress(settings) as progress:
        progress(f"stopping broker {broker} of sandbox {name}")
        registry.stop_broker(broker, name, kill=kill)
    if not settings.quiet:
        again = registry.command(f"start {broker}", name)
        console.print_stderr(f"broker {broker} of sandbox {name} is stopped; {again} starts it again")


@sandbox.command("start")
@accepts_settings(None, without=NO_CLUSTER)
def start_broker(settings: Settings, broker: BrokerId, name: Name = DEFAULT_NAME) -> None:
    """Start a stopped broker again, with its port and data."""
    with console.progress(settings) as progress:
        progress(f"starting broker {broker} of sandbox {name}")
        cluster = registry.start_broker(broker, name)
    if not settings.quiet:
        waits = "" if cluster.has_quorum() else "; it answers when a majority of the controllers runs"
        console.print_stderr(f"broker {broker} of sandbox {name} has started{waits}")


@sandbox.command(context_settings={"allow_interspersed_args": False})  # all words after the tool are its own
def tools(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOOL [ARGUMENTS]", help="A tool such as kafka-topics and its words. Default: list all."
        ),
    ] = None,
    name: Name = DEFAULT_NAME,
) -> None:
    """Run one of Kafka's own tools on a sandbox.

    For example `reconciler sandbox tools -- kafka-topics --list`. The tool gets --bootstrap-server
    unless its arguments name a server. Its exit code is that of this command.
    """
    cluster = registry.find(name)
    available = tool_names(cluster)
    if not words:
        console.write("".join(f"{tool}\n" for tool in available))
        return
    tool = words[0].removesuffix(".sh")
    if tool not in available:
        hint = suggestion(tool, available, before=" ")
        raise UsageError(f"sandbox {name} has no tool {tool};{hint} known: {', '.join(available)}")
    command = tool_command(cluster, tool, *words[1:])
    os.execv(command[0], command)  # noqa: S606  no shell: terminal, signals and exit code are the tool's


@accepts_settings(None, without=NO_CLUSTER)
def demo(settings: Settings) -> None:
    """Show the tool at work on three local Kafka brokers.

    Starts the brokers, fills them with data, validates, plans, applies and plans again. Removes
    everything at the end.
    """
    find_java()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="reconciler-demo-", ignore_cleanup_errors=True) as folder:
        with console.progress(settings) as progress:
            sandbox = start(3, name="demo", progress=progress)
        try:
            _run_steps(sandbox, settings, Path(folder))
        except KeyboardInterrupt:
            raise Interrupted("interrupted: the demo's brokers are stopped, their data is removed") from None
        finally:
            console.print_stderr("\nstopping the brokers …")
            stop(sandbox)
    console.print_stderr(f"demo done in {time.monotonic() - started:.0f} s; brokers stopped, data removed")


def _run_steps(sandbox: SandboxCluster, settings: Settings, folder: Path) -> None:
    shutil.copytree(MANIFESTS, folder / "manifests")
    with console.progress(settings) as progress:
        data = demo_data.create_demo_data(sandbox, progress)
    with data:
        data.wait_until_idle()
        _print_heading("The manifests: the desired state of this cluster")
        for path in sorted((folder / "manifests").rglob("*.yaml")):
            console.write(f"--- {path.relative_to(folder)}\n{path.read_text(encoding='utf-8').strip()}\n\n")
        for heading, words in (
            ("1. Are the manifests valid?", "validate"),
            ("2. What would change, and which consumers are affected?", "plan --out plan.json"),
            ("3. Apply exactly this plan.", "apply plan.json"),
            ("4. The next plan: in sync, except for blocked and waiting subjects.", "plan --detailed-exitcode"),
        ):
            _print_heading(heading)
            _run_command(words, sandbox, folder)
        _print_heading("5. Kafka's own tools agree: the first offsets of clicks, and the remaining groups")
        for words in ("kafka-get-offsets --topic clicks --time earliest", "kafka-consumer-groups --list"):
            console.write(f"$ {words}\n{run_tool(sandbox, *words.split()).stdout}")


def _print_heading(text: str) -> None:
    console.write(f"\n{'=' * 78}\n{text}\n{'=' * 78}\n")


def _run_command(words: str, sandbox: SandboxCluster, folder: Path) -> None:
    console.write(f"$ reconciler {words}\n")
    command = [sys.executable, "-m", "reconciler", *words.split()]
    environment = os.environ | {"KAFKA_BOOTSTRAP_SERVERS": sandbox.bootstrap_servers, ALLOW_ENV: "KAFKA_*"}
    environment.pop(CONNECTION, None)  # the user's own clusters have no part in the demo
    code = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
    console.write(f"(exit {code})\n")
    if code != 0:
        raise ReconcilerError(f"`reconciler {words}` failed with exit {code}")
