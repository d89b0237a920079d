"""The list of commands, and the application that imports only the command that was typed.

`--version`, `--help` and completion need neither the Kafka client nor pyarrow, whose import takes
longer than all the rest. So the summaries for `--help` are here; a test compares them with the
commands' own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is: a module of this package, and a function or typer application in it."""

    module: str
    attribute: str
    summary: str
    hidden: bool = False


COMMANDS: Mapping[str, LazyCommand] = {
    "demo": LazyCommand("demo", "demo", "Show the tool at work on three local Kafka brokers."),
    "sandbox": LazyCommand("sandbox", "sandbox_app", "Run local Kafka brokers to try things on."),
    "init": LazyCommand("init", "init", "Write the first manifests and workflows for a cluster."),
    "validate": LazyCommand("validate", "validate", "Check manifests without a cluster."),
    "clusters": LazyCommand("clusters", "clusters", "List the clusters of the manifests."),
    "doctor": LazyCommand("doctor", "doctor", "Check versions, clock and rights of a cluster."),
    "plan": LazyCommand("plan", "plan", "Show what would change on the cluster, and why."),
    "plan diff": LazyCommand("plan", "plan_diff", "Show what changed between two saved plans.", hidden=True),
    "show": LazyCommand("plan", "show", "Print a saved plan in any format."),
    "explain": LazyCommand("explain", "explain", "Explain one decision of a plan, or an error code."),
    "apply": LazyCommand("apply", "apply", "Carry out a saved plan, or plan and ask for confirmation."),
    "converge": LazyCommand("converge", "converge", "Plan and apply the policies in `mode: continuous`, once."),
    "watch": LazyCommand("converge", "watch", "Converge at regular intervals until Ctrl-C or SIGTERM."),
    "drift": LazyCommand("drift", "drift", "Report drift for schedules, and change nothing."),
    "scan": LazyCommand("scan", "scan", "Write the facts that the policies need as Parquet."),
    "journal": LazyCommand("journal", "journal", "Print the intents and outcomes of all runs, oldest first."),
    "schema": LazyCommand("schema", "schema", "Write the JSON Schemas of manifests, plans and results."),
}
"""In the order of `--help`. `plan diff` is typed as two words; the help of `plan` mentions it."""


def load_command(name: str) -> Any:
    """Import a command, and return it as typer's command object."""
    entry = COMMANDS[name]
    target = getattr(import_module(f"reconciler.cli.{entry.module}"), entry.attribute)
    if isinstance(target, typer.Typer):
        return typer.main.get_command(target)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name=name, hidden=entry.hidden)(target)
    return typer.main.get_command(alone)


class LazyGroup(TyperGroup):
    """A group of commands that are imported when one of them is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Called by typer before it parses or completes the words of a command."""
        if args[:2] == ["plan", "diff"]:
            args = ["plan diff", *args[2:]]
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and name is not None and name in COMMANDS:
            command = self.commands[name] = load_command(name)
        return name, command, rest


def build_app() -> typer.Typer:
    """Build the application with all commands named and none imported."""
    app = typer.Typer(
        name="reconciler",
        cls=LazyGroup,
        help="Housekeeping of Apache Kafka clusters from manifests. Nothing beyond the reviewed plan happens.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for name, entry in COMMANDS.items():
        app.command(name=name, help=entry.summary, hidden=entry.hidden)(_placeholder)
    return app


def _placeholder() -> None:
    """Stands for a command that is not imported; never called, since `LazyGroup` replaces it."""
