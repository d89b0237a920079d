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
from reconciler.scan import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = ("kafka", "model", "scan", "text")


def add_package(session: "SparkSession") -> None:
    """Put the tasks' imports on the workers' path.

    The file's name contains a hash of its content: a warm server may still have another version.
    """
    data = archive()
    name = f"reconciler-{hashlib.sha256(data).hexdigest()[:12]}.zip"
    folder = _context_folder(session)
    if folder is not None:
        _add(session, folder / name, data)
        return
    # A Connect server copies the content.
    with tempfile.TemporaryDirectory(prefix="kafka-reconciler-ship-") as temporary:
        _add(session, Path(temporary) / name, data)


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


def _add(session: "SparkSession", path: Path, data: bytes) -> None:
    path.write_bytes(data)
    session.addArtifacts(str(path), pyfile=True)


def _context_folder(session: "SparkSession") -> Path | None:
    """A folder that exists as long as the session's context; None for a Connect session.

    Executors fetch the file from its path with their first task, and after every restart.
    """
    from pyspark import SparkContext, SparkFiles
    from pyspark.sql.session import SparkSession as Classic

    if not isinstance(session, Classic):
        return None
    started = jvm.of(SparkContext._gateway)
    if started is not None:
        return started.folder
    # Not the folder of the context's files itself: Spark would take the file for one that was added before.
    folder = Path(SparkFiles.getRootDirectory()) / "kafka-reconciler"
    folder.mkdir(exist_ok=True)
    return folder
