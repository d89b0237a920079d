"""Invariant 8: Plan → JSON → Plan is the identity.

The digest changes exactly if an action, its request or an equality that the recheck tests changes.
"""

import dataclasses
import io
import json
import re
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
from tests.strategies import examples
from tests.strategies import plans as strategies
from tests.strategies.examples import plan_text, unchecked


def write_and_read(plan: Plan) -> Plan:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        plan_file.write(plan, path)
        return plan_file.read(path)


@given(strategies.plans())
def test_plan_to_json_to_plan_is_the_identity(plan: Plan) -> None:
    """The file preserves every field, type and name of any plan; writing it again gives the same bytes.

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
    read = write_and_read(plan)
    assert read == plan
    assert plan_text(read) == text


@given(strategies.plans(), strategies.locations, strategies.prose)
def test_the_digest_ignores_other_decisions_times_reasons_and_places(
    plan: Plan, location: SourceLocation, reason: str
) -> None:
    """Two plans with the same actions have the same digest, also at different times and from
    reformatted manifests.

    Waiting, blocked and satisfied decisions are not applied, so an approval does not bind them.
    """
    assert plan_file.digest(dataclasses.replace(plan, decisions=plan.actions)) == plan_file.digest(plan)
    later = dataclasses.replace(
        plan,
        observed_at_ms=plan.observed_at_ms + 1,
        expires_at_ms=plan.expires_at_ms + 7,
        decisions=tuple(
            dataclasses.replace(decision, declared_at=location, reason=reason, mode=Mode.MERGE, drift=True)
            if isinstance(decision, Action)
            else decision
            for decision in plan.decisions
        ),
        limits=(),
        notes=(),
        incomplete=("something",),
    )
    assert plan_file.digest(later) == plan_file.digest(plan)


@given(strategies.plans(max_size=1), st.data())
def test_the_digest_binds_the_rules_of_later_runs(plan: Plan, data: st.DataObject) -> None:
    """An approval lets `converge` carry them out, also where the plan has no action."""
    assume(any(rule.change is not Change.REMOVED for rule in plan.continuous))
    rules = [rule for rule in plan.continuous if rule.change is not Change.REMOVED]
    rule = data.draw(st.sampled_from(rules))
    others = tuple(each for each in rules if each != rule)
    assert plan_file.digest(dataclasses.replace(plan, continuous=others)) != plan_file.digest(plan)
    setting = Setting(name="keep.last", values=("a value that no strategy draws",))
    other = dataclasses.replace(rule, settings=(*rule.settings, setting))
    assert plan_file.digest(dataclasses.replace(plan, continuous=(*others, other))) != plan_file.digest(plan)
    marked = tuple(dataclasses.replace(each, change=None) for each in rules)
    assert plan_file.digest(dataclasses.replace(plan, continuous=marked)) == plan_file.digest(plan)


@given(strategies.plans(max_size=1), strategies.sources, st.permutations(range(4)))
def test_the_digest_binds_the_contents_of_the_manifests(plan: Plan, other: Source, order: list[int]) -> None:
    """An approval is of this plan, made from these manifests: names and order of files mean nothing."""
    files = [ManifestFile(path=f"{number}.yaml", sha256=f"{number}" * 64) for number in range(4)]
    made = dataclasses.replace(plan, source=dataclasses.replace(plan.source, manifests=tuple(files)))
    renamed = tuple(dataclasses.replace(files[at], path=f"renamed-{at}.yaml") for at in order)
    same = dataclasses.replace(plan, source=dataclasses.replace(other, manifests=renamed))
    assert plan_file.digest(same) == plan_file.digest(made)
    for changed in (files[1:], [dataclasses.replace(files[0], sha256="e" * 64), *files[1:]], [*files, files[0]]):
        source = dataclasses.replace(plan.source, manifests=tuple(changed))
        assert plan_file.digest(dataclasses.replace(plan, source=source)) != plan_file.digest(made)


@given(strategies.plans(max_size=1))
def test_the_digest_binds_the_targets(plan: Plan) -> None:
    """The approval of a part releases nothing: without its targets the file once passed for the whole plan."""
    part = dataclasses.replace(plan, targets=("RetentionFloor/orders/orders[3]",))
    assert plan_file.digest(part) != plan_file.digest(dataclasses.replace(plan, targets=()))


@given(strategies.plans(max_size=1))
def test_the_digest_binds_the_changes_of_rules(plan: Plan) -> None:
    """A change of a limit or a protection that a reviewer saw cannot be cut out."""
    rule = Rule(
        address=Address("Cluster", "prod-eu"),
        declared_at=SourceLocation("c.yaml", 1, 1),
        change=Change.CHANGED,
        settings=(Setting(name="protect.topics", values=(), before=("audit",)),),
    )
    made = dataclasses.replace(plan, rule_changes=(*plan.rule_changes, rule))
    assert plan_file.digest(made) != plan_file.digest(plan)
    other = dataclasses.replace(rule, settings=(dataclasses.replace(rule.settings[0], before=("audits",)),))
    assert plan_file.digest(dataclasses.replace(plan, rule_changes=(*plan.rule_changes, other))) != plan_file.digest(
        made
    )


@given(strategies.plans(max_size=3), st.data())
def test_nothing_in_the_file_changes_unseen(plan: Plan, data: st.DataObject) -> None:
    """Another character anywhere in the file, also in a sentence for people, makes it unusable."""
    text = plan_text(plan)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(min_codepoint=32, max_codepoint=126).filter(lambda char: char != text[at]))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_text(text[:at] + other + text[at + 1 :], encoding="ascii", newline="\n")
        with pytest.raises(PlanUnusable):
            plan_file.read(path)


@given(strategies.plans(of=strategies.actions, max_size=2), strategies.actions)
def test_another_action_changes_the_digest(plan: Plan, action: Action) -> None:
    """An additional or a missing action changes the digest."""
    assume(all(decision.address != action.address for decision in plan.decisions))
    larger = dataclasses.replace(plan, decisions=tuple(sorted((*plan.decisions, action), key=lambda d: d.address)))
    assert plan_file.digest(larger) != plan_file.digest(plan)


@given(strategies.delete_records(), st.data())
def test_the_digest_binds_the_approved_facts_of_a_purge(action: DeleteRecords, data: st.DataObject) -> None:
    """Another target, topic id or guard changes the digest; watermarks, leaders and replicas do
    not.
    """
    observed, guard = action.seen, action.guard
    changes: dict[str, Any] = {
        "before_offset": unchecked(action, before_offset=action.before_offset + 1),
        "topic_id": unchecked(action, seen=dataclasses.replace(observed, topic_id=observed.topic_id + "x")),
        "named": unchecked(action, guard=dataclasses.replace(guard, named=(*guard.named, "one more"))),
        "except_groups": dataclasses.replace(
            action, guard=dataclasses.replace(guard, except_groups=(*guard.except_groups, "x"))
        ),
        "every": unchecked(action, guard=dataclasses.replace(guard, every_ms=(guard.every_ms or 0) + 1)),
    }
    name = data.draw(st.sampled_from(sorted(changes)))
    assert digest_of(changes[name]) != digest_of(action), name
    later_facts = dataclasses.replace(
        observed,
        log_start=0,
        last_stable_offset=2**63 - 1,
        high_watermark=2**63 - 1,
        leader=7,
        replicas=(7, 8),
        in_sync=(7,),
    )
    assert digest_of(unchecked(action, seen=later_facts)) == digest_of(action)


@given(strategies.delete_groups(), st.data())
def test_the_digest_binds_the_approved_facts_of_a_removal(action: DeleteGroup, data: st.DataObject) -> None:
    """Another fingerprint, type, newest record or idle time changes the digest; counts and activity
    times do not.
    """
    observed = action.seen
    changes: dict[str, Any] = {
        "fingerprint": dataclasses.replace(observed, fingerprint=observed.fingerprint + "0"),
        "newest_record": dataclasses.replace(observed, newest_record=(1, (observed.newest_record or (0, 0))[1] + 1)),
        "type": dataclasses.replace(observed, type=next(kind for kind in GroupType if kind is not observed.type)),
    }
    name = data.draw(st.sampled_from(sorted(changes)))
    assert digest_of(unchecked(action, seen=changes[name])) != digest_of(action), name
    assert digest_of(unchecked(action, idle_for_ms=action.idle_for_ms + 1)) != digest_of(action)
    later_facts = dataclasses.replace(
        observed, commits=observed.commits + 1, commit_topics=observed.commit_topics + 1, last_activity_ms=5
    )
    assert digest_of(unchecked(action, seen=later_facts)) == digest_of(action)


@given(strategies.elections())
def test_the_digest_binds_the_approved_facts_of_an_election(action: ElectLeader) -> None:
    """Other replicas or another topic id change the digest; the present leader and in-sync replicas
    do not.
    """
    observed = action.seen
    assert digest_of(
        unchecked(action, seen=dataclasses.replace(observed, replicas=(*observed.replicas, 9)))
    ) != digest_of(action)
    assert digest_of(unchecked(action, seen=dataclasses.replace(observed, topic_id="other"))) != digest_of(action)
    assert digest_of(unchecked(action, seen=dataclasses.replace(observed, leader=9, in_sync=()))) == digest_of(action)


def digest_of(action: Action) -> str:
    return plan_file.digest(examples.plan(action))


def test_writing_to_a_stream_is_the_same_text() -> None:
    """`-o json` prints the content of `--out`."""
    plan = examples.plan()
    stream = io.StringIO()
    stream.writelines(plan_file.lines(plan))
    assert stream.getvalue() == plan_text(plan)


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
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_text(text, encoding="ascii", newline="\n")
        if part or minor == 0:
            with pytest.raises(PlanUnusable, match="unknown fields"):
                plan_file.read(path)
        else:
            assert plan_file.read(path).actions == (action,)
