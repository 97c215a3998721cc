"""Model that exists on paper only: its cost, for runs without training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NoReturn, Self

from pydantic import Field, model_validator

from fleetsim.contracts import ModelCost, SampleForm, StepMemory
from fleetsim.errors import ScenarioError
from fleetsim.learning.models.model_kind import ModelKind
from fleetsim.schema.key_conditions import MEMORY_CHECKED, by_key
from fleetsim.settings import Settings

if TYPE_CHECKING:
    from torch import nn

FLOAT_BYTE = 4
"""Bytes of one weight in training."""
Flop = Annotated[float, Field(ge=0.0, le=1e15)]
"""FLOP of one sample: to 1e15, a language model of 7e9 weights on a text of 70,000 tokens."""
Layers = Annotated[int, Field(ge=0, le=1_000_000)]
Bytes = Annotated[int, Field(ge=1, le=10**15)]


class ClassFlop(Settings):
    """FLOP of a sample's forward pass by operation class, 2 per multiply-add."""

    conv: Flop = 0.0
    """Of convolutions."""
    depthwise: Flop = 0.0
    """Of convolutions of every channel by itself."""
    gemm: Flop = 0.0
    """Of matrix products: linear layers and attention."""
    rnn: Flop = 0.0
    """Of recurrent layers."""

    @model_validator(mode="after")
    def _is_work(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("has no FLOP; give those of a class, such as gemm: 2.0e9")
        return self


class ClassLayers(Settings):
    """Layers by operation class, each of which costs a device an overhead per batch."""

    conv: Layers = 0
    """Convolutions."""
    depthwise: Layers = 0
    """Convolutions of every channel by itself."""
    gemm: Layers = 0
    """Linear layers, and attentions beside theirs."""
    rnn: Layers = 0
    """Recurrent layers."""


class CostSettings(ModelKind):
    """Cost of a model that exists on paper only, for runs without training."""

    acts_if = by_key(sample_byte=MEMORY_CHECKED, unfolded_byte=MEMORY_CHECKED)

    trainers: ClassVar[frozenset[str]] = frozenset()

    kind: Literal["cost"] = "cost"
    flop_per_sample: ClassFlop
    """FLOP of a sample's forward pass by operation class; training takes three times as many."""
    layers: ClassLayers
    """Layers that a device launches in a forward pass, of the same classes."""
    parameters: Annotated[int, Field(ge=1, le=10**13)]
    """Number of weights; a step keeps them, their gradients and the optimizer's, 4 byte each."""
    download_byte: Bytes | None = None
    """Bytes of the model on its way down; null: 4 for every weight."""
    upload_byte: Bytes | None = None
    """Bytes of an update on its way up; null: as many as down."""
    sample_byte: Annotated[int, Field(ge=0, le=10**15)] | None = None
    """Bytes that the forward pass of one sample keeps for its backward pass; needed where
    `fleet.memory` checks the memory of a step."""
    unfolded_byte: Annotated[int, Field(ge=0, le=10**15)] = 0
    """Bytes of the patches under the kernels of a sample's convolutions, for engines that compute
    these as matrix products."""

    @model_validator(mode="after")
    def _layers_have_flop(self) -> Self:
        flop, layers = self.flop_per_sample.model_dump(), self.layers.model_dump()
        for name, work in flop.items():
            if (work > 0.0) != (layers[name] > 0):
                has, lacks = ("FLOP", "layers") if work > 0.0 else ("layers", "FLOP")
                raise ValueError(f"the class {name} has {has} and no {lacks}; give both or none")
        return self

    def build(self, samples: SampleForm) -> nn.Module:
        """Refuse, as there is no network."""
        refuse_training()

    @classmethod
    def fits(cls, samples: SampleForm) -> bool:
        """Return False: it is no network that could be trained on any samples."""
        return False

    @property
    def is_transformer(self) -> bool:
        """True if its FLOP and weights are those of one."""
        return self.cost(num_copies=None).is_transformer

    @property
    def has_wire_sizes(self) -> bool:
        """True if the bytes of a model or an update are stated, and not 4 for every weight."""
        return self.download_byte is not None or self.upload_byte is not None

    def cost(self, *, num_copies: int | None) -> ModelCost:
        """Return the cost; memory is that of copies of the weights, and None is not checked.

        Memory that is checked needs `sample_byte`.
        """
        layers = {name: num for name, num in self.layers.model_dump().items() if num > 0}
        flop = self.flop_per_sample.model_dump()
        memory = None
        if num_copies is not None:
            if self.sample_byte is None:
                raise ScenarioError(f"task.model.sample_byte: {MEMORY_NEEDS}")
            state_byte = num_copies * FLOAT_BYTE * self.parameters
            memory = StepMemory(state_byte, self.sample_byte, self.unfolded_byte)
        return ModelCost(
            forward_flop={name: work for name, work in flop.items() if work > 0.0},
            num_parameters=self.parameters,
            payload_byte=self.download_byte or FLOAT_BYTE * self.parameters,
            num_layers=sum(layers.values()),
            layer_counts=layers,
            memory=memory,
        )


MEMORY_NEEDS = (
    "missing, and fleet.memory checks the memory of a step; give the bytes that the forward pass of"
    " a sample keeps"
)


def refuse_training() -> NoReturn:
    """Refuse to train a model that exists on paper only."""
    raise ScenarioError(
        "task.model.kind = 'cost' has no weights to train; use --no-train, or name a network"
    )
