"""Reads and writes the model's dataclasses as JSON: strict, one line each, ASCII, with a JSON Schema.

pydantic compiles the fields of a dataclass, their types and bounds (model/bounds.py). A text is
accepted only if its value is written as the same text again: this one comparison refuses unknown,
missing and repeated fields, and a second spelling of a value.
"""

import dataclasses
import inspect
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, PydanticSerializationError, SchemaValidator, core_schema

from reconciler.model.bounds import Bounds, InstantMs, Int64
from reconciler.model.names import Address
from reconciler.text.escape import harmless_json
from reconciler.text.formatting import format_exact_instant
from reconciler.text.validation import plain_reason

T = TypeVar("T")
Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOCUMENTS: Mapping[str, str] = {
    "Plan": "a saved plan",
    "Results": "a results file of `apply`",
    "DriftReport": "a drift report",
    "Journal": "the JSON of `journal`",
    "Suggestions": "the JSON of `suggest`",
    "PlanDiff": "the JSON of `plan diff`",
    "Diagnostics": "the JSON of `validate`",
    "DoctorReport": "the JSON of `doctor`",
    "Protection": "the JSON of `doctor --github`",
}
"""Kind of a document that the program writes → what a message calls it."""
_HEAD_CHARS = 400
"""Characters of a document in which its kind stands."""
SHOWN = frozenset({"Plan", "Results", "DriftReport"})
"""Kinds that `show` prints."""
_BINDING = frozenset({"request", "approved", "guard", "seen"})
"""Objects of an action that decide what is sent: no newer minor version may add a field there."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


class Codec(Generic[T]):
    """Reads and writes values of the given dataclasses, one line of JSON each.

    `tag`: the class attribute that tells several classes apart, in lower case in the file. `shared`:
    equal tuples and nested values become one object, which halves the memory of a large plan.
    `omit_none`: a field that is None is left out; so is one with the metadata OMIT_DEFAULT that has its default. A class may name attributes, properties and methods
    without arguments in `DERIVED`: they are written, too, and refused where the fields say otherwise.
    """

    def __init__(self, *types: type[T], tag: str = "", shared: bool = False, omit_none: bool = False) -> None:
        self._types = types
        self._tag = tag
        self._record = _Record(shared, omit_none)

    @cached_property
    def _adapters(self) -> Mapping[type[Any], TypeAdapter[T]]:
        return {cls: TypeAdapter(cast(Any, Annotated[cls, self._record])) for cls in self._types}

    @cached_property
    def _validator(self) -> Any:
        if not self._tag:
            return self._adapters[self._types[0]].validator
        choices = {getattr(cls, self._tag): adapter.core_schema for cls, adapter in self._adapters.items()}
        return SchemaValidator(core_schema.tagged_union_schema(choices, self._tag.lower()))

    def encode(self, value: T) -> str:
        """Return the value as one line.

        Raises ValueError for a wrong type and half a surrogate pair, KeyboardInterrupt for Ctrl-C.
        """
        try:
            written = self._adapters[type(value)].serializer.to_json(
                value, ensure_ascii=True, by_alias=True, exclude_none=self._record.omit_none, warnings="error"
            )
        except ValueError as error:
            # Pydantic turns a Ctrl-C in a function that it calls into an error of the value, without a cause.
            if isinstance(error, PydanticSerializationError) and str(error).endswith(": KeyboardInterrupt: "):
                raise KeyboardInterrupt from None
            raise ValueError(f"a value cannot be written as JSON: {error}") from None
        return harmless_json(written.decode("ascii"))

    def fields(self, value: T) -> dict[str, Any]:
        """Return the value as a JSON object, for `document`."""
        return cast(dict[str, Any], json.loads(self.encode(value)))

    def validate(self, text: str) -> T:
        """Return the value of a text that the caller then passes to `compare`. Raises ValueError."""
        try:
            return cast(T, self._validator.validate_json(text))
        except ValidationError as error:
            raise ValueError(_reason(error, tagged=bool(self._tag))) from None

    def decode(self, text: str, *, newer: bool = False, exact: bool = True) -> T:
        """Return the value that `encode` wrote as this text. Raises ValueError for every other text.

        `newer`: the text is of a newer minor version of its format, and may hold more fields, except
        in what decides the request. `exact`: as in `compare`.
        """
        value = self.validate(text)
        compare(text, self.encode(value), newer=newer, exact=exact)
        return value

    def schema(self, schema_id: str, title: str, **lists: "Codec[Any]") -> Schema:
        """Return the JSON Schema of a document: the fields of this codec's class, then lists of others.

        No object forbids further fields: a newer minor version may add some.
        """
        [schema], definitions = self.schemas()
        for name, codec in lists.items():
            rows, more = codec.schemas()
            definitions |= more
            schema["properties"][name] = {"type": "array", "items": {"oneOf": rows} if len(rows) > 1 else rows[0]}
            schema["required"].append(name)
        return {"$schema": DIALECT, "$id": schema_id, **schema, "title": title, "$defs": definitions}

    def schemas(self) -> tuple[list[Schema], Schema]:
        """Return the JSON Schema of each class as it is written, and the definitions in common."""
        definitions: Schema = {}
        schemas = []
        for adapter in self._adapters.values():
            schema = adapter.json_schema(mode="serialization", schema_generator=_WithoutTitles)
            definitions |= schema.pop("$defs", {})
            schemas.append(schema)
        return schemas, definitions


def compare(text: str, written: str, *, newer: bool = False, exact: bool = True) -> None:
    """Raise ValueError with the first difference of a valid text from what this program writes.

    `newer`: more fields are accepted. `exact` False: other spaces and escapes are accepted.
    """
    if text == written:
        return
    if difference := _difference(read_json(text), json.loads(written), "", newer=newer):
        raise ValueError(difference)
    if exact and not newer:
        raise ValueError("spaces or escapes are not as this program writes them; do not reformat it")


def read_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError, also where a field is there twice."""
    try:
        return json.loads(text, object_pairs_hook=_refuse_repetition, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"it is not one complete JSON value: no JSON can be read at {where}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_newer(version: str, known: str) -> bool:
    """Return whether a format version is another minor one. Raises ValueError for another major one."""
    major = known.partition(".")[0]
    if version.partition(".")[0] != major:
        raise ValueError(f"format_version is {shorten(version)}, this program reads {major}.x")
    return version != known


def read_kind(path: Path) -> str:
    """Return the kind of the document in a file; empty: no document, or a pipe, which can be read only once."""
    with suppress(OSError):
        if path.is_file():
            with path.open(encoding="utf-8-sig", errors="replace") as stream:
                return document_kind(stream.read(_HEAD_CHARS))
    return ""


def document_kind(start: str) -> str:
    """Return the kind of a document that begins like this, a key of DOCUMENTS; empty: of none."""
    if start.startswith('{"v":'):
        return "Journal"
    head = re.match(r'\{\s*"format_version":\s*"[^"]*",\s*"kind":\s*"(\w+)"', start)
    return head[1] if head and head[1] in DOCUMENTS else ""


def wrong_document(path: Path, kind: str, expected: str) -> str:
    """Return the message about a document that is not what a command expects, with what to run instead."""
    carry_out = f"`reconciler apply {path}` carries it out, " if kind == "Plan" else ""
    next_step = f": {carry_out}`reconciler show {path}` prints it" if kind in SHOWN else ""
    return f"{path} is {DOCUMENTS[kind]}, not {expected}{next_step}"


def shorten(value: object) -> str:
    """Return a value as an error message may quote it: ASCII, one line, short."""
    text = ascii(value) if isinstance(value, str) else harmless_json(json.dumps(value, default=str))
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def document(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of a JSON object, piece by piece: one field per line.

    A list of objects and an iterator have one entry per line. An entry is a JSON value, or its text
    as `encode` or `harmless_json` returns it.
    """
    separator = "{\n"
    for name, value in fields.items():
        yield f'{separator}"{name}": '
        separator = ",\n"
        if not isinstance(value, Iterator) and not (isinstance(value, list) and isinstance((value or [0])[0], dict)):
            yield harmless_json(_compact(value))
            continue
        start = "[\n"
        for entry in value:
            yield start + (entry if isinstance(entry, str) else harmless_json(_compact(entry)))
            start = ",\n"
        yield "[]" if start == "[\n" else "\n]"
    yield "\n}\n"


@dataclasses.dataclass(frozen=True, slots=True)
class _Record:
    """How pydantic reads and writes a dataclass: each field by its type and bounds, then derived values."""

    shared: bool
    omit_none: bool

    def __get_pydantic_core_schema__(self, source: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        hints = get_type_hints(source, include_extras=True)
        fields = []
        for field in dataclasses.fields(source):
            hint, name = hints[field.name], field.metadata.get("name", field.name)
            name = name.removesuffix("_ms") if InstantMs in (hint, *get_args(hint)) else name
            schema = handler.generate_schema(self._form(hint))
            omit_default = bool(field.metadata.get("omit_default"))
            if (self.omit_none or omit_default) and field.default is not dataclasses.MISSING:
                schema = core_schema.with_default_schema(schema, default=field.default)
            fields.append(
                core_schema.dataclass_field(
                    field.name,
                    schema,
                    validation_alias=name,
                    serialization_alias=name,
                    serialization_exclude_if=partial(operator.eq, field.default) if omit_default else None,
                )
            )
        computed = [self._computed(source, name, handler) for name in getattr(source, "DERIVED", ())]
        arguments = core_schema.dataclass_args_schema(source.__name__, fields, computed_fields=computed)
        description = " ".join(inspect.cleandoc(source.__doc__ or "").partition("\n\n")[0].split())
        return core_schema.dataclass_schema(
            source,
            arguments,
            [field.name for field in dataclasses.fields(source)],
            post_init=hasattr(source, "__post_init__"),
            slots=hasattr(source, "__slots__"),
            # `compare` finds unknown fields, so that those of a newer minor version can be ignored here
            config=core_schema.CoreConfig(strict=True, extra_fields_behavior="ignore"),
            metadata={"pydantic_js_updates": {"description": description}},
        )

    def _computed(self, source: type[Any], name: str, handler: GetCoreSchemaHandler) -> core_schema.ComputedField:
        attribute = inspect.getattr_static(source, name)
        function = attribute.fget if isinstance(attribute, property) else attribute
        if not callable(function):
            return core_schema.computed_field(name, core_schema.literal_schema([attribute]), alias=name.lower())
        schema = handler.generate_schema(self._form(get_type_hints(function)["return"]))
        if function is attribute:
            call = core_schema.plain_serializer_function_ser_schema(operator.call, return_schema=schema)
            schema = core_schema.any_schema(serialization=call)
        return core_schema.computed_field(name, schema, alias=name.lower())

    def _form(self, hint: Any) -> Any:
        """Return the type by which pydantic reads and writes a type of the model."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in _FORMS:
            form = _FORMS[hint]
        elif origin is Annotated:
            form = _bounded(*arguments)
        elif dataclasses.is_dataclass(hint):
            form = Annotated[hint, self]
        elif origin in (Union, UnionType):
            return Union[tuple(map(self._form, arguments))]  # noqa: UP007  the members are known at run time only
        elif origin is None or origin is Literal:
            form = hint
        else:
            form = origin[tuple(argument if argument is ... else self._form(argument) for argument in arguments)]
        if self.shared and (origin is tuple or dataclasses.is_dataclass(hint)):
            return Annotated[form, AfterValidator(_share)]
        return form


class _WithoutTitles(GenerateJsonSchema):
    """A field's title would repeat its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


_share = lru_cache(maxsize=4096, typed=True)(lambda value: value)


def _bounded(kind: type, bounds: Bounds) -> Any:
    if kind is int:
        return Annotated[int, Field(ge=bounds.low, le=bounds.high)]
    return Annotated[kind, Field(min_length=bounds.low, max_length=bounds.high)]


def _parse_instant(value: str) -> int:
    try:
        return (datetime.fromisoformat(value).astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ValueError("expected an instant such as 2026-11-21T10:00:00Z") from None


def _parse_address(value: str) -> Address:
    address = Address.parse(value)
    return Address(_share(address.kind), _share(address.policy), _share(address.name), address.partition)


def _check_number(value: Any) -> Any:
    """Return the number itself: an int stays an int, so that it is written as the same text again."""
    if type(value) not in (int, float) or value - value != 0:
        raise ValueError("expected a finite number")
    return value


def _form(kind: Any, parse: Callable[[Any], Any], write: Callable[[Any], Any], **schema: Any) -> Any:
    return Annotated[kind, AfterValidator(parse), PlainSerializer(write, return_type=kind), WithJsonSchema(schema)]


_FORMS: Mapping[Any, Any] = {
    int: _bounded(*get_args(Int64)),
    float: _form(Any, _check_number, _check_number, type="number"),
    InstantMs: _form(
        str, _parse_instant, format_exact_instant, type="string", format="date-time", examples=["2026-11-21T10:00:00Z"]
    ),
    Address: _form(
        str,
        _parse_address,
        str,
        type="string",
        description="KIND/POLICY/SUBJECT.",
        examples=["RetentionFloor/orders-gdpr/orders[3]"],
    ),
}


def _refuse_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in pairs:
        if name in row:
            raise ValueError(f"the field {shorten(name)} is there twice, so two readers could read two values")
        row[name] = value
    return row


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _reason(error: ValidationError, *, tagged: bool) -> str:
    """Return the first reason of a refusal, with the path of the field."""
    first = error.errors(include_url=False)[0]
    parts = first["loc"][1:] if tagged else first["loc"]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
    message = plain_reason(first["msg"])
    message = message[:1].lower() + message[1:]
    match first["type"]:
        case "json_invalid":
            return f"it is not one complete JSON value: {message.partition(': ')[2]}"
        case "missing":
            parent, _, name = path.rpartition(".")
            return f"{parent or 'it'} lacks {name}"
        case "union_tag_invalid" if not path:
            tag, known = first["ctx"]["discriminator"].strip("'"), first["ctx"]["expected_tags"]
            return f"{tag} is {shorten(first['input'][tag])}, which is none of {known}"
        case "value_error" | "union_tag_not_found" if not path:
            return message
    return f"{path or 'it'} is {shorten(first['input'])}: {message}"


def _difference(read: Any, written: Any, path: str, *, newer: bool) -> str:
    """Return the first difference of two JSON values; empty: none. `newer`: `read` may have more fields."""
    name = path or "it"
    if type(read) is dict and type(written) is dict:
        if missing := written.keys() - read.keys():
            return f"{name} lacks {', '.join(sorted(missing))}"
        extensible = newer and path.partition(".")[0] not in _BINDING
        if (unknown := read.keys() - written.keys()) and not extensible:
            return f"{name} has unknown fields: {', '.join(map(shorten, sorted(unknown)))}"
        pairs = [(read[key], value, f"{path}.{key}".removeprefix(".")) for key, value in written.items()]
    elif type(read) is list and type(written) is list and len(read) == len(written):
        pairs = [(*pair, f"{path}[{index}]") for index, pair in enumerate(zip(read, written, strict=True))]
    elif type(read) is type(written) and read == written:
        return ""
    else:
        return f"{name} is {shorten(read)}, and the fields say {shorten(written)}"
    return next(filter(None, (_difference(*pair, newer=newer) for pair in pairs)), "")
