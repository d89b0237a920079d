"""Rights for the principals of a guarded sandbox. For tests only: the reconciler itself never grants anything."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from reconciler.sandbox.client import admin_client, wait_until


@dataclass(frozen=True, slots=True)
class Grant:
    """A right for a principal: `operation` on a topic, a group (`*` for all of them) or the cluster."""

    user: str
    operation: AclOperation
    resource: ResourceType
    name: str


def grant(bootstrap: str, grants: Iterable[Grant], *, deadline_s: float = 30) -> None:
    """Allow, through a super user's listener, and wait until every broker knows. Raises KafkaException."""
    bindings = [
        AclBinding(
            each.resource,
            each.name,
            ResourcePatternType.LITERAL,
            f"User:{each.user}",
            "*",
            each.operation,
            AclPermissionType.ALLOW,
        )
        for each in grants
    ]
    admin = admin_client(bootstrap)
    for future in admin.create_acls(bindings).values():
        future.result(timeout=deadline_s)
    for server in bootstrap.split(","):
        client = admin_client(server)
        for binding in bindings:
            wait_until(
                lambda client=client, binding=binding: binding in _acls(client, binding, deadline_s),  # type: ignore[misc]
                deadline_s,
                f"{binding.principal}'s {binding.operation.name} known to {server}",
            )


def _acls(admin: AdminClient, binding: AclBinding, deadline_s: float) -> Sequence[AclBinding]:
    wanted = AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    return tuple(admin.describe_acls(wanted).result(timeout=deadline_s))
