"""The list of commands, and the program that runs one of them.

It imports only the command that was typed: `--version`, `--help` and completion need neither the
Kafka client nor pyarrow, whose import takes longer than all the rest. So the summaries for `--help`
are here; a test compares them with the commands' own.
"""

import errno
import logging
import os
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Annotated, Any, ClassVar, TypeVar

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from reconciler import __version__
from reconciler.cli import console, documents
from reconciler.cli.log_lines import asks_for_json, json_lines
from reconciler.cli.settings import COMMON_PANEL, COMMON_SHOWN, Settings, accepts_settings
from reconciler.cli.signals import restored_handlers
from reconciler.errors import ExitCode, ManifestsInvalid, ReconcilerError
from reconciler.report.document import Format, Kind
from reconciler.text.redact import redact
from reconciler.text.validation import plain_reason

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("companions.sandbox.command", "Show the tool at work on three local Kafka brokers."),
    "sandbox": ("companions.sandbox.command", "Run local Kafka brokers to try things on."),
    "suggest": ("companions.suggest.command", "Scan a cluster and suggest its first policies."),
    "init": ("companions.github.init", "Write the first manifests and workflows for a cluster."),
    "github": ("companions.github.steps", "Decide and report in the workflows that `init` writes."),
    "validate": ("cli.validate", "Check manifests without a cluster."),
    "clusters": ("cli.validate", "List the clusters of the manifests; `doctor --list` does the same."),
    "doctor": ("cli.inspect", "Check versions, clock and rights of a cluster."),
    "plan": ("cli.plan", "Show what would change on the cluster, and why."),
    "plan diff": ("cli.show", "Show what changed between two saved plans."),
    "show": ("cli.show", "Print a saved plan in any format."),
    "explain": ("cli.plan", "Explain one decision of a plan, or a code."),
    "apply": ("cli.apply", "Carry out a saved plan, or plan and ask for confirmation."),
    "restore-group": ("cli.restore", "Write the committed offsets of a removed group back."),
    "converge": ("cli.converge", "Plan and apply `mode: continuous`, once or at intervals."),
    "watch": ("cli.converge", "Converge at intervals until Ctrl-C or SIGTERM."),
    "observe": ("cli.inspect", "Record how groups look, where __consumer_offsets is hidden."),
    "drift": ("cli.inspect", "Report drift for schedules, and change nothing."),
    "scan": ("companions.sources.command", "Write the facts of a cluster as Parquet."),
    "journal": ("cli.inspect", "Print what became of each run and policy, oldest first."),
    "schema": ("cli.schema", "Write the JSON Schemas of manifests, plans and results."),
    "help": ("cli.app", "Explain a command, or the options that commands share."),
}
"""Command → (module of the program, summary), in the order of `--help`.

Functions have the names of commands, with `_`. The help of the first word mentions a command of two words.
"""
HIDDEN = frozenset({"clusters", "schema", "plan diff"})
"""Commands that `--help` does not list, and that work as ever: workflows and editors call them."""


_WITH_STEP_OUTPUTS = ("plan", "apply", "converge", "drift")
Command = TypeVar("Command", bound=Callable[..., Any])


class PlainCommand(TyperCommand):
    """A command whose help has its own options first, few common ones, and shows no type of Python."""

    common: ClassVar[Collection[str]] = COMMON_SHOWN
    """The options of COMMON_PANEL that it shows."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        params: Sequence[Any] = self.params
        for param in params:
            # A list of choices says what it takes, and for other values typer would show a type of Python.
            if param.metavar is None and not getattr(param, "is_flag", False) and not param.type_descriptor.is_choice:
                is_file = param.type_descriptor.is_path and param.param_type_name == "option"
                param.metavar = "PATH" if is_file else param.name.rpartition("_")[2].upper()

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line; typer writes a required argument as `{NAME}`."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of arguments and options; typer calls it."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        left_out = False
        for param in self.get_params(ctx):
            panel = getattr(param, "rich_help_panel", None)
            if panel == COMMON_PANEL and param.name not in self.common:
                left_out = True
                continue
            if (record := param.get_help_record(ctx)) is None:
                continue
            if param.param_type_name == "argument":
                sections["Arguments"].append((str(getattr(param, "metavar", param.name)), record[1]))
            else:
                sections.setdefault(panel or "Options", []).append(record)
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
        if left_out:
            formatter.write_paragraph()
            formatter.write_text("The other options of every command: reconciler help options")


class _OptionsPage(PlainCommand):
    common: ClassVar[Collection[str]] = tuple(Settings.__dataclass_fields__)


class Application(typer.Typer):
    """A typer application whose help is plain text and which leaves exceptions to `app.run`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(pretty_exceptions_enable=False, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Command], Command]:
        """Return the decorator of a command; see typer."""
        return super().command(name, **({"cls": PlainCommand} | options))


def load_command(name: str) -> Any:
    """Import a command, and return it as typer's command object."""
    module, _summary = COMMANDS[name]
    target = getattr(import_module(f"reconciler.{module}"), name.replace(" ", "_").replace("-", "_"))
    if isinstance(target, typer.Typer):
        return typer.main.get_command(target)
    alone = Application(add_completion=False)
    alone.command(name=name, hidden=name in HIDDEN)(target)
    return typer.main.get_command(alone)


class LazyGroup(TyperGroup):
    """A group of commands that are imported when one of them is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Called by typer before it parses or completes the words of a command."""
        if args[:2] == ["plan", "diff"]:
            args = ["plan diff", *args[2:]]
        name, command, remaining = super().resolve_command(ctx, args)
        if command is not None and name is not None and name in COMMANDS:
            command = self.commands[name] = load_command(name)
        return name, command, remaining

    def make_context(self, *words: Any, **options: Any) -> Any:
        """Parse the words before the command. Raises Abort for Ctrl-C, of which typer would make a code without a word."""
        with _interrupts():
            return super().make_context(*words, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Raises as `make_context`."""
        with _interrupts():
            return super().invoke(ctx)


@contextmanager
def _interrupts() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Abort from None


def _interrupted() -> ExitCode:
    # No more: a file such as that of `plan --out` may have been written.
    said = "interrupted: no record, group or leader was changed"
    console.print_error(said, code="Interrupted", exit_code=ExitCode.INTERRUPTED)
    return ExitCode.INTERRUPTED


app = Application(
    name="reconciler",
    cls=LazyGroup,
    help="Housekeeping of Apache Kafka clusters from manifests. Nothing beyond the reviewed plan happens.",
    no_args_is_help=True,
)
for _name, (_module, _summary) in COMMANDS.items():
    # In place of a command that is not imported; never called, since `LazyGroup` replaces it.
    app.command(name=_name, help=_summary, hidden=_name in HIDDEN)(lambda: None)


def _version(requested: bool) -> None:
    if requested:
        console.write(f"reconciler {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def help(  # noqa: A001  the name of the command
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND|options]", help="A command, or `options`: those that commands share."),
    ] = None,
) -> int:
    """Explain a command, or the options that commands share."""
    if words != ["options"]:
        return run_within([*(words or ()), "--help"])
    page, takes_all = Application(add_completion=False), accepts_settings(Kind("every command", tuple(Format)))
    page.command(name="COMMAND", cls=_OptionsPage)(takes_all(_options))
    typer.main.get_command(page).main(["--help"], prog_name="reconciler COMMAND", standalone_mode=False)
    return 0


def _options(_settings: Settings) -> None:
    """Each command takes these options, beside its own; a variable sets the same as the option."""


def _describe(error: TyperException) -> str:
    """Return the message about wrong words of a command, in plain words, with the wrong value."""
    wrong = getattr(error.__cause__, "errors", None)  # of the library that typer validates with
    plain = plain_reason(error.message)
    if wrong and plain.startswith("expected"):
        plain = f"{wrong()[0]['input']}: {plain}"
    error.message = plain
    return error.format_message()


def _command_path(error: TyperException, arguments: Sequence[str]) -> str:
    """Return the command whose help the error needs. An option without its value names no command."""
    if context := getattr(error, "ctx", None):
        return str(context.command_path)
    return " ".join(("reconciler", *(name for name in arguments[:1] if name in COMMANDS)))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Never raises; -v shows the traceback of a bug."""
    words = (" ".join(arguments[:number]) for number in (2, 1))
    command = next((name for name in words if name in COMMANDS), "")
    with restored_handlers(), json_lines(command) if asks_for_json(arguments, os.environ) else nullcontext():
        documents.step_outputs.clear()
        code = run_within(arguments)
        if command in _WITH_STEP_OUTPUTS:
            with console.collect_errors(set()):
                documents.write_step_outputs(documents.step_outputs | {"exit_code": int(code)})
        return code


def run_within(arguments: Sequence[str]) -> int:
    """Do as `run` for a command within another one: the lines of stderr and the outputs of the step are of that."""
    try:
        return app(args=list(arguments), prog_name="reconciler", standalone_mode=False) or ExitCode.DONE
    except TyperException as error:
        message = _describe(error)
        if message.startswith("Usage: "):  # a group of commands without one of them
            console.print_stderr(message)
        elif message:
            text = f"{message.removesuffix('.')} (see {_command_path(error, arguments)} --help)"
            console.print_error(text, code="UsageError", exit_code=ExitCode.USAGE)
        return ExitCode.USAGE
    except ReconcilerError as error:
        if not isinstance(error, ManifestsInvalid):  # the command has printed the diagnostics
            console.print_exception(error)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except SystemExit as error:  # of typer: 1 where nothing reads stdout any more, and after a completion
        return int(error.code or ExitCode.DONE)
    except Exception as error:  # noqa: BLE001  the last line of defence: users get a message, not a traceback
        # In the Kafka client a signal becomes a SystemError, and what it cut short may fail to clean up.
        if isinstance(error.__context__, KeyboardInterrupt):
            return _interrupted()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            # Of a help page, which typer prints: `console.write` has its own error.
            console.print_error(f"standard output could not be written: {error.strerror}", code="OutputUnwritten")
            return ExitCode.ERROR
        if logging.getLogger("reconciler").isEnabledFor(logging.DEBUG):
            console.print_stderr(redact("".join(traceback.format_exception(error)).rstrip()))
        bug = f"this is a bug in reconciler {__version__}: {type(error).__name__}: {redact(str(error))}"
        console.print_error(f"{bug} (run again with -v for a traceback)", code="Bug")
        return ExitCode.ERROR
