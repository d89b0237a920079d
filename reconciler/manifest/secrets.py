"""Resolves references to secrets when the program connects; validation needs no secret.

A manifest comes with a pull request, so the machine decides what it may name: variables that match
RECONCILER_ALLOW_ENV, and files in RECONCILER_SECRETS_DIR or, for certificates, in the folders of the
system. RECONCILER_ALLOW_SERVERS bounds where it connects. Only the Connection holds the values. Its
repr hides them; errors name variable or file.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from reconciler.errors import SecretMissing
from reconciler.kafka.connect import Connection
from reconciler.policies.client_properties import PROPERTIES, REFERENCE, PropertyKind, fits, is_server
from reconciler.policies.cluster import Cluster

ALLOW_ENV = "RECONCILER_ALLOW_ENV"
"""The variable with the names of those that manifests may read: patterns, separated by commas."""
ALLOW_SERVERS = "RECONCILER_ALLOW_SERVERS"
"""The variable with the addresses that credentials may go to: patterns of host:port, by default all."""
SECRETS_DIR = "RECONCILER_SECRETS_DIR"
"""The variable with the folder of the files that manifests may name."""
_ALLOW_ENV_DEFAULT, _SECRETS_DIR_DEFAULT = "KAFKA_*", "/run/secrets"
_CERTIFICATE_DIRS = ("/etc/ssl", "/etc/pki", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates")
_LARGEST_BYTES = 1_048_576
_TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  a property, no secret


class _Refused(Exception):
    """Why a variable or a file gives no value."""


def resolve(cluster: Cluster, *, timeout_s: float = 30.0, environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of a Cluster, with every `${env:…}` and `${file:…}` resolved.

    Paths are relative to the folder of secrets. `environment`: by default that of the process. Raises
    SecretMissing (M501), which names everything that is missing or not allowed.
    """
    secrets_dir = Path(environment.get(SECRETS_DIR) or _SECRETS_DIR_DEFAULT)
    servers_allowed = [pattern.strip() for pattern in (environment.get(ALLOW_SERVERS) or "*").split(",")]
    patterns = [name.strip() for name in environment.get(ALLOW_ENV, _ALLOW_ENV_DEFAULT).split(",")]
    problems: list[str] = []
    references: dict[str, str] = {}

    def value_of(name: str | None, file: str) -> str:
        if name and not any(fnmatchcase(name, pattern) for pattern in patterns):
            raise _Refused(f"may not be read: only {', '.join(patterns)} may; {ALLOW_ENV} allows more")
        if name and name not in environment:
            raise _Refused("is not set")
        value = environment[name] if name else _content(_allowed_file(file, secrets_dir, ()))
        if not value:
            raise _Refused("is empty")
        return value

    def resolve_text(text: str, field_name: str) -> str:
        def value(match: re.Match[str]) -> str:
            name, file = match["env"], match["file"]
            try:
                resolved = value_of(name, file)
            except _Refused as refusal:
                subject = f"the variable {name}" if name else f"the file {file}"
                problems.append(f"spec.{field_name}: {subject} {refusal}")
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
        if PROPERTIES.get(name) is not PropertyKind.FILE:
            text = resolve_text(value, f"client.{name}")
            if text and not fits(name, text):
                problems.append(f"spec.client.{name}: {value} holds characters that this property does not accept")
            return text
        try:
            return str(_allowed_file(value, secrets_dir, _CERTIFICATE_DIRS))
        except _Refused as refusal:
            problems.append(f"spec.client.{name}: the file {value} {refusal}")
            return ""

    def check_address(field_name: str, text: str, address: str) -> None:
        if not any(fnmatchcase(address.lower(), pattern.lower()) for pattern in servers_allowed):
            problems.append(
                f"spec.{field_name}: {text} is not one of {', '.join(servers_allowed)}, which {ALLOW_SERVERS} allows: nothing "
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
    return Connection(bootstrap_servers=bootstrap, properties=properties, timeout_s=timeout_s, references=references)


def _allowed_file(text: str, secrets_dir: Path, other_dirs: Sequence[str]) -> Path:
    """Return the real path of a file that a manifest may name. Raises _Refused."""
    try:
        path = (secrets_dir / text).resolve(strict=True)
        mode = path.stat().st_mode
    except (OSError, RuntimeError, ValueError) as error:
        raise _Refused(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not any(path.is_relative_to(folder.resolve()) for folder in (secrets_dir, *map(Path, other_dirs))):
        raise _Refused(f"lies outside of {secrets_dir}: {SECRETS_DIR} names the folder of secrets")
    if not (stat.S_ISREG(mode) or (other_dirs and stat.S_ISDIR(mode))):
        raise _Refused("is no regular file")
    return path


def _content(path: Path) -> str:
    """Return the text of a file. Raises _Refused, without a word of the text."""
    try:
        # A pipe in the file's place would never end; a link in its place leads out of the folder.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            content = stream.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise _Refused("cannot be read: it is too large")
        return content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:  # its message quotes the bytes
        raise _Refused("is not UTF-8") from None
    except OSError as error:
        raise _Refused(f"cannot be read: {error.strerror}") from None
