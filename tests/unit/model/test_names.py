"""The text and the order of addresses and partitions."""

import pytest

from reconciler.model.names import NOWHERE, Address, SourceLocation, TopicPartition


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("RetentionFloor/orders-gdpr", Address("RetentionFloor", "orders-gdpr")),
        ("RetentionFloor/orders-gdpr/orders", Address("RetentionFloor", "orders-gdpr", "orders")),
        ("RetentionFloor/orders-gdpr/orders[0]", Address("RetentionFloor", "orders-gdpr", "orders", 0)),
        ("LeaderPolicy/all/payments[12]", Address("LeaderPolicy", "all", "payments", 12)),
        ("GroupRemoval/dead-etl/old-etl", Address("GroupRemoval", "dead-etl", "old-etl")),
        ("GroupRemoval/dead-etl/a/b[3]", Address("GroupRemoval", "dead-etl", "a/b[3]")),
    ],
)
def test_an_address_survives_its_text(text: str, address: Address) -> None:
    """The id of a group is any text; slashes and brackets in it have no meaning."""
    assert str(address) == text
    assert Address.parse(text) == address


@pytest.mark.parametrize("text", ["", "orders", "/x", "RetentionFloor/", "/"])
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        Address.parse(text)


@pytest.mark.parametrize("name", ["orders[01]", "orders[-1]", "orders[]", "orders[3", "or ders[3]"])
def test_text_that_resembles_a_partition_is_a_name(name: str) -> None:
    """Each partition has one text, without leading zeros and signs."""
    assert Address.parse(f"LeaderPolicy/all/{name}") == Address("LeaderPolicy", "all", name)


def test_addresses_are_sorted_by_partition_number() -> None:
    """The order is not that of the digits; the topic and the policy come first."""
    numbered = [Address("K", "p", "t", number) for number in (-1, 0, 2, 10)]
    assert sorted(numbered) == numbered
    assert Address("K", "p") < numbered[0]


def test_the_policy_of_an_address() -> None:
    assert Address("K", "p", "t", 3).policy_address == Address("K", "p")


def test_partitions_and_locations_as_text() -> None:
    assert str(TopicPartition("orders", 3)) == "orders[3]"
    assert sorted([TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 9)])[0] == TopicPartition(
        "a", 9
    )
    assert str(SourceLocation("manifests/a.yaml", 9, 3)) == "manifests/a.yaml:9"
    assert SourceLocation("", 0, 0) == NOWHERE
