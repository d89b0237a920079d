"""Loading manifests from text in tests: what the loader says of files that exist only as strings."""

from collections.abc import Mapping

from reconciler.errors import ManifestsInvalid
from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.files import source_of, validate_sources
from reconciler.manifest.manifest_set import ManifestSet
from tests.unit.manifest.broken import CLUSTER, NOW_MS


def outcome(
    files: Mapping[str, str | bytes], *, now_ms: int = NOW_MS
) -> tuple[ManifestSet | None, tuple[Diagnostic, ...]]:
    """The set, or None, and every diagnostic. `files`: path → content, in the order in which they are read."""
    contents = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    try:
        made = validate_sources([source_of(path, content) for path, content in contents.items()], now_ms=now_ms)
    except ManifestsInvalid as invalid:
        return None, tuple(each for each in invalid.diagnostics if isinstance(each, Diagnostic))
    return made, made.warnings


def told(text: str, *, now_ms: int = NOW_MS) -> tuple[Diagnostic, ...]:
    """Diagnostics of one file beside a valid Cluster, but for the Cluster's own lack of policies."""
    _, found = outcome({"cluster.yaml": CLUSTER, "it.yaml": text}, now_ms=now_ms)
    return tuple(each for each in found if each.code != "M403")


def codes(text: str, *, now_ms: int = NOW_MS) -> list[str]:
    return [each.code for each in told(text, now_ms=now_ms)]


def accepted(text: str, *, now_ms: int = NOW_MS) -> ManifestSet:
    """The set that one file makes up beside a valid Cluster; fails with what is wrong with it."""
    made, found = outcome({"cluster.yaml": CLUSTER, "it.yaml": text}, now_ms=now_ms)
    assert made is not None, found
    return made
