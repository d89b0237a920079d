"""The fakes of the workflow tests agree with recorded output of jq and with GitHub's rules.

The rules are those of expressions and permissions.
"""

from pathlib import Path

import pytest

from tests.e2e.github import expressions, gh

ROWS = [
    {
        "id": 7,
        "number": 3,
        "user": {"login": "github-actions[bot]"},
        "body": '<!-- m -->\nline\ttab \\ back\r\n"quote" é \u202e |',
    },
    {"id": 8, "number": 4, "user": None, "body": None},
]
SCRIPTS = Path(__file__).parents[2] / ".github" / "workflows"


def test_jq_programs_print_the_same_as_jq() -> None:
    """The output equals that of jq 1.6 -r on the same documents, byte by byte: escapes, nulls and
    missing repositories.
    """
    escaped = '<!-- m -->\\nline\\ttab \\\\ back\\r\\n"quote" é \u202e |'
    assert gh.tsv(".[] | [.id, .user.login, .body] | @tsv", ROWS) == f"7\tgithub-actions[bot]\t{escaped}\n8\t\t\n"
    assert gh.tsv(".[] | [.number, .user.login, .body] | @tsv", ROWS).startswith("3\tgithub-actions[bot]\t<!--")
    pull_requests = [
        {"merge_commit_sha": None, "number": 7, "base": {"ref": "main"}, "head": {"repo": None, "sha": "abc"}}
    ]
    program = ".[] | [.merge_commit_sha, .head.repo.full_name, .base.ref, .head.sha, .number] | @tsv"
    assert gh.tsv(program, pull_requests) == "\t\tmain\tabc\t7\n"
    runs = {"workflow_runs": [{"id": 12, "status": "completed", "head_repository": None, "display_title": "a\tb"}]}
    runs_program = ".workflow_runs[] | [.id, .status, .head_repository.full_name, .display_title] | @tsv"
    assert gh.tsv(runs_program, runs) == "12\tcompleted\t\ta\\tb\n"
    with pytest.raises(gh.Refused):
        gh.tsv(".[] | .id", ROWS)


def test_the_fake_knows_exactly_the_jq_programs_of_the_workflows() -> None:
    """The table of jq programs has exactly those of the workflows."""
    texts = [path.read_text(encoding="utf-8") for path in SCRIPTS.glob("*.yml")]
    assert {program for program in gh.TSV if any(f"--jq '{program}'" in text for text in texts)} == set(gh.TSV)
    assert sum(text.count("--jq ") for text in texts) == len(gh.TSV)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("github.repository == 'ACME/housekeeping'", True),
        ("github.nothing.below == null_", None),
        ("!cancelled() && needs.a.result == 'success' && needs.b.result != 'skipped'", True),
        ("needs.a.outputs.list != '[]'", False),
        ("fromJSON(needs.a.outputs.names)", ["eu", "us"]),
        ("join(fromJSON(needs.a.outputs.names), ' ')", "eu us"),
        ("'it''s' == 'It''S' || false", True),
        ("hashFiles('nowhere.json') != ''", False),
    ],
)
def test_expressions_have_the_documented_values(expression: str, expected: object, tmp_path: Path) -> None:
    """Strings compare without case, missing properties are null, `&&` and `||` return operands.

    Unknown syntax raises an error.
    """
    contexts = {
        "github": {"repository": "acme/housekeeping"},
        "needs": {
            "a": {"result": "success", "outputs": {"list": "[]", "names": '["eu", "us"]'}},
            "b": {"result": "failure", "outputs": {}},
        },
    }
    functions = expressions.functions(failed=False, workspace=tmp_path)
    if expected is None:
        with pytest.raises(expressions.Unknown):
            expressions.evaluate(expression, contexts, functions)
    else:
        assert expressions.evaluate(expression, contexts, functions) == expected


def test_the_fakes_check_the_permissions_of_the_job(tmp_path: Path) -> None:
    """The fake `gh` checks permissions, so that a workflow with too few fails here as it does on
    GitHub.
    """
    reader = gh.Api(tmp_path, {"contents": "read"})
    for method, path in (
        ("GET", "repos/acme/housekeeping/issues?state=open&per_page=100"),
        ("POST", "repos/acme/housekeeping/issues/7/comments"),
        ("GET", "repos/acme/housekeeping/actions/workflows/plan.yml/runs?event=push"),
    ):
        with pytest.raises(gh.Refused, match="403"):
            reader.call(method, path, {"body": "x"})
    with pytest.raises(gh.Refused, match="does not know"):
        reader.call("DELETE", "repos/acme/housekeeping", {})
