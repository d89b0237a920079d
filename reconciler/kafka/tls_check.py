"""Explains why a broker's certificate is not trusted: expired, for another name, or of an unknown issuer.

The client library has one message for all three, so the handshake is repeated with Python's own TLS.
The result only improves an error message; the client library alone decides whether to connect.
"""

import socket
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

# X509_V_ERR_… of OpenSSL: not yet valid, expired; host name mismatch, IP address mismatch.
_PROBLEMS = dict.fromkeys(
    (9, 10), ("the certificate of {} has expired or is not valid yet", "renew it, or set this machine's clock")
) | dict.fromkeys(
    (62, 64),
    (
        "the certificate of {} is for another name ({})",
        "use a name of the certificate in bootstrapServers, and check that the brokers advertise such names",
    ),
)
_UNTRUSTED = (
    "the certificate of {} is not trusted ({})",
    "check ssl.ca.location in the Cluster's spec.client: it must contain the authority that signed the certificate",
)


def diagnose_certificate(
    servers: Sequence[str], properties: Mapping[str, str], *, timeout_s: float
) -> tuple[str, str] | None:
    """What is wrong with the first certificate that fails the checks of `properties`, and what to do.

    None: no certificate fails, no server answers, or librdkafka checks nothing with these properties.
    """
    if properties.get("enable.ssl.certificate.verification") == "false":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != "none"
    pem, location = properties.get("ssl.ca.pem"), properties.get("ssl.ca.location")
    try:
        if pem:
            context.load_verify_locations(cadata=pem)
        elif location:
            context.load_verify_locations(**{"capath" if Path(location).is_dir() else "cafile": location})
        else:
            context.load_default_certs()
    except (OSError, ValueError):
        return None
    for server in servers:
        host, _, port = server.rpartition(":")
        host = host.strip("[]")
        try:
            with socket.create_connection((host, int(port)), timeout=timeout_s) as raw:
                context.wrap_socket(raw, server_hostname=host).close()
        except ssl.SSLCertVerificationError as error:
            reason, next_step = _PROBLEMS.get(error.verify_code, _UNTRUSTED)
            return reason.format(server, error.verify_message.rstrip(".")), next_step
        except (OSError, ValueError):
            continue
    return None
