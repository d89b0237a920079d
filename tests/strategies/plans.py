"""Hypothesis strategies of plans, decisions and names: valid models with hostile free text.

Names are texts of an alphabet and not regular expressions, because Hypothesis draws a text at once
and an expression character by character.
"""

import string

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from reconciler.model.action import Action, Mode
from reconciler.model.block_reason import BLOCK_CODES
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import (
    Blocked,
    Change,
    Decision,
    LimitVerdict,
    ManifestFile,
    Plan,
    PolicyInfo,
    Rule,
    Satisfied,
    Setting,
    Skipped,
    Source,
    Unmatched,
    UsedWaiver,
    Waiting,
    sort_decisions,
)
from reconciler.model.snapshot import GroupType
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy, Preconditions
from reconciler.operations.elect_leader import ElectLeader
from tests.repeats import repeats
from tests.strategies.examples import election, purge, removal

FEW = settings(max_examples=repeats(30, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Fewer examples for unit tests, which must be quick; properties use the number of their profile.
"""

NASTY = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "<script>alert(1)</script>",
    "<!-- --> <img src=x onerror=alert(1)>",
    "| a | b |",
    "`code` **bold** [link](https://example.invalid) ![i](x)",
    "@everyone #1 GH-1 :tada: $x$",
    "::error file=x::boom",
    "##[error]boom",
    "[bold red]markup[/]",
    "evil\u202egnp.exe",
    "zero\u200bwidth\u2060\ufeff",
    "line\nbreak\r\n::set-output name=x::y",
    "tab\there\x00nul\x7fdel\x85nel\u2028ls",
    "back\\slash \\n \\u001b",
    'quo"te',
    "  spaces  ",
    "a/b[3]",
    "\u00e9 e\u0301 \u3164 \u2800 \u00a0",
    "\u05d0\u05d1\u05d2 1 2",
    "www.example.invalid a@b.invalid",
)
LONG = "x" * 10_240

_LOWER = string.ascii_lowercase + string.digits

long_names = st.integers(9_000, 10_240).map("x".__mul__)

group_ids = st.one_of(
    st.sampled_from(NASTY),
    long_names,
    st.text(min_size=1, max_size=30),
    st.text(_LOWER + "-", min_size=1, max_size=13),
)
held_by = st.lists(group_ids, max_size=2, unique=True).map(tuple)
selectors = group_ids.filter(lambda text: not text.startswith("regex:"))  # what follows might be no expression
topics = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=20)
policies = st.text(_LOWER + ".-", min_size=1, max_size=12).map(lambda name: name.strip(".-") or "p")
prose = st.one_of(st.text(max_size=60), st.sampled_from(NASTY))
partition_numbers = st.one_of(st.integers(0, 40), st.integers(0, 2**31 - 1))
offsets = st.one_of(st.integers(0, 1000), st.integers(0, 2**63 - 1))
instants_ms = st.integers(0, 253_402_300_799_999)
brokers = st.integers(0, 2**31 - 1)
replica_lists = st.lists(brokers, min_size=1, max_size=5, unique=True).map(tuple)
topic_ids = st.text(string.ascii_letters + string.digits + "_-", min_size=22, max_size=22)
sha256s = st.binary(min_size=32, max_size=32).map(bytes.hex)
locations = st.builds(SourceLocation, prose, st.integers(0, 10_000), st.integers(0, 200))
modes = st.sampled_from(Mode)


@st.composite
def guards(draw: st.DrawFn) -> Preconditions:
    """Any preconditions; they come from the policy."""
    readers = draw(st.lists(st.builds(AcceptedLag, group_ids, offsets), max_size=3, unique_by=lambda r: r.group))
    return Preconditions(
        consumers=draw(st.sampled_from(LagPolicy)),
        named=tuple(draw(st.lists(group_ids, max_size=3))),
        accepted=tuple(readers),
        except_groups=tuple(draw(st.lists(selectors, max_size=2))),
        every_ms=draw(st.none() | st.integers(0, 10**12)),
    )


of_any_action = st.fixed_dictionaries({"policy": policies, "declared_at": locations, "reason": prose, "mode": modes})
of_any_partition = st.fixed_dictionaries({"topic": topics, "partition": partition_numbers, "topic_id": topic_ids})


@st.composite
def delete_records(draw: st.DrawFn) -> DeleteRecords:
    """A deletion with `log_start < before_offset <= last_stable_offset <= high_watermark`."""
    log_start = draw(st.one_of(st.integers(0, 1000), st.integers(0, 2**63 - 2)))
    last_stable_offset = draw(st.integers(log_start + 1, 2**63 - 1))
    replicas = draw(replica_lists)
    guard = draw(guards())
    may_vouch = bool(guard.named) and guard.consumers is LagPolicy.BLOCK and not guard.accepted
    return purge(
        **draw(of_any_action),
        **draw(of_any_partition),
        before_offset=draw(st.integers(log_start + 1, last_stable_offset)),
        log_start=log_start,
        last_stable_offset=last_stable_offset,
        high_watermark=draw(st.integers(last_stable_offset, 2**63 - 1)),
        leader=replicas[0],
        replicas=replicas,
        in_sync=replicas,
        guard=guard,
        consumed_by_named=may_vouch and draw(st.booleans()),
        drift=draw(st.booleans()),
        held_by=draw(held_by),
    )


@st.composite
def delete_groups(draw: st.DrawFn) -> DeleteGroup:
    """A group removal; it lacks evidence only if idle_for_ms is 0."""
    idle_for_ms = draw(st.integers(0, 10**12))
    evidence = idle_for_ms > 0 or draw(st.booleans())
    return removal(
        draw(group_ids),
        **draw(of_any_action),
        idle_for_ms=idle_for_ms,
        type=draw(st.sampled_from((GroupType.CLASSIC, GroupType.CONSUMER))),
        commits=draw(st.integers(0, 10**6)),
        commit_topics=draw(st.integers(0, 10**4)),
        fingerprint=draw(sha256s),
        last_activity_ms=draw(st.integers(-1, 2**62)) if evidence else None,
        newest_record=(draw(partition_numbers), draw(offsets)) if evidence else None,
    )


@st.composite
def elections(draw: st.DrawFn) -> ElectLeader:
    """A preferred election of the first replica, or an unclean election of a leaderless partition."""
    replicas = draw(replica_lists)
    preferred = draw(st.booleans())
    return election(
        **draw(of_any_action),
        **draw(of_any_partition),
        unclean=not preferred,
        leader_wanted=replicas[0] if preferred else None,
        leader=draw(st.none() | brokers) if preferred else None,
        replicas=replicas,
        in_sync=tuple(draw(st.lists(st.sampled_from(replicas), unique=True))),
    )


actions: st.SearchStrategy[Action] = st.one_of(delete_records(), delete_groups(), elections())

addresses = st.one_of(
    st.builds(Address, st.sampled_from(("RetentionFloor", "LeaderPolicy")), policies, topics, partition_numbers),
    st.builds(Address, st.sampled_from(("RetentionFloor", "LeaderPolicy")), policies, topics),
    st.builds(Address, st.sampled_from(("RetentionFloor", "LeaderPolicy", "GroupRemoval")), policies),
    st.builds(Address, st.just("GroupRemoval"), policies, group_ids),
)

decisions: st.SearchStrategy[Decision] = st.one_of(
    actions,
    st.builds(Satisfied, addresses),
    st.builds(
        Waiting,
        address=addresses,
        declared_at=locations,
        reason=prose,
        until_ms=st.none() | st.integers(-1, 2**62),
        held_by=held_by,
    ),
    st.builds(Skipped, address=addresses, code=st.sampled_from(sorted(BLOCK_CODES)), reason=prose),
    st.builds(
        Blocked,
        address=addresses,
        declared_at=locations,
        code=st.integers(0, 999).map("B{:03}".format),
        reason=prose,
        next_step=prose,
        unread=st.booleans(),
        held_by=held_by,
    ),
)

finite = st.one_of(st.integers(0, 1000), st.floats(allow_nan=False, allow_infinity=False))
policy_addresses = st.builds(Address, st.sampled_from(("RetentionFloor", "GroupRemoval", "LeaderPolicy")), policies)

values = st.lists(prose | group_ids, max_size=7).map(tuple)
rules = st.builds(
    Rule,
    address=policy_addresses,
    declared_at=locations,
    change=st.none() | st.sampled_from(Change),
    settings=st.lists(
        st.builds(Setting, name=prose, values=values, before=st.none() | values),
        max_size=3,
        unique_by=lambda setting: setting.name,  # as fields of a manifest
    ).map(tuple),
)
used_waivers = st.builds(
    UsedWaiver,
    name=policies,
    policy=policy_addresses,
    limit=st.sampled_from(("topics", "recordsPercent")),
    value=finite,
    expires_ms=instants_ms,
    declared_at=locations,
)
verdicts = st.builds(
    LimitVerdict,
    id=st.sampled_from(("topics", "recordsPercentPerTopic", "groups")),
    limit=finite,
    observed=st.none() | finite,
    passed=st.booleans(),
    message=prose,
    worst=st.none() | policy_addresses,
    waivers=st.lists(used_waivers, max_size=2).map(tuple),
)
sources = st.builds(
    Source,
    commit=st.none() | st.binary(min_size=20, max_size=20).map(bytes.hex),
    dirty=st.booleans(),
    manifests=st.lists(st.builds(ManifestFile, path=prose, sha256=sha256s), max_size=2).map(tuple),
)


unmatched_policies = st.builds(Unmatched, policy=policy_addresses, declared_at=locations, reason=prose, next_step=prose)


@st.composite
def plans(draw: st.DrawFn, *, of: st.SearchStrategy[Decision] = decisions, max_size: int = 8) -> Plan:
    """A plan with its decisions in address order and one decision per subject."""
    observed_at_ms = draw(st.integers(0, 4_102_444_800_000))
    return Plan(
        cluster=draw(policies),
        cluster_id=draw(topic_ids),
        observed_at_ms=observed_at_ms,
        expires_at_ms=observed_at_ms + draw(st.integers(0, 10**10)),
        decisions=sort_decisions(draw(st.lists(of, max_size=max_size, unique_by=lambda d: d.address))),
        limits=tuple(draw(st.lists(verdicts, max_size=2))),
        source=draw(sources),
        targets=tuple(draw(st.lists(prose, max_size=2))),
        incomplete=tuple(draw(st.lists(prose, max_size=2))),
        unmatched=tuple(draw(st.lists(unmatched_policies, max_size=2))),
        notes=tuple(
            draw(
                st.lists(
                    st.builds(PolicyInfo, policy=policy_addresses, owner=st.none() | prose, reason=st.none() | prose),
                    max_size=2,
                )
            )
        ),
        continuous=tuple(draw(st.lists(rules, max_size=2))),
        rule_changes=tuple(draw(st.lists(rules, max_size=2))),
    )
