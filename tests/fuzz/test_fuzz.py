"""A short form of the fuzzer: no damaged input breaks a rule of `verdict`."""

import contextlib
import os
import re

import pytest

from fleetsim.user import KINDS
from tests.fuzz import plug_ins
from tests.fuzz.case import Case
from tests.fuzz.cases import TARGETS
from tests.fuzz.sandbox import Ending, sandbox
from tests.fuzz.search import search
from tests.fuzz.verdict import faults

NUM_CASES = int(os.environ.get("FLEETSIM_FUZZ_CASES", "100"))


@pytest.fixture(scope="module")
def shared_sandbox():
    """One for all searches, as it takes seconds to begin."""
    with sandbox() as run, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.fuzz.search.sandbox", lambda: contextlib.nullcontext(run))
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("shared_sandbox")
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_damaged_input_ends_in_one_plain_line(target, tmp_path):
    num_cases = max(NUM_CASES * TARGETS[target][1] // 20, 10)
    tally = search(target, 1, num_cases, keep=tmp_path)

    assert tally.num_cases >= num_cases // 2
    assert tally.num_refused + tally.num_warned > 0
    assert not tally.faults, f"{dict(tally.faults)}; the cases are in {tmp_path}"


def test_plug_ins_of_every_kind_misbehave_in_each_of_their_methods():
    assert set(plug_ins.BODIES) == set(KINDS)
    for name, kind in KINDS.items():
        due = {*kind.methods()} - (set() if name == "aggregator" else kind.optional)
        assert due <= set(re.findall(r"def (\w+)\(self", plug_ins.BODIES[name]))


def test_a_fault_of_ones_own_code_may_have_any_text():
    user_case = Case((), {}, user_file="own.py", endings=frozenset({-9}))
    message = "error: --plugin own:Part: f fails: OSError: Input should (/tmp/own.py, line 3)\n"

    assert faults(Ending(2, "", message, 0.1, 0), user_case) == []
    assert faults(Ending(2, "", message, 0.1, 0))
    assert faults(Ending(-9, "", "", 0.1, 0), user_case) == []
    assert faults(Ending(-9, "", "", 0.1, 0))
    assert faults(
        Ending(1, "", "error: out: unexpected x; this is a bug of fleetsim, report it\n", 0, 0),
        user_case,
    )


GOOD_LINE = "error: s.yaml:3: server.cohort = 0: must be a whole number >= 1\n"


def test_a_good_refusal_has_no_fault():
    assert faults(Ending(2, "", GOOD_LINE, 0.1, 0)) == []


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (Ending(None, "", "", float("nan"), 0), "no answer"),
        (Ending(1, "", GOOD_LINE, 0.1, 0), "exit code 1"),
        (Ending(2, "", "", 0.1, 0), "without an error line"),
        (Ending(2, "", "Traceback (most recent call last):\n", 0.1, 0), "Traceback"),
        (Ending(2, "", "error: s.yaml: k: KeyError 'x'; give it\n", 0.1, 0), "KeyError"),
        (Ending(2, "", "error: s.yaml: Input should be 1; give it\n", 0.1, 0), "Input should"),
        (Ending(2, "", "error: something went wrong\n", 0.1, 0), "no place"),
        (Ending(2, "", "error: s.yaml:3: server.cohort = 0: bad\n", 0.1, 0), "no way out"),
        (Ending(2, "", "error: s.yaml:3: k = \x1b[0m: must be 1\n", 0.1, 0), "not printable"),
        (Ending(2, "", GOOD_LINE * 30, 0.1, 0), "30 lines"),
        (Ending(2, "", GOOD_LINE[:-1] + "x" * 1000 + "\n", 0.1, 0), "characters"),
        (Ending(0, "", "", 5.1, 0), "processor time"),
        (Ending(0, "", "", 0.1, 1 << 31), "2.00 GiB"),
    ],
)
def test_each_rule_finds_what_breaks_it(ending, text):
    assert any(text in fault for fault in faults(ending))
