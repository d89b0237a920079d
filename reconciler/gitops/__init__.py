"""The workflows that run this program in a user's GitHub repository. Data, not logic.

`github/` is laid out like `.github/` and is what this project's own repository runs; what differs from one repository to the next is
read at run time, such as the names of the clusters. All but the program itself, which workflows elsewhere name by commit.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from reconciler.gitops.install_source import InstallSource

ACTION = ".github/actions/reconciler"
OWN = f"./{ACTION} # zizmor: ignore[self-repository]"
"""How this project's own workflows name the action that installs the program."""


def github(home: InstallSource | None, *, version: str) -> dict[PurePosixPath, str]:
    """Path inside the repository → text, in a stable order.

    `home`: the repository and commit that the workflows install this program from; None: the one that they lie in.
    """
    found = dict(sorted(_walk(files(__package__).joinpath("github"), PurePosixPath(".github"))))
    if home is None:
        return found
    used = f"{home.repository}/{ACTION}@{home.commit} # reconciler {version}"
    return {path: text.replace(OWN, used) for path, text in found.items()}


def _walk(folder: Traversable, path: PurePosixPath) -> list[tuple[PurePosixPath, str]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, path / entry.name)
        elif entry.name.endswith(".yml"):
            found.append((path / entry.name, entry.read_text(encoding="utf-8")))
    return found
