"""`reconciler validate`, `clusters` and `schema`: they need manifests and no cluster."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from reconciler.apply import results
from reconciler.cli import common, console
from reconciler.cli.common import Paths
from reconciler.cli.settings import Settings, accepts_settings
from reconciler.errors import ExitCode
from reconciler.manifest.diagnostics import Rendering, render
from reconciler.manifest.schema import schemas
from reconciler.model.action import Mode
from reconciler.plan import plan_file


@accepts_settings
def validate(settings: Settings, paths: Paths = None) -> None:
    """Check manifests without a cluster. Exit 1 if a manifest is invalid."""
    manifests = common.load(paths, settings)
    names = ", ".join(cluster.metadata.name for cluster in manifests.clusters) or "no cluster"
    summary = f"valid: {len(manifests.policies)} policies for {names} in {len(manifests.files)} files\n"

    def rendered(rendering: Rendering) -> str:
        return render(manifests.warnings, rendering) + (summary if rendering is Rendering.TEXT else "")

    console.emit(settings, "a validation", **{form.value: partial(rendered, form) for form in Rendering})


@accepts_settings
def clusters(
    settings: Settings,
    paths: Paths = None,
    mode: Annotated[Mode | None, typer.Option("--mode", help="List only clusters with a policy in this mode.")] = None,
) -> None:
    """List the clusters of the manifests.

    One name per line, or one JSON list with -o json. Connects to no cluster.
    """
    parts = common.load_clusters(paths, settings)
    names = [
        part.cluster.metadata.name
        for part in parts
        if mode is None or any(policy.mode is mode for policy in part.policies)
    ]
    console.emit(
        settings,
        "the list of clusters",
        text=lambda: "".join(f"{name}\n" for name in names),
        json=lambda: json.dumps(names) + "\n",
    )


def schema(
    directory: Annotated[Path, typer.Argument(help="Folder of the schemas.")] = Path("schemas"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a file is outdated.")] = False,
) -> int:
    """Write the JSON Schemas of manifests, plans and results."""
    documents = {"plan.json": plan_file.schema(), "results.json": results.schema()}
    texts = {**schemas(), **{name: json.dumps(value, indent=2) + "\n" for name, value in documents.items()}}
    outdated = {
        path: text
        for name, text in texts.items()
        if not (path := directory / name).is_file() or path.read_text(encoding="utf-8") != text
    }
    if check:
        for path in outdated:
            console.print_error(f"{path} is outdated: run `make schemas` and commit the file")
        return ExitCode.ERROR if outdated else ExitCode.DONE
    directory.mkdir(parents=True, exist_ok=True)
    for path, text in outdated.items():
        path.write_text(text, encoding="utf-8")
    console.write(f"{len(outdated)} of {len(texts)} schemas written to {directory}/\n")
    return ExitCode.DONE
