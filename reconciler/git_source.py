"""Where a run comes from and what it leaves behind: the commit of its manifests, who runs it, and the journal that keeps both.

Decided here: that a journal which cannot be read is Unread to the plan, never an empty one. What an entry says is decided in model/entry.
"""

import getpass
import logging
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import JournalUnavailable
from reconciler.journal.entry import Author, JournalEntry
from reconciler.journal.file import FileJournal
from reconciler.kafka.connect import Connection
from reconciler.kafka.journal import TopicJournal
from reconciler.manifest.manifest_set import ClusterManifests
from reconciler.model.names import Address, TopicPartition
from reconciler.model.plan import Source
from reconciler.model.snapshot import Unknown
from reconciler.policies import Cluster

_LOG = logging.getLogger(__name__)

_MOST_LINKS = 40
"""What Linux follows on one path."""


def open_journal(cluster: Cluster, made: Connection | None, *, commit: str | None = None) -> FileJournal | TopicJournal:
    """The journal that the Cluster manifest names: a topic, or a file under the folder where the command runs."""
    author = Author(who=whoami(), commit=commit)
    if made and (topic := cluster.spec.journal.topic):
        return TopicJournal(made, topic, author=author)
    return FileJournal(Path(".reconciler") / f"{cluster.metadata.name}.jsonl", author=author)


def last_purges(kept: FileJournal | TopicJournal) -> Mapping[TopicPartition, int] | Unknown:
    """Epoch milliseconds of each partition's newest purge, or why nobody knows."""
    try:
        return kept.last_purges()
    except JournalUnavailable as unreadable:
        return Unknown(str(unreadable))


def interrupted_actions(kept: FileJournal | TopicJournal, plan_digest: str) -> Mapping[Address, JournalEntry]:
    """What an interrupted run of that plan had begun, for the telling only: nothing is sent or left out by it."""
    try:
        return kept.unfinished(plan_digest)
    except JournalUnavailable as unreadable:
        # What cannot be read cannot be taken up; what cannot be written stops the run at its first intent.
        _LOG.warning("what an interrupted run may have begun is not known: %s", unreadable)
        return {}


def source(manifests: ClusterManifests) -> Source:
    """The manifests' files and, where they lie in a git checkout, its commit. Dirty unless git says that the commit has all of them just so."""
    paths = [Path(file.path).absolute() for file in manifests.files]
    folders = list(dict.fromkeys(path.parent for path in paths))

    def git(*words: str | Path) -> str | None:
        command = ["git", "-C", folders[0], *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD") if paths else None
    top = git("rev-parse", "--show-toplevel") if commit is not None else None
    if commit is None or top is None:
        return Source(manifests=manifests.files)
    # A manifest that was removed is in none of the files, so their folders are looked at; what else lies there does not matter.
    beside = [f":(glob,icase){folder}/*.{ending}" for folder in folders for ending in ("yaml", "yml")]
    walked = [_resolve_symlinks(path) for path in paths]
    outside = not all(way[-1].is_relative_to(top) for way in walked)
    really = list(dict.fromkeys(each for way in walked for each in way if each.is_relative_to(top)))
    changed = git("status", "--porcelain", "--", *really, *beside)
    known = git("ls-files", "--error-unmatch", "--", *really)
    return Source(commit=commit, dirty=outside or changed != "" or known is None, manifests=manifests.files)


def _resolve_symlinks(path: Path) -> list[Path]:
    """The symbolic links on the way to a file, and the file, each by the name that git knows it by: of a link it knows where it leads only."""
    way: list[Path] = []
    here, left = Path(path.anchor), list(path.parts[1:])
    while left and len(way) < _MOST_LINKS:
        part = left.pop(0)
        here = here.parent if part == ".." else here / part
        if here.is_symlink():
            way.append(here)
            target = here.readlink()
            left = [*target.parts[target.is_absolute() :], *left]
            here = Path(target.anchor) if target.is_absolute() else here.parent
    return [*way, here]


def whoami() -> str:
    """Who runs this, for the journal: the CI's actor or the user at the host."""
    actor = os.environ.get("GITHUB_ACTOR") or f"{_user()}@{socket.gethostname()}"
    return actor.encode("utf-8", "backslashreplace").decode("utf-8")  # a variable may hold bytes that are no text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that no user list has
        return f"uid-{os.getuid()}"
