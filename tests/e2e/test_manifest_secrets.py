"""A secret of a manifest is used for the connection and appears in no output, log or file."""

from tests.command import reconciler
from tests.e2e.workspace import DAY_MS, Workspace, floor

SECRET = "secret-4f2c9aa-hunter2"
CLIENT = (
    "client: {security.protocol: PLAINTEXT, sasl.username: me,"
    " sasl.password: '${env:KAFKA_PASSWORD}', ssl.key.password: '${file:password}'}"
)


def test_no_output_of_a_run_has_the_secret(space: Workspace) -> None:
    """validate, plan, show, apply, results, journal and the scan's export, with full logging, show
    no secret.
    """
    topic, folder = space.create_topic(10, age_ms=30 * DAY_MS), space.folder
    (folder / "password").write_text(SECRET)
    space.write(floor(topic, "keep: {newerThan: 7d}"), more=CLIENT)
    outputs = ""
    for words in (
        "validate",
        "plan --out plan.json -o json",
        "show plan.json -o md",
        "scan --out facts",
        "apply plan.json --results results.json",
        "journal",
        "doctor",
    ):
        variables = {"KAFKA_PASSWORD": SECRET, "RECONCILER_SECRETS_DIR": str(folder)}
        result = reconciler(folder, *words.split(), "-v", "--log-format", "json", **variables)
        assert result.returncode == 0 or words == "doctor", f"{words}: {result.stderr}"
        outputs += result.stdout + result.stderr
    files = {path for path in folder.rglob("*") if path.is_file() and path.name != "password"}
    assert {"plan.json", "results.json"} <= {path.name for path in files}
    assert SECRET not in outputs
    assert [str(path) for path in files if SECRET.encode() in path.read_bytes()] == []
