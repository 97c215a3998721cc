import zipfile
from pathlib import Path

import numpy as np
import pytest

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.data.published.texts import (
    ALPHABET,
    ShakespeareSettings,
    roles,
)
from tests.learning.data.stand_ins import load_stand_in, placed, stand_in

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


@pytest.mark.slow
def test_the_real_plays_have_639_roles_of_a_thousand_characters(real_data, tmp_path):
    with zipfile.ZipFile(real_data("shakespeare") / "shakespeare-moby-xml.zip") as archive:
        archive.extractall(tmp_path)
    folder = str(tmp_path)
    data = load_dataset(ShakespeareSettings(folder=folder), seed=1, num_clients=2)

    assert len(np.unique(np.asarray(data.owner))) == 639
    # side by side, 80 of 80, from four fifths of 4.3 million characters
    assert len(data.train_labels) == pytest.approx(0.8 * 4.1e6 / 80, rel=0.05)
    assert spelt(np.asarray(data.train_inputs)[0]).startswith(
        "In delivering my son from me, I bury"
    )
    assert np.bincount(data.train_labels).argmax() == ALPHABET.index(" ")
