"""Reads one YAML document as one manifest: its kind, its name, and its validated content."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler import policies
from reconciler.manifest.diagnostics import Diagnostic, Related
from reconciler.manifest.source_file import SourceFile
from reconciler.manifest.validation_errors import Validator
from reconciler.manifest.yaml import INVALID, Document, ManifestError, Node, Span
from reconciler.policies.base import Envelope
from reconciler.policies.cluster import Cluster
from reconciler.policies.validation import FieldPath, ValidationIssue
from reconciler.policies.waiver import Waiver
from reconciler.text.suggest import did_you_mean


def kinds() -> Mapping[str, type[Envelope]]:
    """Return the class of each kind by its name: the Cluster, every policy, and the Waiver."""
    classes: tuple[type[Envelope], ...] = (Cluster, *policies.POLICIES, Waiver)
    return {kind.__name__: kind for kind in classes}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedManifest:
    """A document whose kind and name are known. `manifest` None: it was refused, with errors.

    `cluster`: the name of the cluster that it belongs to; None: unknown.
    """

    model: type[Envelope]
    name: str
    cluster: str | None
    manifest: Envelope | None
    root: Node
    source: SourceFile

    @property
    def address(self) -> str:
        return f"{self.model.__name__}/{self.name}"

    def diagnostic(
        self, code: str, message: str, path: FieldPath, hint: str, *related: tuple["ParsedManifest", FieldPath, str]
    ) -> Diagnostic:
        """Return a diagnostic about the value at `path`. `related`: manifest, path and message of each."""
        error = ManifestError(code, message, self._span(path), hint, path[:-1])
        others = (Related(other.source.location(other._span(at)), text) for other, at, text in related)
        return self.source.diagnostic(error, self.address, others)

    def _span(self, path: FieldPath) -> Span:
        """Return the span of the existing value at `path`; for a list or mapping, of its key."""
        key: Node | None = None
        node = self.root
        for part in path:
            key, node = node.entries[str(part)]
        return (key or node).span if node.entries else node.span


def parse_manifest(source: SourceFile, document: Document, *, now_ms: int) -> ParsedManifest | None:
    """Return the manifest in `document`, and add its errors to those of the document.

    None: the document has no known kind or no name, or a syntax error ended it.
    """
    root = document.root
    if root is None or not document.complete or not isinstance(root.value, dict):
        return None
    kind = _closest_kind(root)
    model = kinds().get(kind or "")
    validator = Validator(root, model or Envelope)
    manifest = validator.validate(partial=document.partial, now_ms=now_ms) if model else None
    if kind is None or kind != _text_at(root, "kind"):
        _check_kind(validator, kind)
    document.errors += validator.errors
    name = _text_at(root, "metadata", "name")
    if model is None or name is None:
        return None
    return ParsedManifest(
        model=model,
        name=name,
        cluster=name if model is Cluster else _text_at(root, "metadata", "cluster"),
        manifest=manifest and manifest.with_location(source.location(root.span)),
        root=root,
        source=source,
    )


def address_of(root: Node | None) -> str:
    """Return KIND/NAME as far as they can be read; a misspelt kind as the closest known one."""
    if root is None:
        return ""
    kind, name = _closest_kind(root) or _text_at(root, "kind"), _text_at(root, "metadata", "name")
    return "/".join(part for part in (kind, name) if part)


def _check_kind(validator: Validator, closest: str | None) -> None:
    """Report a kind that is missing, unknown or no text."""
    known = f"one of {', '.join(kinds())}"
    _, node = validator.root.entries.get("kind", (None, None))
    if node is None:
        validator.add(ValidationIssue("M113", "missing field `kind`", ("kind",), known))
    elif isinstance(node.value, str):
        hint = f"did you mean `{closest}`?" if closest else known
        validator.add(ValidationIssue("M120", f"unknown kind `{node.value}`", ("kind",), hint))
    elif node.value is not INVALID:
        validator.add(ValidationIssue("M114", "expected text", ("kind",), known))


def _closest_kind(root: Node) -> str | None:
    kind, known = _text_at(root, "kind"), kinds()
    return kind if kind in known else did_you_mean(kind or "", known)


def _text_at(root: Node, *path: str) -> str | None:
    node = root
    for part in path:
        entry = node.entries.get(part)
        if entry is None:
            return None
        node = entry[1]
    return node.value if isinstance(node.value, str) and node.value else None
