"""Finds the Java, version 17 or later, that runs the brokers.

The Java of JAVA_HOME comes before the first one on PATH. A JAVA_HOME without a Java is passed over:
brokers on this machine are for trying. A scan refuses it (`scan/java.py`).
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

_INSTALL_HINT = (
    "`brew install openjdk@17`, then set JAVA_HOME to its folder."
    if sys.platform == "darwin"
    else "`apt-get install openjdk-17-jre-headless` (or your system's package), or set JAVA_HOME."
)
_VERSION = re.compile(r'version "(?P<major>\d+)(?:\.(?P<minor>\d+))?')


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of a `java` of version 17 or later.

    Raises SandboxError with the package to install.
    """
    folders = [str(Path(environ["JAVA_HOME"]) / "bin")] if environ.get("JAVA_HOME") else []
    path = shutil.which("java", path=os.pathsep.join([*folders, environ.get("PATH", "")]))
    needed = f"Java {MINIMUM} or later is needed, and"
    if path is None:
        raise SandboxError(f"{needed} neither JAVA_HOME nor PATH has a `java`: {_INSTALL_HINT}")
    major = major_version(Path(path))
    if major is None:
        raise SandboxError(f"`{path} -version` did not print a version: {_INSTALL_HINT}")
    if major < MINIMUM:
        raise SandboxError(f"{needed} {path} is version {major}: {_INSTALL_HINT}")
    return Path(path)


def major_version(java: Path) -> int | None:
    """Major version of a `java`, such as 17; None if it prints no version."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout) if answer.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """Parse the major version from the output of `java -version`."""
    match = _VERSION.search(text)
    if match is None:
        return None
    major = int(match["major"])
    # Up to Java 8 the first number is always 1.
    return int(match["minor"] or 0) if major == 1 else major
