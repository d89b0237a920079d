"""`reconciler init`: it writes the first manifests and workflows of a repository."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli import common, console, loading
from reconciler.cli.settings import SPARK, KeyValue, Settings, accepts_settings, parse_key_value
from reconciler.clock import wall_clock_ms
from reconciler.companions.github import workflows
from reconciler.companions.suggest import starter
from reconciler.errors import ManifestsInvalid, ReconcilerError, UsageError
from reconciler.kafka import connect, journal_topic
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.manifest import secrets
from reconciler.manifest.files import declared_clusters
from reconciler.manifest.schema import schemas
from reconciler.model.snapshot import Unknown
from reconciler.policies.cluster import Cluster


@accepts_settings(None, without=(*SPARK, "cluster"))
def init(
    settings: Settings,
    bootstrap_server: Annotated[
        str,
        typer.Option(
            envvar="KAFKA_BOOTSTRAP_SERVERS",
            help="Addresses of some brokers as HOST:PORT, separated by commas.",
        ),
    ],
    directory: Annotated[Path, typer.Argument(help="The root of the repository.")] = Path(),
    name: Annotated[str, typer.Option(help="Name of the Cluster manifest.")] = "my-cluster",
    client: Annotated[
        list[KeyValue] | None,
        typer.Option(
            metavar="KEY=VALUE",
            parser=parse_key_value,
            help="A librdkafka property; a secret as '${env:NAME}'. May be repeated.",
        ),
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal-topic", help="Create this topic with unlimited retention, and use it as the journal."),
    ] = None,
    with_workflows: Annotated[
        bool, typer.Option("--workflows/--no-workflows", help="Whether to write .github/workflows as well.")
    ] = True,
    action: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME@COMMIT",
            help="GitHub repository and commit of this program for the workflows. Default: the source of this installation.",
        ),
    ] = None,
) -> None:
    """Write the first manifests and workflows for a cluster.

    Reads the cluster id from the brokers, and adds harmless examples. Overwrites no file.

    A repository that has the files of another cluster keeps every file with the same content. A
    cluster that the manifests of the repository declare already is refused. After an error, or if
    `validate` would refuse the manifests, the command removes what it wrote.
    """
    servers = common.parse_servers(bootstrap_server)
    folder = directory / "manifests"
    declared = declared_clusters([folder], now_ms=wall_clock_ms()) if os.path.lexists(folder) else ()
    for known in declared:
        if known.metadata.name == name:
            raise UsageError(
                _declared_already(known, f"declares {known.address}", "edit that file, or choose another --name")
            )
    files = workflows.workflows(action) if with_workflows else {}
    manifests = partial(
        starter.starter_manifests, servers=servers, name=name, client=dict(client or ()), journal_topic=journal
    )
    path = f"manifests/{name}/cluster.yaml"
    proposed = common.validate_cluster(str(directory / path), manifests("unknown")[path])
    connection = secrets.resolve(proposed, timeout_s=settings.timeout)
    with console.progress(settings) as progress:
        progress(f"reading the cluster id from {', '.join(servers)}")
        cluster_id = connect.cluster_id(connection)
        for known in declared:
            if known.spec.cluster_id == cluster_id:
                subject = f"declares the cluster of {', '.join(servers)} (cluster id {cluster_id}) as {known.address}"
                raise UsageError(_declared_already(known, subject, "use these manifests, or check --bootstrap-server"))
        files = {starter.SCHEMA: schemas()["manifest.json"], starter.IGNORE_FILE: starter.ignore_file(), **files}
        files = _without_shared(files, directory)
        with _written({**manifests(cluster_id), **files}, directory) as paths:
            _check_folder(folder, settings)
            if journal:  # last, because it changes the cluster
                progress(f"creating the topic {journal}")
                try:
                    _create_journal(connection, journal)
                except (KeyboardInterrupt, SystemError):  # the Kafka client makes the second of the first
                    console.print_stderr(f"the topic {journal} may have been created, and stays: run init again for it")
                    raise
    console.write("".join(f"{path}\n" for path in paths))
    console.print_stderr("next: run reconciler validate, then reconciler doctor, then reconciler plan")
    console.print_stderr("reconciler suggest reads the cluster and suggests first policies, each with its evidence")
    if with_workflows:
        console.print_stderr(
            f"for GitHub: create the environments reconciler-plan-{name}, reconciler-apply-{name} and others with their "
            "secrets; reconciler doctor --github OWNER/NAME says which, and how they must be protected"
        )


def _declared_already(cluster: Cluster, subject: str, next_step: str) -> str:
    return (
        f"{cluster.declared_at} {subject} already, so nothing was written: {next_step}; for its workflows alone, run "
        "init in an empty folder and copy .github"
    )


def _check_folder(folder: Path, settings: Settings) -> None:
    """Load the manifests as `validate` does. Prints the errors, and raises ReconcilerError."""
    try:
        loading.load([folder], settings)
    except ManifestsInvalid:
        raise ReconcilerError(
            f"with the new files, `reconciler validate` refuses {folder}: correct the errors above that are in your "
            "own files, or choose another folder, and run init again"
        ) from None


def _create_journal(connection: Connection, topic: str) -> None:
    """Create the topic of the journal, or warn about the settings of one that exists."""
    with closing(KafkaSession(connection)) as session:
        # Only a topic that existed is checked: brokers learn the settings of a new one later.
        is_new = journal_topic.create_topic(session, topic)
        risks = () if is_new else journal_topic.check_topic(session, topic)
    for sentence in [risks.reason] if isinstance(risks, Unknown) else risks or ():
        console.print_stderr(f"warning: {sentence}")


def _without_shared(files: Mapping[str, str], directory: Path) -> Mapping[str, str]:
    """Return the files without those that exist and may serve others, too: they belong to the user."""
    kept = {name for name in (workflows.DEPENDABOT, starter.IGNORE_FILE) if os.path.lexists(directory / name)}
    if workflows.DEPENDABOT in kept and workflows.DEPENDABOT in files:
        advice = "its ecosystem github-actions keeps the commits of the workflows current"
        console.print_stderr(f"{directory / workflows.DEPENDABOT} exists and stays: {advice}")
    if starter.IGNORE_FILE in kept:
        path, missing = directory / starter.IGNORE_FILE, list(starter.IGNORED)
        with suppress(OSError, ValueError):
            missing = starter.missing_ignores(path.read_text(encoding="utf-8"))
        if missing:
            console.print_stderr(f"{path} exists and stays: add the lines {' '.join(missing)} to it")
    return {name: text for name, text in files.items() if name not in kept}


@contextmanager
def _written(files: Mapping[str, str], directory: Path) -> Iterator[Sequence[Path]]:
    """Write the files that do not exist, and remove them again if that or the block fails.

    Refuses all with UsageError if one exists with other content. Raises OutputUnwritten.
    """
    missing = {}
    for relative, text in files.items():
        path = directory / relative
        same = False
        with suppress(OSError, ValueError):
            same = path.read_text(encoding="utf-8") == text
        if same:
            console.print_stderr(f"{path} exists with the same content")
        elif os.path.lexists(path):
            raise UsageError(
                f"{path} exists with other content, and init overwrites no file: choose another --name or folder, or "
                f"move the file; --no-workflows writes nothing below .github"
            )
        else:
            missing[path] = text
    new_files: list[Path] = []
    new_folders: list[Path] = []
    try:
        for path, text in missing.items():
            with console.write_errors(str(path)):
                new_folders[:0] = [folder for folder in path.parents if not folder.exists()]
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("x", encoding="utf-8") as stream:  # a file that appeared meanwhile stays
                    new_files.append(path)
                    stream.write(text)
        yield new_files
    except BaseException:
        _remove(new_files, new_folders)
        raise


def _remove(files: Sequence[Path], folders: Sequence[Path]) -> None:
    """Remove the files and the empty folders, and say so. Folders come after those in them."""
    remaining = []
    for path in files:
        try:
            path.unlink()
        except OSError:
            remaining.append(str(path))
    for folder in folders:
        with suppress(OSError):  # it was not created, or has files of others
            folder.rmdir()
    if remaining:
        console.print_stderr(f"init could not remove what it wrote; remove these files: {', '.join(remaining)}")
    elif files:
        console.print_stderr("init has removed again what it wrote")
