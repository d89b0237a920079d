"""A server on loopback that answers as GitHub documents.

Source of the answers' form: GitHub's REST API, version 2022-11-28.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from reconciler.companions.github.api import GitHub
from reconciler.companions.github.workflow_run import WorkflowRun
from tests.fakes.listener import http_server

TOKEN = "ghs_planted4f2c9aa0hunter2"
NOT_FOUND = (404, {"message": "Not Found"})
FORBIDDEN = (403, {"message": "Resource not accessible by integration"})


@dataclass
class FakeApi:
    """Answers of acme/kafka by path; what is not there is 404. `requests`: with their headers;
    `sent`: method, path and fields of those that write.
    """

    url: str
    answers: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    sent: list[tuple[str, str, Any]] = field(default_factory=list)

    def repository(self) -> GitHub:
        return GitHub.of("acme/kafka", timeout_s=5, environment={"GITHUB_API_URL": self.url, "GH_TOKEN": TOKEN})


def workflow_run(api: FakeApi, **changes: Any) -> WorkflowRun:
    run = WorkflowRun(
        github=api.repository(),
        name="push",
        event={},
        commit="d" * 40,
        branch="main",
        id="90",
        attempt="1",
        actor="octocat",
        actions_url="https://github.example.org/acme/kafka/actions",
    )
    return replace(run, **changes)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            fake.requests.append((self.path, dict(self.headers)))
            path = parts.path.removeprefix("/repos/acme/kafka").removeprefix("/")
            answer = fake.answers.get(path, NOT_FOUND)
            status, body = answer if isinstance(answer, tuple) else (200, answer)
            headers = body.pop("headers", {}) if isinstance(body, dict) and status != 200 else {}
            page = int(parse_qs(parts.query).get("page", ["1"])[0])
            if isinstance(body, list):
                body = body[(page - 1) * 100 : page * 100]
            elif isinstance(body, dict) and "secrets" in body:
                body = body | {"secrets": body["secrets"][(page - 1) * 100 : page * 100]}
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def send(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.sent.append((self.command, self.path.removeprefix("/repos/acme/kafka/"), body))
            self.do_GET()

        do_POST = do_PATCH = send  # noqa: N815  the names of http.server

    for name in ("GH_TOKEN", "GITHUB_TOKEN", "GITHUB_API_URL", "RECONCILER_UNREVIEWED"):
        monkeypatch.delenv(name, raising=False)
    with http_server(Handler) as url:
        fake = FakeApi(url)
        yield fake
