"""Turns real output into the samples of the docs: replaces what differs from run to run.

A page has a time, a cluster id and addresses of its own. UPDATE_DOCS=1 writes the pages.
"""

import difflib
import os
import re
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.text.formatting import format_instant

MINUTE_MS = 60_000
PAGE_NOW_MS = 1_795_255_200_000
"""The time of the pages, 2026-11-21T10:00:00Z: instants of manifests and outputs are relative to it."""
PAGE_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
PAGE_COMMIT = "4f2c9aa0c1d2e3f405162738495a6b7c8d9e0f10"
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


class PageText:
    """What stands on a page for what is on this machine.

    `addresses`: of the page → of this machine. A digest of a run has the same stand-in everywhere on
    the page.
    """

    def __init__(self, cluster: SandboxCluster, addresses: Mapping[str, str]) -> None:
        self._start_ms = int(time.time() * 1000)
        self._here = {**addresses, PAGE_CLUSTER_ID: cluster.cluster_id}
        self._digests: dict[str, str] = {}

    def for_this_machine(self, text: str) -> str:
        """Return a text of a page with addresses of this machine and instants relative to now."""
        for page_text, own in self._here.items():
            text = text.replace(page_text, own)
        return _INSTANT.sub(lambda instant: _shift(instant[0], self._start_ms - PAGE_NOW_MS, 1000), text)

    def manifest_for_this_machine(self, text: str) -> str:
        """Return a manifest of a page, with durations that a test can wait for: see `wait_until_idle`."""
        return self.for_this_machine(text).replace("idleFor: 3d", "idleFor: 1s")

    def output(self, result: subprocess.CompletedProcess[str]) -> str:
        """Return what a terminal shows after a command, as it stands on the page."""
        messages = [line for line in result.stderr.splitlines() if line.startswith(("error", "warning"))]
        lines = [line.rstrip() for line in (*result.stdout.strip("\n").splitlines(), *messages)]
        return self._normalize("".join(f"{line}\n" for line in lines))

    def _normalize(self, text: str) -> str:
        """Replace what differs from run to run: addresses, instants, ids of runs, commits, digests and durations."""
        for page_text, own in self._here.items():
            text = text.replace(own, page_text)
        text = _INSTANT.sub(lambda instant: _shift(instant[0], PAGE_NOW_MS - self._start_ms, 10 * MINUTE_MS), text)
        # A proposed waiver ends at a full hour, whatever the minute of the run is.
        text = re.sub(r"expires: [^ }]+\}\}", "expires: 2026-11-28T09:00:00Z}}", text)
        text = re.sub(r"[0-9a-f]{64}", lambda digest: self._digest(digest[0]), text)
        text = re.sub(r"\b[0-9a-f]{40}\b", PAGE_COMMIT, text)
        text = re.sub(r"(?<=commit `)[0-9a-f]{7}\b", PAGE_COMMIT[:7], text)
        text = re.sub(r"\brun [0-9a-f]{12}\b", "run 4f2c9aa0c1d2", text)
        text = re.sub(r"\b\d\.\d+e\+09$", str(PAGE_NOW_MS / 1000), text, flags=re.MULTILINE)
        return re.sub(r"\b(?:\d+ min )?\d+(?:\.\d+)? (?:ms|s)\b", "2 s", text)

    def _digest(self, digest: str) -> str:
        """Return the same stand-in for the same digest: 64 times its number on the page."""
        if digest not in self._digests.values():
            self._digests.setdefault(digest, str(len(self._digests) + 1)[-1] * 64)
        return self._digests.get(digest, digest)


def check_page(page: Path, fresh: str, *, test: str) -> None:
    """Compare a page with its text of this run; UPDATE_DOCS=1 writes it. `test`: the file of the test."""
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(fresh, encoding="utf-8")
    written = page.read_text(encoding="utf-8").splitlines()
    changes = "\n".join(difflib.unified_diff(written, fresh.splitlines(), "page", "this run", lineterm="", n=0))
    assert not changes, f"{page.name} is stale: UPDATE_DOCS=1 pytest {test}\n{changes}"


def wait_until_idle(committed_s: float) -> None:
    """Wait until groups that have committed before `time.monotonic()` was this are idle for `idleFor`."""
    client.wait_until(lambda: time.monotonic() - committed_s > 1.5, 10, "groups that are idle for idleFor")


def time_ms(instant: str) -> int:
    """Return the epoch milliseconds of `2026-11-21T10:00:00Z`."""
    return round(datetime.fromisoformat(instant).timestamp() * 1000)


def _shift(instant: str, difference_ms: int, step_ms: int) -> str:
    """Return an instant moved by a difference, rounded to a multiple of a step from the time of the page."""
    moved = time_ms(instant) + difference_ms
    base = PAGE_NOW_MS if step_ms > 1000 else 0
    return format_instant(base + round((moved - base) / step_ms) * step_ms)
