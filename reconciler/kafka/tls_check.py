"""Why a broker's certificate is not trusted: expired, made for another name, or signed by nobody known.

The client library has one sentence for all three. Here the handshake is tried once more with Python's own TLS, which tells them
apart. Only words come of it: whether to connect is the client library's decision alone.
"""

import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_EXPIRED = (9, 10)
_OTHER_NAME = (62, 64)
"""X509_V_ERR_… of OpenSSL: not yet valid, expired; host name mismatch, IP address mismatch."""


@dataclass(frozen=True, slots=True)
class TlsProblem:
    """What is wrong with the certificate, and what to do."""

    reason: str
    next_step: str


def diagnose_certificate(
    servers: Sequence[str], properties: Mapping[str, str], *, timeout_s: float
) -> TlsProblem | None:
    """The first of these servers' certificates that fails the check that `properties` ask for; None: none does, or none answers."""
    context = _context(properties)
    if context is None:
        return None
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s) as raw,
                context.wrap_socket(raw, server_hostname=host.strip("[]")),
            ):
                continue
        except ssl.SSLCertVerificationError as refused:
            return _doubt(server, refused)
        except (OSError, ValueError):
            continue
    return None


def _context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """The checks that librdkafka makes with these properties; None where it makes none."""
    if properties.get("enable.ssl.certificate.verification") == "false":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != "none"
    try:
        if pem := properties.get("ssl.ca.pem"):
            context.load_verify_locations(cadata=pem)
        elif location := properties.get("ssl.ca.location"):
            folder = Path(location).is_dir()
            context.load_verify_locations(cafile=None if folder else location, capath=location if folder else None)
        else:
            context.load_default_certs()
    except (OSError, ValueError):
        return None
    return context


def _doubt(server: str, refused: ssl.SSLCertVerificationError) -> TlsProblem:
    told = refused.verify_message.rstrip(".")
    if refused.verify_code in _EXPIRED:
        return TlsProblem(
            f"the certificate of {server} has expired or is not valid yet", "renew it, or set this machine's clock"
        )
    if refused.verify_code in _OTHER_NAME:
        return TlsProblem(
            f"the certificate of {server} is for another name ({told})",
            "say a name in bootstrapServers that the certificate holds, and see that the brokers advertise such names",
        )
    return TlsProblem(
        f"the certificate of {server} is not trusted ({told})",
        "check ssl.ca.location in the Cluster's spec.client: it must hold the authority that signed it",
    )
