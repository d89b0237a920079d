"""The options of every command, declared once. Flags override RECONCILER_* variables and defaults.

`accepts_settings` adds them to a command's signature, so that each command's `--help` lists them.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from reconciler.errors import UsageError


class Format(StrEnum):
    """Output formats; a command may not have all of them."""

    TEXT = "text"
    MD = "md"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


class Color(StrEnum):
    """When to use color. `auto`: on a terminal, unless NO_COLOR is set."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class LogFormat(StrEnum):
    """The format of log lines on stderr."""

    TEXT = "text"
    JSON = "json"


_option = functools.partial(typer.Option, rich_help_panel="Common options")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values of the common options."""

    cluster: Annotated[
        str | None,
        _option(
            "--cluster", envvar="RECONCILER_CLUSTER", metavar="NAME", help="Use only this cluster of the manifests."
        ),
    ] = None
    output: Annotated[Format, _option("-o", "--output", help="Format of the result on stdout.")] = Format.TEXT
    output_file: Annotated[
        tuple[str, ...] | None,
        _option("--output-file", metavar="FORMAT=PATH", help="Also write the result in this format to this file."),
    ] = None
    color: Annotated[Color, _option("--color", envvar="RECONCILER_COLOR", help="When to use color.")] = Color.AUTO
    quiet: Annotated[bool, _option("-q", "--quiet", help="Print no progress.")] = False
    verbose: Annotated[bool, _option("-v", "--verbose", help="Log every step.")] = False
    log_format: Annotated[
        LogFormat, _option("--log-format", envvar="RECONCILER_LOG_FORMAT", help="Format of log lines on stderr.")
    ] = LogFormat.TEXT
    no_input: Annotated[
        bool, _option("--no-input", envvar="RECONCILER_NO_INPUT", help="Never ask for confirmation.")
    ] = False
    timeout: Annotated[
        float, _option("--timeout", envvar="RECONCILER_TIMEOUT", min=1, max=3600, help="Seconds for each broker call.")
    ] = 30.0
    spark_master: Annotated[
        str | None,
        _option("--spark-master", envvar="RECONCILER_SPARK_MASTER", help="Spark master URL. Default: local[*]"),
    ] = None
    spark_remote: Annotated[
        str | None,
        _option("--spark-remote", envvar="SPARK_REMOTE", help="Spark Connect server to use, as sc://HOST:PORT."),
    ] = None
    spark_conf: Annotated[
        tuple[str, ...] | None,
        _option("--spark-conf", metavar="KEY=VALUE", help="A Spark property. May be repeated."),
    ] = None

    def formats(self) -> list[tuple[Format, Path]]:
        """Parse the `--output-file` options. Raises UsageError."""
        formats = []
        for name, path in key_values("--output-file", self.output_file, "FORMAT=PATH"):
            if not path or name not in set(Format):
                raise UsageError(f"--output-file {name}={path}: expected FORMAT=PATH with one of {', '.join(Format)}")
            formats.append((Format(name), Path(path)))
        return formats

    def conf(self) -> dict[str, str]:
        """Parse the `--spark-conf` options. Raises UsageError."""
        return dict(key_values("--spark-conf", self.spark_conf, "KEY=VALUE"))


def key_values(option: str, texts: Sequence[str] | None, form: str) -> list[tuple[str, str]]:
    """Split the texts of a repeatable option at `=`. Raises UsageError, which names the `form`."""
    pairs = []
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {key}: expected {form}")
        pairs.append((key, value))
    return pairs


def accepts_settings(command: Callable[..., int]) -> Callable[..., int]:
    """Return `command(settings, …)` as a function that also takes each common option by name."""
    own = list(inspect.signature(command).parameters.values())[1:]
    hints = get_type_hints(command, include_extras=True)
    common = get_type_hints(Settings, include_extras=True)
    names = [field.name for field in fields(Settings)]

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> int:
        options = {name: arguments.pop(name) for name in names}
        for name in ("output_file", "spark_conf"):
            options[name] = tuple(options[name]) if options[name] else None
        return command(Settings(**options), **arguments)

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
