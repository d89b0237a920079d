"""Writes the commit that a distribution is built from into it, so that `reconciler init` can name it.

The commit is RECONCILER_SOURCE (OWNER/NAME@COMMIT), or that of a source distribution, or that of a
clean checkout whose GitHub `origin` has it. Otherwise the distribution names none, and `init` asks
for --action. What a package index would show links to that commit, and to nothing without one.
"""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SOURCE_PATH = "reconciler/companions/github/source.txt"
RELATIVE_LINK = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")


def find_source(root: Path) -> str | None:
    """Return OWNER/NAME@COMMIT; None: unknown. Raises ValueError for a wrong RECONCILER_SOURCE."""
    sys.path.insert(0, str(root))
    from reconciler.companions.github import workflows
    from reconciler.manifest import git

    if source := os.environ.get("RECONCILER_SOURCE"):
        if not workflows.is_source(source):
            raise ValueError(f"RECONCILER_SOURCE {source}: expected OWNER/NAME@COMMIT with 40 hex digits")
        return source
    if (root / SOURCE_PATH).is_file():
        return (root / SOURCE_PATH).read_text(encoding="ascii").strip()
    return workflows.from_checkout(root) if git.run_git(root, "status", "--porcelain") == "" else None


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `source.txt` to wheels and sdists."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = find_source(Path(self.root))
        if version == "editable":  # the checkout can move on; `init` asks it
            return
        if source and not (Path(self.root) / SOURCE_PATH).exists():
            self._folder = tempfile.TemporaryDirectory(prefix="reconciler-source-")
            path = Path(self._folder.name) / "source.txt"
            path.write_text(f"{source}\n", encoding="ascii")
            build_data["force_include"][str(path)] = SOURCE_PATH


class CustomMetadataHook(MetadataHookInterface):
    """Sets the README with absolute links, and the addresses of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        if source := find_source(Path(self.root)):
            repository, commit = source.split("@")
            home = f"https://github.com/{repository}"
            text = RELATIVE_LINK.sub(rf"]({home}/blob/{commit}/\1)", text)
            metadata["urls"] = {
                "Repository": home,
                "Issues": f"{home}/issues",
                "Documentation": f"{home}/blob/{commit}/docs/getting-started.md",
                "Changelog": f"{home}/blob/{commit}/CHANGELOG.md",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
