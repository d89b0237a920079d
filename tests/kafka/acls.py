"""Grants permissions to the users of a sandbox's second listener.

Only tests use it: the reconciler itself grants nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
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

    def create(self, kind: type[AclBinding]) -> AclBinding:
        """Return the grant as a binding, or as the filter that finds it."""
        principal, allow = f"User:{self.user}", AclPermissionType.ALLOW
        return kind(self.resource, self.name, ResourcePatternType.LITERAL, principal, "*", self.operation, allow)


def grant(bootstrap: str, grants: Collection[Grant], *, deadline_s: float = 30) -> None:
    """Create allowing ACLs through the plain listener, and wait until every broker has them.

    Raises KafkaException.
    """
    admin = admin_client(bootstrap)
    for future in admin.create_acls([requested.create(AclBinding) for requested in grants]).values():
        future.result(timeout=deadline_s)
    for server in bootstrap.split(","):
        client = admin_client(server)
        for requested in grants:
            found = requested.create(AclBindingFilter)
            wait_until(
                lambda client=client, found=found: bool(client.describe_acls(found).result(deadline_s)),  # type: ignore[misc]
                deadline_s,
                f"{requested} on {server}",
            )
