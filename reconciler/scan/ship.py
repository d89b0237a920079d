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


def ship(session: "SparkSession") -> None:
    """Put what tasks import on the workers' path. The name carries the content: a warm server may still hold another version."""
    data = archive()
    name = f"reconciler-{hashlib.sha256(data).hexdigest()[:12]}.zip"
    started = _local_jvm()
    if started is not None:
        # Executors fetch the file from this very path for as long as the session lives.
        _add(session, started.folder / name, data)
        return
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


def _local_jvm() -> jvm.Jvm | None:
    from pyspark import SparkContext

    return jvm.of(SparkContext._gateway)
