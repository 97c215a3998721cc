"""Experiments of FedGCS: its eight selectors with LeNet-5 and with a small ResNet-18.

With LeNet-5, FedMarl and FedGCS learned before; with ResNet-18, at a smaller size than the paper's,
all learn in the run.

Accuracies are those of table 1 (Ning et al., IJCAI 2024) after 50 rounds, there in percent; ".99
(round 28)" is a run that the paper ended in that round because it had reached 99 %. Fashion-MNIST
is not in the paper, which claims nothing about it.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.papers.experiment import RANDOM, Experiment, over_others

_OWN = "fedgcs"
_ARMS = (RANDOM, "fedprox", "afl", "tifl", "oort", "favor", "fedmarl", _OWN)
_IID = (".9884", ".99 (round 35)", ".9861", ".9891", ".99 (round 49)", ".9887", ".9882")
_NON_IID = (".3670", ".6767", ".8960", ".9121", ".9247", ".8548", ".9013")
_CIFAR_IID = (".8478", ".8511", ".8333", ".8496", ".8569", ".8598", ".8637", ".8842")
_CIFAR_NON_IID = (".4202", ".5240", ".5181", ".5639", ".5351", ".5134", ".5673", ".6162")


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
    _experiment(
        "mnist-iid", "MNIST, IID", dict(zip(_ARMS, (*_IID, ".99 (round 28)"), strict=True))
    ),
    _experiment("mnist-dir", "MNIST, non-IID", dict(zip(_ARMS, (*_NON_IID, ".9583"), strict=True))),
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
