"""`reconciler plan` and `explain`: what would change, and why. Read only."""

import re
from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.cli import common, complete, console, documents, loading
from reconciler.cli.codes import ALL_CODES, find_code, page
from reconciler.cli.loading import Paths, PlanAndPaths
from reconciler.cli.settings import SPARK, Settings, accepts_settings, parse_duration, parse_names
from reconciler.cli.show import FINDINGS, DetailedExitcode, Full, exit_code
from reconciler.clock import wall_clock_ms
from reconciler.codec import read_kind
from reconciler.errors import ExitCode, Refused, UsageError
from reconciler.manifest.files import ClusterManifests
from reconciler.plan import limits, plan_file
from reconciler.plan.planner import LONGEST_EXPIRY_MS
from reconciler.plan.targets import find_candidates, find_subjects
from reconciler.references import CONNECTION
from reconciler.report.document import EXPLANATION, PLAN, Document, Rendered
from reconciler.report.plan import explain_report, plan_document
from reconciler.text.escape import display_name
from reconciler.text.formatting import format_duration
from reconciler.text.suggest import backticks, did_you_mean, question


@accepts_settings(PLAN)
def plan(
    settings: Settings,
    paths: Paths = None,
    out: Annotated[Path | None, typer.Option(help="Save the plan to this file, for apply.")] = None,
    detailed_exitcode: DetailedExitcode = False,
    within: Annotated[
        Path | None, typer.Option(help="Plan only actions that this reviewed plan holds as well.")
    ] = None,
    connect_as: Annotated[
        Path | None,
        typer.Option(
            metavar="TRUSTED",
            envvar=CONNECTION,
            parser=loading.parse_path,
            help="Take the connection of each Cluster from these manifests, such as a checkout of the default branch.",
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            autocompletion=complete.addresses,
            help="Read and plan only this subject, such as orders[3], or this policy. May be repeated.",
        ),
    ] = None,
    expires_after: Annotated[
        str, typer.Option(metavar="DURATION", help="How long a saved plan may be applied.")
    ] = "24h",
    fail_on: Annotated[
        str | None,
        typer.Option(
            metavar="FINDING,…",
            help="Exit 3 if the plan has one of these: blocked, unknown, unmatched. The plan is printed and saved.",
        ),
    ] = None,
    full: Full = False,
) -> int:
    """Show what would change on the cluster, and why.

    The command changes nothing. `reconciler plan diff OLD NEW` compares two saved plans.
    """
    _refuse_misspelt_diff(paths)
    findings = [] if fail_on is None else parse_names("--fail-on", fail_on, FINDINGS)
    expires_after_ms = parse_duration("--expires-after", expires_after)
    if not 0 < expires_after_ms <= LONGEST_EXPIRY_MS:
        longest = format_duration(LONGEST_EXPIRY_MS)
        raise UsageError(f"--expires-after {expires_after}: expected more than 0s, and at most {longest}")
    reviewed = plan_file.open_plan(within) if within else None
    clusters = loading.load_clusters(paths, settings)
    trusted = loading.load([connect_as], settings) if connect_as else None
    if len(clusters) > 1 and (out or reviewed or settings.output_file):
        raise UsageError("--out, --within and --output-file need one cluster: select it with --cluster NAME")
    documents.prepare(settings, PLAN, out)
    if out:
        plan_file.check_replaceable(out)
    codes: set[int] = set()
    target_errors: list[UsageError] = []
    for manifests in clusters:
        with console.collect_errors(codes, manifests.cluster.metadata.name):
            try:
                connected = manifests if trusted is None else manifests.connect_as(trusted)
                if trusted is not None and connected.base is None:
                    _announce_new_cluster(connected)
                    continue
                common.note_missing_policies(connected, settings)
                with common.open_run(settings, connected) as run:
                    planned = pipeline.plan(
                        run, targets=target or [], reviewed=reviewed, expires_after_ms=expires_after_ms
                    )
            except UsageError as error:  # a target is an address of one cluster and unknown to the others
                target_errors.append(error)
                continue
            if out:
                plan_file.write(planned, out)
            documents.emit(settings, plan_document(planned, full=full, saved_to=out, with_next_step=True, paths=paths))
            codes.add(exit_code(planned, detailed=detailed_exitcode, fail_on=findings))
    if target_errors and len(target_errors) == len(clusters):
        raise target_errors[-1]
    return common.worst_exit_code(codes)


def _refuse_misspelt_diff(paths: Paths) -> None:
    """Raise UsageError for `plan dif OLD NEW`, whose words would be missing manifests."""
    word = str(paths[0]) if paths else ""
    if did_you_mean(word, ("diff",)) and not Path(word).exists():
        hint = question("plan diff", quote=backticks)
        raise UsageError(f"{display_name(word)}: there is no such file or folder; {hint}")


def _announce_new_cluster(manifests: ClusterManifests) -> None:
    """Say that a Cluster without policies is new: nothing connects to it before the merge."""
    verdict = limits.connection_verdict(manifests, now_ms=wall_clock_ms())
    if not verdict.passed:
        raise Refused(verdict.message)
    console.print_stderr(f"{manifests.cluster.metadata.name}: new, and without policies to plan; {verdict.message}")


@accepts_settings(EXPLANATION, without=SPARK)
def explain(
    settings: Settings,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS|CODE",
            autocompletion=complete.subjects,
            help="A subject as the plan prints it, such as orders[3], a full address such as "
            "RetentionFloor/orders/orders[3], or a code such as B204, recordsPercent or exit-3.",
        ),
    ],
    words: PlanAndPaths = None,
) -> None:
    """Explain one decision of a plan, or a code.

    A subject of several policies is explained for each. Without a saved plan, the command first plans
    the subject, and reads only what that needs. The last line for a code names its page of the
    documentation.
    """
    if read_kind(Path(subject)):
        file = display_name(subject)
        raise UsageError(f"{file} is a file, and what to explain comes first: reconciler explain ADDRESS {file}")
    if entry := find_code(subject):
        text: Rendered = (
            f"{entry.code}: {entry.title}\n\n{entry.explanation}\n\nPage: {page(entry.code, settings.docs_url)}\n"
        )
    elif re.fullmatch("[A-Za-z]?[0-9]+|exit-[0-9]+", subject):
        raise UsageError(
            f"no such code: {subject}; docs/errors.md lists the M codes, docs/block-codes.md the B codes, and the "
            f"exit codes are {', '.join(str(int(code)) for code in ExitCode)}"
        )
    else:
        text = _explain_decision(subject, words, settings)
    documents.emit(settings, Document(kind=EXPLANATION, writers=dict.fromkeys(EXPLANATION.formats, lambda: text)))


def _explain_decision(subject: str, words: PlanAndPaths, settings: Settings) -> Rendered:
    plan, paths = common.split_plan_and_paths(words)
    if plan is None:
        manifests = loading.load_cluster(paths, settings)
        documents.prepare(settings, EXPLANATION)
    try:
        if plan is None:
            candidates = find_candidates(subject, manifests.policies)
            with common.open_run(settings, manifests) as run:
                plan = pipeline.plan(run, candidates=candidates)
        addresses = find_subjects(subject, (decision.address for decision in plan.decisions))
    except UsageError as error:
        if (code := did_you_mean(subject, ALL_CODES)) is None:
            raise
        raise UsageError(f"{error}, or the code {code}") from None
    texts = [list(documents.lines([explain_report(plan, address)])) for address in addresses]
    return [line for number, text in enumerate(texts) for line in (["\n"] if number else []) + text]
