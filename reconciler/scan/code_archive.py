"""How our code reaches the executors: as a zip on the path of every Python worker, built from the files that are running here.

An executor needs confluent-kafka and pyarrow (docs/scan.md), not this package.
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

_PACKAGES = ("kafka", "model", "scan")


def add_package(session: "SparkSession") -> None:
    """Put what tasks import on the workers' path. The name carries the content: a warm server may still hold another version."""
    data = archive()
    name = f"reconciler-{hashlib.sha256(data).hexdigest()[:12]}.zip"
    lasting = _lasting(session)
    if lasting is not None:
        _add(session, lasting / name, data)
        return
    # A server takes the content itself.
    with tempfile.TemporaryDirectory(prefix="kafka-reconciler-ship-") as folder:
        _add(session, Path(folder) / name, data)


def archive() -> bytes:
    """A zip of this package's readers and nouns; the same content gives the same bytes."""
    root = Path(reconciler.__file__).parent
    files = [root / "__init__.py", root / "errors.py"]
    for package in _PACKAGES:
        files += sorted((root / package).rglob("*.py"))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as opened:
        for file in files:
            # ZipInfo's default time is fixed.
            opened.writestr(zipfile.ZipInfo(str(file.relative_to(root.parent))), file.read_bytes())
    return target.getvalue()


def _add(session: "SparkSession", path: Path, data: bytes) -> None:
    path.write_bytes(data)
    session.addArtifacts(str(path), pyfile=True)


def _lasting(session: "SparkSession") -> Path | None:
    """A folder that is there as long as the session's context: executors fetch the file from its very path, with their first task and when
    they are started anew. None for a Connect session.
    """
    from pyspark import SparkContext, SparkFiles
    from pyspark.sql.session import SparkSession as Classic

    if not isinstance(session, Classic):
        return None
    started = jvm.of(SparkContext._gateway)
    if started is not None:
        return started.folder
    # Not in the folder of the context's files itself, where Spark would take it for one that was added before.
    folder = Path(SparkFiles.getRootDirectory()) / "kafka-reconciler"
    folder.mkdir(exist_ok=True)
    return folder
