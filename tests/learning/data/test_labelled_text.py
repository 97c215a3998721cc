from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.labelled_text import LabelledTextSettings
from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.data.tokens import check_memory, spread, windows

CSV = """user,label,text,part
zoe,good,"Fine, fine day!",train
ann,good,rain,train
ann,bad,a fine sun,train
zoe,bad,,test
ann,bad,Don't rain fine words,test
"""


def load(folder: Path, content: str | bytes = CSV, **settings: Any) -> Dataset:
    raw = content if isinstance(content, bytes) else content.encode()
    (folder / "texts.csv").write_bytes(raw)
    settings = {"max_tokens": 4, "test": {"kind": "column", "column": "part"}, **settings}
    chosen = LabelledTextSettings(folder=str(folder), file="texts.csv", **settings)
    return load_dataset(chosen, seed=1, num_clients=2)


def test_words_of_the_training_texts_are_numbered_by_frequency_then_alphabet(tmp_path):
    data = load(tmp_path)

    # fine three times; ! , a day rain sun once; zoe's text is cut after fine , fine day
    pad, unknown, fine, comma, a, day, rain, sun = range(8)
    rows = [[fine, comma, fine, day], [pad, pad, pad, rain], [pad, a, fine, sun]]
    assert np.asarray(data.train_inputs).tolist() == rows
    assert data.test_inputs.tolist() == [[pad] * 4, [unknown, rain, fine, unknown]]
    assert data.vocabulary_size == 8
    assert np.asarray(data.train_inputs).dtype == np.int64
    small = load(tmp_path, vocabulary_size=4)
    assert small.vocabulary_size == 4
    assert np.asarray(small.train_inputs)[0].tolist() == [2, 3, 2, 1]
    # Users and classes are numbered by alphabet.
    assert np.asarray(data.owner).tolist() == [1, 0, 0]
    assert (data.train_labels.tolist(), data.test_labels.tolist()) == ([1, 1, 0], [0, 0])
    assert data.num_classes == 2
    # A mark in front of the file and empty lines do not matter.
    marked = load(tmp_path, b"\xef\xbb\xbf" + CSV.encode().replace(b"\nann", b"\n\nann"))
    assert np.asarray(marked.train_inputs).tolist() == rows


def test_classes_that_are_numbers_are_ordered_by_size_and_users_with_few_texts_left_out(tmp_path):
    users = zip("uuuuv", (10, 9, 4, 10, 9), strict=True)
    rows = "user,label,text\n" + "".join(f"{user},{label},x\n" for user, label in users)
    data = load(tmp_path, rows, min_texts=2, test={"kind": "drawn", "fraction": 0.25})

    assert Counter([*data.train_labels, *data.test_labels]) == {0: 1, 1: 1, 2: 2}


def drawn(folder: Path, fraction: float, sizes: tuple[int, ...] = (10, 7, 1)) -> Dataset:
    rows = "".join(
        f"user{user},{number % 2},word{user}x{number}\n"
        for user, size in enumerate(sizes)
        for number in range(size)
    )
    test = {"kind": "drawn", "fraction": fraction}
    return load(folder, "user,label,text\n" + rows, test=test)


def test_a_share_of_each_users_texts_is_for_testing_rounded_down_and_always_the_same(tmp_path):
    for fraction, expected in ((0.2, (8, 6, 1)), (0.5, (5, 4, 1))):
        data = drawn(tmp_path, fraction)
        assert tuple(np.bincount(np.asarray(data.owner))) == expected
        assert len(data.test_labels) == 18 - sum(expected)
    one, other = drawn(tmp_path, 0.5, (40,)), drawn(tmp_path, 0.5, (40,))
    assert np.array_equal(one.test_labels, other.test_labels)
    assert np.array_equal(one.train_inputs, other.train_inputs)
    # the vocabulary numbers the training words; a test of the first texts has labels 0 1 0 1 ..
    assert one.test_labels.tolist() != [number % 2 for number in range(20)]


def test_sentiment140_is_read_as_published(tmp_path):
    rows = (
        b'"0","1467810369","Mon Apr 06","NO_QUERY","ann","@bob that\'s a bummer."\n'
        b'"4","1467810672","Mon Apr 06","NO_QUERY","bob","caf\xe9 was good, "\n'
        b'"0","1467810917","Mon Apr 06","NO_QUERY","ann","he said ""no"""\n'
    )
    numbers, test = {"user": 4, "text": 5, "label": 0}, {"kind": "drawn", "fraction": 0.5}
    data = load(tmp_path, rows, encoding="latin-1", max_tokens=25, test=test, **numbers)

    assert data.owner is not None
    assert (len(data.train_labels), len(data.test_labels), data.num_classes) == (2, 1, 2)
    assert sorted([*data.train_labels, *data.test_labels]) == [0, 0, 1]


HEAD = "user,label,text,part\n"
ROW = "ann,0,x,train\n"
NUMBERED = {"user": 9, "text": 1, "label": 2, "test": {"kind": "drawn"}}
REFUSED: list[Any] = [
    ("name,label,text,part\n" + ROW, {}, r"csv:1: 0 columns are called 'user'; .*'name', 'label'"),
    ("user,user,label,text,part\n", {}, r"csv:1: 2 columns are called 'user'"),
    (HEAD + ROW + "ann,0,x\n", {}, r"csv:3: 3 columns, but the first line has 4"),
    (HEAD + ROW + ",0,x,train\n", {}, r"csv:3: a row needs a user and a label, got '' and '0'"),
    (HEAD + "ann,0,x,dev\n", {}, r"csv:2: 'dev' is neither 'train' nor 'test'"),
    (HEAD + 'ann,0,"x,train\n', {}, r"csv:2: no CSV \(unexpected end of data\)"),
    (HEAD + ROW, {}, r"labels has 1 different values, expected 2 to 1000; correct task"),
    (HEAD.replace(",", ";"), {}, "csv:1: one column, with semicolons in it; save the file with"),
    (HEAD.encode() + b"ann,0,caf\xe9,train\n", {}, r"csv: no utf-8 .*set task.dataset.encoding"),
    (CSV, NUMBERED, r"csv:1: no column 9; there are 4, numbered from 0"),
    (CSV, {"min_texts": 4}, r"min_texts: no user of .*csv has 4 texts"),
    (HEAD, {}, r"min_texts: no user"),
    (HEAD + ROW + "ann,1,x,train\n", {}, r"dataset.test: 0 of the 2 texts"),
    (CSV, {"user": 4}, "all named, or all numbered"),
    (CSV, {"user": "a", "text": "a"}, "columns differ"),
]


@pytest.mark.parametrize(("content", "settings", "message"), REFUSED)
def test_a_wrong_file_or_key_is_refused_with_its_place(tmp_path, content, settings, message):
    with pytest.raises((DataError, ScenarioError, ValidationError), match=message):
        load(tmp_path, content, **settings)


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 12))
def test_windows_are_all_runs_of_the_tokens_that_begin_at_the_stride(num, length, stride):
    tokens = np.arange(100, 100 + num)

    expected = [
        tokens[start : start + length].tolist()
        for start in range(0, num, stride)
        if start + length <= num
    ]

    assert windows(tokens, length=length, stride=stride).tolist() == expected


@given(st.integers(0, 200), st.integers(1, 200))
def test_spread_rows_are_as_many_as_wanted_and_evenly_apart(num: int, requested: int) -> None:
    rows = spread(num, requested)
    gaps = np.diff(rows)

    assert len(rows) == min(num, requested)
    assert spread(num, None).tolist() == list(range(num))
    assert not gaps.size or (gaps.min() >= 1 and np.ptp(gaps) <= 1)
    assert not rows.size or (rows[0] == 0 and rows[-1] < num)


def test_more_windows_than_a_machine_should_hold_are_refused() -> None:
    check_memory("key", 1_000_000, 500)
    with pytest.raises(ScenarioError, match=r"^key: 1000001 samples of 500 tokens take 4.0 GB"):
        check_memory("key", 1_000_001, 500)
