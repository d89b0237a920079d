"""`reconciler explain`: print one decision with its arithmetic, or the meaning of a code."""

import re
from typing import Annotated

import typer

from reconciler import pipeline, report
from reconciler.cli import common, console
from reconciler.cli.common import PlanAndPaths
from reconciler.cli.settings import Format, Settings, accepts_settings
from reconciler.errors import ExitCode, UsageError
from reconciler.manifest.error_codes import CODES
from reconciler.model.block_codes import REASONS
from reconciler.model.names import Address


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
    text = _explain_code(subject.upper()) or _explain_decision(subject, words, settings)
    console.emit(settings, "an explanation", {Format.TEXT: lambda: text, Format.MD: lambda: text})
    return ExitCode.DONE


def _explain_code(code: str) -> str | None:
    if not re.fullmatch("[A-Z][0-9]{3}", code):
        return None
    entry = REASONS.get(code) or CODES.get(code)
    if entry is None:
        raise UsageError(f"no such code: {code}; codes of manifests begin with M, codes of blocked subjects with B")
    return f"{code}: {entry.title}\n\n{entry.explanation}\n"


def _explain_decision(subject: str, words: PlanAndPaths, settings: Settings) -> console.Rendered:
    try:
        address = Address.parse(subject)
    except ValueError as error:
        raise UsageError(str(error)) from error
    plan, paths = common.split_plan_and_paths(words)
    if plan is None:
        with common.open_run(settings, common.load_cluster(paths, settings)) as run:
            plan = pipeline.plan(run)
    return list(common.lines(report.explain_report(plan, address)))
