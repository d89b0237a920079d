"""One document to one manifest, on its own: which kind it is, whether its model accepts it, what it is called even if not."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.nodes import BROKEN, Document, Node, Span, enclosing_path
from reconciler.manifest.source_file import SourceFile
from reconciler.manifest.validation_errors import problem_diagnostics, validation_diagnostics, where_text
from reconciler.policies import GroupRemoval, LeaderPolicy, RetentionFloor
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver
from reconciler.text.suggest import did_you_mean

AnyManifest = Cluster | Waiver | RetentionFloor | GroupRemoval | LeaderPolicy
_KINDS: dict[str, type[AnyManifest]] = {
    "Cluster": Cluster,
    "RetentionFloor": RetentionFloor,
    "GroupRemoval": GroupRemoval,
    "LeaderPolicy": LeaderPolicy,
    "Waiver": Waiver,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedManifest:
    """A document whose kind and name are known. `manifest` None: it was refused, and diagnostics say why."""

    kind: str
    name: str
    cluster: str | None
    """What metadata.cluster says."""
    manifest: AnyManifest | None
    root: Node
    source: SourceFile

    @property
    def address(self) -> str:
        return f"{self.kind}/{self.name}"

    def span(self, *path: str | int) -> Span:
        """Of the value at `path`, which has to exist: of its key where it is a list or a mapping."""
        key: Node | None = None
        node = self.root
        for part in path:
            key, node = node.entries[str(part)]
        return (key or node).span if node.entries else node.span

    def name_span(self) -> Span:
        return self.span("metadata", "name")


def parse_manifest(
    source: SourceFile, document: Document, diagnostics: list[Diagnostic], *, now_ms: int
) -> ParsedManifest | None:
    """The manifest in `document`; what is wrong with it goes to `diagnostics`. None: it does not even have a kind and a name."""
    root = document.root
    kind, name = _text_at(root, "kind"), _text_at(root, "metadata", "name")
    near = kind if kind in _KINDS else did_you_mean(kind or "", _KINDS)
    address = address_of(root)
    diagnostics.extend(source.flaw(flaw, where_text(address, flaw.path)) for flaw in document.flaws)
    if not isinstance(root.value, dict):
        return None
    if kind not in _KINDS:
        diagnostics.extend(_kind_refused(source, root, near, where_text(address, ())))
    if near is None:
        return None
    manifest: AnyManifest | None = None
    data = root.value if near == kind else {**root.value, "kind": near}
    try:
        manifest = _KINDS[near].model_validate(data, by_alias=True, by_name=False)
    except ValidationError as refused:
        partial = document.partial
        diagnostics.extend(
            validation_diagnostics(
                source, root, data=data, model=_KINDS[near], refused=refused, address=address, partial=partial
            )
        )
    else:
        if isinstance(manifest, RetentionFloor | Waiver):
            diagnostics.extend(problem_diagnostics(source, root, manifest.problems_at(now_ms), address=address))
        manifest = manifest.declared(source.place(root.span))
    if name is None:
        return None
    cluster = None if near == "Cluster" else _text_at(root, "metadata", "cluster")
    return ParsedManifest(kind=near, name=name, cluster=cluster, manifest=manifest, root=root, source=source)


def file_errors(source: SourceFile) -> Iterator[Diagnostic]:
    """What is wrong with the file as a whole, told with the manifest in which it shows."""
    root, path = source.reading.unfinished
    for flaw in source.reading.flaws:
        around = [d.root for d in source.reading.documents if _inside(flaw.span, d.root.span)]
        if around:
            yield source.flaw(flaw, where_text(address_of(around[0]), enclosing_path(around[0], flaw.span)))
        elif root is not None and flaw.span.line >= root.span.line:
            yield source.flaw(flaw, where_text(address_of(root), path))
        else:
            yield source.flaw(flaw)


def address_of(root: Node) -> str:
    """KIND/NAME as far as they can be read; a misspelt kind as the one that is meant."""
    kind, name = _text_at(root, "kind"), _text_at(root, "metadata", "name")
    near = kind if kind in _KINDS else did_you_mean(kind or "", _KINDS)
    return "/".join(part for part in (near or kind, name) if part)


def _inside(span: Span, around: Span) -> bool:
    return around.line <= span.line and (span.line, span.column) <= (around.end_line, around.end_column)


def _kind_refused(source: SourceFile, root: Node, near: str | None, where: str) -> Iterator[Diagnostic]:
    entry = root.entries.get("kind")
    known = f"one of {', '.join(_KINDS)}"
    if entry is None:
        span = Span(root.span.line, root.span.column, root.span.line, root.span.column + 1)
        yield source.diagnostic("M113", "missing field `kind`", span=span, hint=known, where=where)
    elif isinstance(entry[1].value, str):
        hint = f"did you mean `{near}`?" if near else known
        message = f"unknown kind `{entry[1].value}`"
        yield source.diagnostic("M120", message, span=entry[1].span, hint=hint, where=where)
    elif entry[1].value is not BROKEN:
        yield source.diagnostic("M114", "expected text", span=entry[1].span, hint=known, where=where)


def _text_at(root: Node, *path: str) -> str | None:
    node = root
    for part in path:
        entry = node.entries.get(part)
        if entry is None:
            return None
        node = entry[1]
    return node.value if isinstance(node.value, str) and node.value else None
