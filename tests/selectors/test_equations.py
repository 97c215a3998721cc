"""Equations: with a source and keys for ties."""

import inspect
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import fleetsim.selectors
from fleetsim.contracts import IntArray

PACKAGE = "fleetsim.selectors."
MODULES = [
    module.name.removeprefix(PACKAGE)
    for module in pkgutil.walk_packages(fleetsim.selectors.__path__, PACKAGE)
    if module.name.endswith((".equations", "_fit", ".belief_propagation"))
]


def functions_of(module: str) -> dict[str, Callable[..., Any]]:
    members = vars(import_module(PACKAGE + module))
    return {
        name: member
        for name, member in members.items()
        if inspect.isfunction(member)
        and member.__module__ == members["__name__"]
        and not name.startswith("_")
    }


EQUATIONS = [
    pytest.param(function, id=f"{module}.{name}")
    for module in MODULES
    for name, function in functions_of(module).items()
]


@pytest.mark.parametrize("function", EQUATIONS)
def test_an_equation_names_its_source_and_takes_keys_for_ties_if_it_chooses(function):
    signature = inspect.signature(function, eval_str=True)
    takes_number = bool({"num", "wanted", "max_clients"} & set(signature.parameters))

    assert "Source: " in (inspect.getdoc(function) or "")
    if takes_number and signature.return_annotation == IntArray:
        assert "keys" in signature.parameters


ONES = np.ones(3)
CHOICES = {
    "fedgra.equations.choose": {"grade": ONES, "fairness": ONES, "is_forced": ONES < 0, "num": 3},
    "survey.equations.choose_others": {"took_part": ONES < 0, "num": 3},
    "tifl.equations.choose": {"tier_of": np.zeros(3, dtype=np.int64), "tier": 0, "num": 3},
    "divfl.equations.greedy": {"dissimilarity": np.ones((3, 3)), "num": 3},
    "fedcs.equations.pack": {"download_s": ONES, "update_s": ONES, "upload_s": ONES,
        "deadline_s": 99.0},
    "rbcs_f.equations.choose": {"queues": ONES, "exchange_s": ONES, "num": 3},
    "favor.equations.choose": {"values": ONES, "num": 3, "num_random": 0, "draws": ONES},
    "fedcor.equations.choose": {"covariance": np.eye(3), "alpha": ONES, "weights": ONES / 3,
        "candidates": np.arange(3), "wanted": 3},
    "oort.equations.exploration_pool": {"weights": ONES, "num": 3, "window": 1.0},
    "tie_breaking.best": {"scores": ONES, "num": 3},
}  # fmt: skip
"""Three clients that only the keys tell apart."""


@pytest.mark.parametrize("choice", CHOICES)
def test_ids_count_from_zero_and_equals_go_by_their_keys(choice):
    module, name = choice.rsplit(".", 1)
    choose = getattr(import_module(PACKAGE + module), name)

    assert choose(**CHOICES[choice], keys=np.array([0.5, 0.9, 0.1])).tolist() == [2, 0, 1]
    assert choose(**CHOICES[choice], keys=np.array([0.1, 0.5, 0.9])).tolist() == [0, 1, 2]
