"""CSV files whose texts no spreadsheet takes for formulas."""

import pandas as pd
import pytest

from fleetsim.report import csv_text


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-cmd", "@sum(a)", "\tx", "-", "\uff1d1"])
def test_a_text_that_begins_like_a_formula_gets_an_apostrophe(text: str):
    written = csv_text.encoded(pd.DataFrame({"name": [text], text: [1]})).decode()

    assert written == f"name,'{text}\n'{text},1\n"


def test_numbers_and_other_texts_stay_as_they_are():
    table = pd.DataFrame(
        {"joules": [-0.5, 2.0], "level": ["-0.5", "oort"], "rounds": [-1, 3], "gap": [None, "a=b"]}
    )

    assert csv_text.encoded(table) == b"joules,level,rounds,gap\n-0.5,-0.5,-1,\n2.0,oort,3,a=b\n"
