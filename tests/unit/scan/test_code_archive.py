"""The archive holds everything that tasks import."""

import subprocess
import sys
from pathlib import Path

from reconciler.scan import code_archive


def test_tasks_import_from_the_archive_alone(tmp_path: Path) -> None:
    """Executors have no other copy: a package that is missing there fails every task."""
    path = tmp_path / "code.zip"
    path.write_bytes(code_archive.content())
    others = ("deepdiff", "re2", "platformdirs", "prometheus_client", "pydantic", "rich", "ruamel.yaml", "typer")
    program = f"""
import sys
sys.path.insert(0, {str(path)!r})
sys.modules.update(dict.fromkeys({others}))
import reconciler.companions.sources.data_sources
import reconciler.scan.task_rows as module
print(module.__file__)
"""
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(str(path))
