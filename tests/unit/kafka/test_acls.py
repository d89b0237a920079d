"""The grants that doctor prints: by name, by prefix where no excepted name has the prefix, each
once.
"""

import shlex
from typing import Any

import pytest

from reconciler.doctor import write_permission
from reconciler.kafka.permissions import Grants, NameSelection, RequiredAccess, Resource, Role, commands, grants
from reconciler.model.scan_request import (
    ExternalReaderRequest,
    GroupRequest,
    PositionKind,
    ScanRequest,
    TopicRequest,
)
from reconciler.model.selector import Selector
from reconciler.operations import DeleteGroup, DeleteRecords, ElectLeader

TOPICS = ("_hidden-1", "clicks-audit", "clicks-eu", "clicks-us", "orders", "test-1", "test-22")
GROUPS = ("billing", "console-consumer-1", "console-consumer-2", "etl")


def selectors(*texts: str) -> tuple[Selector, ...]:
    return tuple(map(Selector, texts))


def granted(purpose: Role = Role.APPLY, *, needs: ScanRequest | None = None, **access: Any) -> Grants:
    """Grants on these topics and groups. `access`: other fields of RequiredAccess."""
    return grants(RequiredAccess(needs=needs or ScanRequest(), **access), purpose, topics=TOPICS, groups=GROUPS)


def deletable(*texts: str, excluding: tuple[str, ...] = ()) -> set[Resource]:
    """Resources on which apply may DELETE for one floor."""
    selection = NameSelection(
        selectors=selectors(*texts), excluding=selectors(*excluding), patterns_skip_underscore=True
    )
    operations = granted(changes=(write_permission(DeleteRecords, selection),))
    return {resource for resource, allowed in operations.items() if "Delete" in allowed}


@pytest.mark.parametrize(
    ("written", "excluding", "expected"),
    [
        (("orders", "gone"), (), {Resource("topic", "orders"), Resource("topic", "gone")}),
        (("clicks-*",), (), {Resource("topic", "clicks-", prefixed=True)}),
        (("clicks-*",), ("clicks-audit",), {Resource("topic", "clicks-eu"), Resource("topic", "clicks-us")}),
        (("clicks-*",), ("orders",), {Resource("topic", "clicks-", prefixed=True)}),
        (("clicks-*",), ("clicks-a*",), {Resource("topic", "clicks-eu"), Resource("topic", "clicks-us")}),
        (("clicks-*",), ("*-audit",), {Resource("topic", "clicks-eu"), Resource("topic", "clicks-us")}),
        (("clicks-*",), ("orders-*",), {Resource("topic", "clicks-", prefixed=True)}),
        (
            ("clicks-*",),
            ("regex:nothing",),
            {Resource("topic", "clicks-audit"), Resource("topic", "clicks-eu"), Resource("topic", "clicks-us")},
        ),
        (("regex:test-[0-9]",), (), {Resource("topic", "test-1")}),
        (("test-?",), (), {Resource("topic", "test-1")}),
        (("_hidden-*",), (), set()),
        (("_hidden-1",), (), {Resource("topic", "_hidden-1")}),
        (("*",), (), {Resource("topic", name) for name in TOPICS[1:]}),
        (("clicks-*", "clicks-eu"), (), {Resource("topic", "clicks-", prefixed=True)}),
    ],
)
def test_delete_is_granted_by_prefix_only_if_no_excepted_name_can_have_it(
    written: tuple[str, ...], excluding: tuple[str, ...], expected: set[Resource]
) -> None:
    """For each way to select topics, the widest grant that covers no other topic."""
    assert deletable(*written, excluding=excluding) == expected


FLOOR_NEEDS = ScanRequest(
    topics=(
        TopicRequest(topics=selectors("orders", "clicks-*"), offsets=True, readers=True, every_ms=30_000, records=True),
    ),
    groups=(GroupRequest(groups=selectors("etl", "regex:console-.*"), activity=True),),
    cluster_records=True,
)


def test_each_purpose_adds_its_own_rights_and_no_other() -> None:
    """Apply also deletes and writes the journal; elections read leaders and alter the cluster."""
    needs = ScanRequest.union([FLOOR_NEEDS, ScanRequest(topics=(TopicRequest(topics=selectors("payments")),))])
    changes = (
        write_permission(DeleteRecords, NameSelection(selectors=selectors("orders"))),
        write_permission(DeleteGroup, NameSelection(selectors=selectors("etl", "console-*"))),
        write_permission(ElectLeader),
    )
    plan, apply, elections = (granted(role, needs=needs, changes=changes, journal_topic="_journal") for role in Role)
    assert plan == {
        Resource("cluster"): {"Describe"},
        Resource("group", "*"): {"Describe"},
        Resource("topic", "*"): {"Describe"},
        Resource("topic", "orders"): {"DescribeConfigs", "Read"},
        Resource("topic", "clicks-", prefixed=True): {"DescribeConfigs", "Read"},
        Resource("topic", "__consumer_offsets"): {"Read"},
        Resource("topic", "_journal"): {"Read"},
    }
    added = {resource: operations - plan.get(resource, frozenset()) for resource, operations in apply.items()}
    assert {resource: operations for resource, operations in added.items() if operations} == {
        Resource("topic", "orders"): {"Delete"},
        Resource("group", "etl"): {"Delete"},
        Resource("group", "console-", prefixed=True): {"Delete"},
        Resource("topic", "_journal"): {"Write"},
    }
    assert elections == {
        Resource("cluster"): {"Describe", "Alter"},
        Resource("topic", "payments"): {"Describe"},
        Resource("topic", "_journal"): {"Read", "Write"},
    }


def test_offset_syncs_of_a_declared_mirror_are_read() -> None:
    """An ExternalReader whose position is in a topic needs READ on it, and one with a path needs nothing."""
    position = {PositionKind.MIRROR_MAKER_SYNCS: "mm2-offset-syncs.B.internal", PositionKind.TABLE: "/data/x.csv"}
    readers = tuple(
        ExternalReaderRequest(name=f"ExternalReader/{kind}", topics=selectors("orders"), kind=kind, at=at)
        for kind, at in position.items()
    )
    plan = granted(Role.PLAN, needs=ScanRequest(external=readers))
    assert plan[Resource("topic", "mm2-offset-syncs.B.internal")] == {"Read"}
    assert plan.keys() == {Resource("cluster"), Resource("topic", "mm2-offset-syncs.B.internal")}


def test_a_share_of_the_cluster_needs_every_topic() -> None:
    """A topic that is not listed would make it larger."""
    assert granted(Role.PLAN, needs=ScanRequest(cluster_records=True))[Resource("topic", "*")] == {"Describe"}


def test_a_removal_needs_its_group_and_apply_the_journal() -> None:
    """Without readers no other group is described, and without a purge clock only apply reads the journal.

    Apply reads the intents of interrupted runs. The group may have commits on any topic, and brokers leave out
    those on topics that the caller may not describe.
    """
    needs = ScanRequest(groups=(GroupRequest(groups=selectors("etl")),))
    changes = (write_permission(DeleteGroup, NameSelection(selectors=selectors("etl"))),)
    plan, apply, _ = (granted(role, needs=needs, changes=changes, journal_topic="_journal") for role in Role)
    assert plan.keys() == {Resource("cluster"), Resource("group", "etl"), Resource("topic", "*")}
    assert set(plan.values()) == {frozenset({"Describe"})}
    assert apply[Resource("topic", "_journal")] == {"Read", "Write"}


def test_commands_are_one_line_per_set_of_operations_and_quote_what_a_shell_would_read() -> None:
    """Group names are arbitrary text: a shell must read each as one word."""
    hostile = "x'; rm -rf ~ #"
    apply = granted(changes=(write_permission(DeleteGroup, NameSelection(selectors=selectors("etl", hostile))),))
    lines = commands("User:CN=apply,O=Acme Inc", apply, bootstrap_servers=("broker-1:9093", "broker-2:9093"))
    head = ["kafka-acls", "--bootstrap-server", "broker-1:9093,broker-2:9093", "--command-config", "admin.properties"]
    head += ["--add", "--allow-principal", "User:CN=apply,O=Acme Inc"]
    assert [shlex.split(line) for line in lines] == [
        [*head, "--operation", "Describe", "--cluster"],
        [*head, "--operation", "Delete", "--group", "etl", "--group", hostile],
    ]


def test_prefixes_are_commands_of_their_own() -> None:
    """The pattern type holds for a whole command, of prefixed or of literal names."""
    selection = NameSelection(selectors=selectors("clicks-*", "orders"))
    apply = granted(changes=(write_permission(DeleteRecords, selection),))
    lines = [line.split("--operation ")[1] for line in commands("User:a", apply, bootstrap_servers=("b:1",))]
    assert lines == [
        "Describe --cluster",
        "Delete --topic clicks- --resource-pattern-type prefixed",
        "Delete --topic orders",
    ]
