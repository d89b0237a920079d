"""Writes the commit that a distribution is built from into it, so that `reconciler init` can name it.

The commit is RECONCILER_SOURCE (OWNER/NAME@COMMIT), or that of a clean checkout whose GitHub
`origin` has it. Otherwise the distribution names none, and `init` asks for --action.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `reconciler/companions/github/source.txt` to wheels and sdists."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from reconciler.companions.github import workflows
        from reconciler.manifest import git

        root = Path(self.root)
        source = os.environ.get("RECONCILER_SOURCE")
        if source and not workflows.is_source(source):
            raise ValueError(f"RECONCILER_SOURCE {source}: expected OWNER/NAME@COMMIT with 40 hex digits")
        if version == "editable":  # the checkout can move on; `init` asks it
            return
        if not source and git.run_git(root, "status", "--porcelain") == "":
            source = workflows.from_checkout(root)
        if source:
            self._folder = tempfile.TemporaryDirectory(prefix="reconciler-source-")
            path = Path(self._folder.name) / workflows.SOURCE_FILE
            path.write_text(f"{source}\n", encoding="ascii")
            build_data["force_include"][str(path)] = f"reconciler/companions/github/{workflows.SOURCE_FILE}"
