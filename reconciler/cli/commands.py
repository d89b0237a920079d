"""The list of commands, and the application that imports only the command that was typed.

`--version`, `--help` and completion need neither the Kafka client nor pyarrow, whose import takes
longer than all the rest. So the summaries for `--help` are here; a test compares them with the
commands' own.
"""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("demo", "Show the tool at work on three local Kafka brokers."),
    "sandbox": ("sandbox", "Run local Kafka brokers to try things on."),
    "init": ("init", "Write the first manifests and workflows for a cluster."),
    "validate": ("manifests", "Check manifests without a cluster."),
    "clusters": ("manifests", "List the clusters of the manifests."),
    "doctor": ("doctor", "Check versions, clock and rights of a cluster."),
    "plan": ("plan", "Show what would change on the cluster, and why."),
    "plan diff": ("plan", "Show what changed between two saved plans."),
    "show": ("plan", "Print a saved plan in any format."),
    "explain": ("plan", "Explain one decision of a plan, or an error code."),
    "apply": ("apply", "Carry out a saved plan, or plan and ask for confirmation."),
    "converge": ("converge", "Plan and apply the policies in `mode: continuous`, once."),
    "watch": ("converge", "Converge at regular intervals until Ctrl-C or SIGTERM."),
    "drift": ("drift", "Report drift for schedules, and change nothing."),
    "scan": ("facts", "Write the facts that the policies need as Parquet."),
    "journal": ("facts", "Print the intents and outcomes of all runs, oldest first."),
    "schema": ("manifests", "Write the JSON Schemas of manifests, plans and results."),
}
"""Command → (module of this package, summary), in the order of `--help`.

The function or typer application has the name of the command. A command of two words is hidden; the
help of the first word mentions it.
"""

new_app = partial(typer.Typer, pretty_exceptions_enable=False, rich_markup_mode=None)
"""A typer application whose help is plain text and which leaves exceptions to `app.run`."""


def load_command(name: str) -> Any:
    """Import a command, and return it as typer's command object."""
    module, _summary = COMMANDS[name]
    target = getattr(import_module(f"reconciler.cli.{module}"), name.replace(" ", "_"))
    if isinstance(target, typer.Typer):
        return typer.main.get_command(target)
    alone = new_app(add_completion=False)
    alone.command(name=name, hidden=" " in name)(target)
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
    app = new_app(
        name="reconciler",
        cls=LazyGroup,
        help="Housekeeping of Apache Kafka clusters from manifests. Nothing beyond the reviewed plan happens.",
        no_args_is_help=True,
    )
    for name, (_module, summary) in COMMANDS.items():
        # In place of a command that is not imported; never called, since `LazyGroup` replaces it.
        app.command(name=name, help=summary, hidden=" " in name)(lambda: None)
    return app
