"""Shows pages in headless Chromium: takes pictures of them, and measures them with scripts of a frame.

The page itself stands in a frame without scripts, so that what works here works without JavaScript.
A headless window has at least 500 points; the frame also gives the page the width of a phone.
"""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

NO_BROWSER = (
    "Chromium is needed to look at pages, and none was found on PATH: install it, for example with "
    "'apt-get install chromium' or 'brew install --cask chromium', or set CHROMIUM to its path"
)
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",
)
_DUMP = ("--dump-dom", "--virtual-time-budget=10000")
_DARK = "--blink-settings=preferredColorScheme=0"


def find_browser() -> str:
    """Return the path of Chromium. Raises RuntimeError with the way to get it."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        raise RuntimeError(NO_BROWSER)
    return path


def _run(
    folder: Path,
    page: str,
    width: int,
    height: int,
    script: str,
    *options: str,
    fragment: str = "",
    target: str = "frame.html",
) -> str:
    (folder / "page.html").write_text(page, encoding="utf-8")
    (folder / "frame.html").write_text(
        f'<!doctype html><body style="margin:0"><iframe id="frame" sandbox="allow-same-origin" src="page.html{fragment}" '
        f'width="{width}" height="{height}" style="border:0;display:block"></iframe><pre id="result"></pre>{script}',
        encoding="utf-8",
    )
    command = [find_browser(), *_OPTIONS, f"--user-data-dir={folder}/profile", f"--window-size={width},{height}"]
    address = f"{folder.resolve().as_uri()}/{target}"
    done = subprocess.run([*command, *options, address], check=True, capture_output=True, text=True, timeout=120)
    return done.stdout


def take_picture(
    folder: Path, page: str, picture: Path, *, width: int, height: int, scale: float, dark: bool, fragment: str
) -> None:
    """Write a picture of a page, from its `fragment` on. `folder`: for temporary files."""
    options = [f"--screenshot={picture.resolve()}", f"--force-device-scale-factor={scale}"]
    _run(folder, page, width, height, "", *options, *([_DARK] if dark else []), fragment=fragment)


def print_pages(folder: Path, page: str) -> int:
    """Print a page as PDF, and return how many sheets it takes."""
    _run(folder, page, 800, 1_000, "", f"--print-to-pdf={folder / 'page.pdf'}", target="page.html")
    return len(re.findall(rb"/Type\s*/Page\b", (folder / "page.pdf").read_bytes()))


def find_text(folder: Path, page: str, text: str) -> str:
    """Return the markup of a page after a jump to its first `text`.

    A text fragment reveals what it finds as the browser's own search does: HTML standard, "ancestor revealing
    algorithm". No option of a headless browser types into its search.
    """
    words = quote(text).replace("-", "%2D")  # a dash would end the context of a text fragment
    return _run(folder, page, 800, 1_000, "", *_DUMP, target=f"page.html#:~:text={words}")


def measure(folder: Path, page: str, script: str, *, width: int, fragment: str = "", dark: bool = False) -> Any:
    """Return what the function body `script` returns about `doc`, the document of the page.

    It runs in the frame around the page, which has no scripts of its own.
    """
    program = f"""<script>
    const frame = document.getElementById("frame");
    frame.addEventListener("load", async () => {{
      const doc = frame.contentDocument;
      const look = async () => {{ {script} }};
      document.getElementById("result").textContent = JSON.stringify(await look());
    }});
    </script>"""
    options = (*_DUMP, *([_DARK] if dark else []))
    output = _run(folder, page, width, 2000, program, *options, fragment=fragment)
    match = re.search(r'<pre id="result">(.+?)</pre>', output, re.DOTALL)
    assert match, output[-2_000:]
    return json.loads(html.unescape(match[1]))
