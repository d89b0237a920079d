"""Resolves references to secrets when the program connects; validation needs no secret.

Only the Connection holds the values. Its repr hides them; errors name the variable or the file.
"""

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import SecretMissing
from reconciler.kafka.connect import Connection
from reconciler.policies.client_properties import REFERENCE
from reconciler.policies.cluster import Cluster

_LARGEST_BYTES = 1_048_576


def resolve(cluster: Cluster, *, timeout_s: float = 30.0, environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of a Cluster, with every `${env:…}` and `${file:…}` resolved.

    Files are relative to the manifest's folder. `environment`: by default that of the process.
    Raises SecretMissing (M501), which names every unresolved reference.
    """
    folder = Path(cluster.declared_at.path).parent
    missing: list[str] = []

    def resolve_text(text: str, field_name: str) -> str:
        def value(match: re.Match[str]) -> str:
            variable, file = match["env"], match["file"]
            resolved, problem = "", "is empty"
            try:
                resolved = environment[variable] if variable else _content(folder / file)
            except KeyError:
                problem = "is not set"
            except UnicodeDecodeError:  # its message quotes the bytes
                problem = "is not UTF-8"
            except OSError as error:
                problem = f"cannot be read: {error.strerror}"
            if not resolved:
                subject = f"variable {variable}" if variable else f"file {file}"
                missing.append(f"spec.{field_name}: the {subject} {problem}")
            return resolved

        return REFERENCE.sub(value, text)

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
    return Connection(bootstrap_servers=bootstrap, properties=properties, timeout_s=timeout_s)


def _content(path: Path) -> str:
    with path.open("rb") as stream:
        content = stream.read(_LARGEST_BYTES + 1)
    if len(content) > _LARGEST_BYTES:
        raise OSError(errno.EFBIG, "it is too large")
    return content.decode().removesuffix("\n").removesuffix("\r")
