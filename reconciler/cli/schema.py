"""`reconciler schema`: it writes the JSON Schemas of documents."""

import json
from pathlib import Path
from typing import Annotated

import typer

from reconciler.apply import results
from reconciler.cli import console
from reconciler.errors import ExitCode
from reconciler.manifest.schema import schemas
from reconciler.plan import plan_file


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
        if not (path := directory / name).is_file() or path.read_bytes() != text.encode()
    }
    if check:
        for path in outdated:
            state = "outdated" if path.is_file() else "missing"
            console.print_error(f"{path} is {state}: run `reconciler schema {directory}` and commit the file")
        return ExitCode.ERROR if outdated else ExitCode.DONE
    with console.write_errors(str(directory)):
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in outdated.items():
            path.write_text(text, encoding="utf-8")
    console.write(f"{len(outdated)} of {len(texts)} schemas written to {directory}/\n")
    return ExitCode.DONE
