"""Which broker looks after a group: the one that leads the partition of the commit log that the group's id hashes to."""


def log_partition(group: str, partitions: int) -> int:
    """The partition of the commit log that holds a group, as the broker computes it: Java's hash of the id."""
    value = 0
    encoded = group.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    # Java's Math.abs of the smallest int is itself, so the broker says 0 there.
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
