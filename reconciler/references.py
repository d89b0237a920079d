"""What a manifest may name outside of Git: secrets, `${env:NAME}` and `${file:PATH}`, and places of positions.

A manifest comes with a pull request, so the machine decides what it may name: variables that match
RECONCILER_ALLOW_ENV, files in RECONCILER_SECRETS_DIR or, for certificates, in the folders of the
system, and places below RECONCILER_READER_ROOTS. Errors name variable, file or place, never a value.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

REFERENCE = re.compile(r"\$\{(?:env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)|file:(?P<file>[^${}\x00-\x1f]+))\}")
"""A secret outside of Git: a variable, or a file."""
CONNECTION = "RECONCILER_CONNECTION"
"""The variable with the manifests whose connection every run uses, whatever other manifests say."""
ALLOW_ENV = "RECONCILER_ALLOW_ENV"
"""The variable with the names of those that manifests may read: patterns, separated by commas."""
SECRETS_DIR = "RECONCILER_SECRETS_DIR"
"""The variable with the folder of the files that manifests may name."""
_ALLOW_ENV_DEFAULT, _SECRETS_DIR_DEFAULT = "KAFKA_*", "/run/secrets"
CERTIFICATE_DIRS = ("/etc/ssl", "/etc/pki", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates")
"""The system's folders, for properties that name a certificate file or folder."""
READER_ROOTS = "RECONCILER_READER_ROOTS"
"""The variable with the places below which manifests may name positions: separated by commas; empty: none."""
SCHEMES = ("file", "s3", "gs", "abfss")
"""The schemes of places; a path that begins with `/` is a file, too."""
_LARGEST_BYTES = 1_048_576

_PLACE = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>[^/]*))?/?(?P<path>.*)", re.DOTALL)


class UnresolvedReference(Exception):
    """Why a variable or a file gives no value: "the variable KAFKA_PASSWORD is not set"."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file. `segments`: of its path; of an object store the first one is the bucket."""

    scheme: str
    segments: tuple[str, ...]

    def is_below(self, root: "Place") -> bool:
        """Whether it is `root`, or in it."""
        return self.scheme == root.scheme and self.segments[: len(root.segments)] == root.segments


def parse_place(text: str) -> Place:
    """Return the place that a text names. Raises ValueError with what is wrong, and what to write.

    A URI can make a client send credentials to any host (`s3://ID:SECRET@bucket/x?endpoint_override=HOST`),
    so a place is a scheme and names, and nothing else.
    """
    match = _PLACE.fullmatch(text)
    assert match is not None
    scheme, host, path = match["scheme"] or "file", match["host"] or "", match["path"]
    if not match["scheme"] and not text.startswith("/"):
        raise ValueError("not a place: write an absolute path, or a URI such as s3://BUCKET/PATH")
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme: write one of {', '.join(SCHEMES)} (s3a:// is s3:// here)")
    if "@" in host:
        raise ValueError("it has user info: write SCHEME://BUCKET/PATH; credentials and accounts are the machine's")
    if ":" in host:
        raise ValueError("it has a port: write SCHEME://BUCKET/PATH; the machine names the endpoint")
    if "?" in text or "#" in text:
        raise ValueError("it has a query or a fragment: write SCHEME://BUCKET/PATH; options are the machine's")
    if (scheme == "file") == bool(host):
        raise ValueError(
            "file:// has no host: write file:///PATH" if host else f"no bucket: write {scheme}://BUCKET/PATH"
        )
    path = f"{host}/{path}".strip("/")
    segments = tuple(path.split("/")) if path else ()
    if any(segment in ("", ".", "..") or not segment.isprintable() or "\\" in segment for segment in segments):
        raise ValueError("it has an empty name, `.`, `..`, a backslash or an unprintable character: write the path out")
    return Place(scheme, segments)


def find_place(text: str, environment: Mapping[str, str]) -> tuple[Place, Place]:
    """Return the place that a manifest names, and the root that it is below. Raises UnresolvedReference."""
    try:
        place = parse_place(text)
    except ValueError as error:
        raise UnresolvedReference(str(error)) from None
    for root_text in filter(None, map(str.strip, environment.get(READER_ROOTS, "").split(","))):
        try:
            root = parse_place(root_text)
        except ValueError as error:
            raise UnresolvedReference(f"{READER_ROOTS} of this machine has {root_text!r}: {error}") from None
        if place.is_below(root):
            return place, root
    raise UnresolvedReference(f"it is below no root of this machine; {READER_ROOTS} names the roots")


def value_of(reference: re.Match[str], environment: Mapping[str, str]) -> str:
    """Return the value of a match of REFERENCE, which is not empty. Raises UnresolvedReference."""
    name, file = reference["env"], reference["file"]
    if name is None:
        subject, value = f"the file {file}", _content(file, find_file(file, environment))
    else:
        subject = f"the variable {name}"
        patterns = [pattern.strip() for pattern in environment.get(ALLOW_ENV, _ALLOW_ENV_DEFAULT).split(",")]
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            raise UnresolvedReference(
                f"{subject} may not be read: only {', '.join(patterns)} may; {ALLOW_ENV} allows more"
            )
        if name not in environment:
            raise UnresolvedReference(f"{subject} is not set")
        value = environment[name]
    if not value:
        raise UnresolvedReference(f"{subject} is empty")
    return value


def find_file(text: str, environment: Mapping[str, str], other_dirs: Sequence[str] = ()) -> Path:
    """Return the real path of a file that a manifest may name. Raises UnresolvedReference.

    Paths are relative to the folder of secrets. `other_dirs`: folders whose files and folders it may name, too.
    """
    secrets_dir = Path(environment.get(SECRETS_DIR) or _SECRETS_DIR_DEFAULT)
    try:
        path = (secrets_dir / text).resolve(strict=True)
        mode = path.stat().st_mode
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnresolvedReference(f"the file {text} cannot be read: {reason}") from None
    if not any(path.is_relative_to(folder.resolve()) for folder in (secrets_dir, *map(Path, other_dirs))):
        raise UnresolvedReference(
            f"the file {text} lies outside of {secrets_dir}: {SECRETS_DIR} names the folder of secrets"
        )
    if not (stat.S_ISREG(mode) or (other_dirs and stat.S_ISDIR(mode))):
        raise UnresolvedReference(f"the file {text} is not a regular file")
    return path


def read_regular(path: str | Path, most_bytes: int, *, folder: int | None = None) -> bytes:
    """Return the bytes of a regular file. `folder`: the descriptor to which the path is relative.

    Raises OSError where it cannot be read, and UnresolvedReference where it is another thing than a
    regular file, larger than `most_bytes`, or written meanwhile.
    """
    if not stat.S_ISREG(os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode):  # to open a device may act on it
        raise UnresolvedReference("it is not a regular file")
    # A pipe in the file's place would never end; a link in its place leads out of the folder.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as stream:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise UnresolvedReference("it is not a regular file")
        content = stream.read(most_bytes + 1)
        after = os.fstat(descriptor)
    if len(content) > most_bytes:
        raise UnresolvedReference("it is too large")
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise UnresolvedReference("it was written while it was read")
    return content


def _content(name: str, path: Path) -> str:
    """Return the text of a file. Raises UnresolvedReference, without a word of the text."""
    try:
        return read_regular(path, _LARGEST_BYTES).decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:  # its message quotes the bytes
        raise UnresolvedReference(f"the file {name} is not UTF-8") from None
    except (OSError, UnresolvedReference) as error:
        raise UnresolvedReference(f"the file {name} cannot be read: {getattr(error, 'strerror', error)}") from None
