"""The options of every command. Flags override RECONCILER_* variables and defaults."""

import inspect
import re
from collections.abc import Callable, Collection
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from reconciler.cli import complete
from reconciler.errors import UsageError
from reconciler.report.document import Format, Kind
from reconciler.text.escape import display_name
from reconciler.text.suggest import suggestion

COMMON_PANEL = "Options of every command"
COMMON_SHOWN = ("cluster", "output", "output_file", "quiet", "verbose")
"""Common options in the help of a command; `reconciler help options` has all of them."""
SPARK = ("engine", "spark_master", "spark_remote", "spark_conf", "executor_secrets")
"""Common options that mean something only where the command scans a cluster."""
NO_CLUSTER = (*SPARK, "cluster", "timeout")
"""Those, and others that mean something only where the command acts on one cluster of manifests."""
OUTPUT = ("output", "output_file", "docs_url")


class KeyValue(NamedTuple):
    """The two sides of KEY=VALUE."""

    key: str
    value: str


class OutputFile(NamedTuple):
    """A file of `--output-file`, and the format of the result in it."""

    output: Format
    path: Path


def parse_key_value(word: str, form: str = "KEY=VALUE") -> KeyValue:
    """Split a word at its first `=`. Raises BadParameter, which never quotes the value."""
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise typer.BadParameter(f"{key}: expected {form}")
    return KeyValue(key, value)


def parse_names(option: str, text: str, known: Collection[str]) -> list[str]:
    """Return the names that an option takes, separated by commas. Raises UsageError for another one."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            shown = display_name(name) if name else "an empty name"
            hint = f"{suggestion(name, known)} known: {', '.join(known)}, separated by commas"
            raise UsageError(f"{option}: {shown} is unknown; {hint.lstrip()}")
    return list(dict.fromkeys(names))


def parse_duration(option: str, text: str) -> int:
    """Return the milliseconds of an option's duration. Raises UsageError."""
    from reconciler.policies.fields import duration_ms  # the library that validates manifests, for one option

    try:
        return duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error


def parse_docs_url(word: str) -> str:
    """Parse where the docs are served: text in reports links there. Raises BadParameter."""
    if not re.fullmatch(r"https?://[!$%&*+,./0-9:;=A-Z\[\]_a-z~-]+", word):
        raise typer.BadParameter(
            f"{display_name(word)}: expected an address such as https://docs.example.org/reconciler/"
        )
    return word


def parse_format(word: str, formats: Collection[Format] = tuple(Format)) -> Format:
    """Parse a format. Raises BadParameter, which names those of the command."""
    if word not in formats:
        raise typer.BadParameter(f"{display_name(word)}: expected one of {', '.join(formats)}")
    return Format(word)


def parse_output_file(word: str, formats: Collection[Format] = tuple(Format)) -> OutputFile:
    """Parse FORMAT=PATH. Raises BadParameter."""
    output, path = parse_key_value(word, form := f"FORMAT=PATH with one of {', '.join(formats)}")
    if not path:
        raise typer.BadParameter(f"{word}: expected {form}")
    return OutputFile(parse_format(output, formats), Path(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values of the common options."""

    cluster: Annotated[
        str | None,
        typer.Option(
            envvar="RECONCILER_CLUSTER",
            metavar="NAME",
            help="Use only this cluster of the manifests.",
            autocompletion=complete.clusters,
        ),
    ] = None
    output: Annotated[Format, typer.Option("-o", "--output", help="Format of the result on stdout.")] = Format.TEXT
    output_file: Annotated[
        list[OutputFile] | None,
        typer.Option(
            metavar="FORMAT=PATH",
            parser=parse_output_file,
            help="Also write the result in this format to this file.",
        ),
    ] = None
    color: Annotated[
        Literal["auto", "always", "never"],
        typer.Option(envvar="RECONCILER_COLOR", help="When to use color."),
    ] = "auto"
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print no progress.")] = False
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log every step.")] = False
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(envvar="RECONCILER_LOG_FORMAT", help="Format of all lines on stderr."),
    ] = "text"
    no_input: Annotated[
        bool, typer.Option("--no-input", envvar="RECONCILER_NO_INPUT", help="Never ask for confirmation.")
    ] = False
    docs_url: Annotated[
        str | None,
        typer.Option(
            envvar="RECONCILER_DOCS_URL",
            metavar="URL",
            parser=parse_docs_url,
            help="Where a copy of the docs site is served: md and html link the codes that they name to its pages.",
        ),
    ] = None
    timeout: Annotated[
        float,
        typer.Option(
            envvar="RECONCILER_TIMEOUT", metavar="SECONDS", min=1, max=600, help="Seconds for each broker call."
        ),
    ] = 30.0
    engine: Annotated[
        Literal["spark", "auto", "inline"] | None,
        typer.Option(
            envvar="RECONCILER_ENGINE",
            help="What reads the cluster: spark, inline (this process, without Java), or auto: inline for little work. "
            "Default: scan.engine of the Cluster.",
        ),
    ] = None
    spark_master: Annotated[
        str | None,
        typer.Option(envvar="RECONCILER_SPARK_MASTER", help="Spark master URL. Default: local[*]"),
    ] = None
    spark_remote: Annotated[
        str | None,
        typer.Option(envvar="SPARK_REMOTE", help="Spark Connect server to use, as sc://HOST:PORT."),
    ] = None
    spark_conf: Annotated[
        list[KeyValue] | None,
        typer.Option(metavar="KEY=VALUE", parser=parse_key_value, help="A Spark property. May be repeated."),
    ] = None
    executor_secrets: Annotated[
        bool,
        typer.Option(
            "--executor-secrets",
            envvar="RECONCILER_EXECUTOR_SECRETS",
            help="Spark's executors have the variables and files that the Cluster names: send references, no secrets.",
        ),
    ] = False


def accepts_settings(
    kind: Kind | None, *, without: Collection[str] = (), description: str | None = None
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Return the decorator of `command(settings, …)`, which takes each common option by name. Exit code None: 0.

    `kind`: of its documents; None: it prints text only. `without`: options that mean nothing for it:
    it takes them, as scripts may write them, and its help does not show them. `description`: of its
    help; None: that of the function.
    """
    hidden = {*without, *(() if kind else OUTPUT)}

    def option_of(parameter: inspect.Parameter) -> inspect.Parameter:
        (option,) = map(copy, parameter.annotation.__metadata__)
        option.rich_help_panel, option.hidden = COMMON_PANEL, parameter.name in hidden
        if parameter.name == "output" and kind:
            option.metavar = f"<{'|'.join(kind.formats)}>"
            option.parser = partial(parse_format, formats=kind.formats)
            option.autocompletion = lambda: list(kind.formats)
        if parameter.name == "output_file" and kind:
            option.parser = partial(parse_output_file, formats=kind.formats)
        typed: Any = Annotated[parameter.annotation.__origin__, option]
        return parameter.replace(annotation=typed, kind=inspect.Parameter.KEYWORD_ONLY)

    def decorate(command: Callable[..., int | None]) -> Callable[..., int | None]:
        def wrapper(**arguments: Any) -> int | None:
            from reconciler.cli import console  # it imports this module

            settings = Settings(**{name: arguments.pop(name) for name in common})
            console.start_logging(settings)
            return command(settings, **arguments)

        _settings, *own = inspect.signature(command).parameters.values()
        named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        wrapper.__name__ = getattr(command, "__name__", "command")  # the sandbox's commands are called like these
        wrapper.__doc__ = description or command.__doc__
        parameters = [*named, *map(option_of, common.values())]
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return wrapper

    common = inspect.signature(Settings).parameters
    return decorate
