"""What the manifest language refuses and accepts, across kinds.

Docstrings quote sentences of docs/manifests.md or of the design.
"""

import re

import pytest

from reconciler.manifest.parse import example, model_issue
from reconciler.manifest.yaml import Node, TextRange
from reconciler.model.action import Mode
from reconciler.policies import RetentionFloor
from reconciler.report.diagnostics import diagnostics_document, write_diagnostics
from tests.golden.wording import mentions
from tests.unit.manifest.broken import CLUSTER, GOOD, NOW_MS, WAIVED, cluster, floor, manifest, waiver
from tests.unit.manifest.checking import accepted, codes, diagnostics_of, outcome


def test_the_example_of_the_design_is_rendered_exactly() -> None:
    """All errors are reported "each with a stable code, the place and the source line": to the
    letter.
    """
    text = (
        "# yaml-language-server: $schema=../schemas/manifest.json\napiVersion: reconciler/v1\nkind: RetentionFloor\n"
        "metadata:\n  name: orders-gdpr\nspec:\n  topics: [orders]\n  keep: {newerThan: 7d}\n  partitons: [0, 1]\n"
    )
    _, diagnostics = outcome({"c.yaml": CLUSTER, "manifests/prod-eu/orders.yaml": text})
    assert write_diagnostics([diagnostic for diagnostic in diagnostics if diagnostic.code != "M403"]) == (
        "error[M112]: unknown field `partitons`\n"
        "  --> manifests/prod-eu/orders.yaml:9:3\n"
        "   |\n"
        " 9 |   partitons: [0, 1]\n"
        "   |   ^^^^^^^^^ did you mean `partitions`?\n"
        "   = in RetentionFloor/orders-gdpr, spec\n"
    )


def test_all_errors_at_once_in_file_order() -> None:
    """ "All errors of a run are reported at once, in file order"."""
    broken = floor("topics: []\nkeep: {newerThan: 7, lst: 5}\nconsumers: nobody\npartitons: [0]")
    _, diagnostics = outcome({"b.yaml": broken, "c.yaml": CLUSTER, "a.yaml": "kind: [\n"})
    assert [
        (diagnostic.location.path, diagnostic.location.line, diagnostic.code)
        for diagnostic in diagnostics
        if diagnostic.code != "M403"
    ] == [
        ("b.yaml", 5, "M116"),
        ("b.yaml", 6, "M121"),
        ("b.yaml", 6, "M112"),
        ("b.yaml", 7, "M118"),
        ("b.yaml", 8, "M112"),
        ("a.yaml", 2, "M101"),
    ]


def test_every_diagnostic_has_all_its_parts() -> None:
    """Every error has code, file, line, column, the source line with its span, where in the
    manifest, and a hint.
    """
    for diagnostic in diagnostics_of(
        floor("topics: [2024]\nkeep: {newerThan: 7d, last: -1}\nevery: 5\nexceptGroups:\n<<: {a: 1}")
    ):
        assert diagnostic.location.path == "it.yaml"
        assert diagnostic.location.line > 0
        assert diagnostic.location.column > 0
        assert diagnostic.source_line is not None
        assert diagnostic.end_column > diagnostic.location.column
        assert diagnostic.context.startswith("in RetentionFloor/orders, spec")
        assert diagnostic.hint


def test_several_documents_and_files() -> None:
    """ "Several documents per file, several files per folder, folders nest"."""
    manifests, _ = outcome(
        {
            "cluster.yaml": CLUSTER + "---\n" + floor(GOOD),
            "team/clicks.yaml": floor("topics: [clicks]\nkeep: {last: 5}", name="clicks"),
        }
    )
    assert manifests is not None
    assert [policy.metadata.name for policy in manifests.for_cluster().policies] == ["clicks", "orders"]


def test_the_default_mode_is_merge() -> None:
    """ "mode: merge (default) … continuous"."""
    (policy,) = accepted(floor(GOOD)).policies
    assert policy.mode is Mode.MERGE
    (policy,) = accepted(floor(GOOD, more="mode: continuous\n")).policies
    assert policy.mode is Mode.CONTINUOUS
    assert codes(floor(GOOD, more="mode: always\n")) == ["M118"]
    assert codes(manifest("Waiver", "w", WAIVED, more="mode: merge\n") + "---\n" + floor(GOOD)) == ["M112"]


def test_owner_and_reason_are_carried() -> None:
    """ "owner: … shown in the plan; reason: … shown in the plan"."""
    text = manifest("RetentionFloor", "orders", GOOD, metadata="owner: team-orders, reason: erase after 30 days")
    (policy,) = accepted(text).policies
    assert (policy.metadata.owner, policy.metadata.reason) == ("team-orders", "erase after 30 days")


def test_policies_know_where_they_were_declared() -> None:
    """A policy "carries where it was declared": the first line of its document."""
    (policy,) = accepted("# a comment\n---\n" + floor(GOOD)).policies
    assert str(policy.declared_at) == "it.yaml:3"


@pytest.mark.parametrize(
    ("kind", "near"), [("RetentionFlor", "RetentionFloor"), ("groupRemoval", "GroupRemoval"), ("Waver", "Waiver")]
)
def test_unknown_kinds(kind: str, near: str) -> None:
    """ "unknown kinds", with the closest kind; the manifest is validated as that kind."""
    (first, *rest) = diagnostics_of(manifest(kind, "orders", "nothing: 1"))
    assert first.code == "M120"
    assert f"`{near}`" in first.hint
    assert "M112" in [diagnostic.code for diagnostic in rest]


def test_an_unknown_kind_without_a_similar_one() -> None:
    """The error lists all kinds, and the fields of the manifest are not validated."""
    (only,) = diagnostics_of(manifest("Deployment", "orders", "replicas: 1"))
    assert only.code == "M120"
    assert only.hint.endswith("Cluster, RetentionFloor, GroupRemoval, LeaderPolicy, ExternalReader, Waiver")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apiVersion: reconciler/v1\nmetadata: {name: a}\n", ["M113"]),
        ("kind: 7\n", ["M114"]),
        ("kind: [Cluster]\n", ["M114"]),
        ("kind: 010\n", ["M110"]),
        ("{}\n", ["M113"]),
    ],
)
def test_a_document_without_a_kind(text: str, expected: list[str]) -> None:
    """Without a kind the fields cannot be validated; a kind that is not text has the wrong type."""
    assert codes(text) == expected


def test_api_version() -> None:
    """An unknown apiVersion is refused, and the hint names the valid one."""
    (only,) = diagnostics_of(floor(GOOD).replace("reconciler/v1", "reconciler/v2"))
    assert only.code == "M118"
    assert "reconciler/v1" in only.hint
    assert codes(floor(GOOD).replace("apiVersion: reconciler/v1\n", "")) == ["M113"]


def test_missing_parts_of_the_envelope() -> None:
    """A manifest without metadata, name or spec gets an error that names the missing part."""
    assert codes("apiVersion: reconciler/v1\nkind: RetentionFloor\n") == ["M113", "M113"]
    assert codes(floor(GOOD).replace("{name: orders}", "{owner: me}")) == ["M113"]
    assert codes(floor(GOOD).replace("{name: orders}", "orders")) == ["M114"]
    assert codes(floor(GOOD).replace("{name: orders}", "{name: 7}")) == ["M115"]


@pytest.mark.parametrize("name", ["Orders", "-orders", "orders-", "a" * 64, "a/b", "a b", ".", "ordérs"])
def test_names_are_plain(name: str) -> None:
    """A name is an address: lower-case letters, digits, dots and dashes, at most 63 characters."""
    assert codes(floor(GOOD, name=f"'{name}'")) == ["M119"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("owner: 2024", "M115"),
        ("owner: true", "M115"),
        ("owner: 1.5", "M115"),
        ("owner: ''", "M116"),
        ("owner: [me]", "M114"),
        ("owner:", "M116"),
        ("ower: me", "M112"),
        ("1: me", "M112"),
        ("true: me", "M112"),
    ],
)
def test_unquoted_text_gets_the_hint_to_quote_it(line: str, expected: str) -> None:
    """ "unquoted scalars that YAML turned into something else (hint: quote it)", "wrong types",
    "empty".
    """
    (only,) = diagnostics_of(floor(GOOD).replace("metadata: {name: orders}", f"metadata:\n  name: orders\n  {line}"))
    assert only.code == expected
    if expected == "M115":
        assert f'"{line.partition(": ")[2]}"' in only.hint


def test_yes_and_no_stay_text() -> None:
    """YAML 1.2: `no` is text, and a group of that name is a group of that name."""
    (policy,) = accepted(floor("topics: [orders]\nkeep: {unreadBy: [no, yes]}")).policies
    assert isinstance(policy, RetentionFloor)
    assert policy.spec.keep.unread_by == ("no", "yes")


@pytest.mark.parametrize(
    "spec",
    [
        "topics: []\nkeep: {last: 5}",
        "topics: [orders]\nkeep: {unreadBy: []}",
        "topics: [orders]\nkeep: {fromOffset: {}}",
        "topics: [orders]\nexceptTopics: []\nkeep: {last: 5}",
        "topics: [orders]\npartitions: []\nkeep: {last: 5}",
        "topics: ['']\nkeep: {last: 5}",
        "topics: [orders]\nkeep: {unreadBy: ['']}",
        "topics: [orders]\nexceptTopics:\nkeep: {last: 5}",
    ],
)
def test_empty_lists_are_refused(spec: str) -> None:
    """ "empty lists": each could be meant as none or as all.

    A list with only commented entries is empty.
    """
    assert codes(floor(spec)) == ["M116"]


def test_empty_keep_is_refused() -> None:
    """ "an empty `keep`"."""
    assert codes(floor("topics: [orders]\nkeep: {}")) == ["M214"]


def test_misspelt_fields_are_validated_as_the_closest_field() -> None:
    """One run reports all errors, and none of them twice."""
    diagnostics = diagnostics_of(floor('topic: ["clicks-*"]\nkep: {lst: -5}'))
    assert [(diagnostic.code, diagnostic.location.line, diagnostic.location.column) for diagnostic in diagnostics] == [
        ("M112", 5, 3),
        ("M112", 6, 3),
        ("M112", 6, 9),
        ("M119", 6, 14),
    ]
    assert [diagnostic.context for diagnostic in diagnostics[2:]] == ["in RetentionFloor/orders, spec.keep"] * 2


def test_two_misspelt_for_one() -> None:
    """If two unknown fields resemble one known field, only the first is taken for it."""
    diagnostics = diagnostics_of(floor("topics: [orders]\nkeep: {last: 5}\npartitons: [0]\npartitionz: [1]\nzzz: 1"))
    assert [diagnostic.code for diagnostic in diagnostics] == ["M112"] * 3
    assert mentions(diagnostics[2].hint, "topics", "keep")


def test_an_unknown_field_without_a_similar_one() -> None:
    """An unknown field of a nested mapping lists the known fields."""
    (only,) = diagnostics_of(floor("topics: [orders]\nkeep: {last: 5, zzz: 1}"))
    assert only.code == "M112"
    assert only.hint.endswith("newerThan, since, last, fromOffset, topicId, unreadBy")


def test_wrong_types() -> None:
    """ "wrong types": the message names the expected and the actual type in the words of the
    language.
    """
    for spec, types in (
        (
            "topics: orders\nkeep: 5\npartitions: {a: 1}\ndriftAfter: [1]",
            [("list", "text"), ("mapping", "number"), ("list", "mapping"), ("duration",)],
        ),
        ("topics: [orders]\nkeep: {last: many, fromOffset: [1]}", [("whole number", "text"), ("mapping", "list")]),
        (
            "topics: [orders]\nkeep: {last: 1.5}\npartitions: [true]",
            [("whole number",), ("whole number", "true or false")],
        ),
    ):
        for diagnostic, words in zip(diagnostics_of(floor(spec)), types, strict=True):
            assert diagnostic.code == "M114"
            assert re.search(".*".join(words), diagnostic.message)
    assert codes(floor(GOOD + "\nconsumers: 5\nexpectAtMost: [1]")) == ["M115", "M114"]


def test_quoted_numbers_get_a_hint() -> None:
    """A number in quotes is text; the hint says to remove the quotes."""
    (only,) = diagnostics_of(floor("topics: [orders]\nkeep: {last: '5'}"))
    assert only.code == "M114"
    assert "quotes" in only.hint


def test_fields_behind_a_yaml_error_are_not_missing() -> None:
    """Fields that a merge key or alias would add are not reported as missing."""
    assert codes(floor("<<: {keep: {last: 5}}\ntopics: [orders]")) == ["M105"]
    assert codes(floor("topics: &t [orders]\nexceptTopics: *t\nkeep: {last: 5}")) == ["M104", "M104"]
    assert codes(floor("topics: [orders, *x]\nkeep: {last: 5, newerThan: 010}")) == ["M104", "M110"]
    assert codes(floor("topics: [orders]\nkeep: {last: 5, *x : 1}")) == ["M104"]


def test_documents_before_a_syntax_error_are_validated() -> None:
    """Documents before the error are checked, and nothing behind it is reported as missing."""
    text = floor("topics: []\nkeep: {last: 5}") + "---\n" + waiver(WAIVED) + "---\na: [\n"
    assert codes(text) == ["M116", "M101"]


def test_hostile_text_cannot_forge_output() -> None:
    """A manifest may come from any pull request: its text is escaped in all output."""
    (only,) = diagnostics_of(floor(GOOD + '\n"\\e[31mevil\\r::error::\\u202e": 1'))
    assert only.code == "M112"
    shown = write_diagnostics([only])
    assert "\x1b" not in shown
    assert "\\u001b[31mevil\\u000d" in shown
    assert "::error::\\u202e" in shown
    command, totals = diagnostics_document([only]).writers["github"]().splitlines()
    assert command.startswith("::error ")
    assert totals.startswith("::notice ")


def test_a_cluster_alone_gets_a_warning() -> None:
    """A Cluster without policies has an empty plan; a warning says so."""
    manifests, diagnostics = outcome({"c.yaml": cluster()})
    assert manifests is not None
    assert [diagnostic.code for diagnostic in diagnostics] == ["M403"]


def test_empty_set() -> None:
    """ "an empty set of manifests (never "nothing desired")"."""
    for files in ({}, {"a.yaml": ""}, {"a.yaml": "# nothing\n"}):
        _, diagnostics = outcome(files)
        assert [diagnostic.code for diagnostic in diagnostics] == ["M005"]


def test_many_errors_are_bounded() -> None:
    """The first 200 errors of a file are shown, and the number of the others."""
    _, diagnostics = outcome({"a.yaml": "".join(f"f{number}:\n" for number in range(500)), "c.yaml": cluster()})
    in_file = [diagnostic for diagnostic in diagnostics if diagnostic.location.path == "a.yaml"]
    assert len(in_file) == 201
    assert in_file[-1].code == "M006"
    assert re.findall(r"\d+", in_file[-1].message) == ["301"]


def test_lists_are_bounded() -> None:
    """A list has at most a thousand items: a reviewer cannot read more."""
    (only,) = diagnostics_of(floor(f"topics: [{','.join(f't{number}' for number in range(1001))}]\nkeep: {{last: 5}}"))
    assert only.code == "M119"
    assert only.hint


@pytest.mark.parametrize("name", ["\\ud83d\\ude00", "\\ud83d", "a\\udfff"])
def test_half_a_character_is_no_text(name: str) -> None:
    """JSON writes one beyond U+FFFF as two escapes, and YAML reads two characters: a protection protected nothing."""
    assert codes(floor(f'topics: [orders]\nkeep: {{last: 5}}\nexceptGroups: ["{name}"]')) == ["M101"]
    assert codes(floor('topics: [orders]\nkeep: {last: 5}\nexceptGroups: ["\\U0001f600", "😀"]')) == ["M117"]


def test_rules_about_time() -> None:
    """The same text is invalid now and valid later."""
    text = floor("topics: [orders]\nkeep: {since: 2026-12-24T00:00:00Z}")
    assert codes(text, now_ms=NOW_MS) == ["M206"]
    assert codes(text, now_ms=NOW_MS + 40 * 86_400_000) == []


def test_errors_of_a_file_without_a_manifest() -> None:
    """An error in a file without a manifest has no context."""
    for text, code in (("%YAML 3\n---\n", "M102"), ("# \u202e\n", "M108"), ('"\\UFFFFFFFF": 1\n', "M101")):
        (only,) = diagnostics_of(text)
        assert (only.code, only.context) == (code, "")


def test_unknown_errors_of_the_model_library_have_words() -> None:
    """An unknown error of the model library keeps the message of the library."""
    error = {"type": "new_in_a_later_version", "msg": "Something new"}
    issue = model_issue(error, Node(1, TextRange(1, 1, 1, 2)), ("spec",))
    assert (issue.code, issue.message) == ("M119", "Something new")
    assert issue.hint
    assert example(RetentionFloor, ()) == ""
    assert example(RetentionFloor, ("spec", "topics", 3)).endswith('topics: ["clicks-*"]')
