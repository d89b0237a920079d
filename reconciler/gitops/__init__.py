"""The workflows that run this program in a user's GitHub repository, as data.

`github/` has the layout of `.github/`, and this project's own repository runs the same files. They
read what differs between repositories, such as cluster names, at run time. The exception is the
program itself: other repositories refer to it by commit.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from reconciler.gitops.install_source import InstallSource

ACTION = ".github/actions/reconciler"
OWN_ACTION = f"./{ACTION} # zizmor: ignore[self-repository]"
"""How this project's own workflows name the action that installs the program."""


def github(source: InstallSource | None, *, version: str) -> dict[PurePosixPath, str]:
    """Return path inside the repository → text, in a stable order.

    `source`: the repository and commit that the workflows install this program from; None: their own
    repository.
    """
    workflows = dict(sorted(_files(files(__package__).joinpath("github"), PurePosixPath(".github"))))
    if source is None:
        return workflows
    action = f"{source.repository}/{ACTION}@{source.commit} # reconciler {version}"
    return {path: text.replace(OWN_ACTION, action) for path, text in workflows.items()}


def _files(folder: Traversable, path: PurePosixPath) -> list[tuple[PurePosixPath, str]]:
    entries = []
    for entry in folder.iterdir():
        if entry.is_dir():
            entries += _files(entry, path / entry.name)
        elif entry.name.endswith(".yml"):
            entries.append((path / entry.name, entry.read_text(encoding="utf-8")))
    return entries
