"""Renders the generated parts of the docs: tables of fields and of codes, and a page for each code.

The text comes from the models and from the tables of codes. The caller passes the broken examples
and their output. No function reads or writes a file.
"""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.cli.codes import ALL_CODES, EXIT_CODES, LIMIT_CODES
from reconciler.manifest.error_codes import CODES
from reconciler.manifest.schema import schemas
from reconciler.model.block_reason import BLOCK_CODES
from reconciler.policies.fields import DURATION_TEXT
from reconciler.text.catalogue import Entry

_SECTION = re.compile(r"(<!-- generated: (?P<name>[^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_LINE_LENGTH = 100
_ERROR_GROUPS = {
    "0": "M0: files",
    "1": "M1: the text of a document and its structure",
    "2": "M2: rules within one manifest",
    "3": "M3: rules across manifests",
    "4": "M4: warnings",
    "5": "M5: errors when the program connects",
}
_BLOCK_GROUPS = {"1": "B1: any kind", "2": "B2: retention floors", "3": "B3: group removals"}
"""First digit of a code → heading of its table."""


def fill_sections(text: str, sections: Mapping[str, str]) -> str:
    """Replace the text between `<!-- generated: NAME -->` and `<!-- end -->`.

    Raises KeyError for an unknown name.
    """
    return _SECTION.sub(lambda match: f"{match[1]}\n{sections[match['name']]}\n{match[3]}", text)


def wrap(paragraph: str) -> str:
    """Break a paragraph into lines of at most 100 characters, at spaces only."""
    return textwrap.fill(paragraph, _LINE_LENGTH, break_long_words=False, break_on_hyphens=False)


def field_tables() -> Mapping[str, str]:
    """Map `fields KIND` to a Markdown table of all fields of that kind."""
    kinds = (json.loads(text) for name, text in schemas().items() if name != "manifest.json")
    return {f"fields {schema['title']}": _table(schema) for schema in kinds}


def code_pages(
    examples: Mapping[str, tuple[Mapping[str, str], str]], blocked: Mapping[str, tuple[str, str]]
) -> Mapping[str, str]:
    """Map the file name of each page of `docs/codes` to its text: one page for each code of the program.

    `examples`: code → (file name → text, output). A name that begins with `$ ` is a command line
    instead of a file. `blocked`: B code → (kind of the policy, what a plan says of the subject).
    """
    outputs = {**examples, **{code: ({}, output) for code, (_kind, output) in blocked.items()}}
    kinds = {code: kind for code, (kind, _output) in blocked.items()}
    return {f"{code}.md": _code_page(entry, outputs.get(code), kinds.get(code)) for code, entry in ALL_CODES.items()}


def code_tables() -> Mapping[str, str]:
    """Map each name of a generated part to its Markdown tables of codes, with links to their pages."""
    return {
        "errors": _grouped_table(CODES, _ERROR_GROUPS),
        "block codes": _grouped_table(BLOCK_CODES, _BLOCK_GROUPS),
        "exit codes": "| code | meaning |\n|---|---|\n"
        + "".join(
            f"| [{code.removeprefix('exit-')}](codes/{code}.md) | {entry.explanation} |\n"
            for code, entry in EXIT_CODES.items()
        ),
        "limits": "| limit | what it bounds |\n|---|---|\n"
        + "".join(f"| [`{code}`](../codes/{code}.md) | {entry.title} |\n" for code, entry in LIMIT_CODES.items()),
    }


def fill_navigation(text: str) -> str:
    """Replace the lines of `mkdocs.yml` that list the pages of the codes."""
    parts: Mapping[str, tuple[list[str], Iterable[str]]] = {
        "Errors in manifests": (["docs/errors.md"], CODES),
        "Blocked subjects": (["docs/block-codes.md"], BLOCK_CODES),
        "Limits": ([], LIMIT_CODES),
        "Exit codes": ([], EXIT_CODES),
    }
    lines = []
    for title, (index, codes) in parts.items():
        lines.append(f"      - {title}:\n")
        lines += [f"          - {page}\n" for page in index]
        lines += [f"          - {code}: docs/codes/{code}.md\n" for code in codes]
    return re.sub(
        r"(# generated: codes\n).*?( *# end\n)", lambda m: m[1] + "".join(lines) + m[2], text, flags=re.DOTALL
    )


def _code_page(entry: Entry, example: tuple[Mapping[str, str], str] | None, kind: str | None) -> str:
    text = f"# {entry.code}: {entry.title}\n\n{wrap(entry.explanation)}\n"
    if example is not None:
        files, output = example
        text += "".join(_example_input(name, content) for name, content in files.items())
        text += f"\n```text\n{output.rstrip()}\n```\n"
    of_kind = f" The example is of a [{kind}](../kinds/{_page_of(kind)}.md)." if kind else ""
    return f"{text}\n{wrap(_see_also(entry.code) + of_kind)}\n"


def _page_of(kind: str) -> str:
    """Return the name of a kind's page: `retention-floor` of `RetentionFloor`."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", kind).lower()


def _see_also(code: str) -> str:
    """Return the sentence at the end of a page: where the code belongs."""
    if code in CODES:
        return "This is one of the [errors in manifests](../errors.md)."
    if code in BLOCK_CODES:
        return "This is one of the [reasons why a subject is blocked](../block-codes.md)."
    if code in LIMIT_CODES:
        return "This is one of the [limits of a Cluster](../kinds/cluster.md#limits)."
    return "This is one of the [exit codes](../cli.md#exit-codes)."


def _grouped_table(codes: Mapping[str, Any], groups: Mapping[str, str]) -> str:
    """Return a table for each group; the first digit of a code names its group."""
    tables = []
    for digit, heading in groups.items():
        rows = [f"| [{code}](codes/{code}.md) | {entry.title} |\n" for code, entry in codes.items() if code[1] == digit]
        tables.append(f"## {heading}\n\n| code | title |\n|---|---|\n{''.join(rows)}")
    return "\n".join(tables)


def _example_input(name: str, content: str) -> str:
    """Render a file of an example, or its command line."""
    if name.startswith("$ "):
        return f"\n```console\n{name}\n```\n"
    return f"\n```yaml\n# {name}\n{content.rstrip()}\n```\n"


def _table(schema: Mapping[str, Any]) -> str:
    head = "| field | type | default | meaning |\n|---|---|---|---|\n"
    return head + "".join(_rows(schema, schema["$defs"], ""))


def _rows(model: Mapping[str, Any], definitions: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, field in model["properties"].items():
        nested = definitions.get(str(field.get("$ref", "")).removeprefix("#/$defs/"))
        kind = _type(field) if nested is None else "mapping"
        default = _code(field["default"]) if "default" in field and nested is None else ""
        if name in model.get("required", ()):
            default = "required"
        text = str(field["description"]).replace("|", "\\|")
        yield f"| `{prefix}{name}` | {kind} | {default} | {text}{_example(field, nested)} |\n"
        if nested is not None:
            yield from _rows(nested, definitions, f"{prefix}{name}.")


def _example(field: Mapping[str, Any], nested: object) -> str:
    if nested is not None or "const" in field or field["examples"][0] == field.get("default"):
        return ""
    return f" Example: {_code(field['examples'][0])}"


def _code(value: Any) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}`"


def _type(field: Mapping[str, Any]) -> str:
    match field:
        case {"const": value}:
            return _code(value)
        case {"enum": values}:
            return ", ".join(_code(value) for value in values)
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"type": "object"}:
            return "map"
        case {"type": ["integer", "string"]} | {"type": "integer"}:
            return "whole number"
        case {"type": "number", "maximum": 100}:
            return "percent"
        case {"type": "number"}:
            return "number"
        case {"format": "date-time"}:
            return "instant"
        case {"pattern": pattern} if pattern == DURATION_TEXT:
            return "duration"
        case {"maxLength": _}:
            return "selector"
        case _:
            return "text"
