"""Which Java runs the brokers: the one of JAVA_HOME, else the first on PATH, and only from version 17 on.

The same Java runs Spark, so a machine that can scan can also run a sandbox.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import SandboxError

MINIMUM = 17

_VERSION = re.compile(r'version "(?P<major>\d+)(?:\.(?P<minor>\d+))?')


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Path of a `java` of version 17 or later. Raises SandboxError, in one sentence with what to install."""
    path = _locate(environ)
    if path is None:
        raise SandboxError(
            f"Java {MINIMUM} or later is needed and no `java` is in JAVA_HOME or on PATH: {_how_to_get()}"
        )
    found = major_version(path)
    if found is None:
        raise SandboxError(f"`{path} -version` did not answer with a version: {_how_to_get()}")
    if found < MINIMUM:
        raise SandboxError(f"Java {MINIMUM} or later is needed, {path} is version {found}: {_how_to_get()}")
    return path


def major_version(java: Path) -> int | None:
    """8 for "1.8.0_392", 17 for "17.0.15"; None if it cannot be run or says nothing that looks like a version."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout) if answer.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """Major version in the words of `java -version`."""
    match = _VERSION.search(text)
    if match is None:
        return None
    major = int(match["major"])
    # Up to Java 8 the first number was always 1.
    return int(match["minor"] or 0) if major == 1 else major


def _locate(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("JAVA_HOME")
    if home and os.access(Path(home) / "bin" / "java", os.X_OK):
        return Path(home) / "bin" / "java"
    found = shutil.which("java", path=environ.get("PATH", ""))
    return Path(found) if found else None


def _how_to_get() -> str:
    if sys.platform == "darwin":
        return "`brew install openjdk@17`, then set JAVA_HOME to it."
    return "`apt-get install openjdk-17-jre-headless` (or your system's package of it), or set JAVA_HOME."
