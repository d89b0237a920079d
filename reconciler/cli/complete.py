"""Completes names that a shell asks for: of manifests and codes. An error completes nothing.

It reads the manifests of the current folder, and asks no cluster.
"""

from collections.abc import Iterable
from contextlib import suppress


def clusters(incomplete: str) -> list[str]:
    """Return the names of the Clusters in manifests/."""
    with suppress(Exception):  # a shell shows a traceback in the middle of a line
        from reconciler.clock import wall_clock_ms
        from reconciler.manifest import files

        declared = files.declared_clusters([files.DEFAULT_FOLDER], now_ms=wall_clock_ms())
        return _beginning(incomplete, (cluster.metadata.name for cluster in declared))
    return []


def addresses(incomplete: str) -> list[str]:
    """Return policies, and the topics and groups that they name, of the manifests in manifests/."""
    found: list[str] = []
    with suppress(Exception):
        from reconciler.clock import wall_clock_ms
        from reconciler.manifest import files

        for policy in files.load([files.DEFAULT_FOLDER], now_ms=wall_clock_ms()).policies:
            names = (selector.name for selector in policy.selectors if selector.name)
            found += [str(policy.address), *names]
    return _beginning(incomplete, found)


def subjects(incomplete: str) -> list[str]:
    """Return what `explain` takes: addresses and codes."""
    from reconciler.cli.codes import ALL_CODES

    return [*_beginning(incomplete, ALL_CODES), *addresses(incomplete)]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]
