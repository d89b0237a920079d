"""Loads manifests in tests from files that exist only as strings."""

from collections.abc import Mapping

from reconciler.errors import ManifestsInvalid
from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.files import ManifestSet, source_of, validate_sources
from tests.unit.manifest.broken import CLUSTER, NOW_MS


def outcome(
    files: Mapping[str, str | bytes], *, now_ms: int = NOW_MS
) -> tuple[ManifestSet | None, tuple[Diagnostic, ...]]:
    """Return the set, or None, and all diagnostics. `files`: path → content, in reading order."""
    contents = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    try:
        manifests = validate_sources([source_of(path, content) for path, content in contents.items()], now_ms=now_ms)
    except ManifestsInvalid as invalid:
        return None, tuple(diagnostic for diagnostic in invalid.diagnostics if isinstance(diagnostic, Diagnostic))
    return manifests, manifests.warnings


def _files(text: str) -> Mapping[str, str]:
    """Return one file, beside a valid Cluster unless it is one."""
    return {"it.yaml": text} if "kind: Cluster\n" in text else {"cluster.yaml": CLUSTER, "it.yaml": text}


def diagnostics_of(text: str, *, now_ms: int = NOW_MS) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of one file, except M403 (no policies)."""
    _, diagnostics = outcome(_files(text), now_ms=now_ms)
    return tuple(diagnostic for diagnostic in diagnostics if diagnostic.code != "M403")


def codes(text: str, *, now_ms: int = NOW_MS) -> list[str]:
    return [diagnostic.code for diagnostic in diagnostics_of(text, now_ms=now_ms)]


def accepted(text: str, *, now_ms: int = NOW_MS) -> ManifestSet:
    """Return the set of one file; fails with the diagnostics."""
    manifests, diagnostics = outcome(_files(text), now_ms=now_ms)
    assert manifests is not None, diagnostics
    return manifests
