"""Explains why a broker's certificate is not trusted: expired, for another name, or of an unknown issuer.

The client library has one message for all three, so the handshake is repeated with Python's own TLS.
The result only improves an error message; the client library alone decides whether to connect.
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
    """The problem of the first certificate that fails the checks of `properties`.

    None: no certificate fails, or no server answers.
    """
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
        except ssl.SSLCertVerificationError as error:
            return _problem(server, error)
        except (OSError, ValueError):
            continue
    return None


def _context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """The checks of librdkafka with these properties; None where it checks nothing."""
    if properties.get("enable.ssl.certificate.verification") == "false":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != "none"
    try:
        if pem := properties.get("ssl.ca.pem"):
            context.load_verify_locations(cadata=pem)
        elif location := properties.get("ssl.ca.location"):
            is_folder = Path(location).is_dir()
            context.load_verify_locations(
                cafile=None if is_folder else location, capath=location if is_folder else None
            )
        else:
            context.load_default_certs()
    except (OSError, ValueError):
        return None
    return context


def _problem(server: str, error: ssl.SSLCertVerificationError) -> TlsProblem:
    message = error.verify_message.rstrip(".")
    if error.verify_code in _EXPIRED:
        return TlsProblem(
            f"the certificate of {server} has expired or is not valid yet", "renew it, or set this machine's clock"
        )
    if error.verify_code in _OTHER_NAME:
        return TlsProblem(
            f"the certificate of {server} is for another name ({message})",
            "use a name of the certificate in bootstrapServers, and check that the brokers advertise such names",
        )
    return TlsProblem(
        f"the certificate of {server} is not trusted ({message})",
        "check ssl.ca.location in the Cluster's spec.client: it must contain the authority that signed the certificate",
    )
