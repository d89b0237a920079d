"""`reconciler validate`: exit 0 or 1, the same diagnostics in all formats, no secret in any of them."""

import json
from pathlib import Path

import pytest

from reconciler.cli.app import run
from tests.unit.manifest.broken import BROKEN, CLUSTER, cluster

PLANTED = "planted-77aa-hunter2"


def validate(folder: Path, capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = run(["validate", str(folder), *words])
    captured = capfd.readouterr()
    return code, captured.out + captured.err


@pytest.mark.parametrize("output_format", ["text", "json", "github", "sarif"])
@pytest.mark.parametrize(("code", "exit_code"), [("M108", 1), ("M207", 1), ("M401", 0), ("M403", 0)])
def test_exit_is_0_or_1(
    code: str, exit_code: int, output_format: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """1 for an error, 0 for a warning, with the code in each format."""
    for name, text in {"cluster.yaml": CLUSTER, **BROKEN[code]}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found, output = validate(tmp_path, capfd, "-o", output_format)
    assert (found, code in output) == (exit_code, True)


@pytest.mark.parametrize(
    "words", [("-v",), ("-o", "json"), ("-o", "github", "-v"), ("-o", "sarif"), ("--log-format", "json")]
)
def test_no_output_shows_a_planted_secret(
    words: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A literal secret is refused and never shown, in any format and with any logging."""
    (tmp_path / "a.yaml").write_text(cluster(f"client: {{sasl.password: {PLANTED}, group.id: x}}"))
    (tmp_path / "b.yaml").write_text(cluster(f"client:\n  ssl.key.pem: |\n    {PLANTED}\n  a: [", name="other"))
    code, output = validate(tmp_path, capfd, *words)
    assert code == 1
    assert "M211" in output
    assert PLANTED not in output


def test_validate_needs_no_secret(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Validation resolves no references: the pull request of a fork is validated without secrets."""
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    (tmp_path / "a.yaml").write_text(cluster("client: {sasl.password: '${env:KAFKA_PASSWORD}'}"))
    code, _ = validate(tmp_path, capfd)
    assert code == 0


def test_formats_carry_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """ "`-o json`, `-o github` (annotations) and `-o sarif` carry the same diagnostics"."""
    (tmp_path / "a.yaml").write_text(cluster("zzz: 1\nlimits: {topics: -1}"))
    as_json = json.loads(validate(tmp_path, capfd, "-o", "json")[1])["diagnostics"]
    as_sarif = json.loads(validate(tmp_path, capfd, "-o", "sarif")[1])["runs"][0]["results"]
    annotations = validate(tmp_path, capfd, "-o", "github")[1].splitlines()
    as_text = validate(tmp_path, capfd)[1]
    assert [entry["code"] for entry in as_json] == [entry["ruleId"] for entry in as_sarif] == ["M403", "M112", "M119"]
    assert [entry["severity"] for entry in as_json] == ["warning", "error", "error"]
    assert annotations.pop() == "::notice title=manifests::invalid: 2 errors, 1 warning"
    as_json.sort(key=lambda entry: entry["severity"])  # annotations begin with the errors
    for entry, annotation in zip(as_json, annotations, strict=True):
        assert f"line={entry['line']}" in annotation
        assert entry["message"] in annotation
        assert f"{entry['code']}]: {entry['message']}" in as_text


def test_an_output_file_holds_the_errors(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`--output-file sarif=…` was once written for valid manifests only."""
    (tmp_path / "a.yaml").write_text(cluster("zzz: 1"))
    log = tmp_path / "out" / "log.sarif"
    code, output = validate(tmp_path, capfd, "--output-file", f"sarif={log}")
    assert (code, "M112" in output) == (1, True)
    assert [entry["ruleId"] for entry in json.loads(log.read_text())["runs"][0]["results"]] == ["M403", "M112"]
