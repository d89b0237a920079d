"""References to secrets, `${env:NAME}` and `${file:PATH}`: what they may name, and their values.

A manifest comes with a pull request, so the machine decides what it may name: variables that match
RECONCILER_ALLOW_ENV, and files in RECONCILER_SECRETS_DIR or, for certificates, in the folders of the
system. Errors name variable or file, never a value.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

REFERENCE = re.compile(r"\$\{(?:env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)|file:(?P<file>[^${}\x00-\x1f]+))\}")
"""A secret outside of Git: a variable, or a file."""
ALLOW_ENV = "RECONCILER_ALLOW_ENV"
"""The variable with the names of those that manifests may read: patterns, separated by commas."""
SECRETS_DIR = "RECONCILER_SECRETS_DIR"
"""The variable with the folder of the files that manifests may name."""
_ALLOW_ENV_DEFAULT, _SECRETS_DIR_DEFAULT = "KAFKA_*", "/run/secrets"
CERTIFICATE_DIRS = ("/etc/ssl", "/etc/pki", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates")
"""The system's folders, for properties that name a certificate file or folder."""
_LARGEST_BYTES = 1_048_576


class UnresolvedReference(Exception):
    """Why a variable or a file gives no value: "the variable KAFKA_PASSWORD is not set"."""


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
        raise UnresolvedReference(f"the file {text} is no regular file")
    return path


def _content(name: str, path: Path) -> str:
    """Return the text of a file. Raises UnresolvedReference, without a word of the text."""
    try:
        # A pipe in the file's place would never end; a link in its place leads out of the folder.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            content = stream.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise UnresolvedReference(f"the file {name} cannot be read: it is too large")
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:  # its message quotes the bytes
        raise UnresolvedReference(f"the file {name} is not UTF-8") from None
    except OSError as error:
        raise UnresolvedReference(f"the file {name} cannot be read: {error.strerror}") from None
