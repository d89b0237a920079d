"""A second listener that asks who is there: SASL, TLS if wanted, and an authorizer that grants nothing by itself.

The plain listener stays, for brokers, tools and workload: whoever comes through it is a super user. So tests can try what a
principal with few rights sees, and what rights an operation needs. Not here: which rights; those are granted by the test.
"""

import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.errors import SandboxError

MECHANISMS = ("PLAIN", "SCRAM-SHA-512")
LISTENER = "SECURE"

_STORE_VARIABLE = "SANDBOX_STORE_PASSWORD"


@dataclass(frozen=True, slots=True)
class Security:
    """What to ask for: `users` maps names to passwords (letters and digits), `tls` encrypts with a certificate made for this start."""

    users: Mapping[str, str] = field(repr=False)
    tls: bool = False


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The brokers' key and certificate: `store` for Java, `certificate` (PEM) for clients to trust."""

    store: Path
    password: str = field(repr=False)
    certificate: Path


@dataclass(frozen=True, slots=True)
class SecureAccess:
    """How clients reach the second listener. `certificate` is None without TLS."""

    bootstrap_servers: str
    certificate: Path | None
    users: Mapping[str, str] = field(repr=False)

    def client(self, user: str, *, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """librdkafka's properties to come as `user`, without the addresses; fit for a Cluster manifest's `client`."""
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
    """Broker properties beside the listener's address."""
    prefix = f"listener.name.{LISTENER.lower()}"
    known = " ".join(f'user_{name}="{password}"' for name, password in security.users.items())
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
        f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
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


def scram_arguments(security: Security) -> tuple[str, ...]:
    """What formatting must be told, so that the users are there before the first broker is."""
    return tuple(
        argument
        for name, password in security.users.items()
        for argument in ("--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]")
    )


def protocol(security: Security) -> str:
    """The second listener's security protocol."""
    return "SASL_SSL" if security.tls else "SASL_PLAINTEXT"


def make_keys(java: Path, folder: Path) -> KeyStore:
    """A key and a self-signed certificate for 127.0.0.1, valid for a week, by the keytool beside `java`. Raises SandboxError."""
    keys = KeyStore(folder / "broker.p12", secrets.token_hex(16), folder / "ca.pem")
    store = [
        "-alias",
        "broker",
        "-keystore",
        str(keys.store),
        "-storetype",
        "PKCS12",
        "-storepass:env",
        _STORE_VARIABLE,
    ]
    pair = ["-genkeypair", *store, "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "7"]
    _keytool(java, [*pair, "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1,dns:localhost"], keys.password)
    _keytool(java, ["-exportcert", "-rfc", *store, "-file", str(keys.certificate)], keys.password)
    return keys


def _keytool(java: Path, arguments: Sequence[str], password: str) -> None:
    keytool = java.resolve().parent / "keytool"
    environment = os.environ | {_STORE_VARIABLE: password}
    try:
        subprocess.run(
            [keytool, *arguments],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )
    except subprocess.CalledProcessError as failure:
        raise SandboxError(f"{keytool} could not make a certificate: {failure.stdout.strip()[-500:]}") from None
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise SandboxError(f"{keytool} could not make a certificate: {failure}") from None
