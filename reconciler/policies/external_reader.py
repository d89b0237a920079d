"""ExternalReader: a consumer of topics that keeps its position outside of Kafka's groups."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from reconciler.model.scan_request import ExternalReaderRequest, PositionKind
from reconciler.policies.base import Envelope, Guards, ManifestModel, Metadata
from reconciler.policies.fields import TopicName, TopicSelectors, optional, required
from reconciler.policies.validation import ValidationIssue, invalid
from reconciler.references import SCHEMES, parse_place

_PLACE_TEXT = rf"^(/|({'|'.join(SCHEMES)})://)[^?#]*$"
_TABLE_TEXT = r"\.(parquet|csv|jsonl?)$"


def _is_place(text: str) -> str:
    try:
        parse_place(text)
    except ValueError as error:
        reason, _, hint = str(error).partition(": ")
        raise invalid("M221", reason, hint) from None
    return text


def _is_table(text: str) -> str:
    if not text.endswith((".parquet", ".csv", ".json", ".jsonl")):
        raise invalid("M221", "it has no suffix of a table", "write a file that ends in .parquet, .csv or .jsonl")
    return text


_Place = Annotated[str, AfterValidator(_is_place), Field(json_schema_extra={"pattern": _PLACE_TEXT})]
_Table = Annotated[_Place, AfterValidator(_is_table), Field(json_schema_extra={"pattern": _TABLE_TEXT})]


class DeclaredPosition(ManifestModel):
    """Where the position is. Exactly one field."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    spark_checkpoint: _Place | None = optional(
        "The checkpoint folder of a query of Structured Streaming.", "s3://lake/checkpoints/orders"
    )
    mirror_maker_syncs: TopicName | None = optional(
        "The topic of this cluster in which MirrorMaker 2 keeps the offset syncs of a target.",
        "mm2-offset-syncs.B.internal",
    )
    table: _Table | None = optional(
        "A Parquet, CSV or JSON Lines file: cluster_id, topic, partition, offset (the next one needed), written_at.",
        "/data/positions/orders.parquet",
    )

    def _issues(self) -> Iterator[ValidationIssue]:
        if sum(value is not None for _name, value in self) != 1:
            hint = f"write one of {', '.join(PositionKind)}"
            yield ValidationIssue("M222", "a reader has exactly one position", hint=hint)


class ExternalReaderSpec(ManifestModel):
    """The body of an ExternalReader."""

    topics: TopicSelectors = required(
        "Topics that it reads; where its position cannot be read, these lose no records.", ["orders", "payments"]
    )
    position: DeclaredPosition = required(
        "Where it keeps its position; read by each scan, and again before each request.",
        {"sparkCheckpoint": "s3://lake/checkpoints/orders"},
    )


class ExternalReader(Envelope):
    """A consumer that Kafka does not list, and that may miss no records."""

    kind: Literal["ExternalReader"] = Field(description="Which kind of manifest this is.", examples=["ExternalReader"])
    metadata: Metadata = Field(description="The name of this manifest, its owner, its reason and its cluster.")
    spec: ExternalReaderSpec = Field(description="What it reads, and where its position is.")

    @property
    def guards(self) -> Guards:
        return {"topics": ("topics", self.spec.topics)}

    @property
    def request(self) -> ExternalReaderRequest:
        (position,) = self.spec.position.model_dump(exclude_none=True, by_alias=True).items()
        return ExternalReaderRequest(
            name=str(self.address), topics=self.spec.topics, kind=PositionKind(position[0]), at=position[1]
        )
