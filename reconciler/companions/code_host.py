"""What every code host has in common: a JSON API with a token, and comments about plans and results.

The token goes to the API's host and nowhere else, and appears in no message.
"""

import http.client
import ipaddress
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from reconciler.cli import console
from reconciler.errors import ExitCode, ReconcilerError, UsageError
from reconciler.text.escape import escape_sentence

Item = TypeVar("Item")
_PAGE = 100
_PAGES_MAX = 50
_BYTES_MAX = 10_000_000


class CodeHostUnavailable(ReconcilerError):
    """The API gave no answer, or none that can be used; the message never holds the token."""


class Hidden(CodeHostUnavailable):
    """The token may not see it, or it does not exist; `message`: the host's reason."""

    def __init__(self, host: str, status: int, message: str, path: str) -> None:
        super().__init__(
            f"{host} refuses {path or 'the repository'} to this token ({message}): it does not exist, or the job of the "
            "token needs a permission"
        )
        self.status, self.message = status, message


@dataclass(kw_only=True)
class CodeHost(ABC):
    """One repository in the API of a code host. `url`: of the API.

    Every call raises UNAVAILABLE where there is no answer, and Hidden for 403 and 404.
    """

    NAME: ClassVar[str]
    UNAVAILABLE: ClassVar[type[CodeHostUnavailable]]
    VARIABLES: ClassVar[tuple[str, str]]
    """Names of the variables with the token, as messages have them, and with the address of the API."""
    HEADERS: ClassVar[Mapping[str, str]] = {}

    repository: str
    url: str
    token: str = field(repr=False)
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        """Raises UsageError for an address or a token that would not be safe to use."""
        token, url = self.VARIABLES
        if not _is_safe(self.url):
            raise UsageError(
                f"{url} is not an https address without a user, a query or a fragment: the token is sent over https only"
            )
        if not re.fullmatch("[!-~]{0,1000}", self.token):
            raise UsageError(f"{token} is not a token: it has spaces, line ends or other characters")

    @property
    @abstractmethod
    def root(self) -> str:
        """The address of the repository, below which all paths are."""

    @abstractmethod
    def find_comment(self, number: str, marker: str) -> str | None:
        """Return the id of the first comment on a pull request that is ours and begins with the marker."""

    @abstractmethod
    def write_comment(self, number: str, body: str, edited: str | None = None) -> None:
        """Add a comment to a pull request, or replace the text of the one with the id `edited`.

        `body`: of a report that `report.markdown` has cut to the size of comments.
        """

    def get(self, path: str, **query: str | int) -> Any:
        """Return the JSON of a path below the repository."""
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def find(self, path: str) -> Any:
        """Return the JSON of a path below the repository; None: there is no such thing (404)."""
        try:
            return self.get(path)
        except Hidden as error:
            if error.status != 404:
                raise
            return None

    def send(self, method: str, path: str, **fields: str) -> Any:
        """Write `fields` as JSON to a path below the repository."""
        return self._ask(method, path, json.dumps(fields).encode())

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
        raise self.UNAVAILABLE(f"{self._host} has more than {_PAGE * _PAGES_MAX:,} entries of {path}")

    @classmethod
    @contextmanager
    def documented_form(cls) -> Iterator[None]:
        """Raise UNAVAILABLE where the block meets an answer of another form than the host documents."""
        try:
            yield
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise cls.UNAVAILABLE(f"the API answered in another form than {cls.NAME} documents") from error

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        headers = {"User-Agent": "kafka-reconciler", **self.HEADERS}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        url = f"{self.root}{'/' if path else ''}{path}"
        request = Request(url, body, headers, method=method)  # noqa: S310  https or loopback
        # A proxy of the environment would read the token of a request without TLS.
        proxies = ProxyHandler() if url.startswith("https:") else ProxyHandler({})
        try:
            with build_opener(_SameHost(self), proxies).open(request, timeout=self.timeout_s) as answer:
                content = answer.read(_BYTES_MAX)
            return json.loads(content)
        except HTTPError as error:
            with error:
                raise self._refusal(error, path) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise self.UNAVAILABLE(f"{self._host} could not be asked: {self._safe(str(reason))}") from None
        except ValueError:
            raise self.UNAVAILABLE(
                f"{self._host} answered {path or 'the repository'} with something else than JSON"
            ) from None

    @property
    def _host(self) -> str:
        return urlsplit(self.url).netloc

    def _safe(self, text: str) -> str:
        return escape_sentence(text.replace(self.token, "***") if self.token else text)

    def _refusal(self, error: HTTPError, path: str) -> CodeHostUnavailable:
        try:
            message = self._safe(str(json.loads(error.read(_BYTES_MAX))["message"]))
        except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
            message = f"HTTP {error.code}"
        is_limited = (
            error.code == 429 or error.headers.get("X-RateLimit-Remaining") == "0" or "Retry-After" in error.headers
        )
        if is_limited:
            return self.UNAVAILABLE(f"{self._host} answers no more requests for now ({message}): try again later")
        if error.code in (403, 404):
            return Hidden(self.NAME, error.code, message, path)
        hint = f": the token of {self.VARIABLES[0]} is not valid" if error.code == 401 else ""
        return self.UNAVAILABLE(f"{self._host} answered {error.code}{hint} ({message})")


class _SameHost(HTTPRedirectHandler):
    """Follows redirects of a renamed repository, but carries the token to no other host."""

    def __init__(self, host: CodeHost) -> None:
        self._host = host

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if req.get_method() != "GET":  # urllib would follow it with GET, and nothing would be written
            reason = "what is to be written: correct the name of the repository"
        elif (old.scheme, old.netloc) != (new.scheme, new.netloc):
            names = f"OWNER/NAME or {self._host.VARIABLES[1]}"
            reason = f"to another host, and the token is not sent there: correct {names}"
        else:
            return super().redirect_request(req, fp, code, msg, headers, newurl)
        fp.close()
        raise self._host.UNAVAILABLE(f"{old.netloc} redirects {reason}")


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


def keep_plan_comments(host: CodeHost, number: str, clusters: Iterable[str], folder: Path, run_url: str) -> int:
    """Keep one comment per cluster with its plan, edited in place. Returns the exit code.

    `folder`: has CLUSTER/plan.md of each plan. `run_url`: the page that says why one is missing.
    """

    def keep(cluster: str) -> None:
        file, marker = folder / cluster / "plan.md", f"<!-- reconciler plan {cluster} -->"
        body = (
            file.read_text(encoding="utf-8")
            if file.exists()
            else f"No plan for `{cluster}`: [the run]({run_url}) says why. Nothing can be applied from this state."
        )
        host.write_comment(number, f"{marker}\n{body}", edited=host.find_comment(number, marker))

    return report_each(host, clusters, keep)


def post_result_comments(host: CodeHost, number: str, folder: Path, run_url: str) -> int:
    """Post the results of each job that applied, CLUSTER/JOB/results.md. Returns the exit code."""

    def post(file: Path) -> None:
        host.write_comment(number, f"{file.read_text(encoding='utf-8')}\n\n<sub>[The run]({run_url})</sub>\n")

    return report_each(host, sorted(folder.glob("*/*/results.md")), post)


def report_each(host: CodeHost, items: Iterable[Item], report: Callable[[Item], None]) -> int:
    """Report each item; the failure of one stops no other. Returns the exit code."""
    codes = [int(ExitCode.DONE)]
    for item in items:
        try:
            with host.documented_form():
                report(item)
        except (ReconcilerError, OSError) as error:
            console.print_error(f"{item}: {error}")
            codes.append(ExitCode.ERROR)
    return max(codes)
