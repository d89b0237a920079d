"""The doctor's verdicts about broker versions, without brokers."""

from reconciler.kafka.doctor import versions
from reconciler.operations import OPERATIONS

REQUESTS = sorted(operation.API for operation in OPERATIONS)


def lines(broker: str, **apis: str) -> list[str]:
    keys = {"Fetch": 1, "DeleteRecords": 21, "DeleteGroups": 42, "ElectLeadersRequest": 43}
    head = f"APIVERSION [rdkafka#producer-1] [thrd:{broker}]: {broker}:  "
    return [f"{head} ApiKey {name} ({keys[name]}) Versions {span}" for name, span in apis.items()]


def test_versions_are_read_per_broker_from_the_clients_log() -> None:
    """Two brokers of two releases, one without election types; other lines of the log are ignored."""
    heard = [
        "FEATURE something else",
        *lines("b1:9092/1", Fetch="4..18", DeleteRecords="0..2", DeleteGroups="0..2", ElectLeadersRequest="0..2"),
        *lines("b1:9092/bootstrap", Fetch="4..18"),
        *lines("b2:9092/2", Fetch="0..17", DeleteRecords="0..2", ElectLeadersRequest="0..0"),
    ]
    new, old = versions(heard, REQUESTS)
    assert (new.broker, new.kafka_4, new.lacking) == ("b1:9092", True, ())
    assert (old.broker, old.kafka_4, old.lacking) == ("b2:9092", False, ("DeleteGroups", "ElectLeaders"))
    assert versions(["nothing"], REQUESTS) == ()
