"""`reconciler explain`: print one decision with its arithmetic, or the meaning of a code."""

import re
from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.cli import common, console
from reconciler.cli.common import PlanAndPaths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import UsageError
from reconciler.manifest.error_codes import CODES
from reconciler.model.block_codes import REASONS
from reconciler.model.names import Address

_CODE = re.compile(r"[A-Z][0-9]{3}")


@accepts_settings
def explain(
    settings: Settings,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS|CODE", help="An address such as RetentionFloor/orders/orders[3], or a code such as B204."
        ),
    ],
    words: PlanAndPaths = None,
) -> int:
    """Explain one decision of a plan, or an error code.

    Without a saved plan, the command makes a plan of the manifests first.
    """
    if _CODE.fullmatch(subject.upper()):
        text = _code_text(subject.upper())
        _emit(settings, lambda _color: text)
        return 0
    try:
        address = Address.parse(subject)
    except ValueError as error:
        raise UsageError(str(error)) from error
    plan, paths = common.split_plan_and_paths(words)
    if plan is None:
        manifests = common.load(paths, settings)
        with common.running(settings) as run:
            plan = pipeline.plan(common.one_cluster(manifests, settings), run)
    lines = list(report.write_lines(report.explain_report(plan, address), width=common.terminal_width()))
    _emit(settings, lambda color: console.styled(lines, color=color))
    return 0


def _emit(settings: Settings, renderer: console.Renderer) -> None:
    console.emit_formats(settings, "an explanation", {Format.TEXT: renderer, Format.MD: renderer})


def _code_text(code: str) -> str:
    entry = REASONS.get(code) or CODES.get(code)
    if entry is None:
        raise UsageError(f"no such code: {code}; codes of manifests begin with M, codes of blocked subjects with B")
    return f"{code}: {entry.title}\n\n{entry.explanation}\n"
