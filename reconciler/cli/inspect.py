"""`reconciler doctor`, `drift`, `observe` and `journal`: they read a cluster, and delete nothing."""

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from reconciler import __version__, pipeline
from reconciler.cli import common, complete, console, documents, loading
from reconciler.cli.loading import Paths
from reconciler.cli.settings import SPARK, Settings, accepts_settings, parse_duration
from reconciler.cli.validate import show_clusters
from reconciler.clock import wall_clock_ms
from reconciler.doctor import ClusterCheck, check_cluster, doctor_report
from reconciler.errors import ExitCode, OutputUnwritten, ScanFailed, UsageError, WrongCluster
from reconciler.kafka.permissions import Role
from reconciler.model.snapshot import GroupState, Unknown
from reconciler.plan import drift as drift_reports
from reconciler.plan.drift import DriftReport
from reconciler.report.document import DOCTOR, DRIFT, JOURNAL, Document
from reconciler.report.drift import drift_document
from reconciler.report.metrics import drift_metrics
from reconciler.report.results import journal_document
from reconciler.scan.java import MINIMUM, find_java, major_version
from reconciler.text.escape import display_name, escape_sentence, quoted
from reconciler.text.formatting import count, format_time
from reconciler.text.validation import error_reason


@accepts_settings(DOCTOR)
def doctor(
    settings: Settings,
    paths: Paths = None,
    purpose: Annotated[
        Role, typer.Option("--for", help="Which rights are required; elections: for the LeaderPolicies only.")
    ] = Role.PLAN,
    show_acls: Annotated[
        bool, typer.Option("--acls", help="Print only the kafka-acls commands for least-privilege principals.")
    ] = False,
    principal: Annotated[
        str, typer.Option(help="Prefix of the principals' names in those commands.")
    ] = "User:reconciler",
    github: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME",
            help="Check instead how this repository on GitHub is protected. The token is that of GH_TOKEN or GITHUB_TOKEN.",
        ),
    ] = None,
    list_clusters: Annotated[
        bool, typer.Option("--list", help="Only list the clusters of the manifests, and connect to none.")
    ] = False,
    environment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --github: check only who may use this environment, as apply does."),
    ] = None,
) -> int:
    """Check versions, clock and rights of a cluster.

    Exits with 1 where something that is required is missing or could not be read. With --github,
    what the token may not see is not a reason to fail, except with --environment.
    """
    if list_clusters and (show_acls or github is not None):
        raise UsageError("--list connects to no cluster and checks nothing: leave it out, or --acls and --github")
    if list_clusters:
        show_clusters(loading.load_clusters(paths, settings), settings)
        return ExitCode.DONE
    if github is not None:
        return int(documents.companion("github.check").check_github(settings, paths, github, environment))
    if environment is not None:
        raise UsageError("--environment NAME is an environment on GitHub: add --github OWNER/NAME")
    checks = []
    errors: dict[str, str] = {}
    codes: set[int] = set()
    clusters = loading.load_clusters(paths, settings)
    documents.prepare(settings, DOCTOR)
    for manifests in clusters:
        name = manifests.cluster.metadata.name
        with console.collect_errors(codes, name) as failed, common.open_run(settings, manifests) as run:
            checks.append(check_cluster(run, elections_only=purpose is Role.ELECTIONS and not show_acls))
        for error in failed:
            errors[name] = str(error)

    def text() -> Iterator[str | Text]:
        if show_acls:
            yield from (f"{line}\n" for check in checks for line in check.acl_commands(principal))
            return
        yield f"{_versions()}\n"
        for check in checks:
            yield "\n"
            yield from documents.lines([doctor_report(check, purpose)])

    writers = {"text": text, "json": lambda: doctor_json(checks, errors, principal)}
    documents.emit(settings, Document(kind=DOCTOR, writers=writers))
    if not show_acls and not all(check.passes(purpose) for check in checks):
        codes.add(ExitCode.ERROR)
    return common.worst_exit_code(codes)


def _versions() -> str:
    spark = "no PySpark (--engine inline needs none)"
    for name, words in (("pyspark-client", "PySpark's light client"), ("pyspark", "PySpark")):
        with suppress(metadata.PackageNotFoundError):
            spark = f"{words} {metadata.version(name)}"
    return f"reconciler {__version__}, Python {platform.python_version()}, {spark}, {describe_java()}"


def describe_java() -> str:
    """Return the version of the Java that a scan would start, or why it would start none."""
    try:
        version = major_version(find_java())
    except ScanFailed:
        home = os.environ.get("JAVA_HOME")
        place = f"in JAVA_HOME, {display_name(home)}" if home else "on PATH"
        return f"no Java {place} (--engine inline needs none)"
    if version is None:
        return "a Java that prints no version (--engine inline needs none)"
    needed = "" if version >= MINIMUM else f", and Spark needs {MINIMUM} or newer (--engine inline needs none)"
    return f"Java {version}{needed}"


def doctor_json(checks: list[ClusterCheck], errors: Mapping[str, str], principal: str) -> str:
    """Return the document of the checks. `errors`: by cluster, why it has no check."""

    def plain(value: object) -> object:
        return {"unread": value.reason} if isinstance(value, Unknown) else str(value)

    clusters = [
        {
            "cluster": check.cluster,
            "fit_for": {purpose: check.passes(purpose) for purpose in Role},
            # a selector holds its compiled pattern, too
            "report": asdict(
                check.report, dict_factory=lambda fields: {key: v for key, v in fields if not key.startswith("_")}
            ),
            "acls": list(check.acl_commands(principal)),
        }
        for check in checks
    ]
    document = {"format_version": "2.0", "kind": "DoctorReport", "clusters": clusters, "errors": errors}
    return json.dumps(document, default=plain, indent=1) + "\n"


@accepts_settings(DRIFT)
def drift(
    settings: Settings,
    paths: Paths = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            help="The previous report (-o json), which dates the drift. The file may be missing on the first run.",
        ),
    ] = None,
    metrics: Annotated[
        Path | None, typer.Option(help="Write metrics in the Prometheus text format to this file.")
    ] = None,
) -> int:
    """Report drift for schedules, and change nothing. Exit 2 on drift.

    Exit 0 in sync, 1 if too many facts are unknown, 4 if the brokers belong to another cluster.
    With -q, nothing is printed for a cluster in sync.
    """
    documents.prepare(settings, DRIFT, metrics)
    if metrics and metrics.is_file() and "reconciler_runs_total" in metrics.read_text(errors="replace"):
        raise UsageError(
            f"--metrics {metrics} has the counters of apply, converge or watch, which drift would replace: nothing was "
            "done; name a file of its own"
        )
    previous_reports = _read(previous)
    reports: list[DriftReport] = []
    codes: set[int] = set()
    for manifests in loading.load_clusters(paths, settings):
        common.note_missing_policies(manifests, settings)
        name, cluster_id = manifests.cluster.metadata.name, manifests.cluster.spec.cluster_id
        if previous_reports and all(before.cluster_id != cluster_id for before in previous_reports):
            state = f"has no report of {display_name(name)} ({display_name(cluster_id)})"
            console.print_stderr(f"warning: --previous {previous} {state}: its drift is dated from this run on")
        with console.collect_errors(codes, name) as failed, common.open_run(settings, manifests) as run:
            reports.append(drift_reports.report(pipeline.plan(run), previous=previous_reports))
        now_ms = wall_clock_ms()
        reports += [
            drift_reports.unreachable_report(
                name, cluster_id, str(error), observed_at_ms=now_ms, previous=previous_reports
            )
            for error in failed
        ]
    document = drift_document(reports, paths=paths or (), quiet=settings.quiet, dated=previous is not None)
    try:
        documents.emit(settings, document)
    except OutputUnwritten as error:  # the code of what was found comes before it
        console.print_exception(error)
        codes.add(error.exit_code)
    finally:  # an alert on the metrics must not depend on the report
        common.write_metrics(drift_metrics(reports, dated=previous is not None), metrics, codes)
    if WrongCluster.exit_code in codes:  # it stays wrong until the manifest changes, and its facts mean nothing
        return WrongCluster.exit_code
    return drift_reports.exit_code(reports) or common.worst_exit_code(codes)  # of a cluster without a report


def _read(previous: Path | None) -> Sequence[DriftReport]:
    """Read the previous report. An unreadable one costs only the dates; a schedule recovers."""
    try:
        return drift_reports.parse(previous.read_text(encoding="utf-8-sig")) if previous else ()
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        console.print_stderr(
            f"warning: --previous {previous} is not a drift report ({error_reason(error)}): the drift is dated from this run on"
        )
        return ()


@accepts_settings(None, without=SPARK)
def observe(settings: Settings, paths: Paths = None) -> int:
    """Record how groups look, where __consumer_offsets is hidden.

    Of clusters with `consumerOffsets: hidden`, the groups that a GroupRemoval selects, at least four
    times in each `idleFor`. Writes to the journal and nothing else.
    """
    codes: set[int] = set()
    for manifests in loading.load_clusters(paths, settings):
        name = display_name(manifests.cluster.metadata.name)
        with console.collect_errors(codes, manifests.cluster.metadata.name):
            with common.open_run(settings, manifests) as run:
                seen = pipeline.observe(run)
            if seen is None:
                why = "it has no `consumerOffsets: hidden`, or no GroupRemoval with idleFor above 0s"
                console.print_stderr(f"{name}: nothing to observe: {why}")
                continue
            unread = {group: of for group, of in seen.items() if isinstance(of, Unknown)}
            empty = sum(not isinstance(of, Unknown) and of.state is GroupState.EMPTY for of in seen.values())
            if not settings.quiet:
                console.write(f"{name}: recorded {count(len(seen) - len(unread), 'group')}, {empty:,} EMPTY\n")
            for group, reason in unread.items():
                console.print_error(f"{name}: group {quoted(group)} was not read: {escape_sentence(reason.reason)}")
                codes.add(ExitCode.ERROR)
    return common.worst_exit_code(codes)


@accepts_settings(JOURNAL, without=SPARK)
def journal(
    settings: Settings,
    paths: Paths = None,
    address: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete.addresses,
            help="Only this subject, such as orders[3], this address, or its first parts, such as KIND/POLICY.",
        ),
    ] = None,
    run_id: Annotated[str | None, typer.Option("--run", metavar="ID", help="Only this run.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Only runs that stored something since, such as 2h or 7d.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print every intent and outcome.")] = False,
) -> None:
    """Print what became of each run and policy, oldest first."""
    manifests = loading.load_cluster(paths, settings)
    documents.prepare(settings, JOURNAL)
    since_ms = 0 if since is None else wall_clock_ms() - parse_duration("--since", since)
    with common.open_run(settings, manifests) as run:
        entries = pipeline.journal_entries(run, address=address, run_id=run_id, since_ms=since_ms)
        scans = {} if entries or settings.quiet else run.journal.observed_scans()
    if not entries and not settings.quiet:
        subject = f" about {display_name(address)}" if address else ""
        when = f" since {format_time(since_ms)}" if since_ms else ""
        last = f", the last one of {format_time(max(scans.values()))}" if scans else ""
        seen = f"; it has {count(len(scans), 'scan')} of observe{last}" if scans else ""
        console.print_stderr(
            f"the journal of {run.manifests.cluster.address} has no entry of a run{subject}{when}{seen}"
        )
    documents.emit(settings, journal_document(entries, manifests.cluster, full=full))
