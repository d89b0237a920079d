"""Turns one YAML document into one manifest: its kind, its name, and the model's verdict on it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.kinds import kinds
from reconciler.manifest.nodes import INVALID, Document, Node, Span, enclosing_path
from reconciler.manifest.source_file import SourceFile
from reconciler.manifest.validation_errors import context_text, issue_diagnostics, validation_diagnostics
from reconciler.policies.base import Envelope
from reconciler.policies.cluster import Cluster
from reconciler.text.suggest import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedManifest:
    """A document whose kind and name are known. `manifest` None: it was refused, with diagnostics.

    `cluster`: what metadata.cluster says.
    """

    model: type[Envelope]
    name: str
    cluster: str | None
    manifest: Envelope | None
    root: Node
    source: SourceFile

    @property
    def kind(self) -> str:
        return self.model.__name__

    @property
    def address(self) -> str:
        return f"{self.kind}/{self.name}"

    def span(self, *path: str | int) -> Span:
        """Return the span of the existing value at `path`; for a list or mapping, of its key."""
        key: Node | None = None
        node = self.root
        for part in path:
            key, node = node.entries[str(part)]
        return (key or node).span if node.entries else node.span


def parse_manifest(
    source: SourceFile, document: Document, diagnostics: list[Diagnostic], *, now_ms: int
) -> ParsedManifest | None:
    """Return the manifest in `document`, and append its errors to `diagnostics`.

    None: the document has no known kind or no name.
    """
    root = document.root
    name, address = _text_at(root, "metadata", "name"), address_of(root)
    diagnostics.extend(source.yaml_diagnostic(error, context_text(address, error.path)) for error in document.errors)
    if not isinstance(root.value, dict):
        return None
    kind = _closest_kind(root)
    if kind is None or kind != _text_at(root, "kind"):
        diagnostics.extend(_kind_errors(source, root, kind, context_text(address, ())))
    if kind is None:
        return None
    model = _kinds()[kind]
    data = {**root.value, "kind": kind}
    manifest: Envelope | None = None
    try:
        manifest = model.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        diagnostics.extend(
            validation_diagnostics(
                source, root, data=data, model=model, error=error, address=address, partial=document.partial
            )
        )
    else:
        diagnostics.extend(issue_diagnostics(source, root, manifest.problems_at(now_ms), address=address))
        manifest = manifest.with_location(source.location(root.span))
    if name is None:
        return None
    cluster = None if model is Cluster else _text_at(root, "metadata", "cluster")
    return ParsedManifest(model=model, name=name, cluster=cluster, manifest=manifest, root=root, source=source)


def file_errors(source: SourceFile) -> Iterator[Diagnostic]:
    """Yield the errors of the file as a whole, each with the manifest that surrounds it."""
    root, path = source.yaml.unfinished
    for error in source.yaml.errors:
        around = [d.root for d in source.yaml.documents if _contains(d.root.span, error.span)]
        if around:
            context = context_text(address_of(around[0]), enclosing_path(around[0], error.span))
        elif root is not None and error.span.line >= root.span.line:
            context = context_text(address_of(root), path)
        else:
            context = ""
        yield source.yaml_diagnostic(error, context)


def address_of(root: Node) -> str:
    """Return KIND/NAME as far as they can be read; a misspelt kind as the closest known one."""
    kind, name = _closest_kind(root) or _text_at(root, "kind"), _text_at(root, "metadata", "name")
    return "/".join(part for part in (kind, name) if part)


def _kinds() -> Mapping[str, type[Envelope]]:
    return {model.__name__: model for model in kinds()}


def _closest_kind(root: Node) -> str | None:
    kind, known = _text_at(root, "kind"), _kinds()
    return kind if kind in known else did_you_mean(kind or "", known)


def _contains(outer: Span, inner: Span) -> bool:
    return outer.line <= inner.line and (inner.line, inner.column) <= (outer.end_line, outer.end_column)


def _kind_errors(source: SourceFile, root: Node, closest: str | None, context: str) -> Iterator[Diagnostic]:
    entry = root.entries.get("kind")
    known = f"one of {', '.join(_kinds())}"
    if entry is None:
        span = Span(root.span.line, root.span.column, root.span.line, root.span.column + 1)
        yield source.diagnostic("M113", "missing field `kind`", span=span, hint=known, context=context)
    elif isinstance(entry[1].value, str):
        hint = f"did you mean `{closest}`?" if closest else known
        message = f"unknown kind `{entry[1].value}`"
        yield source.diagnostic("M120", message, span=entry[1].span, hint=hint, context=context)
    elif entry[1].value is not INVALID:
        yield source.diagnostic("M114", "expected text", span=entry[1].span, hint=known, context=context)


def _text_at(root: Node, *path: str) -> str | None:
    node = root
    for part in path:
        entry = node.entries.get(part)
        if entry is None:
            return None
        node = entry[1]
    return node.value if isinstance(node.value, str) and node.value else None
