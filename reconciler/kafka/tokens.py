"""Tokens for SASL/OAUTHBEARER whose making needs a library: of AWS for MSK, and of Google Cloud.

A Cluster names the source, never code. The credentials are those that the library finds on this
machine, so the manifest holds none. The libraries are extras, and imported when first needed.
"""

import base64
import json
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC
from functools import lru_cache
from typing import Any

from reconciler.errors import ClusterUnreachable
from reconciler.kafka.futures import one_line
from reconciler.text.redact import replace_reference

Token = tuple[str, float]
"""A token, and until when it is valid, in seconds since 1970."""

_RENEW_S = 60.0
_MSK_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com\b")


@lru_cache(maxsize=16)
def token_source(name: str, servers: Sequence[str]) -> Callable[[str], Token]:
    """Return what librdkafka's `oauth_cb` calls. All clients of this process share its token.

    `name`: of a Cluster's `tokens`. The first token is made here: the client library drops the words of
    an exception in its own thread, and then waits for ten seconds. Raises ClusterUnreachable.
    """
    package, create, credentials = _SOURCES[name]
    try:
        source = _Tokens(name, create(servers))
        source("")
    except ImportError as error:
        raise ClusterUnreachable(
            f"tokens: {name} needs the package {package} ({one_line(str(error))}): install kafka-reconciler[{name}]"
        ) from None
    except Exception as error:  # noqa: BLE001 - each library has exceptions of its own
        raise ClusterUnreachable(
            f"tokens: {name} gave no token: {one_line(f'{type(error).__name__}: {error}')}; check {credentials}"
        ) from None
    return source


class _Tokens:
    """The newest token of a source, made again a minute before its end."""

    def __init__(self, name: str, create: Callable[[], Token]) -> None:
        self._name, self._create = name, create
        self._lock = threading.Lock()
        self._token: Token = "", 0.0

    def __call__(self, _config: str) -> Token:
        with self._lock:
            if self._token[1] - time.time() < _RENEW_S:
                before, self._token = self._token, self._create()
                # A broker may quote it in its refusal.
                replace_reference(before[0], self._token[0], f"${{tokens:{self._name}}}")
            return self._token


def _msk_iam(servers: Sequence[str]) -> Callable[[], Token]:
    """Sign requests of `kafka-cluster:Connect` with the credentials of AWS; valid for 15 minutes.

    The region is in the names of MSK's brokers, otherwise in AWS_REGION.
    """
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    regions = [match[1] for server in servers if (match := _MSK_REGION.search(server))]
    region = [*regions, os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""][0]
    if not region:
        raise ValueError("no name in bootstrapServers has a region, and AWS_REGION is not set")

    def create() -> Token:
        token, expires_at_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return str(token), expires_at_ms / 1000

    return create


def _gcp(_servers: Sequence[str]) -> Callable[[], Token]:
    """Wrap an access token of the default credentials, as Google's Managed Service for Kafka expects it."""
    import google.auth
    from google.auth.transport.requests import Request

    credentials, _project = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])

    def create() -> Token:
        credentials.refresh(Request())
        expires_at_s = credentials.expiry.replace(tzinfo=UTC).timestamp()
        payload = {
            "exp": expires_at_s,
            "iss": "Google",
            "iat": time.time(),
            "scope": "kafka",
            "sub": getattr(credentials, "service_account_email", None) or "",
        }
        parts = (json.dumps({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}), json.dumps(payload), credentials.token)
        return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts), expires_at_s

    return create


_SOURCES: dict[str, tuple[str, Any, str]] = {
    "gcp": ("google-auth", _gcp, "the default credentials of Google Cloud on this machine"),
    "msk-iam": ("aws-msk-iam-sasl-signer-python", _msk_iam, "the credentials of AWS on this machine"),
}
"""Value of `tokens` → the package, what makes tokens, and where the credentials come from."""
