"""Pages of docs/models: "Not modelled" lists beside the schema, costs of networks, first lines."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from fleetsim import bundled
from fleetsim.contracts import SampleForm
from fleetsim.learning.models.cost import model_cost
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import ModelSettings
from fleetsim.scenario.loading import load, schema
from fleetsim.schema import strict_yaml

MODELS = Path(__file__).parents[1] / "docs" / "models"
PAGES = sorted(MODELS.glob("*.md"))
LISTS = [page for page in PAGES if page.name != "README.md"]


def stem(word: str) -> str:
    return word.lower().removesuffix("s")


def names(node: Any) -> Iterator[str]:
    """Keys of a JSON Schema, and kinds that they can take."""
    if isinstance(node, dict):
        yield from node.get("properties", {})
        yield from (str(kind) for kind in [node.get("const"), *node.get("enum", [])] if kind)
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from names(part)


def terms(page: Path) -> list[str]:
    """Return the bold words of the list of a page."""
    _, _, rest = page.read_text("utf-8").partition("\n## Not modelled\n")
    return re.findall(r"\*\*(.+?)\*\*", rest.partition("\n## ")[0], re.DOTALL)


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Keys and kinds of scenarios by each of their words."""
    of_word = defaultdict(set)
    for name in names(schema()):
        for word in re.split(r"[^A-Za-z0-9]+", name):
            of_word[stem(word)].add(name)
    return of_word


GENERAL = {
    *("cell", "client", "device", "energy", "link", "local", "memory", "owner", "people", "power"),
    *("radio", "record", "round", "server", "time", "user", "value", "weight"),
}
"""Words of so many keys that they say nothing about one."""
OTHERWISE = {
    "aggregation": {"compression": {"compression"}, "download": {"download_byte"}},
    "battery": {"resistance": {"resistance_k_per_w"}},
    "interruption": {
        "checkpoint": {"checkpoint"},
        "pause": {"pause", "max_pause_s"},
        "shared": {"shared_links"},
    },
    "learning": {"augmentation": {"augmentation"}},
    "memory": {"context": {"context"}, "engine": {"engines"}},
    "models": {
        "dropout": {"dropout", "lowest_dropout", "highest_dropout"},
        "width": {"width", "beam_width"},
    },
    "network-traces": {"trip": {"handshake_round_trips", "request_round_trips"}},
    "privacy": {
        "clip": {"clip_norm", "clip_fraction"},
        "adaptive": {"adaptive"},
        "norm": {"norm", "clip_norm", "max_gradient_norm", "max_update_norm"},
        "privacy": {"privacy"},
    },
    "server": {"buffered": {"buffered"}, "shared": {"shared_links"}},
    "usage": {"cellular": {"cellular", "cellular_fraction"}, "charging": {"charging"}},
}
"""Keys and kinds with a word of a page's list, which do something else; a new one must be read."""


@pytest.mark.parametrize("page", LISTS, ids=lambda page: page.stem)
def test_nothing_that_is_not_modelled_has_a_key(page, known):
    words = {stem(word) for term in terms(page) for word in re.findall(r"[A-Za-z0-9]{4,}", term)}

    assert words
    assert {word: known[word] for word in words - GENERAL if word in known} == OTHERWISE.get(
        page.stem, {}
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_begins_with_its_reader_and_what_it_is_for(page):
    title, line, *_ = page.read_text("utf-8").splitlines()

    assert title.startswith("# ")
    assert line.startswith("For ")
    assert "after this page you" in page.read_text("utf-8").partition("\n\n")[0]


def examples() -> Iterator[Any]:
    for page in PAGES:
        blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
        for number, text in enumerate("---\n".join(blocks).split("---\n") if blocks else []):
            yield pytest.param(text, id=f"{page.stem} {number}")


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A mapping with changes; one that names its kind or mode replaces what was there."""
    result = dict(base)
    for key, value in changes.items():
        is_part = isinstance(value, dict) and not {"kind", "mode"} & {*value}
        result[key] = merged(base.get(key, {}), value) if is_part else value
    return result


@pytest.mark.parametrize("text", [*examples()])
def test_an_example_is_a_change_of_the_quickstart(text):
    quickstart = strict_yaml.read(bundled.folder("scenarios") / "quickstart.yaml").data
    changes = strict_yaml.parse(text, "example").data

    assert load(merged(quickstart, changes)).name == "quickstart"


COLOURED = ("resnet18", "vgg16", "shufflenet-v2", "gpfl-cnn")
ROW = re.compile(
    r"^\| `([\w-]+)`(?: with `hidden: \[(.+?)\]`)? \| ([\d,]+) \| ([\d,]+) \| .+? \| (.+?) \|", re.M
)
NETWORKS = ROW.findall((MODELS / "models.md").read_text("utf-8"))


def numbers(cell: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", cell)]


def test_every_network_for_samples_of_numbers_has_a_row():
    kinds = {kind.model_fields["kind"].default for kind in get_args(get_args(ModelSettings)[0])}

    assert {row[0] for row in NETWORKS} == kinds - {"lstm", "gpt2", "cost"}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "hidden", "parameters", "flop", "sent"), NETWORKS)
def test_a_network_costs_what_its_row_says(kind, hidden, parameters, flop, sent):
    keys = {"kind": kind, **({"hidden": tuple(numbers(hidden))} if hidden else {})}
    norms = [{"norm": "group"}, {"norm": "batch"}] if "BatchNorm" in sent else [{}]
    shape = (3, 32, 32) if kind in COLOURED else (1, 28, 28)
    costs = []
    for norm in norms:
        settings = TypeAdapter(ModelSettings).validate_python(keys | norm)
        module = build_model(settings, SampleForm(shape, 10), seed=0)
        costs.append(model_cost(module, shape))

    assert [cost.payload_byte for cost in costs] == numbers(sent)
    assert {cost.num_parameters for cost in costs} == {*numbers(parameters)}
    assert {sum(cost.forward_flop.values()) for cost in costs} == {*numbers(flop)}
