"""A second listener with SASL, optional TLS and an authorizer that allows nothing by default.

Clients of the plain listener stay super users, because the brokers and Kafka's tools use it. With
the second listener a test checks what a principal with few permissions sees and which permissions
an operation needs. The test itself grants the permissions.
"""

import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.errors import SandboxError

MECHANISMS = ("PLAIN", "SCRAM-SHA-512")
LISTENER = "SECURE"

_STORE_VARIABLE = "SANDBOX_STORE_PASSWORD"


@dataclass(frozen=True, slots=True)
class Security:
    """Settings of the second listener.

    `users` maps names to passwords of letters and digits. `tls` adds a certificate created for this start.
    """

    users: Mapping[str, str] = field(repr=False)
    tls: bool = False

    @property
    def protocol(self) -> str:
        return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"

    def scram_arguments(self) -> Iterator[str]:
        """Arguments of the storage tool that create the users before the first broker starts."""
        for name, password in self.users.items():
            yield from ("--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]")


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The brokers' key and certificate: `store` for Java, `certificate` in PEM for the clients."""

    store: Path
    password: str = field(repr=False)
    certificate: Path


@dataclass(frozen=True, slots=True)
class SecureAccess:
    """Addresses and users of the second listener. `certificate` is None without TLS."""

    bootstrap_servers: str
    certificate: Path | None
    users: Mapping[str, str] = field(repr=False)

    def client(self, user: str, *, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """librdkafka properties of `user`, as in a Cluster manifest's `client`."""
        properties = {
            "security.protocol": "SASL_PLAINTEXT" if self.certificate is None else "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": self.users[user],
        }
        if self.certificate is not None:
            properties["ssl.ca.location"] = str(self.certificate)
        return properties


def render_security(security: Security, keys: KeyStore | None) -> dict[str, str]:
    """Render the broker properties of the listener, except its address."""
    prefix = f"listener.name.{LISTENER.lower()}"
    users = " ".join(f'user_{name}="{password}"' for name, password in security.users.items())
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
        f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        f"{prefix}.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    if keys is not None:
        properties |= {
            f"{prefix}.ssl.keystore.type": "PKCS12",
            f"{prefix}.ssl.keystore.location": str(keys.store),
            f"{prefix}.ssl.keystore.password": keys.password,
        }
    return properties


def create_keys(java: Path, folder: Path) -> KeyStore:
    """Create a key and a self-signed certificate for 127.0.0.1 with Java's keytool.

    The certificate is valid for a week. Raises SandboxError if keytool fails.
    """
    keys = KeyStore(folder / "broker.p12", secrets.token_hex(16), folder / "ca.pem")
    store = ["-alias", "broker", "-keystore", str(keys.store), "-storetype", "PKCS12"]
    store += ["-storepass:env", _STORE_VARIABLE]
    generate = ["-genkeypair", *store, "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "7"]
    _keytool(java, [*generate, "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1,dns:localhost"], keys.password)
    _keytool(java, ["-exportcert", "-rfc", *store, "-file", str(keys.certificate)], keys.password)
    return keys


def _keytool(java: Path, arguments: Sequence[str], password: str) -> None:
    # As of Kafka's tools: half the time, and no thread per core.
    quick_start = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")
    command = [str(java.resolve().parent / "keytool"), *quick_start, *arguments]
    environment = os.environ | {_STORE_VARIABLE: password}
    try:
        subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, errors="replace", timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = error.stdout.strip()[-500:] if isinstance(error, subprocess.CalledProcessError) else error
        raise SandboxError(f"{command[0]} could not create a certificate: {reason}") from None
