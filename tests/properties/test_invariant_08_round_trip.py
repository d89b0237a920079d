"""Invariant 8: Plan → JSON → Plan is the identity.

The digest changes exactly if an action, its request or an equality that the recheck tests changes.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.errors import PlanUnusable
from reconciler.model.action import Action, Mode
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Change, ManifestFile, Plan, Rule, Setting, Source
from reconciler.model.snapshot import GroupType
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import plan_file
from reconciler.plan.plan_file import digest
from tests.strategies import examples
from tests.strategies import plans as strategies
from tests.strategies.examples import plan_text, unchecked


def read(text: str) -> Plan:
    """Read a plan file with this text. Raises PlanUnusable."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_text(text, encoding="ascii", newline="\n")
        return plan_file.read(path)


@given(strategies.plans())
def test_plan_to_json_to_plan_is_the_identity(plan: Plan) -> None:
    """The file preserves every field, type and name of any plan; writing it again gives the same bytes.
    `-o json` prints the content of `--out`.

    It is one JSON document of printable ASCII: any parser reads it, and it is harmless on a terminal.
    The recipe of docs/plan.md gives its digest with only a JSON library and sha256.
    """
    text = plan_text(plan)
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    document = json.loads(text)
    assert document["kind"] == "Plan"
    assert len(document["actions"]) == len(plan.actions)
    assert document["plan_digest"] == examples.digest_by_hand(document)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        plan_file.write(plan, path)
        assert path.read_text(encoding="ascii") == text
        read_plan = plan_file.read(path)
    assert read_plan == plan
    assert plan_text(read_plan) == text


@given(strategies.plans(), strategies.locations, strategies.prose)
def test_the_digest_ignores_other_decisions_times_reasons_and_places(
    plan: Plan, location: SourceLocation, reason: str
) -> None:
    """Two plans with the same actions have the same digest, also at different times and from
    reformatted manifests.

    Waiting, blocked and satisfied decisions are not applied, so an approval does not bind them.
    """
    assert digest(replace(plan, decisions=plan.actions)) == digest(plan)
    later = replace(
        plan,
        observed_at_ms=plan.observed_at_ms + 1,
        expires_at_ms=plan.expires_at_ms + 7,
        decisions=tuple(
            replace(decision, declared_at=location, reason=reason, mode=Mode.MERGE, drift=True)
            if isinstance(decision, Action)
            else decision
            for decision in plan.decisions
        ),
        limits=(),
        notes=(),
        incomplete=("something",),
    )
    assert digest(later) == digest(plan)


@given(strategies.plans(max_size=1), st.data())
def test_the_digest_binds_the_rules_of_later_runs(plan: Plan, data: st.DataObject) -> None:
    """An approval lets `converge` carry them out, also where the plan has no action, and carry out no removed ones."""
    assume(plan.continuous)
    rules = plan.continuous
    rule = data.draw(st.sampled_from(rules))
    others = tuple(each for each in rules if each != rule)
    assert digest(replace(plan, continuous=others)) != digest(plan)
    setting = Setting(name="keep.last", values=("a value that no strategy draws",))
    other = replace(rule, settings=(*rule.settings, setting))
    assert digest(replace(plan, continuous=(*others, other))) != digest(plan)
    same = replace(rule, change=None), replace(rule, change=Change.UNCHANGED)
    of_both = {digest(replace(plan, continuous=(*others, each))) for each in same}
    assert len(of_both) == 1, "without a base nothing is known to have changed"
    is_changed = rule.change not in (None, Change.UNCHANGED)
    assert is_changed == (digest(replace(plan, continuous=(*others, rule))) not in of_both)


@given(strategies.plans(max_size=1), strategies.sources, st.permutations(range(4)))
def test_the_digest_binds_the_contents_of_the_manifests(plan: Plan, other: Source, order: list[int]) -> None:
    """An approval is of this plan, made from these manifests: names and order of files mean nothing."""
    files = [ManifestFile(path=f"{number}.yaml", sha256=f"{number}" * 64) for number in range(4)]
    made = replace(plan, source=replace(plan.source, manifests=tuple(files)))
    renamed = tuple(replace(files[at], path=f"renamed-{at}.yaml") for at in order)
    same = replace(plan, source=replace(other, manifests=renamed))
    assert digest(same) == digest(made)
    for changed in (files[1:], [replace(files[0], sha256="e" * 64), *files[1:]], [*files, files[0]]):
        source = replace(plan.source, manifests=tuple(changed))
        assert digest(replace(plan, source=source)) != digest(made)


@given(strategies.plans(max_size=1))
def test_the_digest_binds_the_targets(plan: Plan) -> None:
    """The approval of a part releases nothing: without its targets the file once passed for the whole plan."""
    part = replace(plan, targets=("RetentionFloor/orders/orders[3]",))
    assert digest(part) != digest(replace(plan, targets=()))


@given(strategies.plans(max_size=1))
def test_the_digest_binds_the_changes_of_rules(plan: Plan) -> None:
    """A change of a limit or a protection that a reviewer saw cannot be cut out."""
    rule = Rule(
        address=Address("Cluster", "prod-eu"),
        declared_at=SourceLocation("c.yaml", 1, 1),
        change=Change.CHANGED,
        settings=(Setting(name="protect.topics", values=(), before=("audit",)),),
    )
    made = replace(plan, rule_changes=(*plan.rule_changes, rule))
    assert digest(made) != digest(plan)
    other = replace(rule, settings=(replace(rule.settings[0], before=("audits",)),))
    assert digest(replace(plan, rule_changes=(*plan.rule_changes, other))) != digest(made)


@given(strategies.plans(max_size=3), st.data())
def test_nothing_in_the_file_changes_unseen(plan: Plan, data: st.DataObject) -> None:
    """Another character anywhere in the file, also in a sentence for people, makes it unusable."""
    text = plan_text(plan)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(min_codepoint=32, max_codepoint=126).filter(lambda char: char != text[at]))
    with pytest.raises(PlanUnusable):
        read(text[:at] + other + text[at + 1 :])


@given(strategies.plans(of=strategies.actions, max_size=2), strategies.actions)
def test_another_action_changes_the_digest(plan: Plan, action: Action) -> None:
    """An additional or a missing action changes the digest."""
    assume(all(decision.address != action.address for decision in plan.decisions))
    larger = replace(plan, decisions=tuple(sorted((*plan.decisions, action), key=lambda d: d.address)))
    assert digest(larger) != digest(plan)


@given(strategies.delete_records())
def test_the_digest_binds_the_approved_facts_of_a_purge(action: DeleteRecords) -> None:
    """Another target, topic id or guard changes the digest; watermarks, leaders and replicas do
    not.
    """
    observed, guard = action.seen, action.guard
    changes: dict[str, dict[str, Any]] = {
        "before_offset": {"before_offset": action.before_offset + 1},
        "topic_id": {"seen": replace(observed, topic_id=observed.topic_id + "x")},
        "named": {"guard": replace(guard, named=(*guard.named, "one more"))},
        "except_groups": {"guard": replace(guard, except_groups=(*guard.except_groups, "x"))},
        "every": {"guard": replace(guard, every_ms=(guard.every_ms or 0) + 1)},
    }
    for name, changed in changes.items():
        assert digest_of(unchecked(action, **changed)) != digest_of(action), name
    end = 2**63 - 1
    later_facts = replace(
        observed, log_start=0, last_stable_offset=end, high_watermark=end, leader=7, replicas=(7, 8), in_sync=(7,)
    )
    assert digest_of(unchecked(action, seen=later_facts)) == digest_of(action)


@given(strategies.delete_groups())
def test_the_digest_binds_the_approved_facts_of_a_removal(action: DeleteGroup) -> None:
    """Another fingerprint, type, newest record or idle time changes the digest; counts and activity
    times do not.
    """
    observed = action.seen
    newest = observed.newest_record or (0, 0)
    changes: dict[str, dict[str, Any]] = {
        "idle_for_ms": {"idle_for_ms": action.idle_for_ms + 1},
        "fingerprint": {"seen": replace(observed, fingerprint=observed.fingerprint + "0")},
        "newest_record": {"seen": replace(observed, newest_record=(1, newest[1] + 1))},
        "type": {"seen": replace(observed, type=next(kind for kind in GroupType if kind is not observed.type))},
    }
    for name, changed in changes.items():
        assert digest_of(unchecked(action, **changed)) != digest_of(action), name
    later_facts = replace(
        observed, commits=observed.commits + 1, commit_topics=observed.commit_topics + 1, last_activity_ms=5
    )
    assert digest_of(unchecked(action, seen=later_facts)) == digest_of(action)


@given(strategies.elections())
def test_the_digest_binds_the_approved_facts_of_an_election(action: ElectLeader) -> None:
    """Other replicas or another topic id change the digest; the present leader and in-sync replicas
    do not.
    """
    observed = action.seen
    for changes in ({"replicas": (*observed.replicas, 9)}, {"topic_id": "other"}):
        assert digest_of(unchecked(action, seen=replace(observed, **changes))) != digest_of(action)
    assert digest_of(unchecked(action, seen=replace(observed, leader=9, in_sync=()))) == digest_of(action)


def digest_of(action: Action) -> str:
    return digest(examples.plan(action))


def _objects(value: Any) -> list[dict[str, Any]]:
    """All objects inside of a JSON value, itself included."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] * isinstance(value, dict) + [inner for child in children for inner in _objects(child)]


@given(strategies.actions, st.integers(0, 99), st.data())
def test_unknown_conditions_are_refused_whatever_the_minor_version(
    action: Action, minor: int, data: st.DataObject
) -> None:
    """A field that a later version adds to a request or to its conditions would not be tested here.

    Elsewhere in a row a later minor version may add fields.
    """
    text = plan_text(examples.plan(action)).replace('"format_version": "3.0"', f'"format_version": "3.{minor}"')
    *_, (line, row) = ((line, json.loads(line)) for line in text.splitlines() if line.startswith('{"address"'))
    part = data.draw(
        st.sampled_from([name for name in ("request", "approved", "guard", "seen", "") if not name or name in row])
    )
    if part:
        data.draw(st.sampled_from(_objects(row[part])))["unless"] = 1
    else:
        row["note"] = 1
    text = text.replace(line, json.dumps(row, separators=(",", ":")))
    text = re.sub('sha256:[0-9a-f]{64}(?=",\n"actions)', examples.digest_by_hand(json.loads(text)), text)
    text = examples.sealed(text)
    if part or minor == 0:
        with pytest.raises(PlanUnusable, match="unknown fields"):
            read(text)
    else:
        assert read(text).actions == (action,)
