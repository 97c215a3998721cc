from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.published.texts import (
    ByteSettings,
    WikiText2Settings,
    WordSettings,
    articles,
)
from tests.learning.data.stand_ins import load_stand_in, placed, stand_in, zipped

TRAIN = " \n = A = \n \n a b a <unk> \n \n = B = \n \n b a c \n"
TEST = " \n = C = \n \n a d b <unk> a \n"
TOKENS = WikiText2Settings(form="tokens", context=4, tokens=WordSettings(vocabulary_size=5))


def load(
    folder: Path, settings: WikiText2Settings, *, train: str = TRAIN, test: str = TEST
) -> Dataset:
    """The data set from three files of the form with <unk>; the validation part is the test's."""
    contents = {"train.txt": train, "valid.txt": test, "test.txt": test}
    return load_from(folder, settings, {name: text.encode() for name, text in contents.items()})


def load_from(folder: Path, settings: WikiText2Settings, contents: dict[str, bytes]) -> Dataset:
    registry = stand_in("wikitext2-tokens", {"train.txt": b""} | contents, extras=["train.txt"])
    chosen = settings.model_copy(update={"folder": str(placed(folder, contents))})
    return load_stand_in(chosen, registry)


def test_articles_begin_at_titles_between_empty_lines_and_not_at_headings_or_formulas() -> None:
    text = (
        " = A = \n \n = = Part = = \n \n Here x \n = 1 <unk> = \n \n is meant . \n"
        " \n = 2 <unk> = \n too . \n"
    )

    assert articles(TRAIN) == [
        [" ", " = A = ", " ", " a b a <unk> ", " "],
        [" = B = ", " ", " b a c "],
    ]
    assert articles(text) == [text.removesuffix("\n").split("\n")]
    assert articles("a\nb") == [["a", "b"]]


def test_frequent_words_of_the_training_part_are_numbered_behind_unknown_and_line_end(tmp_path):
    data = load(tmp_path, TOKENS)
    threes = load(tmp_path, TOKENS.model_copy(update={"context": 3}))
    everything = load(tmp_path, TOKENS.model_copy(update={"tokens": WordSettings()}))

    # = four times, a three times, b twice; A, B and c are cut off
    unknown, end, equals, a, b = range(5)
    first = [end, equals, unknown, equals, end, end, a, b, a, unknown, end, end]
    second = [equals, unknown, equals, end, end, b, a, unknown, end]
    rows = [first[:4], first[4:8], second[:4], second[4:8]]
    assert np.asarray(data.train_inputs).tolist() == rows
    assert data.train_labels.tolist() == [first[1:5], first[5:9], second[1:5], second[5:9]]
    assert np.asarray(data.owner).tolist() == [0, 0, 1, 1]
    assert (data.num_classes, data.vocabulary_size) == (5, 5)
    assert np.asarray(data.train_inputs).dtype == data.train_labels.dtype == np.int64
    assert everything.num_classes == 2 + len({"=", "a", "b", "A", "B", "c"})
    # Words that only the test part has are unknown.
    line = [end, equals, unknown, equals, end, end, a, unknown, b, unknown, a, end]
    assert threes.test_inputs.tolist() == [line[0:3], line[3:6], line[6:9]]
    assert threes.test_labels.tolist() == [line[1:4], line[4:7], line[7:10]]


def test_bytes_are_the_text_itself(tmp_path: Path) -> None:
    settings = TOKENS.model_copy(update={"tokens": ByteSettings(), "context": 6})
    data = load(tmp_path, settings, train=" = A = \n \n \u00e9t\u00e9 \n", test=TEST)

    def texts(rows: NDArray[Any]) -> list[bytes]:
        return [bytes(row) for row in np.asarray(rows).astype(np.uint8)]

    assert texts(np.asarray(data.train_inputs)) == [b" = A =", b" \n \n \xc3"]
    assert texts(data.train_labels) == [b"= A = ", b"\n \n \xc3\xa9"]
    assert data.num_classes == data.vocabulary_size == 256
    with pytest.raises(ValidationError, match="vocabulary_size"):
        WikiText2Settings.model_validate({"tokens": {"kind": "bytes", "vocabulary_size": 9}})


@pytest.mark.parametrize("unpacked", [False, True])
def test_the_raw_form_is_read_from_the_archive_or_its_files(tmp_path: Path, unpacked: bool) -> None:
    texts = {"train": TRAIN.encode(), "valid": TEST.encode(), "test": TEST.encode()}
    members = {f"wikitext-2-raw/wiki.{part}.raw": text for part, text in texts.items()}
    archive = zipped(tmp_path / "wikitext-2-raw-v1.zip", members)
    known = stand_in("wikitext2", {archive.name: archive.read_bytes()}, members=members)
    if unpacked:
        placed(tmp_path, {Path(name).name: text for name, text in members.items()})
        archive.unlink()
    settings = TOKENS.model_copy(update={"form": "raw", "folder": str(tmp_path)})

    data = load_stand_in(settings, known)

    same = load(tmp_path / "tokens", TOKENS)
    assert np.array_equal(data.train_inputs, same.train_inputs)
    assert np.array_equal(data.test_labels, same.test_labels)


def test_samples_are_as_many_and_as_long_and_of_the_part_as_requested(tmp_path: Path) -> None:
    few = load(tmp_path, TOKENS.model_copy(update={"context": 2, "test_samples": 2}))
    long = load(tmp_path, TOKENS.model_copy(update={"context": 9}))

    assert len(few.test_inputs) == 2
    # An article without a whole sample is no client.
    assert np.asarray(long.owner).tolist() == [0]
    with pytest.raises(ScenarioError, match=r"task.dataset.context: no article has 99 tokens"):
        load(tmp_path, TOKENS.model_copy(update={"context": 99}))
    # The training part may be missing if the validation part trains.
    contents = {"valid.txt": TRAIN.encode(), "test.txt": TEST.encode()}
    with pytest.raises(DataError, match=r"lacks train\.txt"):
        load_from(tmp_path / "part", TOKENS, contents)
    chosen = TOKENS.model_copy(update={"train_part": "valid"})
    assert len(load_from(tmp_path / "part", chosen, contents).train_inputs) == 4


def test_the_real_parts_have_the_published_tokens_and_articles(real_data):
    folder = real_data("wikitext2-part")
    counts = {}
    for part in ("valid", "test"):
        parts = articles((folder / f"{part}.txt").read_text("utf-8"))
        words = sum(len(line.split()) + 1 for lines in parts for line in lines)
        counts[part] = (len(parts), words)

    # table 1 of Merity et al. 2017 (arXiv:1609.07843)
    assert counts == {"valid": (60, 217_646), "test": (60, 245_569)}
