"""`reconciler schema`: the JSON Schemas of everything that people or programs write and read."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler import pipeline
from reconciler.cli import console


def schema(
    directory: Annotated[Path, typer.Argument(help="Where to write.")] = Path("schemas"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 where a file is stale.")] = False,
) -> int:
    """Write the JSON Schemas of manifests, plans and results."""
    wanted = pipeline.schemas()
    stale = [
        name
        for name, text in wanted.items()
        if not (path := directory / name).is_file() or path.read_text(encoding="utf-8") != text
    ]
    if check:
        for name in stale:
            console.print_error(f"{directory / name} is stale: run `make schemas` and commit it")
        return 1 if stale else 0
    directory.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (directory / name).write_text(wanted[name], encoding="utf-8")
    console.write(f"{len(stale)} of {len(wanted)} schemas written to {directory}/\n")
    return 0
