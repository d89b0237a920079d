"""Grants permissions to the users of a sandbox's second listener.

Only tests use it: the reconciler itself grants nothing.
"""

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

from reconciler.companions.sandbox.client import admin_client, wait_until


@dataclass(frozen=True, slots=True)
class Grant:
    """A permission of a user: `operation` on a topic, a group (`*` for all) or the cluster."""

    user: str
    operation: AclOperation
    resource: ResourceType
    name: str


def grant(bootstrap: str, grants: Iterable[Grant], *, deadline_s: float = 30) -> None:
    """Create allowing ACLs through the plain listener, and wait until every broker has them.

    Raises KafkaException.
    """
    bindings = [
        AclBinding(
            requested.resource,
            requested.name,
            ResourcePatternType.LITERAL,
            f"User:{requested.user}",
            "*",
            requested.operation,
            AclPermissionType.ALLOW,
        )
        for requested in grants
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
                f"{binding.principal}'s {binding.operation.name} permission on {server}",
            )


def _acls(admin: AdminClient, binding: AclBinding, deadline_s: float) -> Sequence[AclBinding]:
    acl_filter = AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    return tuple(admin.describe_acls(acl_filter).result(timeout=deadline_s))
