"""Finds code of other distributions in the folder of this package, where the last installation wins, file by file.

Another distribution on the package index imports as `reconciler`, too. This module imports nothing of
the package, whose `__init__.py` may be the other one's.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_DISTRIBUTION = "kafka_reconciler-"
_CODE = (".py", ".so", ".pyd")


def find_foreign_code(package: Path) -> str:
    """Describe code that differs from what pip installed, and how to mend it; empty: none.

    Names and sizes are compared, which takes two milliseconds. An editable installation and a checkout
    have no list of files beside the package, and are not compared.
    """
    ours = [entry for record in package.parent.glob(f"{_DISTRIBUTION}*.dist-info/RECORD") for entry in _entries(record)]
    if not ours:
        return ""
    installed, present = set(ours), set(_present(package, package.name))
    differing = sorted({path for path, _size in installed ^ present})
    if not differing:
        return ""
    records = (path for path in package.parent.glob("*.dist-info/RECORD") if _DISTRIBUTION not in path.parent.name)
    others = [path.parent.name.removesuffix(".dist-info") for path in records if next(_entries(path), None)]
    cause = f"{', '.join(others)} also installs into it" if others else "something else has written to it"
    names = ", ".join(differing[:3]) + (", …" if differing[3:] else "")
    return (
        f"the code in {package} is not what this program installed: {names} (another size, missing or foreign), because "
        f"{cause}; install this program into a new environment of its own"
    )


def _entries(record: Path) -> Iterator[tuple[str, str]]:
    """Name and size of each file of code in this package's folder that a RECORD lists."""
    for line in record.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("reconciler/"):
            path, _hash, size = line.rsplit(",", 2)
            if path.endswith(_CODE):
                yield path, size


def _present(folder: Path | str, name: str) -> Iterator[tuple[str, str]]:
    """Name and size of each file of code that is there."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _present(entry.path, f"{name}/{entry.name}")
            elif entry.name.endswith(_CODE):
                yield f"{name}/{entry.name}", str(entry.stat().st_size)
