"""Resolves references to secrets when the program connects; validation needs no secret.

`reconciler.references` decides what a manifest may name, and RECONCILER_ALLOW_SERVERS bounds where it
connects. Only the Connection holds the values; its repr hides them.
"""

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
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


def _matches(address: str, pattern: str) -> bool:
    """Match host:port. The brackets of an IPv6 address stand for themselves: `[fd00::*]:9092`."""
    return fnmatchcase(address, re.sub(r"^\[(?=[^]]*:)", "[[]", pattern))


def resolve(cluster: Cluster, *, timeout_s: float = 30.0, environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of a Cluster, with every `${env:…}` and `${file:…}` resolved.

    Paths are relative to the folder of secrets. `environment`: by default that of the process. Raises
    SecretMissing (M501), which names everything that is missing or not allowed.
    """
    identity = str(cluster.spec.tokens or cluster.spec.client.get("sasl.oauthbearer.metadata.authentication.type"))
    allowed = environment.get(ALLOW_SERVERS) or _IDENTITY_SERVERS.get(identity, "*")
    servers_allowed = [pattern.strip() for pattern in allowed.split(",")]
    problems: list[str] = []
    references: dict[str, str] = {}

    def resolve_text(text: str, field_name: str) -> str:
        def value(match: re.Match[str]) -> str:
            try:
                resolved = value_of(match, environment)
            except UnresolvedReference as reason:
                problems.append(f"spec.{field_name}: {reason}")
                return ""
            references[resolved] = match[0]
            return resolved

        return REFERENCE.sub(value, text)

    def resolve_servers(entry: str, index: int) -> list[str]:
        if not REFERENCE.fullmatch(entry):
            check_address(f"bootstrapServers[{index}]", entry, entry)
            return [entry]
        text = resolve_text(entry, f"bootstrapServers[{index}]")
        # One variable may hold several servers, as for most tools.
        servers = [server.strip() for server in text.split(",") if server.strip()]
        if text and not (servers and all(map(is_server, servers))):
            problems.append(
                f"spec.bootstrapServers[{index}]: {entry} holds no host:port, or several with commas between"
            )
        for number, server in enumerate(servers):
            name = entry if len(servers) == 1 else f"{entry}[{number}]"
            check_address(f"bootstrapServers[{index}]", name, server)
            references[server] = name
            references.setdefault(server.rpartition(":")[0].strip("[]"), name)
        return servers

    def resolve_property(name: str, value: str | int | bool) -> str:
        if not isinstance(value, str) or PROPERTIES.get(name) is PropertyKind.BOOLEAN:
            return str(value).lower()
        kind = PROPERTIES.get(name)
        if kind not in (PropertyKind.FILE, PropertyKind.SENT_FILE):
            text = resolve_text(value, f"client.{name}")
            if text and not fits(name, text):
                problems.append(f"spec.client.{name}: {value} holds characters that this property does not accept")
            return text
        try:
            return str(find_file(value, environment, CERTIFICATE_DIRS if kind is PropertyKind.FILE else ()))
        except UnresolvedReference as reason:
            problems.append(f"spec.client.{name}: {reason}")
            return ""

    def check_address(field_name: str, text: str, address: str) -> None:
        if not any(_matches(address.lower(), pattern.lower()) for pattern in servers_allowed):
            problems.append(
                f"spec.{field_name}: {text} is not one of {', '.join(filter(None, servers_allowed)) or 'none'}, which {ALLOW_SERVERS} allows: nothing "
                "is sent there"
            )

    bootstrap = tuple(
        server for index, entry in enumerate(cluster.spec.bootstrap_servers) for server in resolve_servers(entry, index)
    )
    properties = {name: resolve_property(name, value) for name, value in cluster.spec.client.items()}
    if url := properties.get(_TOKEN_ENDPOINT):
        address = urlsplit(url).netloc
        check_address(f"client.{_TOKEN_ENDPOINT}", url, address if re.search(r":\d+$", address) else f"{address}:443")
    if problems:
        raise SecretMissing(
            f"M501 {cluster.address} ({cluster.declared_at}): {'; '.join(problems)}: set it where this command runs"
        )
    return Connection(
        bootstrap_servers=bootstrap,
        properties=properties,
        timeout_s=timeout_s,
        references=references,
        tokens=cluster.spec.tokens or "",
        unresolved={
            name: value
            for name, value in cluster.spec.client.items()
            if isinstance(value, str) and REFERENCE.search(value)
        },
    )
