"""`reconciler explain`: one decision with its facts and arithmetic, or what an error code means."""

import re
from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.cli import common, console
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import UsageError
from reconciler.manifest.error_codes import CODES
from reconciler.model.block_codes import REASONS
from reconciler.model.names import Address
from reconciler.plan import plan_file

_CODE = re.compile(r"[A-Z][0-9]{3}")


@accepts_settings
def explain(
    settings: Settings,
    subject: Annotated[
        str, typer.Argument(metavar="ADDRESS|CODE", help="RetentionFloor/orders/orders[3], or a code such as B204.")
    ],
    words: Annotated[
        list[Path] | None,
        typer.Argument(
            parser=common.path,
            metavar="[PLAN] [PATHS]",
            show_default=False,
            help="A saved plan (.json); or manifests, of which a plan is made anew. Default: manifests/.",
        ),
    ] = None,
) -> int:
    """Explain one decision of a plan, or an error code."""
    if _CODE.fullmatch(subject.upper()):
        told = _code(subject.upper())
        console.emit(settings, lambda chosen, _colour: _as_text(chosen, told))
        return 0
    try:
        address = Address.parse(subject)
    except ValueError as wrong:
        raise UsageError(str(wrong)) from wrong
    words = words or []
    if words and words[0].suffix == ".json":
        planned = plan_file.read(words[0])
    else:
        manifests = common.load(words, settings, now_ms=common.clock()())
        with common.running(settings) as run:
            planned = pipeline.plan(common.one_cluster(manifests, settings), run)

    def rendered(chosen: Format, colour: bool) -> str:
        lines = report.explain(planned, address, width=common.terminal_width())
        return _as_text(chosen, console.styled(lines, colour=colour))

    console.emit(settings, rendered)
    return 0


def _as_text(chosen: Format, told: str) -> str:
    if chosen not in (Format.TEXT, Format.MD):
        raise UsageError(f"-o {chosen}: an explanation comes as text")
    return told


def _code(code: str) -> str:
    if code in REASONS:
        return f"{code}: {REASONS[code].title}\n\n{REASONS[code].explanation}\n"
    if code in CODES:
        return f"{code}: {CODES[code].title}\n\n{CODES[code].explanation}\n"
    raise UsageError(f"no such code: {code}; codes of manifests begin with M, those of blocked subjects with B")
