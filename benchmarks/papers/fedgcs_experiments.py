"""Experiments of FedGCS: eight selectors with LeNet-5, of which two learned before.

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


def _lenet(variant: str, label: str, finals: Mapping[str, str]) -> Experiment:
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
    _lenet("mnist-iid", "MNIST, IID", dict(zip(_ARMS, (*_IID, ".99 (round 28)"), strict=True))),
    _lenet("mnist-dir", "MNIST, non-IID", dict(zip(_ARMS, (*_NON_IID, ".9583"), strict=True))),
    _lenet("fashion-mnist-iid", "Fashion-MNIST, IID", {}),
    _lenet("fashion-mnist-dir", "Fashion-MNIST, non-IID", {}),
)
