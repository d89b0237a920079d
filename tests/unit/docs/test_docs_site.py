"""The docs site: its navigation names every page, and the check of the built pages can fail.

`make docs` builds the site, strictly; `make check` does the same.
"""

import os
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler import __version__
from tests.unit.docs.pages import ROOT, read
from tools import build_docs
from tools.generate_docs import fill_navigation

CONFIG = ROOT / "mkdocs.yml"


def nav_pages(entries: list[Any]) -> list[str]:
    """Return the paths of a navigation in their order."""
    pages: list[str] = []
    for entry in entries:
        values = list(entry.values()) if isinstance(entry, dict) else [entry]
        for value in values:
            pages += nav_pages(value) if isinstance(value, list) else [value]
    return pages


def test_the_navigation_names_every_page_once() -> None:
    """A new page needs a place in mkdocs.yml (UPDATE_DOCS=1 lists the codes), and no entry is left over."""
    text = read(CONFIG)
    if os.environ.get("UPDATE_DOCS"):
        CONFIG.write_text(fill_navigation(text), encoding="utf-8")
        text = read(CONFIG)
    assert text == fill_navigation(text), f"mkdocs.yml is stale: UPDATE_DOCS=1 python -m pytest {__file__}"
    assert sorted(nav_pages(YAML(typ="safe").load(text)["nav"])) == sorted(map(str, build_docs.pages()))


def test_the_site_is_built_from_and_into_folders_that_git_ignores() -> None:
    config = YAML(typ="safe").load(read(CONFIG))
    ignored = read(".gitignore").splitlines()
    for name, folder in {"docs_dir": build_docs.SOURCE, "site_dir": build_docs.SITE}.items():
        assert ROOT / config[name] == folder
        assert f"{config[name].split('/')[0]}/" in ignored
    assert config["theme"]["font"] is False
    # The site opens with the section of the home page, where all others are closed.
    assert config["nav"][0]["Start"][0] == "README.md"


def test_the_copy_has_every_page_and_what_the_pages_link_to(tmp_path: Path) -> None:
    """So a link works on the site as it does in the repository; a folder gets an index of its files."""
    build_docs.copy_source(tmp_path)
    for page in build_docs.pages():
        assert (tmp_path / page).is_file()
        for target in build_docs.links(ROOT / page):
            copy = tmp_path / target.relative_to(ROOT)
            assert copy.is_file() or (copy / "index.md").is_file(), f"{page} links to {target}"
    assert "(0001-record-decisions.md)" in (tmp_path / "docs" / "adr" / "index.md").read_text(encoding="utf-8")


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    for name in build_docs.TOP_PAGES:
        (root / name).write_text("[missing](docs/missing.md)\n")
    with pytest.raises(FileNotFoundError, match="missing"):
        build_docs.copy_source(tmp_path / "copy", root)


@pytest.mark.parametrize(
    ("name", "text", "address"),
    [
        ("index.html", '<script src="https://cdn.example/x.js"></script>', "https://cdn.example/x.js"),
        ("index.html", '<link rel="stylesheet" href="//fonts.example/a.css">', "//fonts.example/a.css"),
        ("index.html", '<img src="http://example/a.png">', "http://example/a.png"),
        ("a.css", '@import "https://fonts.example/b.css";', "https://fonts.example/b.css"),
        ("a.css", "a { background: url(https://example/c.png) }", "https://example/c.png"),
        ("index.html", '<a href="https://example/">x</a><img src="a.png"><link href="b.css">', None),
        ("a.css", "a { background: url('data:image/svg+xml;x') } b { background: url(c.png) }", None),
    ],
)
def test_a_resource_of_another_host_is_found(name: str, text: str, address: str | None, tmp_path: Path) -> None:
    """A link that a reader follows is none."""
    (tmp_path / name).write_text(text)
    assert build_docs.foreign_resources(tmp_path) == ([f"{name}: {address}"] if address else [])


def test_each_page_forbids_resources_of_other_hosts() -> None:
    """A browser then refuses what a new version of the theme would load."""
    template = read("tools/docs_theme/main.html")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', template)
    assert policy
    assert "default-src 'self'" in policy[1]
    assert "http" not in policy[1]


@pytest.mark.parametrize("words", ["undo", "delete group", "too old", "stuck"])
def test_the_search_finds_what_people_type(words: str) -> None:
    """A heading of a page for users has all words: the index ranks titles first, and has no synonyms."""
    pages = [path for path in build_docs.pages() if path.parts[0] == "docs" and path.parts[1] not in ("adr", "codes")]
    headings = [heading for path in pages for heading in re.findall(r"^#+ (.*)$", read(path), re.MULTILINE)]
    assert [heading for heading in headings if set(words.split()) <= set(re.findall(r"\w+", heading.lower()))], words


def test_each_version_in_the_changelog_has_a_date() -> None:
    """`[Unreleased]` comes first, then the versions with their dates, the newest first.

    The program carried the version of a dated section while `[Unreleased]` already had entries: its release
    workflow would have accepted a tag of that version. The program is the next version as soon as there are entries.
    """
    text = read("CHANGELOG.md")
    first, *released = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert first.startswith("[Unreleased]\n")
    dated = [re.match(r"\[(\d+)\.(\d+)\.(\d+)\] - (20\d\d-\d\d-\d\d)\n", section) for section in released]
    found = [(date.fromisoformat(match[4]), *map(int, match.group(1, 2, 3))) for match in dated if match]
    assert len(found) == len(released)
    assert found == sorted(set(found), reverse=True)
    versions = [version for _, *version in found]
    assert versions == sorted(versions, reverse=True)
    now = [int(part) for part in __version__.split(".")]
    assert now > versions[0] if "- " in first else now == versions[0]


def test_the_version_is_the_same_everywhere() -> None:
    """The wheel takes it from pyproject.toml, `--version` and plans from the package."""
    assert f'\nversion = "{__version__}"\n' in read("pyproject.toml")
