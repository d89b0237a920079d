"""References to secrets, looked up as late as possible: on connecting, and never to validate or to plan from.

The values live in `ResolvedClient` only. Its repr hides them, and no error names one: only the variable or the file.
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
    """How to reach the brokers, with nothing left to look up. `properties`: librdkafka's, values as librdkafka spells them."""

    bootstrap: tuple[str, ...]
    properties: Mapping[str, str] = field(repr=False)


class _Missing(Exception):
    """A reference that leads nowhere; the message names it and never a value."""


def resolve(cluster: Cluster, *, environment: Mapping[str, str] | None = None) -> ResolvedClient:
    """The Cluster's connection with every `${env:…}` and `${file:…}` filled in. Files are relative to the manifest's folder.

    Raises SecretMissing, which names each that cannot be found (M501). `environment`: the process's own by default.
    """
    variables = os.environ if environment is None else environment
    folder = Path(cluster.declared_at.path).parent
    missing: list[str] = []

    def filled(text: str, key: str) -> str:
        try:
            return REFERENCE.sub(lambda found: _value(found["env"], found["file"], variables, folder), text)
        except _Missing as gone:
            missing.append(f"spec.{key}: {gone}")
            return ""

    servers = [
        filled(entry, f"bootstrapServers[{index}]") for index, entry in enumerate(cluster.spec.bootstrap_servers)
    ]
    properties = {
        name: filled(value, f"client.{name}") if isinstance(value, str) else str(value).lower()
        for name, value in cluster.spec.client.items()
    }
    if missing:
        raise SecretMissing(
            f"M501 {cluster.address} ({cluster.declared_at}): {'; '.join(missing)}: set it where this command runs"
        )
    # One variable may hold several servers, as most tools' variables do.
    bootstrap = tuple(server.strip() for entry in servers for server in entry.split(",") if server.strip())
    return ResolvedClient(bootstrap=bootstrap, properties=properties)


def _value(variable: str | None, file: str | None, variables: Mapping[str, str], folder: Path) -> str:
    if variable is not None:
        if variable not in variables:
            raise _Missing(f"the variable {variable} is not set")
        if not (found := variables[variable]):
            raise _Missing(f"the variable {variable} is empty")
        return found
    assert file is not None
    try:
        with (folder / file).open("rb") as stream:
            content = stream.read(_LARGEST_BYTES + 1)
        found = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as broken:
        raise _Missing(f"the file {file} cannot be read: {broken.strerror}") from None
    except UnicodeDecodeError:  # its own message quotes the bytes
        raise _Missing(f"the file {file} is not UTF-8") from None
    if not found or len(content) > _LARGEST_BYTES:
        raise _Missing(f"the file {file} is {'too large' if found else 'empty'}")
    return found
