"""The files for other CI systems: valid for their schemas, pinned, and without rights to spare."""

import re
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from reconciler.manifest.files import load
from tests.build import cluster_manifest
from tests.unit.docs.pages import ROOT, code_blocks, read

GITLAB = ROOT / "examples" / "gitlab" / ".gitlab-ci.yml"
KUBERNETES = ROOT / "examples" / "kubernetes" / "reconciler.yaml"


def documents(path: Path) -> list[Any]:
    return list(YAML(typ="safe").load_all(read(path)))


def refusal(schema: str, path: Path) -> str:
    """What check-jsonschema says about a file; empty: the file is valid.

    It runs in this process, because its imports take twenty times as long as a check. They are here
    because every worker imports all files of tests.
    """
    from check_jsonschema.cli import main

    result = CliRunner().invoke(main, ["--builtin-schema", schema, str(path)])
    return "" if result.exit_code == 0 else result.output


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("vendor.gitlab-ci", GITLAB),
        ("vendor.dependabot", ROOT / ".github" / "dependabot.yml"),
        ("vendor.dependabot", ROOT / "reconciler" / "companions" / "github" / "files" / "dependabot.yml"),
        ("vendor.github-actions", ROOT / "action.yml"),
        ("vendor.github-workflows", ROOT / ".github" / "workflows" / "release.yml"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_file_fits_the_schema_of_its_reader(schema: str, path: Path) -> None:
    """The schemas are those of the package check-jsonschema."""
    assert refusal(schema, path) == ""


def test_the_schema_of_gitlab_refuses_an_unknown_value(tmp_path: Path) -> None:
    """So the check of the example can fail."""
    broken = tmp_path / GITLAB.name
    broken.write_text(read(GITLAB).replace("when: manual", "when: by-hand"), encoding="utf-8")
    assert "by-hand" in refusal("vendor.gitlab-ci", broken)


def test_the_cron_jobs_fit_the_schemas_of_kubernetes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In strict mode, which refuses unknown fields as `kubectl --validate` does."""
    from kubernetes_validate import latest_version, validate_file

    check = partial(validate_file, version=latest_version(), strict=True, quiet=False, no_warn=False)
    assert check(str(KUBERNETES)) == 0, capsys.readouterr()
    misspelt = tmp_path / "misspelt.yaml"
    misspelt.write_text(read(KUBERNETES).replace("workingDir:", "workingDirectory:"))
    assert check(str(misspelt)) == 1
    assert "workingDirectory" in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", ["reconciler-converge", "reconciler-drift"])
def test_a_cron_job_has_one_user_without_rights_and_one_run_at_a_time(name: str) -> None:
    """git refuses another user's clone; OpenShift refuses a pod that chooses its user."""
    [job] = [document for document in documents(KUBERNETES) if document["metadata"]["name"] == name]
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    dockerfile = read("Dockerfile")
    assert re.findall(r"^USER (.*)$", dockerfile, re.MULTILINE) == ["10001"], "Kubernetes sees that it is not root"
    containers = (*pod["initContainers"], *pod["containers"])
    assert len({container["image"] for container in containers}) == 1
    for container in containers:
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert {"name": "HOME", "value": "/tmp"} in container["env"], "a user without a name has none"
        assert all(mount["name"] in volumes for mount in container["volumeMounts"])
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    [secret] = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
    assert secret == name, "each job has a principal of its own"


def test_only_the_manual_job_of_gitlab_enters_the_environment_that_deletes() -> None:
    """The principals are in environments, and the one that deletes is reached by hand only."""
    [pipeline] = documents(GITLAB)
    environments = {
        name: job["environment"]["name"]
        for name, job in pipeline.items()
        if isinstance(job, dict) and "environment" in job
    }
    assert environments == {
        "plan": "reconciler-plan-$CLUSTER",
        "plan-merged": "reconciler-plan-$CLUSTER",
        "apply": "reconciler-apply-$CLUSTER",
    }
    assert [rule.get("when") for rule in pipeline["apply"]["rules"]] == ["manual"]
    assert "environment" not in pipeline["validate"]


@pytest.mark.parametrize(("page", "connections"), [("other-ci.md", 3), ("login.md", 5)])
def test_the_connections_of_the_page_are_valid(page: str, connections: int, tmp_path: Path) -> None:
    """Each block with `client:` is one of a Cluster that the program accepts without a lower floor."""
    blocks = [block for block in code_blocks(f"docs/{page}", "yaml") if block.startswith("client:\n")]
    assert len(blocks) == connections
    for number, block in enumerate(blocks):
        cluster_id, client = f"id-of-cluster-{number}-000000", textwrap.indent(block, "  ")
        cluster = cluster_manifest("b:1", limits="", cluster_id=cluster_id, name=f"c{number}")
        (tmp_path / f"{number}.yaml").write_text(cluster + client, encoding="utf-8")
    assert len(load([tmp_path], now_ms=0).clusters) == len(blocks)
