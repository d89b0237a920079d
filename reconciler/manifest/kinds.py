"""The kinds of the manifest language: the Cluster, every policy, and the Waiver."""

from reconciler import policies
from reconciler.policies.base import Envelope
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver


def kinds() -> tuple[type[Envelope], ...]:
    """Return the class of each kind, in the order of the documents."""
    return (Cluster, *policies.POLICIES, Waiver)
