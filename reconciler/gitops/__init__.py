"""The workflows that run this program in a user's GitHub repository, as data.

`github/` has the layout of `.github/`, and this project's own repository runs the same files. They
read what differs between repositories, such as cluster names, at run time. The exception is the
program itself: other repositories refer to it by commit.
"""

from collections.abc import Mapping
from pathlib import Path

from reconciler import __version__
from reconciler.errors import UsageError
from reconciler.gitops.install_source import InstallSource, installed_source, parse_action_ref

ACTION = ".github/actions/reconciler"
OWN_ACTION = f"./{ACTION} # zizmor: ignore[self-repository]"
"""How this project's own workflows name the action that installs the program."""
_FOLDER = Path(__file__).parent / "github"


def github(source: InstallSource | None) -> Mapping[str, str]:
    """Return path inside the repository → text, sorted.

    `source`: the repository and commit that the workflows install this program from; None: their own
    repository.
    """
    action = f"{source.repository}/{ACTION}@{source.commit} # reconciler {__version__}" if source else OWN_ACTION
    return {
        f".github/{path.relative_to(_FOLDER).as_posix()}": path.read_text(encoding="utf-8").replace(OWN_ACTION, action)
        for path in sorted(_FOLDER.rglob("*.yml"))
    }


def workflows(action: str | None) -> Mapping[str, str]:
    """Return path → text of the workflows for a user's repository.

    `action`: OWNER/NAME@COMMIT, from which the workflows install this program; None: the source of this
    installation. Raises UsageError if neither is known.
    """
    source = parse_action_ref(action) if action else installed_source()
    if source is None:
        raise UsageError(
            "the workflows install this program from a commit of its repository on GitHub, and the commit of this "
            "installation is unknown: add --action OWNER/NAME@COMMIT, or --no-workflows"
        )
    return github(source)
