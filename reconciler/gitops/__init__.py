"""Git: the commit of a plan's manifests, and the workflows and first manifests that `init` writes.

`github/` has the layout of `.github/`, and this project's own repository runs the same files. They
read cluster names at run time. Other repositories install the program from a commit that the user,
the distribution (hatch_build.py), the installation's record (PEP 610) or its checkout names, and
never from a package index, where anyone could register the name. `templates/` has a Cluster and one
example per policy; the examples name topics and groups that no cluster has.
"""

import json
import logging
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from string import Template
from urllib.parse import urlparse
from urllib.request import url2pathname

from reconciler import __version__
from reconciler.errors import UsageError
from reconciler.model.plan import ManifestFile, Source
from reconciler.text.escape import display_name

OWN_ACTION = "./ # zizmor: ignore[self-repository]"
"""How this project's own workflows name the action that installs the program: action.yml at the root."""
DEPENDABOT = ".github/dependabot.yml"
"""What keeps the commits of the actions current; this project's own file covers more than actions."""
SOURCE_FILE = "source.txt"
"""Beside this file in a distribution: OWNER/NAME@COMMIT that it was built from, written by hatch_build.py."""
_LOCKS = ("index.lock", "HEAD.lock", "rebase-merge", "rebase-apply")
"""What the git folder of a checkout holds while git changes its files."""
SCHEMA = "schemas/manifest.json"
"""Path of the JSON Schema in the repository; the first line of each manifest names it."""
IGNORE_FILE = ".gitignore"
IGNORED = ("/plan.json", "/plan.html", "/results.json", "/drift.json", ".reconciler/")
"""Lines of .gitignore: files of single runs, by their names in the documents, and journal files."""
_MODELINE = f"# yaml-language-server: $schema=../../{SCHEMA}\n"
_TEMPLATES = Path(__file__).parent / "templates"
_CLIENT_EXAMPLE = """\
  # client:                               # librdkafka properties, passed through
  #   security.protocol: SASL_SSL
  #   sasl.mechanism: SCRAM-SHA-512
  #   sasl.username: reconciler
  #   sasl.password: ${env:KAFKA_PASSWORD}  # or ${file:…}; a literal secret is refused"""
_PROTECT_EXAMPLE = """\
  # protect:                              # lose no records; are never removed
  #   topics: ["payments.*"]
  #   groups: [billing]"""
_JOURNAL_EXAMPLE = """\
  # journal:
  #   topic: _reconciler.journal          # an audit trail that survives a CI runner; default: a file"""
_FOLDER = Path(__file__).parent / "github"
_LOG = logging.getLogger(__name__)
_OF_A_REPOSITORY = frozenset(
    {
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_COMMON_DIR",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_NAMESPACE",
    }
)
_REPOSITORY = r"(?P<repository>[A-Za-z0-9-]+/[A-Za-z0-9._-]+?)"
_COMMIT = r"(?P<commit>[0-9a-f]{40})"
_GITHUB_URL = rf"(?:https://(?:[^/@]*@)?github\.com/|ssh://git@github\.com/|git@github\.com:){_REPOSITORY}(?:\.git)?/?"


def github(source: str | None) -> Mapping[str, str]:
    """Return path → text. `source`: OWNER/NAME@COMMIT of this program; None: its own repository."""
    action = f"{source} # reconciler {__version__}" if source else OWN_ACTION
    return {
        f".github/{path.relative_to(_FOLDER).as_posix()}": path.read_text(encoding="utf-8").replace(OWN_ACTION, action)
        for path in sorted(_FOLDER.rglob("*.yml"))
        if source or path.name != Path(DEPENDABOT).name
    }


def workflows(action: str | None) -> Mapping[str, str]:
    """Return path → text of the workflows for a user's repository.

    `action`: as `source` of `github`; None: the source of this installation. Raises UsageError if
    that is unknown, and for a branch or a tag, because the owner of the repository can move them.
    """
    source = action or installed_source()
    if source is None:
        raise UsageError(
            "the workflows install this program from a commit of its repository on GitHub, and the commit of this "
            "installation is unknown: add --action OWNER/NAME@COMMIT, or --no-workflows"
        )
    if not is_source(source):
        raise UsageError(f"--action {source}: expected OWNER/NAME@COMMIT with all 40 hex digits of the commit")
    return github(source)


def is_source(text: str) -> bool:
    """Whether the text is OWNER/NAME@COMMIT with a full commit."""
    return re.fullmatch(f"{_REPOSITORY}@{_COMMIT}", text) is not None


def installed_source() -> str | None:
    """Return OWNER/NAME@COMMIT of this installation: of a distribution, of pip's record or of a checkout."""
    file = Path(__file__).with_name(SOURCE_FILE)
    if file.exists():
        return file.read_text(encoding="ascii").strip()
    try:
        return from_direct_url(distribution("kafka-reconciler").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return None


def from_direct_url(record: str) -> str | None:
    """Read a `direct_url.json`: of a commit, or of a checkout whose GitHub `origin` has its commit."""
    document = json.loads(record)
    url, commit = str(document.get("url", "")), str(document.get("vcs_info", {}).get("commit_id", ""))
    if urlparse(url).scheme == "file" and "dir_info" in document:
        return from_checkout(Path(url2pathname(urlparse(url).path)))
    return _source(url, commit)


def from_checkout(folder: Path) -> str | None:
    """Return the source of a checkout of this program, if its GitHub `origin` has its commit.

    A copy of the program in another repository has no source: that repository has no action.
    """
    git = partial(run_git, folder)
    commit, top = git("rev-parse", "HEAD"), git("rev-parse", "--show-toplevel")
    if not commit or not top or not folder.samefile(top) or not git("branch", "--remotes", "--contains", commit):
        return None
    return _source(git("remote", "get-url", "origin") or "", commit)


def _source(url: str, commit: str) -> str | None:
    match = re.fullmatch(f"{_GITHUB_URL} {_COMMIT}", f"{url} {commit}")
    return match and f"{match['repository']}@{match['commit']}"


def run_git(folder: Path, *arguments: str | Path) -> str | None:
    """Return the output of git without its newline; None if git fails, hangs or is missing."""
    return _ask_git(folder, *arguments)[0]


def _ask_git(folder: Path, *arguments: str | Path) -> tuple[str | None, str]:
    """Return the output of git as `run_git` does, and the first line of what it says about a failure."""
    # `git status` would take the lock of the index, and get in the way of whoever works in the checkout.
    command = ["git", "--no-optional-locks", "-C", folder, *arguments]
    # A hook runs with variables that win over -C, and lead to the repository that the hook is of.
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, errors="surrogateescape", timeout=30, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, getattr(error, "strerror", None) or "git does not answer"
    return (result.stdout.strip(), "") if result.returncode == 0 else (None, result.stderr.strip().partition("\n")[0])


def git_source(manifests: tuple[ManifestFile, ...], roots: Iterable[Path] = ()) -> Source:
    """Return the files and the commit of their checkout; dirty unless git confirms that it has them.

    `roots`: folders that were read, too, although perhaps no file of them is left.
    """
    paths = [Path(file.path).absolute() for file in manifests]
    folders = list(dict.fromkeys([*(path.parent for path in paths), *(root.resolve() for root in roots)]))
    git = partial(run_git, folders[0])
    # Quiet: a repository without a commit is no failure.
    (commit, failure), top = (
        _ask_git(folders[0], "rev-parse", "--verify", "--quiet", "HEAD"),
        git("rev-parse", "--show-toplevel"),
    )
    if commit is None or top is None:
        if failure and _git_folder(paths[0]) is not None:
            _LOG.warning("no commit of %s is known, because git refuses: %s", folders[0], display_name(failure))
        return Source(manifests=manifests)
    # A removed manifest is not among the files, so the status covers the YAML files beside and below them.
    neighbours = [f":(glob,icase){folder}/**/*.{ending}" for folder in folders for ending in ("yaml", "yml")]
    chains = [_resolve_symlinks(path) for path in paths]
    outside = not all(chain[-1].is_relative_to(top) for chain in chains)
    resolved_paths = list(dict.fromkeys(path for chain in chains for path in chain if path.is_relative_to(top)))
    changed = git("status", "--porcelain", "--", *resolved_paths, *neighbours)
    tracked = git("ls-files", "--error-unmatch", "--", *resolved_paths)
    return Source(commit=commit, dirty=outside or changed != "" or tracked is None, manifests=manifests)


def find_lock(paths: Iterable[Path]) -> Path | None:
    """Return what shows that git is changing a checkout that one of the paths is in; None: nothing does."""
    places = {place for path in paths for place in (path.absolute(), path.resolve())}
    folders = {_git_folder(place) for place in places}
    return next((folder / name for folder in folders if folder for name in _LOCKS if _may_exist(folder / name)), None)


def _may_exist(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return not isinstance(error, (FileNotFoundError, NotADirectoryError))  # a folder that nobody may look into
    return True


def is_outside_of_git(path: Path) -> bool:
    """Whether git has not delivered this file: it is in no checkout, or git confirms that it is untracked."""
    places = dict.fromkeys((path.absolute(), path.resolve()))  # a link may lead into a checkout
    return all(_git_folder(place) is None or run_git(place.parent, "ls-files", "--", place) == "" for place in places)


def _git_folder(path: Path) -> Path | None:
    """Return the git folder of the checkout around a path, without git; None: there is none.

    In a worktree and in a submodule, `.git` is a file that names it.
    """
    for place in (path, *path.parents):
        git = place / ".git"
        if git.is_dir():
            return git
        if git.is_file():
            with suppress(OSError):
                return place / git.read_text(errors="surrogateescape").removeprefix("gitdir:").strip()
    return None


def _resolve_symlinks(path: Path) -> list[Path]:
    """Return the links on the way to a file, which git tracks by their own paths, and the file."""
    chain = [path]
    # The first link from the root; the file was read, so no link leads to itself.
    while link := next((part for part in (*reversed(path.parents), path) if part.is_symlink()), None):
        path = link.parent / link.readlink() / path.relative_to(link)
        chain[-1:] = link, path
    return [Path(os.path.normpath(part)) for part in chain]  # no link stands before a `..`


def starter_manifests(
    cluster_id: str,
    servers: Sequence[str],
    name: str,
    *,
    client: Mapping[str, str] | None = None,
    journal_topic: str | None = None,
) -> Mapping[str, str]:
    """Return path → text, relative to the root of the repository. `client`: librdkafka properties.

    Without them or without a journal topic, a comment shows how to add them. All arguments are
    written as quoted YAML text; the caller validates them, because the name is also a folder.
    """
    cluster = cluster_manifest(cluster_id, servers, name, client=client, journal_topic=journal_topic)
    # Other dollar signs of a template stay, and a value is never taken for a template.
    examples = {
        path.name: Template(path.read_text(encoding="utf-8")).safe_substitute(name=quoted_scalar(name))
        for path in sorted(_TEMPLATES.glob("*.yaml"))
    }
    return {
        f"manifests/{name}/{file}": _MODELINE + text for file, text in {**examples, "cluster.yaml": cluster}.items()
    }


def cluster_manifest(
    cluster_id: str,
    servers: Sequence[str],
    name: str,
    *,
    client: Mapping[str, str] | None = None,
    journal_topic: str | None = None,
    protected_topics: Sequence[str] = (),
    limits: Mapping[str, int] | None = None,
) -> str:
    """Return the text of a Cluster manifest. `limits`: those that differ from the defaults, by id.

    Otherwise as `starter_manifests`.
    """
    properties = [f"    {quoted_scalar(key)}: {quoted_scalar(value)}" for key, value in (client or {}).items()]
    topics = [f"      - {quoted_scalar(topic)}" for topic in protected_topics]
    # Imported here: the build of a distribution imports this module, without the packages of the program.
    from reconciler.policies.cluster import LIMITS

    bounds = {limit.id: (limits or {}).get(limit.id, limit.default) for limit in LIMITS}
    origin = "only a Waiver allows more" if limits else "these are the defaults, and only a Waiver allows more"
    values = {
        "name": quoted_scalar(name),
        "cluster_id": quoted_scalar(cluster_id),
        "bootstrap_servers": "\n".join(f"    - {quoted_scalar(server)}" for server in servers),
        "client": "\n".join(
            ["  client: # librdkafka properties, passed through", *properties] if client else [_CLIENT_EXAMPLE]
        ),
        "protect": "\n".join(
            ["  protect: # lose no records", "    topics:", *topics] if topics else [_PROTECT_EXAMPLE]
        ),
        "limits": "\n".join(
            [f"  limits: # of one plan; {origin}", *(f"    {key}: {most}" for key, most in bounds.items())]
        ),
        "journal": _JOURNAL_EXAMPLE
        if journal_topic is None
        else f"  journal:\n    topic: {quoted_scalar(journal_topic)}",
    }
    return Template((_TEMPLATES / "cluster.yaml").read_text(encoding="utf-8")).safe_substitute(values)


def ignore_file() -> str:
    """Return the .gitignore of a new repository."""
    return "# Plans, results and journals of reconciler: they belong to one run or one machine.\n" + "".join(
        f"{line}\n" for line in IGNORED
    )


def missing_ignores(text: str) -> list[str]:
    """Return the lines of IGNORED that a .gitignore lacks; a slash at either end does not matter."""
    present = {line.strip().strip("/") for line in text.splitlines()}
    return [line for line in IGNORED if line.strip("/") not in present]


def quoted_scalar(text: str) -> str:
    """Return a double-quoted YAML scalar."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in escaped) + '"'
