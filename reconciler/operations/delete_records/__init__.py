"""DeleteRecords: remove the records below an offset of one partition (KIP-107, API key 21).

The offset is the plan's, absolute and frozen: nothing here can make it higher.
"""

from reconciler.operations.delete_records.preconditions import AcceptedLag, LagPolicy, ObservedPartition, Preconditions
from reconciler.operations.delete_records.request_and_answer import DeleteRecords

__all__ = ["AcceptedLag", "DeleteRecords", "LagPolicy", "ObservedPartition", "Preconditions"]
