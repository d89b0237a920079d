"""Cluster: which cluster, how to reach it, what is protected, and the limits of one plan. Settings, not desired state."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from reconciler.policies.base import STRICT, ClusterMetadata, Envelope
from reconciler.policies.client_properties import SCHEMA as CLIENT_SCHEMA
from reconciler.policies.client_properties import ClientValue, checked_properties
from reconciler.policies.fields import Count, Percent, Selectors, TopicName, TopicSelectors
from reconciler.policies.secret_refs import SERVER_TEXT, server


class Protect(BaseModel):
    """Subjects that lose nothing, whatever a policy says."""

    model_config = STRICT

    topics: TopicSelectors | None = Field(
        default=None, description="Topics that never lose records.", examples=[["payments.*"]]
    )
    groups: Selectors | None = Field(default=None, description="Groups that are never removed.", examples=[["billing"]])


class Limits(BaseModel):
    """Bounds on the blast radius of one plan; a Waiver is the only way past."""

    model_config = STRICT

    topics: Count = Field(default=50, description="Topics that lose records.", examples=[50])
    records_percent_per_topic: Percent = Field(default=90, description="Share of one topic's records.", examples=[90])
    records_percent: Percent = Field(default=50, description="Share of the cluster's records.", examples=[50])
    groups: Count = Field(default=20, description="Groups removed.", examples=[20])
    groups_percent: Percent = Field(default=50, description="Share of the cluster's groups.", examples=[50])
    elections: Count = Field(default=1000, description="Leaders elected.", examples=[1000])
    unclean_elections: Count = Field(
        default=0, description="Leaders elected out of sync, which loses records.", examples=[0]
    )


class JournalSpec(BaseModel):
    """Where intents and outcomes are kept."""

    model_config = STRICT

    topic: TopicName | None = Field(
        default=None,
        description="A Kafka topic; where it is left out, a file, .reconciler/NAME.jsonl.",
        examples=["_reconciler.journal"],
    )


Server = Annotated[
    str, AfterValidator(server), Field(json_schema_extra={"pattern": SERVER_TEXT, "examples": ["broker-1:9093"]})
]


class ClusterSpec(BaseModel):
    """The body of a Cluster."""

    model_config = STRICT

    cluster_id: Annotated[str, Field(min_length=1)] = Field(
        description="The id that the brokers answer with: plan and apply refuse any other cluster.",
        examples=["5L6g3nShT-eMCtK--X86sw"],
    )
    bootstrap_servers: Annotated[tuple[Server, ...], Field(min_length=1, max_length=1000, strict=False)] = Field(
        description="host:port of some brokers; ${env:…} and ${file:…} are filled in on connecting.",
        examples=[["broker-1:9093", "broker-2:9093"]],
    )
    client: Annotated[dict[str, ClientValue], AfterValidator(checked_properties)] = Field(
        default_factory=dict,
        description="librdkafka properties, passed through. Secrets as ${env:…} or ${file:…}; a literal one is refused.",
        examples=[{"security.protocol": "SASL_SSL", "sasl.password": "${env:KAFKA_PASSWORD}"}],
        json_schema_extra=CLIENT_SCHEMA,
    )
    protect: Protect = Field(
        default_factory=Protect, description="What loses nothing, whatever a policy says.", examples=[{"groups": ["a"]}]
    )
    limits: Limits = Field(
        default_factory=Limits, description="Bounds of one plan; only a Waiver gets past.", examples=[{"groups": 20}]
    )
    journal: JournalSpec = Field(
        default_factory=JournalSpec,
        description="Where intents and outcomes are kept; it gives `every` its clock.",
        examples=[{"topic": "_reconciler.journal"}],
    )


class Cluster(Envelope):
    """One Kafka cluster: identity, connection, protections, limits."""

    kind: Literal["Cluster"] = Field(description="Which kind of manifest this is.", examples=["Cluster"])
    metadata: ClusterMetadata = Field(description="Who this manifest is.")
    spec: ClusterSpec = Field(description="Identity, connection, protections and limits of one cluster.")
