"""Logins with OAUTHBEARER: tokens of an endpoint of the test's own, of AWS and of Google Cloud."""

import base64
import json
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.java import find_java
from reconciler.companions.sandbox.security import create_keys
from reconciler.errors import ClusterUnreachable
from reconciler.kafka import tokens
from reconciler.kafka.connect import Connection, open_client
from tests.build import policy
from tests.command import reconciler
from tests.fakes.listener import Listener
from tests.kafka.secured import write_manifests

SECRET = "planted-client-secret"
BEARER = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
OIDC = {**BEARER, "sasl.oauthbearer.method": "oidc"}
CREDENTIALS = {"sasl.oauthbearer.client.id": "ci", "sasl.oauthbearer.client.secret": "${env:KAFKA_SECRET}"}
MSK = "b-1.shop.x1y2.c2.kafka.eu-central-1.amazonaws.com:9098"


def unsecured_token(*, valid_s: int = 300) -> str:
    """A JSON Web Signature without signature (RFC 7515), which brokers accept by default."""
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": "doctor", "iat": now_s - 1, "exp": now_s + valid_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


class Endpoint:
    """An HTTPS server on loopback that answers every request with `status` and `answer`.

    `url`: of the token endpoint. `certificate`: in PEM. `requests`: method, path, headers and body of each.
    """

    def __init__(self, folder: Path) -> None:
        self.status, self.answer = 200, {"access_token": unsecured_token(), "token_type": "Bearer", "expires_in": 300}
        self.requests: list[tuple[str, str, dict[str, str], str]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                endpoint.requests.append((self.command, self.path, dict(self.headers), body))
                content = json.dumps(endpoint.answer).encode()
                self.send_response(endpoint.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = answer  # noqa: N815 - the names of the base class

            def log_message(self, *_arguments: object) -> None:
                pass

        keys = create_keys(find_java(), folder)
        self.certificate = keys.certificate.read_text()
        key, _certificate, _more = pkcs12.load_key_and_certificates(keys.store.read_bytes(), keys.password.encode())
        assert key is not None
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / "endpoint.pem").write_bytes(pem + self.certificate.encode())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "endpoint.pem")
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}/token"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Endpoint]:
    with closing(Endpoint(tmp_path)) as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def _tokens_of_one_test() -> Iterator[None]:
    """A process keeps its tokens; tests share one."""
    tokens.token_source.cache_clear()
    yield
    tokens.token_source.cache_clear()


def plan(folder: Path, sasl_broker: SandboxCluster, properties: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a plan of all leaders. No output has the secret or a token."""
    leaders = policy("LeaderPolicy", "all", 'topics: ["*"]')
    write_manifests(folder, sasl_broker, properties, leaders, more="scan: {engine: inline}")
    result = reconciler(
        folder,
        *("plan", "-q", "--timeout", "30"),
        RECONCILER_ALLOW_INSECURE="1",
        RECONCILER_ALLOW_SERVERS="127.0.0.1:*",
        RECONCILER_SECRETS_DIR=str(folder),
        KAFKA_SECRET=SECRET,
    )
    output = result.stdout + result.stderr
    assert SECRET not in output
    return result.returncode, output


@pytest.mark.brokers
def test_a_plan_with_a_token_of_an_endpoint(sasl_broker: SandboxCluster, endpoint: Endpoint, tmp_path: Path) -> None:
    """Client credentials, an assertion from a file of secrets, and Azure's metadata: each gets a token that brokers accept.

    `https.ca.pem` is the authority of the endpoint.
    """
    oidc = {**OIDC, "https.ca.pem": endpoint.certificate, "sasl.oauthbearer.token.endpoint.url": endpoint.url}
    assert plan(tmp_path, sasl_broker, oidc | CREDENTIALS)[0] == 0
    headers, body = endpoint.requests[0][2:]
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == f"ci:{SECRET}"
    assert parse_qs(body)["grant_type"] == ["client_credentials"]

    endpoint.requests.clear()
    grant_type = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    (tmp_path / "assertion").write_text("signed.assertion.ofthetest")
    by_assertion = {"sasl.oauthbearer.grant.type": grant_type, "sasl.oauthbearer.assertion.file": "assertion"}
    code, output = plan(tmp_path, sasl_broker, oidc | by_assertion)
    assert code == 0, output
    assert parse_qs(endpoint.requests[0][3])["assertion"] == ["signed.assertion.ofthetest"]

    endpoint.requests.clear()
    by_identity = {
        "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
        "sasl.oauthbearer.config": "query=api-version=2018-02-01&resource=api://kafka",
    }
    code, output = plan(tmp_path, sasl_broker, oidc | by_identity)
    assert code == 0, output
    method, path, headers, _body = endpoint.requests[0]
    assert (method, headers["Metadata"]) == ("GET", "true")
    assert parse_qs(urlsplit(path).query)["resource"] == ["api://kafka"]


@pytest.mark.brokers
def test_a_token_that_does_not_come_or_is_refused_is_said(
    sasl_broker: SandboxCluster, endpoint: Endpoint, tmp_path: Path
) -> None:
    """The error is about the endpoint, or about the token; a user name and a password have no part in either."""
    oidc = {**OIDC, **CREDENTIALS, "sasl.oauthbearer.token.endpoint.url": endpoint.url}
    code, output = plan(tmp_path, sasl_broker, oidc)
    assert code == 1
    assert "no token (Failed to acquire SASL OAUTHBEARER token: " in output
    assert "check the token endpoint and the credentials for it" in output
    assert "sasl.username" not in output
    endpoint.status, endpoint.answer = 401, {"error": "invalid_client"}
    code, output = plan(tmp_path, sasl_broker, oidc | {"https.ca.pem": endpoint.certificate})
    assert code == 1
    assert "invalid_client" in output or "401" in output
    endpoint.status = 200
    signed = unsecured_token().split(".")
    header = base64.urlsafe_b64encode(b'{"alg":"RS256"}').decode().rstrip("=")
    endpoint.answer = {"access_token": ".".join((header, signed[1], "c2lnbmF0dXJl")), "expires_in": 300}
    code, output = plan(tmp_path, sasl_broker, oidc | {"https.ca.pem": endpoint.certificate})
    assert code == 1
    assert "the brokers refused the token (" in output
    assert "sasl.username" not in output


def received_token(listener: Listener, source: str, *servers: str) -> str:
    """The token that a server gets which takes SASL's steps, and quotes it in its refusal."""
    with pytest.raises(ClusterUnreachable, match="the brokers refused the token") as raised:
        open_client(Connection((listener.address, *servers), BEARER, 30.0, tokens=source), patience_s=0.2)
    token = listener.received.partition(b"auth=Bearer ")[2].partition(b"\x01")[0].decode()
    assert token
    assert token not in str(raised.value)
    assert f"${{tokens:{source}}}" in str(raised.value)
    return token


def test_tokens_of_aws_sign_a_connect_of_the_brokers_region(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The region is that of MSK's names, and AWS_REGION for others. Only the cloud shows that MSK accepts the token."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOFTHETEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(ClusterUnreachable, match="AWS_REGION is not set"):
        open_client(Connection((listener.address,), BEARER, tokens="msk-iam"))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for servers, region in ((), "us-east-1"), ((MSK,), "eu-central-1"):
        token, expires_at_s = tokens.token_source("msk-iam", (listener.address, *servers))("")
        url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
        query = parse_qs(url.query)
        assert (url.netloc, query["Action"]) == (f"kafka.{region}.amazonaws.com", ["kafka-cluster:Connect"])
        assert query["X-Amz-Credential"][0].startswith("AKIAOFTHETEST/")
        assert 0 < expires_at_s - time.time() <= 900
    assert received_token(listener, "msk-iam") == tokens.token_source("msk-iam", (listener.address,))("")[0]


def test_tokens_of_google_wrap_an_access_token(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default credentials get it from their own endpoint. Only the cloud shows that its brokers accept it."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with closing(Endpoint(tmp_path)) as endpoint:
        endpoint.answer = {"access_token": "ya29.of-the-test", "expires_in": 3600, "token_type": "Bearer"}
        (tmp_path / "ca.pem").write_text(endpoint.certificate)
        account = {
            "type": "service_account",
            "client_email": "ci@project.iam.gserviceaccount.com",
            "private_key": pem.decode(),
            "token_uri": endpoint.url,
        }
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        token = received_token(listener, "gcp")
        assert len(endpoint.requests) == 1
    header, payload, access_token = (
        base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")
    )
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert json.loads(payload)["sub"] == account["client_email"]
    assert 3500 < json.loads(payload)["exp"] - time.time() <= 3600
    assert access_token == b"ya29.of-the-test"


def test_a_token_is_made_again_before_its_end() -> None:
    """All clients of a process share a token, until a minute before it ends."""
    lifetimes = iter((61.5, 3600.0, 3600.0))
    made: list[str] = []

    def create() -> tokens.Token:
        made.append(f"token-{len(made)}-of-the-test")
        return made[-1], time.time() + next(lifetimes)

    source = tokens._Tokens("gcp", create)
    assert source("")[0] == source("")[0] == "token-0-of-the-test"
    source._token = source._token[0], time.time() + 59
    assert source("")[0] == source("")[0] == "token-1-of-the-test"


@pytest.mark.parametrize(
    ("source", "module", "package"),
    [
        ("msk-iam", "aws_msk_iam_sasl_signer", "aws-msk-iam-sasl-signer-python"),
        ("gcp", "google.auth", "google-auth"),
    ],
)
def test_a_missing_extra_is_named(source: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ClusterUnreachable) as raised:
        open_client(Connection((MSK,), BEARER, tokens=source))
    assert f"tokens: {source} needs the package {package} (" in str(raised.value)
    assert str(raised.value).endswith(f"install kafka-reconciler[{source}]")


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "its wheel has none"),
        (
            {
                **OIDC,
                "sasl.oauthbearer.metadata.authentication.type": "aws_iam",
                "sasl.oauthbearer.config": "region=eu-central-1,audience=kafka",
            },
            "pip install 'confluent-kafka[oauthbearer-aws]'",
        ),
        ({**OIDC, "sasl.oauthbearer.metadata.authentication.type": "aws_iam"}, "region and audience"),
        (OIDC, "`sasl.oauthbearer.token.endpoint.url` is mandatory"),
    ],
)
def test_what_the_client_library_lacks_is_said_with_its_words(
    properties: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raises ImportError for `aws_iam`, whose package is none of ours."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ClusterUnreachable) as raised:
        open_client(Connection(("127.0.0.1:1",), properties))
    assert str(raised.value).startswith("no client for 127.0.0.1:1: ")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
