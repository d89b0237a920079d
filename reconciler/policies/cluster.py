"""Cluster: its id and connection, protected subjects, and the limits of one plan."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, create_model

from reconciler.model.selector import SelectorSet
from reconciler.operations import OPERATIONS
from reconciler.operations.base import Limit
from reconciler.operations.touchable import Protection
from reconciler.policies import client_properties
from reconciler.policies.base import Envelope, Guards, ManifestModel
from reconciler.policies.fields import Count, Percent, Selectors, TopicName, TopicSelectors, optional, required
from reconciler.policies.validation import ValidationIssue


class Protect(ManifestModel):
    """Subjects that no policy may make lose anything."""

    topics: TopicSelectors | None = optional("Topics that never lose records.", ["payments.*"])
    groups: Selectors | None = optional("Groups that are never removed.", ["billing"])


CONNECTION = Limit(
    "connection", 0, "connects elsewhere after the merge", fixed=True, remedy="propose the connection apart"
)
"""How many fields of the connection a proposal may change; no Cluster sets it."""
_CONNECTION_FIELDS = ("cluster_id", "bootstrap_servers", "client", "tokens", "journal")
LIMITS: tuple[Limit, ...] = tuple(limit for operation in reversed(OPERATIONS) for limit in operation.LIMITS)
"""The limits of all operations; the most destructive operation comes first."""


def _limit_field(limit: Limit) -> tuple[Any, Any]:
    kind = Percent if limit.is_percent else Annotated[Count, Field(le=limit.default)] if limit.fixed else Count
    fixed = " Always the default: only a Waiver allows more." if limit.fixed else ""
    description = f"{limit.words.capitalize()}.{fixed}"
    return kind, optional(description, limit.default, limit.default)


_LIMIT_FIELDS: dict[str, Any] = {limit.field: _limit_field(limit) for limit in LIMITS}
Limits: type[BaseModel] = create_model(
    "Limits", __config__=ManifestModel.model_config, __doc__="Most that one plan may do, by limit.", **_LIMIT_FIELDS
)


class JournalSpec(ManifestModel):
    """Where intents and outcomes are kept."""

    topic: TopicName | None = optional(
        "A Kafka topic; where it is left out, .reconciler/NAME.jsonl in the folder of this manifest.",
        "_reconciler.journal",
    )


class ScanSpec(ManifestModel):
    """What scans this cluster."""

    engine: Literal["spark", "auto", "inline"] = optional(
        "spark; inline: the command itself, without Java; auto: inline for little work.", "auto", "spark"
    )


_SERVER_SCHEMA = {"pattern": client_properties.SERVER_TEXT, "examples": ["broker-1:9093"]}
_Server = Annotated[str, AfterValidator(client_properties.validate_server), Field(json_schema_extra=_SERVER_SCHEMA)]


class ClusterSpec(ManifestModel):
    """The body of a Cluster."""

    cluster_id: Annotated[str, Field(min_length=1)] = required(
        "The cluster id of the brokers: plan and apply refuse any other cluster.", "5L6g3nShT-eMCtK--X86sw"
    )
    bootstrap_servers: Annotated[tuple[_Server, ...], Field(min_length=1, max_length=1000, strict=False)] = required(
        "host:port of some brokers; ${env:…} and ${file:…} are filled in on connecting.",
        ["broker-1:9093", "broker-2:9093"],
    )
    client: Annotated[
        dict[str, client_properties.ClientValue], AfterValidator(client_properties.validate_properties)
    ] = optional(
        "librdkafka properties, passed through. Secrets as ${env:…} or ${file:…}, never literally.",
        {"security.protocol": "SASL_SSL", "sasl.password": "${env:KAFKA_PASSWORD}"},
        default_factory=dict,
        json_schema_extra=client_properties.SCHEMA,
    )
    tokens: Literal["msk-iam", "gcp"] | None = optional(
        "What makes tokens for OAUTHBEARER, with the machine's credentials of AWS or Google Cloud.", "msk-iam"
    )
    consumer_offsets: Literal["hidden"] | None = optional(
        "hidden: the provider hides __consumer_offsets, and plans do without it. See docs/which-kafka.md.", "hidden"
    )
    protect: Protect = optional("Topics and groups that may lose nothing.", {"groups": ["a"]}, default_factory=Protect)
    limits: Limits = optional("Bounds of one plan; only a Waiver allows more.", {"groups": 20}, default_factory=Limits)
    journal: JournalSpec = optional(
        "Where intents and outcomes are kept; it gives `every` its clock.",
        {"topic": "_reconciler.journal"},
        default_factory=JournalSpec,
    )
    scan: ScanSpec = optional("How the facts of this cluster are read.", {"engine": "auto"}, default_factory=ScanSpec)

    def _issues(self) -> Iterator[ValidationIssue]:
        return client_properties.token_issues(self.client, self.tokens)


class Cluster(Envelope):
    """One Kafka cluster: identity, connection, protections, limits."""

    kind: Literal["Cluster"] = Field(description="Which kind of manifest this is.", examples=["Cluster"])
    spec: ClusterSpec = Field(description="Identity, connection, protections and limits of one cluster.")

    @property
    def protection(self) -> Protection:
        protect = self.spec.protect
        return Protection(
            cluster=self.address,
            declared_at=self.declared_at,
            topics=SelectorSet(protect.topics or ()),
            groups=SelectorSet(protect.groups or ()),
            journal=self.spec.journal.topic,
        )

    @property
    def guards(self) -> Guards:
        protect = self.spec.protect
        return {"protect.topics": ("topics", protect.topics or ()), "protect.groups": ("groups", protect.groups or ())}

    @property
    def hides_consumer_offsets(self) -> bool:
        """Whether facts go without `__consumer_offsets` where it cannot be seen."""
        return self.spec.consumer_offsets == "hidden"

    def limit(self, limit: Limit) -> float:
        return float(getattr(self.spec.limits, limit.field, limit.default))

    def connection_changes(self, trusted: "Cluster | None") -> tuple[str, ...]:
        """Return the fields in which the connection differs from a trusted one. None: all fields."""
        own, other = ({} if of is None else of.connection for of in (self, trusted))
        return tuple(sorted(name for name in own.keys() | other.keys() if own.get(name) != other.get(name)))

    @property
    def connection(self) -> Mapping[str, Any]:
        """The fields that say where to connect and as whom, by their names in a manifest."""
        fields = self.spec.model_dump(by_alias=True, include=set(_CONNECTION_FIELDS))
        client = fields.pop("client")
        return fields | {f"client.{name}": value for name, value in client.items()}

    def connect_as(self, trusted: "Cluster") -> "Cluster":
        spec = self.spec.model_copy(update={name: getattr(trusted.spec, name) for name in _CONNECTION_FIELDS})
        return self.model_copy(update={"spec": spec})
