"""Advice in the faults of runs, in terms of `fleetsim study run`."""

from __future__ import annotations

from typing import Final

_IN_A_STUDY: Final = (
    ("go on with --resume, delete it", "delete it"),
    ("go on with --resume", "repeat the command"),
    ("finish it with --resume", "repeat the command to finish it"),
    ("resume with the same SCENARIO, --seed and --set, or with", "delete the folder, which has"),
    ("give or leave out --no-train as in that run", "delete the folder and repeat the command"),
    ("use --no-train", "set train: false in the study"),
    ("another place with --out", "another place with --home"),
)
"""Phrases with options that `fleetsim run` has and a study lacks, and what to say instead."""


def for_study(fault: str) -> str:
    """Return the fault of a run with the ways out that a study has.

    >>> for_study("runs/a: is not empty; empty it, or choose another place with --out")
    'runs/a: is not empty; empty it, or choose another place with --home'
    """
    for of_run, of_study in _IN_A_STUDY:
        fault = fault.replace(of_run, of_study)
    return fault
