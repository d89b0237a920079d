"""The election types of ElectLeaders (KIP-460)."""

from enum import StrEnum


class Election(StrEnum):
    """PREFERRED: the first replica, if it is in sync. UNCLEAN: any replica that is alive."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"
