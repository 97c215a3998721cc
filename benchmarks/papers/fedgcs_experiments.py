"""Experiments of FedGCS: its eight selectors with LeNet-5 and with a small ResNet-18.

With LeNet-5, FedMarl and FedGCS learned before; with ResNet-18, at a smaller size than the paper's,
all learn in the run.

Accuracies are those of table 1 (Ning et al., IJCAI 2024) after 50 rounds, there in percent; "0.99
(round 28)" is a run that the paper ended in that round because it had reached 99 %. Fashion-MNIST
is not in the paper, which claims nothing about it.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.papers.experiment import RANDOM, Experiment, over_others

_OWN = "fedgcs"
_ARMS = (RANDOM, "fedprox", "afl", "tifl", "oort", "favor", "fedmarl", _OWN)
_IID = (
    *("0.9884", "0.99 (round 35)", "0.9861", "0.9891", "0.99 (round 49)", "0.9887", "0.9882"),
    "0.99 (round 28)",
)
_NON_IID = ("0.3670", "0.6767", "0.8960", "0.9121", "0.9247", "0.8548", "0.9013", "0.9583")
_CIFAR_IID = ("0.8478", "0.8511", "0.8333", "0.8496", "0.8569", "0.8598", "0.8637", "0.8842")
_CIFAR_NON_IID = ("0.4202", "0.5240", "0.5181", "0.5639", "0.5351", "0.5134", "0.5673", "0.6162")


def _experiment(variant: str, label: str, finals: Mapping[str, str]) -> Experiment:
    return Experiment(
        name=f"fedgcs-{variant}",
        label=f"FedGCS, {label}",
        measures=("last", "final", "total_s", "total_j"),
        claims=tuple(over_others(_OWN, _ARMS[:-1], "last", "most")) if finals else (),
        papers={(arm, "last"): said for arm, said in finals.items()},
        short_rounds=3,
        is_in_figure=False,
    )


FEDGCS = (
    _experiment("mnist-iid", "MNIST, IID", dict(zip(_ARMS, _IID, strict=True))),
    _experiment("mnist-mixes", "MNIST, label mixes", dict(zip(_ARMS, _NON_IID, strict=True))),
    _experiment("mnist-dir", "MNIST, non-IID", dict(zip(_ARMS, _NON_IID, strict=True))),
    _experiment("fashion-mnist-iid", "Fashion-MNIST, IID", {}),
    _experiment("fashion-mnist-dir", "Fashion-MNIST, non-IID", {}),
    _experiment(
        "cifar10-resnet18-small-iid",
        "a tenth of CIFAR-10, IID",
        dict(zip(_ARMS, _CIFAR_IID, strict=True)),
    ),
    _experiment(
        "cifar10-resnet18-small-dir",
        "a tenth of CIFAR-10, non-IID",
        dict(zip(_ARMS, _CIFAR_NON_IID, strict=True)),
    ),
)
