"""Which published data sets fleetsim knows: files, addresses, checksums, licence, citation.

The checksums are those of the files as their authors publish them. For MNIST and Fashion-MNIST
their MD5 sums equal the ones in the README of zalandoresearch/fashion-mnist and in torchvision's
`datasets/mnist.py`. For CIFAR-10 they are those that tensorflow/datasets@333639b
(`url_checksums/cifar10.txt`, the archive) and ankane/torchvision-ruby@9bf2250
(`lib/torchvision/datasets/cifar10.rb`, the archive and the files in it) verify downloads with. For
EMNIST it is the one of tensorflow/datasets@333639b (`url_checksums/emnist.txt`), taken at NIST's
former address; the address here is torchvision's (`datasets/mnist.py`). For the archive of
WikiText-2 it is the one that ml-explore/mlx-data verifies with; those of the files in it, and of
its form with `<unk>`, are stated alike by several public projects. Those of the plays are our own,
of the files at the commit in their address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fleetsim.learning.data.published.plays import PLAYS


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One gzipped file, or one archive, of a published set."""

    name: str
    """As published; a folder may hold it unpacked, without `.gz`."""
    num_byte: int
    sha256: str
    """Of the file as published."""
    unpacked_sha256: str | None
    """Of the file once gunzipped; None for an archive."""
    urls: tuple[str, ...]
    """The official address, then mirrors."""
    is_extra: bool = False
    """Needed for an option of the set only."""
    members: tuple[tuple[str, str], ...] = ()
    """Of an archive: path and SHA-256 of the files in it that make up the set; a folder may hold
    them unpacked, at these paths or directly."""

    @property
    def unpacked_name(self) -> str:
        """Name of the file once gunzipped."""
        return self.name.removesuffix(".gz")


@dataclass(frozen=True, slots=True)
class RemoteSet:
    """A published data set; fleetsim carries none of it."""

    name: str
    title: str
    files: tuple[RemoteFile, ...]
    licence: str
    citation: str


def _files(
    homes: tuple[str, ...], *rows: tuple[str, int, str, str], is_extra: bool = False
) -> tuple[RemoteFile, ...]:
    """Files of a set from (name, bytes, SHA-256, SHA-256 unpacked), each found at every home."""
    return tuple(
        RemoteFile(name, num_byte, sha256, unpacked, tuple(home + name for home in homes), is_extra)
        for name, num_byte, sha256, unpacked in rows
    )


_MNIST = RemoteSet(
    name="mnist",
    title="handwritten digits, 60,000 + 10,000 images of 28 x 28, with the writers of QMNIST",
    files=(
        *_files(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            (
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            (
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            (
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            (
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        ),
        *_files(
            ("https://raw.githubusercontent.com/facebookresearch/qmnist/master/",),
            (
                "qmnist-train-labels-idx2-int.gz",
                463_024,
                "2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f",
                "bb1b6e1ec7b04fd5696f1ed50b5f58f8ef195118edd5c93c81783df9740b8ac5",
            ),
            (
                "qmnist-test-labels-idx2-int.gz",
                526_800,
                "9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06",
                "92d0ccb8c25f9c6534270fb4be7e1d24a1c6d315edfc8a638bfbd31c70f362dd",
            ),
            is_extra=True,
        ),
    ),
    licence="MNIST: none stated by its distributors; QMNIST's label files: BSD-3-Clause",
    citation=(
        "LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition, "
        "Proceedings of the IEEE 86(11), 1998; Yadav, Bottou: Cold case: the lost MNIST digits, "
        "NeurIPS 2019"
    ),
)

_FASHION_MNIST = RemoteSet(
    name="fashion-mnist",
    title="pictures of clothes, 60,000 + 10,000 images of 28 x 28",
    files=_files(
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        (
            "train-images-idx3-ubyte.gz",
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
    licence="MIT",
    citation=(
        "Xiao, Rasul, Vollgraf: Fashion-MNIST: a novel image dataset for benchmarking machine "
        "learning algorithms, arXiv:1708.07747, 2017"
    ),
)

_CIFAR10 = RemoteSet(
    name="cifar10",
    title="colour pictures of ten kinds of things, 50,000 + 10,000 images of 32 x 32",
    files=(
        RemoteFile(
            name="cifar-10-binary.tar.gz",
            num_byte=170_052_171,
            sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            unpacked_sha256=None,
            urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            members=(
                (
                    "cifar-10-batches-bin/data_batch_1.bin",
                    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                ),
                (
                    "cifar-10-batches-bin/data_batch_2.bin",
                    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                ),
                (
                    "cifar-10-batches-bin/data_batch_3.bin",
                    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                ),
                (
                    "cifar-10-batches-bin/data_batch_4.bin",
                    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                ),
                (
                    "cifar-10-batches-bin/data_batch_5.bin",
                    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                ),
                (
                    "cifar-10-batches-bin/test_batch.bin",
                    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
                ),
            ),
        ),
    ),
    licence="none stated; its author asks to be cited",
    citation=(
        "Krizhevsky: Learning multiple layers of features from tiny images, technical report, "
        "University of Toronto, 2009"
    ),
)

_EMNIST = RemoteSet(
    name="emnist",
    title="handwritten letters and digits of 28 x 28 pixels, split in six ways",
    files=(
        RemoteFile(
            name="gzip.zip",
            num_byte=561_753_746,
            sha256="fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
            unpacked_sha256=None,
            urls=(
                "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/gzip.zip",
            ),
        ),
    ),
    licence="none stated; its authors ask to be cited",
    citation=(
        "Cohen, Afshar, Tapson, van Schaik: EMNIST: extending MNIST to handwritten letters, IJCNN "
        "2017, arXiv:1702.05373"
    ),
)

_SHAKESPEARE = RemoteSet(
    name="shakespeare",
    title="37 plays in XML with every speech's speakers: 1,361 roles, 4.3 million characters",
    files=_files(
        (
            "https://raw.githubusercontent.com/okfn/shakespeare-material/"
            "abd92b518793aab643fc645267e15b8c0b1f715c/texts/moby/",
        ),
        *(
            (f"{stem}_moby.xml", int(num_byte), sha256, sha256)
            for stem, num_byte, sha256 in map(str.split, PLAYS.strip().splitlines())
        ),
    ),
    licence="public domain; each file says that it may be freely copied and distributed worldwide",
    citation="Bosak: The plays of Shakespeare in XML, 1998, after the texts of Moby Lexical Tools",
)

_MERITY = (
    "Merity, Xiong, Bradbury, Socher: Pointer sentinel mixture models, ICLR 2017, arXiv:1609.07843"
)

_WIKITEXT2 = RemoteSet(
    name="wikitext2",
    title="720 articles of Wikipedia, 2.6 million words, every word as it was",
    files=(
        RemoteFile(
            name="wikitext-2-raw-v1.zip",
            num_byte=4_721_645,
            sha256="ef7edb566e3e2b2d31b29c1fdb0c89a4cc683597484c3dc2517919c615435a11",
            unpacked_sha256=None,
            urls=(
                "https://wikitext.smerity.com/wikitext-2-raw-v1.zip",
                "https://huggingface.co/datasets/ggml-org/ci/resolve/"
                "927b3642933080f1b0e811e2f916e14c292992f9/wikitext-2-raw-v1.zip",
            ),
            members=(
                (
                    "wikitext-2-raw/wiki.train.raw",
                    "6707892fa3788b5ab9ed78ab5ff37d9fe825f6011a2ad4fcd6a6d467f0e7da57",
                ),
                (
                    "wikitext-2-raw/wiki.valid.raw",
                    "4cd0f6876d07a413aa911261ff6d363c72d757d47f0fdd6015702014c89cb9c7",
                ),
                (
                    "wikitext-2-raw/wiki.test.raw",
                    "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08",
                ),
            ),
        ),
    ),
    licence="CC BY-SA 3.0 and GFDL",
    citation=_MERITY,
)

_WIKITEXT2_HOMES = (
    "https://raw.githubusercontent.com/pytorch/examples/acc295dc7b90714f1bf47f06004fc19a7fe235c4/"
    "word_language_model/data/wikitext-2/",
)

_WIKITEXT2_TOKENS = RemoteSet(
    name="wikitext2-tokens",
    title="the same with rare words replaced by <unk>",
    files=(
        *_files(
            _WIKITEXT2_HOMES,
            (
                "train.txt",
                10_797_148,  # from memory, unchecked; only the progress bar uses it
                "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
                "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
            ),
            is_extra=True,
        ),
        *_files(
            _WIKITEXT2_HOMES,
            (
                "valid.txt",
                1_121_681,
                "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
                "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            ),
            (
                "test.txt",
                1_256_449,
                "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
                "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
            ),
        ),
    ),
    licence="CC BY-SA 3.0 and GFDL",
    citation=_MERITY,
)

REGISTRY: Mapping[str, RemoteSet] = MappingProxyType(
    {
        known.name: known
        for known in (
            _CIFAR10,
            _EMNIST,
            _FASHION_MNIST,
            _MNIST,
            _SHAKESPEARE,
            _WIKITEXT2,
            _WIKITEXT2_TOKENS,
        )
    }
)
"""Every set that can be fetched, by name."""
