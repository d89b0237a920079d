"""The error tables of the operations by numeric code, and a gateway whose results are interpreted."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from confluent_kafka import KafkaError

from reconciler.kafka.gateway import error_name
from reconciler.model.names import TopicPartition
from reconciler.model.ports import Election, Gateway, ItemResult
from reconciler.operations import OPERATIONS, DeleteGroup, DeleteRecords, ElectLeader
from reconciler.operations.error_meanings import COMMON_ERRORS, Response, ResponseAction, interpret

CODES = sorted({value for value in vars(KafkaError).values() if isinstance(value, int)})


class Operation(StrEnum):
    """The three requests, by their names in plan files."""

    DELETE_RECORDS = "delete_records"
    DELETE_GROUP = "delete_group"
    ELECT_LEADER = "elect_leader"


_CLASSES = {Operation(cls.OPERATION): cls for cls in OPERATIONS}


def response(operation: Operation, code: int, text: str = "") -> Response:
    """Return what an error code of the client library means for an operation."""
    return interpret(ItemResult(error_name(code), text), _CLASSES[operation].ERRORS, _CLASSES[operation].RIGHT)


def _named_codes(operation: Operation) -> list[int]:
    tables = (COMMON_ERRORS, _CLASSES[operation].ERRORS)
    names = {name for table in tables for codes in table.values() for name in codes}
    found = [code for code in CODES if error_name(code) in names]
    assert {error_name(code) for code in found} == names, "a name in a table that the client library does not know"
    return found


TABLE: Mapping[Operation, Mapping[int, ResponseAction]] = {
    operation: {code: response(operation, code).answer for code in _named_codes(operation)} for operation in Operation
}
"""The codes that the tables of each operation name."""


class InterpretingGateway:
    """A gateway whose requests return responses instead of results."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway: Any = gateway

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Response]:
        return _responses(DeleteRecords, self._gateway.delete_records(before_offsets))

    def delete_groups(self, groups: Sequence[str]) -> Mapping[str, Response]:
        return _responses(DeleteGroup, self._gateway.delete_groups(groups))

    def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Response]:
        return _responses(ElectLeader, self._gateway.elect_leaders(election, partitions))


def _responses(operation: Any, results: Mapping[Any, ItemResult]) -> Mapping[Any, Response]:
    return {subject: interpret(result, operation.ERRORS, operation.RIGHT) for subject, result in results.items()}
