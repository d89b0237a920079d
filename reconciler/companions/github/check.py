"""`reconciler doctor --github`: how a repository on GitHub is protected."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from reconciler.cli import console, documents, loading
from reconciler.cli.settings import Settings
from reconciler.companions.code_host import CodeHostUnavailable
from reconciler.companions.github import protection
from reconciler.companions.github.api import GitHub
from reconciler.companions.github.protection import ProtectionFinding, State
from reconciler.errors import ExitCode
from reconciler.manifest.files import DEFAULT_FOLDER
from reconciler.report.document import DOCTOR, Document, Format
from reconciler.text.escape import escape_text, harmless_json


def check_github(settings: Settings, paths: Sequence[Path] | None, repository: str, environment: str | None) -> int:
    """Print what protects a repository, or one environment; a refusal of that begins with `not protected`."""
    api = GitHub.of(repository, timeout_s=settings.timeout)
    documents.prepare(settings, DOCTOR)
    unreviewed = unreviewed_clusters()
    failing = {State.GAP}
    if environment is None:
        clusters = loading.load_clusters(paths, settings)
        folder = (paths or [DEFAULT_FOLDER])[0]
        name = "manifests" if folder.is_absolute() or not folder.name else folder.as_posix()
        findings = protection.check_repository(api, clusters, unreviewed=unreviewed, folder=name)
    else:
        failing.add(State.UNKNOWN)  # an approval that cannot be shown is none
        try:
            findings = protection.check_environment(api, environment, unreviewed=unreviewed)
        except CodeHostUnavailable as error:
            findings = [ProtectionFinding(State.UNKNOWN, f"environment {environment}", str(error))]
    failed = [finding for finding in findings if finding.state in failing]
    if failed and environment is not None and settings.output is Format.TEXT:
        reasons = "; ".join(dict.fromkeys(f"{finding.subject}: {finding.text}" for finding in failed))
        console.write(f"not protected: {escape_text(reasons)}\n")

    def text() -> Iterator[str]:
        for finding in findings:
            yield f"{finding.state:<8} {escape_text(f'{finding.subject}: {finding.text}')}\n"
            if finding.command:
                yield f"{'':<8} $ {escape_text(finding.command)}\n"

    rows = list(map(asdict, findings))
    document = {"format_version": "1.0", "kind": "Protection", "repository": repository, "findings": rows}
    writers = {"text": text, "json": lambda: harmless_json(json.dumps(document, indent=1)) + "\n"}
    documents.emit(settings, Document(kind=DOCTOR, writers=writers))
    return ExitCode.ERROR if failed else ExitCode.DONE


def unreviewed_clusters() -> set[str]:
    """Return the clusters whose merges are their approval, which an operator's variable names."""
    return {name.strip() for name in os.environ.get(protection.UNREVIEWED, "").split(",")} - {""}
