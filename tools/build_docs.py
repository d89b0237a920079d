"""Builds the docs site: all pages with navigation and search, for any web server.

The pages link to each other and to files of the repository by relative paths, as on a forge. So the
site has the folders of the repository: the tool copies the pages and all files that they link to,
and the generator builds the site from the copy. `mkdocs.yml` is the configuration.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, SITE = ROOT / "build" / "docs-source", ROOT / "build" / "docs"
TOP_PAGES = tuple(
    f"{name}.md"
    for name in ("README", "ARCHITECTURE", "CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "GOVERNANCE", "SECURITY")
)
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def pages(root: Path = ROOT) -> list[Path]:
    """Return the paths of all pages below `root`: the documents of the repository."""
    return [*map(Path, TOP_PAGES), *sorted(path.relative_to(root) for path in (root / "docs").rglob("*.md"))]


def links(page: Path) -> Iterator[Path]:
    """Yield the absolute path of each file or folder that a page links to."""
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        yield (page.parent / target).resolve()


def copy_source(target: Path, root: Path = ROOT) -> None:
    """Copy all pages, and all files that they link to, into an empty folder.

    A folder that a page links to gets an index of its files. Raises FileNotFoundError for a link that
    leads nowhere.
    """
    pending = [root / page for page in pages(root)]
    copied: set[Path] = set()
    while pending:
        path = pending.pop()
        if path in copied:
            continue
        copied.add(path)
        if path.is_dir():
            _write_index(path, target / path.relative_to(root), root)
            pending += [file for file in path.rglob("*") if file.is_file()]
            continue
        copy = target / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        if path.suffix == ".md":
            pending += links(path)


def _write_index(folder: Path, copy: Path, root: Path) -> None:
    copy.mkdir(parents=True, exist_ok=True)
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    lines = [f"- [{file}]({file})\n" for file in files]
    (copy / "index.md").write_text(f"# {folder.relative_to(root)}\n\n{''.join(lines)}", encoding="utf-8")


class _Resources(HTMLParser):
    """Collects what a browser loads with a page, without links that a reader follows."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name in {"src", "srcset", "poster", "data"} or (name == "href" and tag != "a")):
                self.addresses.append(value)


def foreign_resources(site: Path) -> list[str]:
    """Return each resource that a page or a style sheet would load from another host."""
    foreign = []
    for file in sorted(site.rglob("*")):
        if file.suffix == ".html":
            parser = _Resources()
            parser.feed(file.read_text(encoding="utf-8"))
            addresses = parser.addresses
        elif file.suffix == ".css":
            addresses = re.findall(r"(?:url\(|@import )[\"']?([^)\"']+)", file.read_text(encoding="utf-8"))
        else:
            continue
        foreign += [f"{file.relative_to(site)}: {a}" for a in addresses if re.match(r"(?:[a-z]+:)?//", a)]
    return foreign


def main() -> int:
    """Build the site and check it. Returns the exit code of the process."""
    for folder in (SOURCE, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    copy_source(SOURCE)
    build = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml")]
    result = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(result.stdout, result.stderr, sep="", file=sys.stderr)
        return 1
    if foreign := foreign_resources(SITE):
        print(f"the site would load {len(foreign)} resources from other hosts, such as {foreign[0]}", file=sys.stderr)
        return 1
    site = SITE.relative_to(ROOT)
    print(
        f"docs: {len(list(SITE.rglob('*.html')))} pages in {site}; python -m http.server -b 127.0.0.1 -d {site} shows them"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
