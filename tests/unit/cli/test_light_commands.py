"""What commands import that read manifests only: an import takes longer than all that they do."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "manifests" / "examples"
PROGRAM = """\
import sys
from reconciler.cli.app import run
code = run(sys.argv[1:])
print("modules:", *sorted(sys.modules))
sys.exit(code)
"""
HEAVY = {
    "confluent_kafka",
    "jinja2",
    "pandas",
    "prometheus_client",
    "pyarrow",
    "pyspark",
    "reconciler.kafka",
    "reconciler.pipeline",
    "reconciler.scan",
    "rich.console",
}


@pytest.mark.parametrize("command", ["validate", "clusters"])
def test_commands_without_a_cluster_import_neither_the_client_nor_the_scan(command: str) -> None:
    """Both once imported the Kafka client, the pipeline and the reports of plans: a second for nothing."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, command, str(EXAMPLES)], capture_output=True, text=True, check=True
    )
    *output, modules = done.stdout.splitlines()
    assert output
    assert "reconciler.cli.validate" in modules.split()
    assert not HEAVY.intersection(modules.split())
