from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.data.published.texts import (
    ALPHABET,
    ARCHIVE,
    ByteSettings,
    ShakespeareSettings,
    WikiText2Settings,
    WordSettings,
    articles,
    roles,
)
from tests.learning.data.stand_ins import load_stand_in, placed, stand_in, zipped

PLAY = b"""<?xml version="1.0"?>
<!DOCTYPE PLAY SYSTEM "play.dtd">
<PLAY><ACT><SCENE><TITLE>SCENE I. Not said.</TITLE>
<STAGEDIR>Enter both</STAGEDIR>
<SPEECH>
<SPEAKER>ANN</SPEAKER>
<LINE>Good   morrow,
 Ben &amp; all.</LINE>
<LINE><STAGEDIR>Aside</STAGEDIR> He <STAGEDIR>sighs</STAGEDIR>sleeps.</LINE>
<LINE> </LINE>
</SPEECH>
<SPEECH><SPEAKER>BEN</SPEAKER><SPEAKER>ANN</SPEAKER><LINE>Away!</LINE></SPEECH>
<SPEECH><SPEAKER></SPEAKER><LINE>Nobody speaks.</LINE></SPEECH>
</SCENE></ACT></PLAY>
"""


def play(**lines_of: list[str]) -> bytes:
    speeches = (
        f"<SPEECH><SPEAKER>{speaker}</SPEAKER>"
        + "".join(f"<LINE>{line}</LINE>" for line in lines)
        + "</SPEECH>"
        for speaker, lines in lines_of.items()
    )
    return f"<PLAY>{''.join(speeches)}</PLAY>".encode()


def load(folder: Path, settings: ShakespeareSettings, **plays: bytes) -> Dataset:
    return load_from(placed(folder, plays), settings, **plays)


def load_from(folder: Path, settings: ShakespeareSettings, **published: bytes) -> Dataset:
    chosen = settings.model_copy(update={"folder": str(folder)})
    registry = stand_in("shakespeare", published)
    return load_stand_in(chosen, registry)


def spelt(tokens: IntArray) -> str:
    return "".join(ALPHABET[token] for token in np.atleast_1d(tokens))


def test_a_role_says_its_lines_without_stage_directions_and_is_of_one_play() -> None:
    lines_of = roles({"p": PLAY, "q": play(ANN=["b"])})

    assert lines_of == {
        ("p", "ANN"): ["Good morrow, Ben & all.\n", "He sleeps.\n", "Away!\n"],
        ("p", "BEN"): ["Away!\n"],
        ("q", "ANN"): ["b\n"],
    }


def test_nothing_outside_of_the_file_is_read_and_what_is_no_xml_is_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret", encoding="utf-8")
    entity = (
        f'<!DOCTYPE PLAY [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'
        "<PLAY><SPEECH><SPEAKER>ANN</SPEAKER><LINE>&x;</LINE></SPEECH></PLAY>"
    )
    for content in (entity, "<PLAY>"):
        with pytest.raises(DataError, match=r"hamlet: no XML of a play .*get it anew"):
            load(tmp_path, ShakespeareSettings(), hamlet=content.encode())


LINES = ["abcdefghi", "jklmnopqr", "stuvwxyzA", "BCDEFGHIJ", "KLMNOPQRS"]
SHORT = ShakespeareSettings(context=4, stride=10, min_characters=1)


def test_the_last_fifth_of_a_roles_lines_is_for_testing(tmp_path: Path) -> None:
    data = load(tmp_path, SHORT, p=play(ANN=LINES))

    assert [spelt(row) for row in np.asarray(data.train_inputs)] == ["abcd", "jklm", "stuv", "BCDE"]
    assert spelt(data.train_labels) == "enwF"
    assert [spelt(row) for row in data.test_inputs] == ["KLMN"]
    assert spelt(data.test_labels) == "O"
    assert np.asarray(data.train_inputs).dtype == data.train_labels.dtype == np.int64
    assert (data.num_classes, data.vocabulary_size) == (80, 80)
    # A fifth is rounded up; unknown characters are spaces.
    six = load(tmp_path, SHORT, p=play(ANN=["a$b&#233;fghij", *LINES]))
    assert [spelt(row) for row in six.test_inputs] == ["BCDE", "KLMN"]
    assert spelt(np.asarray(six.train_inputs)[0]) == "a b "
    # The next character at every position.
    settings = SHORT.model_copy(update={"predict": "each", "stride": 4})
    each = load(tmp_path, settings, p=play(ANN=LINES))
    assert [spelt(row) for row in each.train_inputs[:3]] == ["abcd", "efgh", "i\njk"]
    assert [spelt(row) for row in each.train_labels[:3]] == ["bcde", "fghi", "\njkl"]


def test_every_role_is_a_client_and_short_ones_are_left_out(tmp_path: Path) -> None:
    settings = SHORT.model_copy(update={"min_characters": 50})
    data = load(tmp_path, settings, p=play(BEN=LINES, CAT=LINES[:4]), q=play(ANN=LINES[::-1]))
    untrained = load(tmp_path, SHORT, p=play(ANN=["abcdefghi"], BEN=LINES))

    assert np.asarray(data.owner).tolist() == [0] * 4 + [1] * 4
    assert spelt(np.asarray(data.train_inputs)[4]) == "KLMN"
    assert set(np.asarray(untrained.owner)) == {0}
    assert spelt(untrained.test_inputs[0]) == "KLMN"
    with pytest.raises(ScenarioError, match=r"no role has 1000 characters .* samples of 80"):
        load(tmp_path, ShakespeareSettings(), p=play(ANN=LINES))


def test_an_archive_is_as_good_as_its_files_and_verified(tmp_path: Path) -> None:
    plays = {"p": play(ANN=LINES), "q": play(BEN=LINES)}
    files = load(tmp_path, SHORT, **plays)
    packed = placed(tmp_path / "packed", {})
    zipped(packed / ARCHIVE, plays | {"more": b"not looked at"})

    data = load_from(packed, SHORT, **plays)

    assert np.array_equal(data.train_inputs, files.train_inputs)
    assert np.array_equal(data.test_labels, files.test_labels)
    zipped(packed / ARCHIVE, plays | {"p": play(ANN=["forged"])})
    with pytest.raises(DataError, match=f"{ARCHIVE}: p is not the published file: .*SHA-256"):
        load_from(packed, SHORT, **plays)


@pytest.mark.slow
def test_the_real_plays_have_639_roles_of_a_thousand_characters(real_data):
    folder = str(real_data("shakespeare"))
    data = load_dataset(ShakespeareSettings(folder=folder), seed=1, num_clients=2)

    assert len(np.unique(np.asarray(data.owner))) == 639
    # side by side, 80 of 80, from four fifths of 4.3 million characters
    assert len(data.train_labels) == pytest.approx(0.8 * 4.1e6 / 80, rel=0.05)
    assert spelt(np.asarray(data.train_inputs)[0]).startswith(
        "In delivering my son from me, I bury"
    )
    assert np.bincount(data.train_labels).argmax() == ALPHABET.index(" ")


TRAIN = " \n = A = \n \n a b a <unk> \n \n = B = \n \n b a c \n"
TEST = " \n = C = \n \n a d b <unk> a \n"
TOKENS = WikiText2Settings(form="tokens", context=4, tokens=WordSettings(vocabulary_size=5))


def load_articles(
    folder: Path, settings: WikiText2Settings, *, train: str = TRAIN, test: str = TEST
) -> Dataset:
    """The data set from three files of the form with <unk>; the validation part is the test's."""
    contents = {"train.txt": train, "valid.txt": test, "test.txt": test}
    return articles_from(folder, settings, {name: text.encode() for name, text in contents.items()})


def articles_from(folder: Path, settings: WikiText2Settings, contents: dict[str, bytes]) -> Dataset:
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
    data = load_articles(tmp_path, TOKENS)
    threes = load_articles(tmp_path, TOKENS.model_copy(update={"context": 3}))
    everything = load_articles(tmp_path, TOKENS.model_copy(update={"tokens": WordSettings()}))

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
    data = load_articles(tmp_path, settings, train=" = A = \n \n \u00e9t\u00e9 \n", test=TEST)

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

    same = load_articles(tmp_path / "tokens", TOKENS)
    assert np.array_equal(data.train_inputs, same.train_inputs)
    assert np.array_equal(data.test_labels, same.test_labels)


def test_samples_are_as_many_and_as_long_and_of_the_part_as_requested(tmp_path: Path) -> None:
    few = load_articles(tmp_path, TOKENS.model_copy(update={"context": 2, "test_samples": 2}))
    long = load_articles(tmp_path, TOKENS.model_copy(update={"context": 9}))

    assert len(few.test_inputs) == 2
    # An article without a whole sample is no client.
    assert np.asarray(long.owner).tolist() == [0]
    with pytest.raises(ScenarioError, match=r"task.dataset.context: no article has 99 tokens"):
        load_articles(tmp_path, TOKENS.model_copy(update={"context": 99}))
    # The training part may be missing if the validation part trains.
    contents = {"valid.txt": TRAIN.encode(), "test.txt": TEST.encode()}
    with pytest.raises(DataError, match=r"lacks train\.txt"):
        articles_from(tmp_path / "part", TOKENS, contents)
    chosen = TOKENS.model_copy(update={"train_part": "valid"})
    assert len(articles_from(tmp_path / "part", chosen, contents).train_inputs) == 4


def test_the_real_parts_have_the_published_tokens_and_articles(real_data):
    folder = real_data("wikitext2-part")
    counts = {}
    for part in ("valid", "test"):
        parts = articles((folder / f"{part}.txt").read_text("utf-8"))
        words = sum(len(line.split()) + 1 for lines in parts for line in lines)
        counts[part] = (len(parts), words)

    # table 1 of Merity et al. 2017 (arXiv:1609.07843)
    assert counts == {"valid": (60, 217_646), "test": (60, 245_569)}
