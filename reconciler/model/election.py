"""The two kinds of election that ElectLeaders offers (KIP-460)."""

from enum import StrEnum


class Election(StrEnum):
    """Election types of KIP-460."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"
