"""The files that run this program in a user's GitHub repository: workflows and the action that installs it. Data, not logic.

`github/` is laid out like `.github/` and copied as it is; what differs from one repository to the next is read at run time, such
as the names of the clusters. Which file does what is in docs/github.md.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

REQUIREMENTS = PurePosixPath(".github/actions/reconciler/requirements.txt")


def github(version: str) -> dict[PurePosixPath, str]:
    """Path inside the repository → text, in a stable order. `version`: which release of this program the workflows install."""
    root = files(__package__).joinpath("github")
    found = dict(_walk(root, PurePosixPath(".github")))
    found[REQUIREMENTS] = (
        "# What the workflows install. Any line that pip understands: a version, a wheel in this repository, a git URL.\n"
        f"kafka-reconciler=={version}\n"
    )
    return dict(sorted(found.items()))


def _walk(folder: Traversable, path: PurePosixPath) -> list[tuple[PurePosixPath, str]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, path / entry.name)
        elif entry.name.endswith(".yml"):
            found.append((path / entry.name, entry.read_text(encoding="utf-8")))
    return found
