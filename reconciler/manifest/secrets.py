"""Resolves references to secrets when the program connects; validation needs no secret.

`reconciler.references` decides what a manifest may name, and RECONCILER_ALLOW_SERVERS bounds where it
connects. Only the Connection holds the values; its repr hides them.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain
from urllib.parse import urlsplit

from reconciler.errors import SecretMissing
from reconciler.kafka.connect import Connection
from reconciler.policies.client_properties import PROPERTIES, PropertyKind, fits, is_server
from reconciler.policies.cluster import Cluster
from reconciler.references import CERTIFICATE_DIRS, REFERENCE, UnresolvedReference, find_file, value_of

ALLOW_SERVERS = "RECONCILER_ALLOW_SERVERS"
"""The variable with the addresses that credentials may go to: patterns of host:port, by default all.

For the identity of the machine, by default those of its cloud's service.
"""
_IDENTITY_SERVERS = {
    "msk-iam": "*.kafka.*.amazonaws.com:*,*.kafka-serverless.*.amazonaws.com:*,*.kafka.*.amazonaws.com.cn:*",
    "gcp": "*.managedkafka.*.cloud.goog:*",
    "azure_imds": "*.servicebus.windows.net:*",
    "aws_iam": "",
}
"""Where the identity of the machine may go by default: no reference to a secret says that it may leave."""
_TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  a property, no secret


def resolve(cluster: Cluster, *, timeout_s: float = 30.0, environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of a Cluster, with every `${env:…}` and `${file:…}` resolved.

    Paths are relative to the folder of secrets. `environment`: by default that of the process. Raises
    SecretMissing (M501), which names everything that is missing or not allowed.
    """
    spec = cluster.spec
    identity = str(spec.tokens or spec.client.get("sasl.oauthbearer.metadata.authentication.type"))
    allowed = environment.get(ALLOW_SERVERS) or _IDENTITY_SERVERS.get(identity, "*")
    resolution = _Resolution(environment, [pattern.strip() for pattern in allowed.split(",")])
    servers = [resolution.servers(f"bootstrapServers[{n}]", entry) for n, entry in enumerate(spec.bootstrap_servers)]
    properties = {name: resolution.property(name, value) for name, value in spec.client.items()}
    if url := properties.get(_TOKEN_ENDPOINT):
        address = urlsplit(url).netloc
        address = address if re.search(r":\d+$", address) else f"{address}:443"
        resolution.check_address(f"client.{_TOKEN_ENDPOINT}", url, address)
    if resolution.problems:
        problems = "; ".join(resolution.problems)
        raise SecretMissing(
            f"M501 {cluster.address} ({cluster.declared_at}): {problems}: set what is missing where this command runs"
        )
    return Connection(
        bootstrap_servers=tuple(chain.from_iterable(servers)),
        properties=properties,
        timeout_s=timeout_s,
        references=resolution.references,
        tokens=spec.tokens or "",
        unresolved={
            name: value for name, value in spec.client.items() if isinstance(value, str) and REFERENCE.search(value)
        },
    )


@dataclass(frozen=True, slots=True)
class _Resolution:
    """What the references of one Cluster stand for. `servers_allowed`: patterns of host:port.

    `problems`: what is missing or not allowed. `references`: values, and the reference of each.
    """

    environment: Mapping[str, str]
    servers_allowed: Sequence[str]
    problems: list[str] = field(default_factory=list)
    references: dict[str, str] = field(default_factory=dict)

    def text(self, field_name: str, text: str) -> str:
        """Return a text with the values of its references; one that has none leaves nothing."""

        def value(match: re.Match[str]) -> str:
            try:
                resolved = value_of(match, self.environment)
            except UnresolvedReference as reason:
                self.problems.append(f"spec.{field_name}: {reason}")
                return ""
            self.references[resolved] = match[0]
            return resolved

        return REFERENCE.sub(value, text)

    def servers(self, field_name: str, entry: str) -> Sequence[str]:
        """Return the addresses of an entry. One variable may hold several, as for most tools."""
        if not REFERENCE.fullmatch(entry):
            self.check_address(field_name, entry, entry)
            return [entry]
        text = self.text(field_name, entry)
        servers = [server.strip() for server in text.split(",") if server.strip()]
        if text and not (servers and all(map(is_server, servers))):
            self.problems.append(f"spec.{field_name}: {entry} holds no host:port, or several with commas between")
        for number, server in enumerate(servers):
            name = entry if len(servers) == 1 else f"{entry}[{number}]"
            self.check_address(field_name, name, server)
            self.references[server] = name
            self.references.setdefault(server.rpartition(":")[0].strip("[]"), name)
        return servers

    def property(self, name: str, value: str | int | bool) -> str:
        """Return the value of a property as the client library takes it."""
        kind = PROPERTIES.get(name)
        if not isinstance(value, str) or kind is PropertyKind.BOOLEAN:
            return str(value).lower()
        if kind not in (PropertyKind.FILE, PropertyKind.SENT_FILE):
            text = self.text(f"client.{name}", value)
            if text and not fits(name, text):
                self.problems.append(f"spec.client.{name}: {value} holds characters that this property does not accept")
            return text
        try:
            return str(find_file(value, self.environment, CERTIFICATE_DIRS if kind is PropertyKind.FILE else ()))
        except UnresolvedReference as reason:
            self.problems.append(f"spec.client.{name}: {reason}")
            return ""

    def check_address(self, field_name: str, text: str, address: str) -> None:
        """Note an address that nothing may be sent to. `text`: what the manifest writes for it."""
        # The brackets of an IPv6 address stand for themselves: `[fd00::*]:9092`.
        patterns = (re.sub(r"^\[(?=[^]]*:)", "[[]", pattern.lower()) for pattern in self.servers_allowed)
        if not any(fnmatchcase(address.lower(), pattern) for pattern in patterns):
            allowed = ", ".join(filter(None, self.servers_allowed)) or "none"
            self.problems.append(
                f"spec.{field_name}: {text} is not one of {allowed}, which {ALLOW_SERVERS} allows: nothing is sent there"
            )
