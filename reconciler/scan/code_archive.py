"""The code of the tasks as an archive, for executors that do not have this package.

They need confluent-kafka and pyarrow (docs/scan.md).
"""

import hashlib
import io
import tempfile
import zipfile
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import reconciler

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MODULES = ("__init__.py", "class_archive.py", "clock.py", "errors.py", "references.py", "companions/__init__.py")
_PACKAGES = ("companions/sources", "external", "kafka", "model", "scan", "text")
"""What the tasks import of this program."""


def write(folder: Path) -> Path:
    """Write a zip of the readers and the model; the same code gives the same bytes.

    Its name has a hash, because a warm server may still have another version.
    """
    root = Path(reconciler.__file__).parent
    packages = (sorted([*(root / package).rglob("*.py"), *(root / package).rglob("*.md")]) for package in _PACKAGES)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archived:
        for file in (*(root / name for name in _MODULES), *chain.from_iterable(packages)):
            # ZipInfo has a fixed default time.
            archived.writestr(zipfile.ZipInfo(str(file.relative_to(root.parent))), file.read_bytes())
    data = target.getvalue()
    path = folder / f"reconciler-{hashlib.sha256(data).hexdigest()[:12]}.zip"
    path.write_bytes(data)
    return path


def add_to(session: "SparkSession") -> None:
    """Put the code on the path of every Python worker of a user's session."""
    from pyspark.sql.session import SparkSession as Classic

    with tempfile.TemporaryDirectory(prefix="kafka-reconciler-code-") as temporary:
        folder = Path(temporary)  # for a Connect server, which copies the content
        if isinstance(session, Classic):
            # Executors fetch the file with their first task, and after every restart: it stays as
            # long as the context. Not in the context's own folder: Spark would take it for its own.
            from pyspark import SparkFiles  # the light client of Connect has none

            folder = Path(SparkFiles.getRootDirectory()) / "kafka-reconciler"
            folder.mkdir(exist_ok=True)
        session.addArtifacts(str(write(folder)), pyfile=True)
