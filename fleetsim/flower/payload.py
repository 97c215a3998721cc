"""Content of messages: its bytes on the wire, its packed form, its metrics and configuration."""

import importlib
import json
from collections.abc import Collection
from typing import Any

NUMBER_BYTE = 8
"""Bytes of a number in a metric or configuration record."""
_NUM_SAMPLES = ("num-examples", "num_examples")
_ROUND = ("server-round", "server_round", "current-round", "current_round")
_METRICS_OF_BEFORE = (".metrics", ".loss", ".num_examples")
"""Ends of the names of records in which replies of before the message API hold metrics."""


def pack(content: Any) -> bytes:
    """Return a record dictionary of Flower as bytes, the same for the same content."""
    serde = importlib.import_module("flwr.common.serde")
    packed: bytes = serde.recorddict_to_proto(content).SerializeToString(deterministic=True)
    return packed


def unpack(packed: bytes) -> Any:
    """Return the record dictionary of `pack`, which shares nothing with the one packed."""
    serde = importlib.import_module("flwr.common.serde")
    proto = importlib.import_module("flwr.proto.recorddict_pb2")
    return serde.recorddict_from_proto(proto.RecordDict.FromString(packed))


def payload_byte(content: Any) -> int:
    """Return the bytes of a message: arrays, 8 for a number, text; names are small beside them."""
    arrays = sum(
        len(array.data) for record in content.array_records.values() for array in record.values()
    )
    records = [*content.metric_records.values(), *content.config_records.values()]
    return arrays + sum(_value_byte(value) for record in records for value in record.values())


def _value_byte(value: Any) -> int:
    if isinstance(value, list):
        return sum(_value_byte(entry) for entry in value)
    if isinstance(value, str):
        return len(value.encode())
    return len(value) if isinstance(value, bytes) else NUMBER_BYTE


def metrics_of(content: Any) -> dict[str, Any]:
    """Return all metrics of a reply by name, also of one from before the message API."""
    result: dict[str, Any] = {}
    for record in content.metric_records.values():
        result |= dict(record)
    for name, record in content.config_records.items():
        if name.endswith(_METRICS_OF_BEFORE):
            result |= dict(record)
    return result


def num_samples_of(metrics: dict[str, Any]) -> int | None:
    """Return the number of samples that a reply names; None if it names none."""
    for name in _NUM_SAMPLES:
        value = metrics.get(name)
        if isinstance(value, int | float):
            return int(value)
    return None


def kind_of(content: Any, *, ignored: Collection[str]) -> str:
    """Return a text equal for messages of one size and configuration, but `ignored` and rounds."""
    config = {
        f"{name}/{key}": value if isinstance(value, bool | int | float | str) else repr(value)
        for name, record in content.config_records.items()
        for key, value in record.items()
        if key not in _ROUND and key not in ignored
    }
    return json.dumps([payload_byte(content), config], sort_keys=True)
