"""`reconciler schema`: write the JSON Schemas of manifests, plans and results."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.cli import console


def schema(
    directory: Annotated[Path, typer.Argument(help="Folder of the schemas.")] = Path("schemas"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a file is outdated.")] = False,
) -> int:
    """Write the JSON Schemas of manifests, plans and results."""
    schemas = pipeline.schemas()
    outdated = [
        name
        for name, text in schemas.items()
        if not (path := directory / name).is_file() or path.read_text(encoding="utf-8") != text
    ]
    if check:
        for name in outdated:
            console.print_error(f"{directory / name} is outdated: run `make schemas` and commit the file")
        return 1 if outdated else 0
    directory.mkdir(parents=True, exist_ok=True)
    for name in outdated:
        (directory / name).write_text(schemas[name], encoding="utf-8")
    console.write(f"{len(outdated)} of {len(schemas)} schemas written to {directory}/\n")
    return 0
