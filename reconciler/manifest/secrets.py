"""Resolves references to secrets when the program connects; validation needs no secret.

Only `ResolvedClient` holds the values. Its repr hides them, and errors name only the variable or
the file.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.errors import SecretMissing
from reconciler.policies.cluster import Cluster
from reconciler.policies.secret_refs import REFERENCE

_LARGEST_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class ResolvedClient:
    """How to reach the brokers. `properties`: librdkafka's, with all references resolved."""

    bootstrap: tuple[str, ...]
    properties: Mapping[str, str] = field(repr=False)


class _UnresolvedError(Exception):
    """A reference without a value; the message names the reference and never a value."""


def resolve(cluster: Cluster, *, environment: Mapping[str, str] | None = None) -> ResolvedClient:
    """Resolve every `${env:…}` and `${file:…}` of a Cluster's connection.

    Files are relative to the manifest's folder. `environment`: by default that of the process.
    Raises SecretMissing (M501), which names every unresolved reference.
    """
    variables = os.environ if environment is None else environment
    folder = Path(cluster.declared_at.path).parent
    missing: list[str] = []

    def resolve_text(text: str, field_name: str) -> str:
        try:
            return REFERENCE.sub(lambda match: _value(match["env"], match["file"], variables, folder), text)
        except _UnresolvedError as error:
            missing.append(f"spec.{field_name}: {error}")
            return ""

    servers = [
        resolve_text(entry, f"bootstrapServers[{index}]") for index, entry in enumerate(cluster.spec.bootstrap_servers)
    ]
    properties = {
        name: resolve_text(value, f"client.{name}") if isinstance(value, str) else str(value).lower()
        for name, value in cluster.spec.client.items()
    }
    if missing:
        raise SecretMissing(
            f"M501 {cluster.address} ({cluster.declared_at}): {'; '.join(missing)}: set it where this command runs"
        )
    # One variable may hold several servers, as for most tools.
    bootstrap = tuple(server.strip() for entry in servers for server in entry.split(",") if server.strip())
    return ResolvedClient(bootstrap=bootstrap, properties=properties)


def _value(variable: str | None, file: str | None, variables: Mapping[str, str], folder: Path) -> str:
    if variable is not None:
        if variable not in variables:
            raise _UnresolvedError(f"the variable {variable} is not set")
        if not (value := variables[variable]):
            raise _UnresolvedError(f"the variable {variable} is empty")
        return value
    assert file is not None
    try:
        with (folder / file).open("rb") as stream:
            content = stream.read(_LARGEST_BYTES + 1)
        value = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise _UnresolvedError(f"the file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:  # the message of the error quotes the bytes
        raise _UnresolvedError(f"the file {file} is not UTF-8") from None
    if not value or len(content) > _LARGEST_BYTES:
        raise _UnresolvedError(f"the file {file} is {'too large' if value else 'empty'}")
    return value
