"""The operations: what this program can do to a cluster, one class in one file each.

Everything iterates OPERATIONS.
"""

from reconciler.operations.base import Operation
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader

OPERATIONS: tuple[type[Operation], ...] = (ElectLeader, DeleteGroup, DeleteRecords)
"""In the order in which apply sends them: the least destructive first."""

__all__ = ["OPERATIONS", "DeleteGroup", "DeleteRecords", "ElectLeader", "Operation"]
