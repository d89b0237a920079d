"""One repository in GitHub's REST API.

The token goes to the API's host and nowhere else, and appears in no message.
"""

import http.client
import ipaddress
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from reconciler.errors import GitHubUnavailable, UsageError
from reconciler.text.escape import escape_sentence

_REPOSITORY = re.compile(r"[A-Za-z0-9-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_PAGE = 100
_PAGES_MAX = 50
_BYTES_MAX = 10_000_000


class Hidden(GitHubUnavailable):
    """The token may not see it, or it does not exist; `message`: GitHub's reason."""

    def __init__(self, status: int, message: str, path: str) -> None:
        super().__init__(
            f"GitHub refuses {path or 'the repository'} to this token ({message}): it does not exist, or the job of the "
            "token needs a permission"
        )
        self.status, self.message = status, message


@contextmanager
def documented_form() -> Iterator[None]:
    """Raise GitHubUnavailable where the block meets an answer of another form than GitHub documents."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise GitHubUnavailable("the API answered in another form than GitHub documents") from error


class _SameHost(HTTPRedirectHandler):
    """Follows redirects of a renamed repository, but carries the token to no other host."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if req.get_method() != "GET":  # urllib would follow it with GET, and nothing would be written
            fp.close()
            raise GitHubUnavailable(f"{old.netloc} redirects what is to be written: correct the name of the repository")
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            fp.close()
            raise GitHubUnavailable(
                f"{old.netloc} redirects to another host, and the token is not sent there: correct OWNER/NAME or "
                "GITHUB_API_URL"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@dataclass(kw_only=True)
class GitHub:
    """One repository in GitHub's REST API.

    Every call raises GitHubUnavailable where there is no answer.
    """

    repository: str
    url: str
    token: str = field(repr=False)
    timeout_s: float = 30.0

    @classmethod
    def of(cls, repository: str, *, timeout_s: float, environment: Mapping[str, str] = os.environ) -> "GitHub":
        """Return the repository OWNER/NAME, with the API and the token of the environment.

        Raises UsageError.
        """
        if not _REPOSITORY.fullmatch(repository):
            raise UsageError(f"--github {repository or 'is empty'}: expected OWNER/NAME of a repository")
        url = (environment.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/")
        if not _is_safe(url):
            raise UsageError(
                "GITHUB_API_URL is not an https address without a user, a query or a fragment: the token is sent over https only"
            )
        token = environment.get("GH_TOKEN") or environment.get("GITHUB_TOKEN") or ""
        if not re.fullmatch("[!-~]{0,1000}", token):
            raise UsageError("GH_TOKEN or GITHUB_TOKEN is not a token: it has spaces, line ends or other characters")
        return cls(repository=repository, url=url, token=token, timeout_s=timeout_s)

    @cached_property
    def default_branch(self) -> str:
        """The name of the default branch."""
        try:
            return str(self.get("")["default_branch"])
        except Hidden as error:
            hint = "" if self.token else "; set GH_TOKEN"
            raise GitHubUnavailable(
                f"the repository {self.repository} does not exist, or this token may not see it{hint}"
            ) from error

    def get(self, path: str, **query: str | int) -> Any:
        """Return the JSON of a path below the repository. Raises Hidden for 403 and 404."""
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def send(self, method: str, path: str, **fields: str) -> Any:
        """Write `fields` as JSON to a path below the repository. Raises Hidden for 403 and 404."""
        return self._ask(method, path, json.dumps(fields).encode())

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        headers |= {"User-Agent": "kafka-reconciler"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )
        url = f"{self.url}/repos/{self.repository}{'/' if path else ''}{path}"
        request = Request(url, body, headers, method=method)  # noqa: S310  https or loopback
        # A proxy of the environment would read the token of a request without TLS.
        proxies = ProxyHandler() if url.startswith("https:") else ProxyHandler({})
        try:
            with build_opener(_SameHost, proxies).open(request, timeout=self.timeout_s) as answer:
                content = answer.read(_BYTES_MAX)
            return json.loads(content)
        except HTTPError as error:
            with error:
                raise self._refusal(error, path) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise GitHubUnavailable(f"{self._host} could not be asked: {self._safe(str(reason))}") from None
        except ValueError:
            raise GitHubUnavailable(
                f"{self._host} answered {path or 'the repository'} with something else than JSON"
            ) from None

    def get_all(self, path: str, key: str = "", **query: str) -> list[Any]:
        """Return all pages of a list.

        `key`: of the object that holds it; empty: the answer is the list.
        """
        rows: list[Any] = []
        for page in range(1, _PAGES_MAX + 1):
            answer = self.get(path, **query, per_page=_PAGE, page=page)
            part = answer[key] if key else answer
            rows += part
            if len(part) < _PAGE:
                return rows
        raise GitHubUnavailable(f"{self._host} has more than {_PAGE * _PAGES_MAX:,} entries of {path}")

    def call(self, method: str, path: str, *words: str) -> str:
        """Return the `gh api` call for a path below the repository.

        `words`: shell words, quoted already.
        """
        return " ".join(
            [
                "gh api",
                *([] if method == "GET" else [f"--method {method}"]),
                shlex.quote(f"repos/{self.repository}/{path}"),
                *words,
            ]
        )

    @property
    def _host(self) -> str:
        return urlsplit(self.url).netloc

    def _safe(self, text: str) -> str:
        return escape_sentence(text.replace(self.token, "***") if self.token else text)

    def _refusal(self, error: HTTPError, path: str) -> Exception:
        try:
            message = self._safe(str(json.loads(error.read(_BYTES_MAX))["message"]))
        except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
            message = f"HTTP {error.code}"
        is_limited = (
            error.code == 429 or error.headers.get("X-RateLimit-Remaining") == "0" or "Retry-After" in error.headers
        )
        if is_limited:
            return GitHubUnavailable(f"{self._host} answers no more requests for now ({message}): try again later")
        if error.code in (403, 404):
            return Hidden(error.code, message, path)
        hint = ": the token of GH_TOKEN or GITHUB_TOKEN is not valid" if error.code == 401 else ""
        return GitHubUnavailable(f"{self._host} answered {error.code}{hint} ({message})")


def _is_safe(url: str) -> bool:
    """Whether a token may go there: by https, or to this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if not host or "@" in parts.netloc or parts.query or parts.fragment or not re.fullmatch("[!-~]+", url):
            return False
        return parts.scheme == "https" or (parts.scheme == "http" and ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False
