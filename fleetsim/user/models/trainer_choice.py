"""Choice of the trainer of a user's network: the fastest that is proved equal to the serial one.

The candidates, the fastest first, follow from the network, the form of the samples and the batch
size, never from the host's clock; the first that `equivalence` proves is taken. Networks that
draw random numbers in training are trained by the serial one. The measurements behind the limits
are in docs/decisions/0047-networks-of-users-are-counted-and-proved.md.
"""

from fleetsim.errors import ScenarioError
from fleetsim.kernels.stacked.linear_chain import widths_of
from fleetsim.training.equivalence import Proof, proof_of, proved
from fleetsim.training.settings import TrainerKind
from fleetsim.training.trainer_choice import TrainerQuestion
from fleetsim.user.models.training_checks import draws_in_training

MAX_LAYER_FLOP = 1.5e6
"""Most FLOP of one launched layer and batch for which vectorised training was faster on a CPU."""
MIN_CONVOLVED = 0.5
"""Least share of FLOP in convolutions for which an image network is tried channels-last."""


def choose_user_trainer(asked: TrainerQuestion) -> tuple[TrainerKind, str]:
    """Return the trainer of a user's network, and the reason."""
    requested, local = asked.requested.kind, asked.local
    if requested == "serial":
        return ("serial", "the scenario's trainer or data set asks for it")
    if local.algorithm.kind != "none":
        return ("serial", "task.local.algorithm trains one client at a time")
    library = draws_in_training(asked.module, asked.samples, local.loss)
    drawn = None
    if library is not None:
        drawn = (
            f"the network draws random numbers ({library}) in training, at the address of each job"
        )
    if requested != "auto":
        if requested == "channels-last" and asked.torch_device != "cpu":
            raise ScenarioError(
                "trainer.kind: channels-last trains on the CPU alone; use auto, or --torch-device"
                " cpu"
            )
        proof = _proof(requested, asked, drawn)
        if proof.fault is not None:
            raise ScenarioError(
                f"trainer.kind: {requested} is not proved equal to serial for"
                f" {type(asked.module).__name__}: {proof.fault}; use auto or serial"
            )
        return (requested, proved(proof))
    if drawn is not None:
        return ("serial", drawn)
    faults = []
    for candidate in _candidates(asked):
        proof = _proof(candidate, asked, drawn)
        if proof.fault is None:
            return (candidate, proved(proof))
        faults.append(f"{candidate} is not proved equal: {proof.fault}")
    return ("serial", "; ".join(faults) or "none is faster for such a network")


def _candidates(asked: TrainerQuestion) -> list[TrainerKind]:
    """Return trainers that are faster than the serial one for a network, the fastest first."""
    samples, cost, local = asked.samples, asked.cost, asked.local
    on_cpu = asked.torch_device == "cpu"
    result: list[TrainerKind] = []
    if widths_of(asked.module) is not None and samples.vocabulary_size is None and local.is_plain:
        result.append("stacked")
    flop = sum(cost.forward_flop.values())
    is_small = flop * local.batch_size <= MAX_LAYER_FLOP * cost.num_layers
    # Convolutions of single channels become convolutions in as many groups as there are channels of
    # all clients, for which the CPU has no fast form.
    is_faster = is_small and not cost.forward_flop.get("depthwise")
    if (is_faster or not on_cpu) and local.augmentation.is_none:
        result.append("vectorised")
    convolved = sum(cost.forward_flop.get(kind, 0.0) for kind in ("conv", "depthwise"))
    is_image = len(samples.input_shape) == 3
    if on_cpu and is_image and convolved >= MIN_CONVOLVED * flop > 0.0:
        result.append("channels-last")
    return result


def _proof(trainer: TrainerKind, asked: TrainerQuestion, drawn: str | None) -> Proof:
    if drawn is not None:
        return Proof(trainer, None, drawn)
    return proof_of(trainer, asked.module, asked.samples, asked.local.loss)
