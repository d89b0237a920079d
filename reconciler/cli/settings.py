"""The options that every command takes, declared once. Flags beat RECONCILER_* variables, which beat defaults.

`accepts_settings` adds them to a command's signature, so that `--help` of each command lists them and each may stand behind the verb.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from reconciler.errors import UsageError

_COMMON = "Common options"


class Format(StrEnum):
    """Output formats; not every command has each."""

    TEXT = "text"
    MD = "md"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


class Color(StrEnum):
    """When to colour. `auto`: on a terminal, unless NO_COLOR is set."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class LogFormat(StrEnum):
    """How log lines look on stderr."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the common options say."""

    cluster: Annotated[
        str | None,
        typer.Option("--cluster", envvar="RECONCILER_CLUSTER", help="Only this cluster.", rich_help_panel=_COMMON),
    ] = None
    output: Annotated[Format, typer.Option("-o", "--output", help="Format on stdout.", rich_help_panel=_COMMON)] = (
        Format.TEXT
    )
    output_file: Annotated[
        tuple[str, ...] | None,
        typer.Option(
            "--output-file", metavar="FORMAT=PATH", help="Also write this format there.", rich_help_panel=_COMMON
        ),
    ] = None
    color: Annotated[
        Color, typer.Option("--color", envvar="RECONCILER_COLOR", help="Colours.", rich_help_panel=_COMMON)
    ] = Color.AUTO
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress.", rich_help_panel=_COMMON)] = False
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Log what is being done.", rich_help_panel=_COMMON)
    ] = False
    log_format: Annotated[
        LogFormat,
        typer.Option("--log-format", envvar="RECONCILER_LOG_FORMAT", help="Log lines.", rich_help_panel=_COMMON),
    ] = LogFormat.TEXT
    no_input: Annotated[
        bool, typer.Option("--no-input", envvar="RECONCILER_NO_INPUT", help="Never ask.", rich_help_panel=_COMMON)
    ] = False
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            envvar="RECONCILER_TIMEOUT",
            min=1,
            max=3600,
            help="Seconds for each broker call.",
            rich_help_panel=_COMMON,
        ),
    ] = 30.0
    spark_master: Annotated[
        str | None,
        typer.Option(
            "--spark-master", envvar="RECONCILER_SPARK_MASTER", help="Default: local[*].", rich_help_panel=_COMMON
        ),
    ] = None
    spark_remote: Annotated[
        str | None,
        typer.Option("--spark-remote", envvar="SPARK_REMOTE", help="sc://host:port", rich_help_panel=_COMMON),
    ] = None
    spark_conf: Annotated[
        tuple[str, ...] | None,
        typer.Option("--spark-conf", metavar="KEY=VALUE", help="A Spark property.", rich_help_panel=_COMMON),
    ] = None

    def formats(self) -> list[tuple[Format, Path]]:
        """The `--output-file` options taken apart. Raises UsageError."""
        found = []
        for text in self.output_file or ():
            name, equals, path = text.partition("=")
            if not equals or not path or name not in set(Format):
                raise UsageError(f"--output-file {text}: expected FORMAT=PATH with one of {', '.join(Format)}")
            found.append((Format(name), Path(path)))
        return found

    def conf(self) -> dict[str, str]:
        """The `--spark-conf` options taken apart. Raises UsageError."""
        pairs = [text.partition("=") for text in self.spark_conf or ()]
        if wrong := [key for key, equals, _ in pairs if not equals or not key]:
            raise UsageError(f"--spark-conf {wrong[0]}: expected KEY=VALUE")
        return {key: value for key, _, value in pairs}


def accepts_settings(command: Callable[..., int]) -> Callable[..., int]:
    """`command(settings, …)` as a function that also takes each common option by name."""
    own = list(inspect.signature(command).parameters.values())[1:]
    hints = get_type_hints(command, include_extras=True)
    common = get_type_hints(Settings, include_extras=True)
    names = [field.name for field in fields(Settings)]

    @functools.wraps(command)
    def wrapper(**given: Any) -> int:
        chosen = {name: given.pop(name) for name in names}
        for name in ("output_file", "spark_conf"):
            chosen[name] = tuple(chosen[name]) if chosen[name] else None
        return command(Settings(**chosen), **given)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name]) for p in own]
    for field in fields(Settings):
        hint = common[field.name]
        if field.name in ("output_file", "spark_conf"):  # typer reads repeatable options as lists
            hint = Annotated[list[str] | None, hint.__metadata__[0]]
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        parameters.append(
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        )
    wrapper.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": int}
    del wrapper.__wrapped__
    return wrapper
