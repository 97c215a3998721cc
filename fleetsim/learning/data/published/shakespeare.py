"""Shakespeare's plays as a next-character task, with the roles of all plays as natural clients.

The text is that of the 37 plays in Jon Bosak's XML, with SPEECH, SPEAKER and LINE marked up: in a
plain text, speakers would have to be guessed from the layout. Roles, samples and sources are
described in docs/data.md.

In a role's text every run of white space is one space; a speech without a name is not used. The
files are Jon Bosak's of 1998, from http://www.ibiblio.org/xml/examples/shakespeare/, as kept in
okfn/shakespeare-material@abd92b5; the checksums are our own, of the files at this commit.
"""

import hashlib
import math
import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from xml.etree import ElementTree

import numpy as np
from annotated_types import Ge, Le

from fleetsim.contracts import IntArray
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.dataset_kind import DatasetKind
from fleetsim.learning.data.formats.zip_members import read_zip
from fleetsim.learning.data.published.fetch import find_files, named_folder, search_folders
from fleetsim.learning.data.remote_set import RemoteSet, remote_files
from fleetsim.learning.data.tokens import check_memory, spread, windows
from fleetsim.schema.ranges import Samples

ALPHABET = "\n !\"&'(),-." + string.digits + ":;>?" + string.ascii_uppercase + "[]"
ALPHABET += string.ascii_lowercase + "}"
"""The 80 characters of LEAF (TalwalkarLab/leaf@0a4689f, models/utils/language_utils.py) in their
order; any other becomes a space. The plays have a single other one, a dollar sign."""

_NAME = "shakespeare"
ARCHIVE = "shakespeare-moby-xml.zip"
_MAX_PLAY_BYTE = 2_000_000
_TEST_FRACTION = 0.2

_PLAYS = """
alls_well_that_ends_well 209730 0aa524940e7b0734f34f367d42a3317cfacfd95fc1c8a45d2797208687c79cd4
antony_and_cleopatra 251898 1746a3f38bde6434bac0355b05fd338142091f9d32f7217b76010782ad6bdde3
as_you_like_it 192140 455b89cddb811e140c7003beccf332be9fab3c9e56e368a913d8b69f9f849267
comedy_of_errors 136841 61c0805ada72c0a40984688566d13bd2dcdab48f33d7e18a87f1f96f04b39c54
coriolanus 260100 c3804c30dba1974bd931ed4c8d40d037d1cc6b1df82da1e5ad29433d3b6dc49e
cymbeline 247365 121857da70e0fe2dc542bf6042416a0996958e1a3d37118d37851fb233b2a1f6
hamlet 279663 1cd6808e06d8dcfa7e66de30c2335d693c71cf66a4b310831e8086b2d37de68b
henry_iv_part_i 214973 32cba94e8f8c90f5bd586e5b3fe279f8cb74aca6e283c4274e1d5dff820c2985
henry_iv_part_ii 234182 cb90527cbf293b20ea673ded26705d420563cde12fca69dd4eea572a27bedda9
henry_v 226266 267bcd10569b2d78681d0d223d401ebc7b5b1c7de9ac63134c9d641667604ccc
henry_vi_part_1 196460 04c90e61b2215e32baa3d4629c83e3df7b466d4d5d7aaf6a35a3ca16529feefe
henry_vi_part_2 226008 d0342d1d3a9096c37dd788cc37a5f022d40dd04f2f593d4e541567ebbd53fc50
henry_vi_part_3 220202 1cbff555edfcad92229971e38931ceb552b5670217c8cbaa14b6ef01c49c95f5
henry_viii 217820 02f7bb64d7561af706aa56e6227fef14114633d69dd5fd035cbf95e8df81858a
julius_caesar 183536 21c825fa3d65838886f7312f00c24e4d46b3a5760fe38782941287f6ddca30a4
lear 245849 05c839ef9d5f310462a01f2bc33dfe2b4c453316a3ec9ae542ff3baab8d2eaf2
life_and_death_of_king_john 178088 87a0cdbf502504eeadfefad03053e44a1e80625d451b374b3e08d7661018f61c
loves_labors_lost 206945 fe16f1a0b7875cf127128648923aaa33feb848c90ed59db69e7dcf271ad00381
macbeth 163077 10c2974bb3e6f041b330fa82e6e1fe24618dbcb3877d58fac1c5021f6baa0b2a
measure_for_measure 202730 b747586583675a12d56b919e2149260151f8be6a73bcc66451beea907e513bab
merchant_of_venice 182039 aadb14aa681b053565519d2f393358c2c0b0e41a5b04137e3b6b5ab702e78299
merry_wives_of_windsor 207174 f87e108970d93b24ddf69085b216b1e385ff14529c1a9984f90e7d562f2cb5d0
midsummer_nights_dream 145040 8713aead899fd314f9fc9667406a7cf87eea630ee76fa4222e42cee4420552de
much_ado_about_nothing 195214 c7aab74e8ea322955da4cc2de03eee4d6013e8b01e5734cd5ce0956c79e92306
othello 248777 5697d36a8a814f98ada690e57d392d799678afc3ee5f4cf0d205b3f3d888d835
pericles 169289 d47d1943a789029f332585ec17a237f1bc222d377e27328b4db1cfcb3483263b
richard_ii 192848 3d6901ecc4097560166913b64f2f1e7bc4404b93e540f7485e2c691698e65a7c
richard_iii 271414 9ca8ab0e9113bb3b765fe88d34a74855701226dafb6d9746f9f4488da25f22b7
romeo_and_juliet 218506 018e1a0475acf4f50bf6b73f8a26643bda5db324cb05a8a3d9038bf704ba26b8
taming_of_the_shrew 194295 176993de768d3ad170de851369b2897c03f171855928fbd87ff2c1ff2a07d88d
tempest 154645 0c9713a9049c6b95771db64a869ce3b8647afef7a3329c1c1755a2a16820cf8d
timon_of_athens 177463 2a77ed6626664e76a93b1aedf18562bf4e1918eb070372d0ade9a73ffa751bf4
titus_andronicus 180543 e686eac27837890a0e924d0a98085a70db52a0bd33b197adcfd74fcd1b80d81c
troilus_and_cressida 249421 7781dfaf71c1da54e495a0ee76b1f299e51fc4edf596bb3a05b7e8f4d1ee6ee2
twelfth_night 186075 4412e763fada1c390e59dfead22cf5aa457036b42b2ad5655fc40443afd38b47
two_gentlemen_of_verona 164619 19082224f80f6b6cb50b6b255e6f81fe78a5f59f5771de31a16693130180134f
winters_tale 217135 3de818e730643edb46090b518e379480f9581453a3f3095bf670ae39a449a9e8
"""
"""Stem of the name, bytes, SHA-256."""

_SHAKESPEARE = RemoteSet(
    name="shakespeare",
    title="37 plays in XML with every speech's speakers: 1,361 roles, 4.3 million characters",
    files=remote_files(
        (
            "https://raw.githubusercontent.com/okfn/shakespeare-material/"
            "abd92b518793aab643fc645267e15b8c0b1f715c/texts/moby/",
        ),
        re.sub(r"^\w+", r"\g<0>_moby.xml", _PLAYS, flags=re.MULTILINE),
    ),
    licence="public domain; each file says that it may be freely copied and distributed worldwide",
    citation="Bosak: The plays of Shakespeare in XML, 1998, after the texts of Moby Lexical Tools",
)


class ShakespeareSettings(DatasetKind):
    """Shakespeare's 37 plays by speaking role: 80 characters predict the next (LEAF's task)."""

    published: ClassVar[tuple[RemoteSet, ...]] = (_SHAKESPEARE,)

    kind: Literal["shakespeare"] = "shakespeare"
    folder: str | None = None
    """Folder with the 37 XML files of the plays, or with a zip archive of them by the name
    `shakespeare-moby-xml.zip`; by default `$FLEETSIM_DATA` and then the cache that
    `fleetsim data fetch shakespeare` fills."""
    context: Annotated[int, Ge(1), Le(1000)] = 80
    """Characters of a sample."""
    stride: Annotated[int, Ge(1), Le(1000)] = 80
    """Characters from the start of one sample to that of the next. With 80 they lie side by side;
    with 1 every character is predicted, as in LEAF, and there are 80 times as many samples."""
    predict: Literal["last", "each"] = "last"
    """Labels: the character after the sample (LEAF), or the next one at each of its positions,
    which gives 80 times as many labels for the same arithmetic."""
    min_characters: Samples = 1000
    """Roles with a shorter text are left out, and those too short for one sample to train on."""
    test_samples: Samples | None = None
    """Number of test samples, evenly spread over all roles; by default all."""

    def load(self, *, seed: int, num_clients: int) -> Dataset:
        """Return the task."""
        length = self.context + 1
        codes = np.full(0x110000, ALPHABET.index(" "), dtype=np.int64)
        codes[[ord(character) for character in ALPHABET]] = np.arange(len(ALPHABET))
        train: list[IntArray] = []
        test: list[IntArray] = []
        for lines in roles(_plays(self.published[0], named_folder(self.folder))).values():
            if sum(map(len, lines)) < self.min_characters:
                continue
            num_train = len(lines) - math.ceil(_TEST_FRACTION * len(lines))
            parts = [
                windows(_encoded(part, codes), length=length, stride=self.stride)
                for part in (lines[:num_train], lines[num_train:])
            ]
            if len(parts[0]):
                train.append(parts[0])
                test.append(parts[1])
        num_test = sum(map(len, test))
        if not num_test:
            raise ScenarioError(
                f"task.dataset.min_characters: no role has {self.min_characters} characters and"
                f" samples of {self.context} to train and test on; lower it or context"
            )
        is_sequence = self.predict == "each"
        answer = slice(1, None) if is_sequence else -1
        num_labels = self.context if is_sequence else 1
        num_samples = sum(map(len, train)) + num_test
        check_memory("task.dataset.stride", num_samples, self.context + num_labels)
        kept = spread(num_test, self.test_samples)
        return Dataset(
            name=_NAME,
            train_inputs=np.concatenate([part[:, :-1] for part in train]),
            train_labels=np.concatenate([part[:, answer] for part in train]),
            test_inputs=np.concatenate([part[:, :-1] for part in test])[kept],
            test_labels=np.concatenate([part[:, answer] for part in test])[kept],
            num_classes=len(ALPHABET),
            owner=np.repeat(np.arange(len(train), dtype=np.int64), [len(part) for part in train]),
            vocabulary_size=len(ALPHABET),
        )


def roles(plays: Mapping[str, bytes]) -> dict[tuple[str, str], list[str]]:
    """Return the lines of each role by play and speaker, in the order of their first words."""
    lines_of: dict[tuple[str, str], list[str]] = {}
    for name, content in plays.items():
        try:
            # expat reads neither the DTD nor anything else outside of the file
            root = ElementTree.fromstring(content)
        except ElementTree.ParseError as error:
            raise DataError(f"{name}: no XML of a play ({error}); get it anew") from error
        for speech in root.iter("SPEECH"):
            speakers = dict.fromkeys(_words(part.text) for part in speech.iter("SPEAKER"))
            lines = [line for line in map(_spoken, speech.iter("LINE")) if line]
            for speaker in speakers:
                if speaker:
                    lines_of.setdefault((name, speaker), []).extend(line + "\n" for line in lines)
    return lines_of


def _spoken(line: ElementTree.Element) -> str:
    """Return the text of a line without the stage directions in it."""
    return _words((line.text or "") + "".join(part.tail or "" for part in line))


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def _encoded(lines: list[str], codes: IntArray) -> IntArray:
    """Return the place in the alphabet of every character of some lines."""
    points = np.frombuffer("".join(lines).encode("utf-32-le"), dtype="<u4")
    encoded: IntArray = codes[points]
    return encoded


def _plays(known: RemoteSet, folder: Path | None) -> dict[str, bytes]:
    """Return the verified XML of all plays by the name of their file, in the set's order."""
    for home in search_folders(_NAME, folder):
        if paths.is_file(home / ARCHIVE):
            return _verified(home / ARCHIVE, known)
    files = find_files(known, folder)
    return {name: paths.read(path) for name, path in files.items()}


def _verified(archive: Path, known: RemoteSet) -> dict[str, bytes]:
    """Return the plays in an archive, each verified by its published checksum."""
    contents = read_zip(archive, [file.name for file in known.files], max_byte=_MAX_PLAY_BYTE)
    for file in known.files:
        actual = hashlib.sha256(contents[file.name]).hexdigest()
        if actual != file.sha256:
            raise DataError(
                f"{archive}: {file.name} is not the published file: expected SHA-256 {file.sha256},"
                f" found {actual}; remove the archive and run `fleetsim data fetch {_NAME}`"
            )
    return {file.name: contents[file.name] for file in known.files}
