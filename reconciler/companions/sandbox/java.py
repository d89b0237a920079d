"""Finds the Java, version 17 or later, that runs the brokers.

The Java of JAVA_HOME comes before the first one on PATH. A JAVA_HOME without a Java is passed over:
brokers on this machine are for trying. A scan refuses it (`scan/java.py`).
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import SandboxError
from reconciler.scan.java import MINIMUM, major_version

_INSTALL_HINT = (
    "`brew install openjdk@17`, then set JAVA_HOME to its folder."
    if sys.platform == "darwin"
    else "`apt-get install openjdk-17-jre-headless` (or your system's package), or set JAVA_HOME."
)


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
