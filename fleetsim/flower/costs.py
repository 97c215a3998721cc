"""Content and cost of messages: bytes, metrics, and what is declared or counted around one call.

The app's `pyproject.toml` declares costs. What is not declared is measured at the first message of
its kind to each client. Kinds differ in message type, size and configuration, the number of the
round aside.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, model_validator

from fleetsim.contracts import CountedWork, Purpose
from fleetsim.errors import DataError
from fleetsim.schema.ranges import Samples
from fleetsim.settings import Settings

NUMBER_BYTE = 8
"""Bytes of a number in a metric or configuration record."""
_NUM_SAMPLES = ("num-examples", "num_examples")
_ROUND = ("server-round", "server_round", "current-round", "current_round")


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
    """Return all metrics of a reply by name."""
    return {
        name: value for record in content.metric_records.values() for name, value in record.items()
    }


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


Flop = Annotated[float, Field(ge=0.0, le=1e15)]
"""From nothing to a day and more of a phone."""
Bytes = Annotated[int, Field(ge=0, le=1_000_000_000_000)]
MetricName = Annotated[str, Field(min_length=1, max_length=200)]

_ACCURACIES = (
    "accuracy",
    "eval_accuracy",
    "eval_acc",
    "test_accuracy",
    "centralized_accuracy",
    "acc",
)
_LOSSES = ("loss", "eval_loss", "test_loss", "centralized_loss")
_TRAIN_LOSSES = ("train_loss", "loss", "train-loss")


class MessageCostSettings(Settings):
    """Declared cost of one kind of message; all that is null is measured."""

    flop: Flop | None = None
    """FLOP of a whole message."""
    flop_per_sample: Flop | None = None
    """FLOP of a sample, all epochs together, instead of `flop`."""
    num_samples: Samples | None = None
    """Samples of a message; null: what the reply's metrics call `num-examples`."""
    operation: Literal["conv", "depthwise", "gemm", "rnn"] = "gemm"
    """Operation class of declared FLOP, which determines a device's rate."""
    batches: Samples = 1
    """Batches of a message with declared FLOP; each costs a device the overhead of a dispatch."""
    upload_byte: Bytes | None = None
    """Bytes of the reply."""
    measure: Literal["once", "always"] = "once"
    """`always`: every message is computed when it is dispatched, and what it costs is measured
    anew, for apps whose work differs between messages of one kind."""

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> MessageCostSettings:
        if self.flop is not None and self.flop_per_sample is not None:
            raise ValueError("flop and flop_per_sample exclude each other")
        if self.is_complete and self.measure == "always":
            raise ValueError(
                "measure = 'always' has nothing to measure beside declared FLOP, num_samples and"
                " upload_byte; leave it out, or one of them"
            )
        return self

    @property
    def is_complete(self) -> bool:
        """True if nothing must be measured."""
        return (
            not self.counts_flop and self.num_samples is not None and self.upload_byte is not None
        )

    @property
    def counts_flop(self) -> bool:
        """True if FLOP are counted around the call."""
        return self.flop is None and self.flop_per_sample is None

    def work(self, num_samples: int) -> CountedWork:
        """Return the declared work of a message with so many samples."""
        flop = self.flop if self.flop is not None else (self.flop_per_sample or 0.0) * num_samples
        return CountedWork(
            flop=((self.operation, float(flop)),) if flop else (),
            batches=self.batches,
            num_samples=num_samples,
        )


class AppSettings(Settings):
    """Table `tool.fleetsim` of an app's `pyproject.toml`."""

    train: MessageCostSettings = MessageCostSettings()
    evaluate: MessageCostSettings = MessageCostSettings()
    query: MessageCostSettings = MessageCostSettings()
    accuracy: MetricName | None = None
    """Name of the metric in the column `accuracy`; null: the first usual name that is there."""
    accuracy_in: Literal["fraction", "percent"] = "fraction"
    """Unit of that metric."""
    loss: MetricName | None = None
    """Name of the metric in the column `loss`, the same way."""
    same_cost_config: tuple[MetricName, ...] = ()
    """Keys of a message's configuration that do not change what it costs, such as a learning rate;
    the number of the round is one without being named."""
    keep_replies: bool = True
    """Replies are kept until the run is done, so that it can be resumed."""

    def of(self, purpose: Purpose) -> MessageCostSettings:
        """Return the settings of messages of a purpose."""
        return {
            Purpose.TRAIN: self.train,
            Purpose.EVALUATE: self.evaluate,
            Purpose.PROBE: self.query,
        }[purpose]

    def accuracy_of(self, metrics: Mapping[str, Any]) -> float | None:
        """Return the accuracy among metrics as a fraction; None if there is none."""
        names = _ACCURACIES if self.accuracy is None else (self.accuracy,)
        result = number_named(metrics, names)
        if result is None:
            return None
        share = result / 100.0 if self.accuracy_in == "percent" else result
        if share < 0.0 or share > 1.0:
            whole = 100 if self.accuracy_in == "percent" else 1
            raise DataError(
                f"the app's metric of accuracy is {result:g}, beyond 0 to {whole}; set"
                ' [tool.fleetsim] accuracy_in = "percent" in pyproject.toml if it is in percent,'
                " or accuracy = the name of another metric"
            )
        return share

    def loss_of(self, metrics: Mapping[str, Any]) -> float | None:
        """Return the loss among metrics; None if there is none."""
        return number_named(metrics, _LOSSES if self.loss is None else (self.loss,))


def train_loss_of(metrics: Mapping[str, Any]) -> float | None:
    """Return the training loss among the metrics of a reply; None if there is none."""
    return number_named(metrics, _TRAIN_LOSSES)


def number_named(metrics: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    """Return the first of some metrics that is there and a number."""
    for name in names:
        value = metrics.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


@dataclass(frozen=True, slots=True)
class MessageCost:
    """Cost of a message for its client."""

    work: CountedWork
    upload_byte: int


COSTS = TypeAdapter(dict[str, MessageCost])
"""Costs by kind of message, to and from JSON."""
