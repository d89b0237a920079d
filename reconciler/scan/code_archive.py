"""Puts this package's code on the path of every Python worker, as a zip of the running files.

Executors need confluent-kafka and pyarrow (docs/scan.md), but not this package.
"""

import hashlib
import io
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import reconciler

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = ("kafka", "model", "scan", "text")


def add_package(session: "SparkSession") -> None:
    """Put the tasks' imports on the workers' path.

    The file's name contains a hash of its content: a warm server may still have another version.
    """
    from pyspark import SparkFiles
    from pyspark.sql.session import SparkSession as Classic

    data = archive()
    with tempfile.TemporaryDirectory(prefix="kafka-reconciler-ship-") as temporary:
        folder = Path(temporary)  # for a Connect server, which copies the content
        if isinstance(session, Classic):
            # Executors fetch the file with their first task, and after every restart: it stays as long as the
            # context. Not in the folder of the context's files itself: Spark would take it for one of those.
            folder = Path(SparkFiles.getRootDirectory()) / "kafka-reconciler"
            folder.mkdir(exist_ok=True)
        path = folder / f"reconciler-{hashlib.sha256(data).hexdigest()[:12]}.zip"
        path.write_bytes(data)
        session.addArtifacts(str(path), pyfile=True)


def archive() -> bytes:
    """A zip of the readers and the model. The same content gives the same bytes."""
    root = Path(reconciler.__file__).parent
    files = [root / "__init__.py", root / "errors.py"]
    for package in _PACKAGES:
        files += sorted((root / package).rglob("*.py"))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archived:
        for file in files:
            # ZipInfo has a fixed default time.
            archived.writestr(zipfile.ZipInfo(str(file.relative_to(root.parent))), file.read_bytes())
    return target.getvalue()
