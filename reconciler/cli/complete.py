"""Completes names that a shell asks for: of manifests and codes. An error completes nothing.

It reads the manifests of the current folder, and asks no cluster.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.manifest.files import ManifestSet


def clusters(incomplete: str) -> list[str]:
    """Return the names of the Clusters in manifests/."""
    from reconciler.errors import ManifestsInvalid

    try:
        declared = _load().clusters
    except ManifestsInvalid as error:
        declared = error.clusters
    except Exception:  # noqa: BLE001  a shell shows a traceback in the middle of a line
        return []
    return _beginning(incomplete, (cluster.metadata.name for cluster in declared))


def addresses(incomplete: str) -> list[str]:
    """Return policies, and the topics and groups that they name, of the manifests in manifests/."""
    found: list[str] = []
    with suppress(Exception):
        for policy in _load().policies:
            names = (selector.name for selector in policy.selectors if selector.name)
            found += [str(policy.address), *names]
    return _beginning(incomplete, found)


def subjects(incomplete: str) -> list[str]:
    """Return what `explain` takes: addresses and codes."""
    from reconciler.cli.codes import ALL_CODES

    return [*_beginning(incomplete, ALL_CODES), *addresses(incomplete)]


def _load() -> "ManifestSet":
    from reconciler.clock import wall_clock_ms
    from reconciler.manifest import files

    return files.load([files.DEFAULT_FOLDER], now_ms=wall_clock_ms())


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]
