"""Which commands there are, and that only the one that was typed is imported.

`--version`, `--help` and completion need neither the Kafka client nor pyarrow, and importing both takes longer than the rest of them. The one
line per command is here for `--help`; that it is the command's own is held by tests/unit/cli/test_verbs.py.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, assert_never

import typer
import typer.main
from typer.core import TyperGroup

Verb = Literal[
    "demo",
    "sandbox",
    "init",
    "validate",
    "clusters",
    "doctor",
    "plan",
    "plan-diff",
    "show",
    "explain",
    "apply",
    "converge",
    "watch",
    "drift",
    "scan",
    "journal",
    "schema",
]

TOLD: Mapping[Verb, str] = {
    "demo": "Three real brokers, a mess, and the way to clean.",
    "sandbox": "Real local Kafka brokers, to try things on.",
    "init": "Write first manifests and workflows for a cluster.",
    "validate": "Check manifests without a cluster.",
    "clusters": "List the clusters that the manifests name.",
    "doctor": "Check versions, clock and rights of a cluster.",
    "plan": "Show what would change on the cluster, and why.",
    "plan-diff": "Show what changed between two saved plans.",
    "show": "Render a saved plan in any format.",
    "explain": "Explain one decision of a plan, or an error code.",
    "apply": "Carry out a saved plan, or plan, print and ask.",
    "converge": "Plan and apply the policies in `mode: continuous`, once.",
    "watch": "Converge in a loop on the purge clock, until Ctrl-C or SIGTERM.",
    "drift": "A read-only plan for schedules: exit 2 on drift.",
    "scan": "Read what the policies need; write it as Parquet.",
    "journal": "Print the intents and outcomes of all runs, oldest first.",
    "schema": "Write the JSON Schemas of manifests, plans and results.",
}
"""In the order of `--help`."""
HIDDEN: tuple[Verb, ...] = ("plan-diff",)


def command(verb: Verb) -> Any:
    """The command behind a verb, as typer makes it from the function. Imports what that command needs."""
    if verb == "sandbox":
        from reconciler.cli.sandbox import sandbox_app

        return typer.main.get_command(sandbox_app)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name=verb, hidden=verb in HIDDEN)(_function(verb))
    return typer.main.get_command(alone)


class LazyGroup(TyperGroup):
    """A group whose members are names and one line each, until one of them is asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """What typer calls before it parses a command's own words, or completes them."""
        name, found, rest = super().resolve_command(ctx, args)
        for verb in TOLD:
            if found is not None and name == verb:
                found = self.commands[verb] = command(verb)
        return name, found, rest


def build_app() -> typer.Typer:
    """The application with every verb named and none imported."""
    app = typer.Typer(
        name="reconciler",
        cls=LazyGroup,
        help="Housekeeping of Apache Kafka clusters from manifests: what was reviewed is an upper bound of what happens.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for verb, told in TOLD.items():
        app.command(name=verb, help=told, hidden=verb in HIDDEN)(_nothing)
    return app


def _nothing() -> None:
    """Stands where a command will be; never called, since `LazyGroup` puts the command there first."""


def _function(verb: Verb) -> Callable[..., int]:
    match verb:
        case "demo":
            from reconciler.cli.demo import demo

            return demo
        case "init":
            from reconciler.cli.init import init

            return init
        case "validate":
            from reconciler.cli.validate import validate

            return validate
        case "clusters":
            from reconciler.cli.clusters import clusters

            return clusters
        case "doctor":
            from reconciler.cli.doctor import doctor

            return doctor
        case "plan":
            from reconciler.cli.plan import plan

            return plan
        case "plan-diff":
            from reconciler.cli.plan import plan_diff

            return plan_diff
        case "show":
            from reconciler.cli.plan import show

            return show
        case "explain":
            from reconciler.cli.explain import explain

            return explain
        case "apply":
            from reconciler.cli.apply import apply

            return apply
        case "converge":
            from reconciler.cli.converge import converge

            return converge
        case "watch":
            from reconciler.cli.converge import watch

            return watch
        case "drift":
            from reconciler.cli.drift import drift

            return drift
        case "scan":
            from reconciler.cli.scan import scan

            return scan
        case "journal":
            from reconciler.cli.journal import journal

            return journal
        case "schema":
            from reconciler.cli.schema import schema

            return schema
        case "sandbox":
            raise AssertionError("sandbox is a group of commands")
        case _:
            assert_never(verb)
