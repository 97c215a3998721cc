import itertools
import pickle
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

import pytest
from annotated_types import Gt
from pydantic import Field, PositiveInt, field_validator, model_validator

from fleetsim.errors import DataError, ScenarioError
from fleetsim.schema import faults
from fleetsim.schema.spelling import nearest
from fleetsim.schema.strict_yaml import Document, KeyPath, parse
from fleetsim.settings import Settings


class Radio(StrEnum):
    WIFI = "wifi"
    LTE = "lte"


class Uniform(Settings):
    kind: Literal["random"] = "random"
    with_replacement: bool = False


class Oort(Settings):
    kind: Literal["oort"] = "oort"
    exploration_fraction: float = Field(0.9, ge=0, le=1)
    pacer_step_s: float = Field(20.0, gt=0)

    @field_validator("pacer_step_s")
    @classmethod
    def whole(cls, value: float) -> float:
        if value % 1.0:
            raise ValueError("must be whole\nseconds")
        return value


Selector = Annotated[Uniform | Oort, Field(discriminator="kind")]


class Site(Settings):
    radio: Radio = Radio.WIFI
    at_m: tuple[float, Annotated[float, Field(ge=0, le=9)]] = (0.0, 0.0)
    sizes: tuple[Annotated[int, Field(ge=1, le=9)], ...] = ()


class Server(Settings):
    cohort: PositiveInt
    """Clients chosen in each round. More is slower."""
    deadline_s: float | None = Field(None, gt=0)
    selector: Selector = Uniform()
    fallbacks: list[Selector] = Field([])
    num_spare: int = 0
    bandwidth_hz: Annotated[float, Gt(0)] = 1e6
    limit: Literal["auto"] | float = "auto"
    plan: Selector | float = 1.0
    backup: Literal["none"] | Site = "none"
    target: Path | PositiveInt = 1
    above: Annotated[float, Field(ge=0.0, le=1.0), Field(gt=0.0)] = 0.5
    below: Annotated[float, Field(ge=0.0, le=1.0), Field(lt=0.7)] = 0.5
    whole: Annotated[int, Field(ge=1), Field(ge=3, le=9), Field(lt=10)] = 5

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.cohort + self.num_spare > 1000:
            raise ValueError("cohort + num_spare must be at most 1000")
        return self


class World(Settings):
    name: str = Field("x", pattern="^[a-z]+$")
    size: PositiveInt = 10
    devices: dict[str, Annotated[float, Field(gt=0, le=1)]] = Field({})
    by_radio: dict[Radio, int] = Field({})
    by_count: dict[PositiveInt, int] = Field({})
    server: Server
    sites: list[Site] = Field([Site()], min_length=1)

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.server.cohort > self.size:
            raise faults.at(
                ("server", "cohort"), f"must be at most size = {self.size}, the {{fleet}}"
            )
        return self


def lines_of(text: str) -> list[str]:
    """The fault lines of a document."""
    with pytest.raises(ScenarioError) as caught:
        faults.check(World, parse(text, "w.yaml"))
    return list(caught.value.faults)


GOOD = "server: {cohort: 5}\n"


OF_THE_WORLD = [
    # unknown keys
    ("sise: 3", "sise = 3: unknown key; did you mean 'size'?"),
    ("zzzzzz: 3", "zzzzzz = 3: unknown key;"
     " allowed: name, size, devices, by_radio, by_count, server, sites"),
    # limits and types
    ("size: 0", "size = 0: must be a whole number > 0"),
    ("size: 5.0", "size = 5.0: must be a whole number > 0; write 5"),
    ("size: true", "size = true: must be a whole number > 0"),
    ("size: '5'", "size = '5': must be a whole number > 0; drop the quotes"),
    ("size:", "size = null: must be a whole number > 0"),
    ("size: {a: 1}", "size: must be a whole number > 0, not a mapping"),
    ("name: Bad", "name = 'Bad': must match pattern '^[a-z]+$'"),
    ("name: 5", "name = 5: must be text; write '5' in quotes"),
    ("devices: {t2.small: 0}", 'devices["t2.small"] = 0: must be a number > 0 and <= 1'),
    ("devices: {b: 1.5}", "devices.b = 1.5: must be a number > 0 and <= 1"),
    ("devices: {b: .nan}", "devices.b = .nan: must be a finite number > 0 and <= 1"),
    ("devices: [b]", "devices = ['b']: must be a mapping {key: value}"),
    # keys of mappings
    ("by_radio: {7g: 1}", "by_radio[\"7g\"] = 1: the key must be 'wifi' or 'lte'"),
    ("by_radio: {wify: 1}",
     "by_radio.wify = 1: the key must be 'wifi' or 'lte'; did you mean 'wifi'?"),
    ("by_count: {'0': 1}", 'by_count["0"] = 1: the key must be a whole number > 0'),
    # lists
    ("sites: []", "sites = []: must have at least 1 item, not 0"),
    ("sites: {radio: lte}", "sites: must be a list [a, b], not a mapping"),
    ("sites:\n- {radio: lte}\n- radio: wify\n",
     "sites[1].radio = 'wify': must be 'wifi' or 'lte'; did you mean 'wifi'?"),
    ("sites:\n- {at_m: [1]}\n", "sites[0].at_m[1]: missing"),
    ("sites:\n- {at_m: [1, 2, 3]}\n",
     "sites[0].at_m = [1, 2, 3]: must have at most 2 items, not 3"),
    ("sites:\n- {at_m: [1, x]}\n", "sites[0].at_m[1] = 'x': must be a number >= 0 and <= 9"),
    ("sites:\n- {sizes: [1, 0]}\n",
     "sites[0].sizes[1] = 0: must be a whole number >= 1 and <= 9"),
]  # fmt: skip
OF_THE_SERVER = [
    ("deadline: 600", "deadline = 600: unknown key; KEYS MEAN 'deadline_s'?"),
    ("deadline_ms: 6", "deadline_ms = 6: unknown key; KEYS MEAN 'deadline_s'?"),
    ("dedline_s: 6", "dedline_s = 6: unknown key; MEAN 'deadline_s'?"),
    ("num_spare_s: 6", "num_spare_s = 6: unknown key; MEAN 'num_spare'?"),
    ("deadline_s: -1", "deadline_s = -1: must be a number > 0"),
    ("bandwidth_hz: 0", "bandwidth_hz = 0: must be a number > 0"),
    ("limit: aut", "limit = 'aut': must be 'auto' or a number; MEAN 'auto'?"),
    ("selector: {kind: ort}", "selector.kind = 'ort': must be one of KINDS; MEAN 'oort'?"),
    ("selector: {}", "selector.kind: missing, must be one of KINDS"),
    ("selector: {kin: oort}",
     "selector.kind: missing, must be one of KINDS; did you misspell it as 'kin'?"),
    ("selector: oort",
     "selector = 'oort': must be a mapping whose kind is one of KINDS; write {kind: oort}"),
    ("selector:\n    kind: oort\n    exploration_fraction: 2",
     "selector.exploration_fraction = 2: must be a number >= 0 and <= 1"),
    ("selector: {kind: oort, pacer_step: 2}",
     "selector.pacer_step = 2: unknown key; KEYS MEAN 'pacer_step_s'?"),
    ("selector: {kind: random, pacer_step_s: 2}",
     "selector.pacer_step_s = 2: unknown key here; it is a key of 'oort'"),
    ("selector: {kind: oort, pacer_step_s: 1.5}",
     "selector.pacer_step_s = 1.5: must be whole seconds"),
    ("selector: {kind: random, with_replacement: yes}",
     "selector.with_replacement = 'yes': must be true or false"),
    ("plan: {kind: oort, pacer_step_s: 0}", "plan.pacer_step_s = 0: must be a number > 0"),
    ("backup: {radio: wify}", "backup.radio = 'wify': must be 'wifi' or 'lte'; MEAN 'wifi'?"),
    ("backup: 3", "backup = 3: must be 'none' or a mapping {key: value}"),
    ("plan: soon", "plan = 'soon': must be a mapping whose kind is one of KINDS or a number"),
    ("target: [1]", "target = [1]: must be text or a whole number > 0"),
    # of several limits on one side the tightest
    ("above: 0", "above = 0: must be a number > 0 and <= 1"),
    ("below: 0.8", "below = 0.8: must be a number >= 0 and < 0.7"),
    ("whole: 2", "whole = 2: must be a whole number >= 3 and <= 9"),
]  # fmt: skip
SHORT = {"KEYS": "keys carry their unit:", "KINDS": "'oort', 'random'", "MEAN": "did you mean"}


@pytest.mark.parametrize(
    ("before", "place", "text", "message"),
    [
        *((GOOD, "", *row) for row in OF_THE_WORLD),
        *(("server:\n  cohort: 5\n  ", "server.", *row) for row in OF_THE_SERVER),
    ],
)
def test_each_fault_is_one_line_about_the_last_line_of_the_text(before, place, text, message):
    for word, full in SHORT.items():
        message = message.replace(word, full)
    line = 1 + (before + text).rstrip().count("\n")

    assert lines_of(before + text) == [f"w.yaml:{line}: {place}{message}"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("name: x", ["1: server: missing"]),
        ("name: x\nserver: {}", ["2: server.cohort: missing (Clients chosen in each round)"]),
        ("server: {cohort: 5, num_spare: 996}",
         ["1: server: cohort + num_spare must be at most 1000"]),
        ("name: x\nserver:", ["2: server = null: must be a mapping {key: value}"]),
        ("name: x\nserver:\n  cohort: 20\n",
         ["3: server.cohort = 20: must be at most size = 10, the {fleet}"]),
        # A misspelt required key is not also missing; a present one keeps its fault beside a twin.
        ("server:\n  cohrt: 5\n", ["2: server.cohrt = 5: unknown key; did you mean 'cohort'?"]),
        ("server:\n  cohort: 0\n  cohrt: 5\n",
         ["2: server.cohort = 0: must be a whole number > 0",
          "3: server.cohrt = 5: unknown key; did you mean 'cohort'?"]),
        # The order is that of the file, not that of the classes' fields.
        ("server:\n  deadline_s: 0\n  cohort: 0\nsize: 0\n",
         ["2: server.deadline_s = 0: must be a number > 0",
          "3: server.cohort = 0: must be a whole number > 0",
          "4: size = 0: must be a whole number > 0"]),
    ],
)  # fmt: skip
def test_the_faults_of_a_document_are_told_once_each_in_its_order(text, lines):
    assert lines_of(text) == [f"w.yaml:{line}" for line in lines]


def test_faults_of_overrides_come_last_and_name_the_override():
    places: dict[KeyPath, int | str] = {(): 1, ("server",): 1, ("server", "cohort"): 9}
    places["size",] = "--set size=0"
    document = Document({"size": 0, "server": {"cohort": 0}}, "w.yaml", None, places)

    with pytest.raises(ScenarioError) as caught:
        faults.check(World, document)

    assert caught.value.faults == (
        "w.yaml:9: server.cohort = 0: must be a whole number > 0",
        "--set size=0: size = 0: must be a whole number > 0",
    )


def test_a_fault_is_one_line_whatever_it_quotes():
    for text in ('name: "a\\nb"', '"a\\nb\\u2028": 1', 'server: {"x\\u0085y": 1}'):
        assert all(map(str.isprintable, lines_of(GOOD.replace("server", "site") + text)))
    fault = DataError("own\n.csv: \x1b[2J is no number", "x" * 5000)

    assert str(fault).split("\n")[0] == "own\\n.csv: \\x1b[2J is no number"
    assert len(fault.faults[1]) == 2000
    assert pickle.loads(pickle.dumps(fault)).faults == fault.faults


def test_of_many_faults_the_first_are_listed_and_the_others_counted():
    wrong = "".join(f"  d{n}: 2\n" for n in range(1000))

    lines = lines_of(f"{GOOD}devices:\n{wrong}")

    assert lines[:20] == [
        f"w.yaml:{n + 3}: devices.d{n} = 2: must be a number > 0 and <= 1" for n in range(20)
    ]
    assert lines[20:] == ["... and 980 more"]


SPELLINGS = {
    "constnt": "constant", "markte": "market", "lt": "lte", "let": "lte", "sgdm": "sgd",
    "Fashion_MNIST": "fashion-mnist",
    "jetson": "jetson-nano", "min_reports": "minimum_reports", "ort": "oort", "b_p_u": "b-p-u",
    "Power_Of_Choice": "power-of-choice", "pixel6": "pixel-6",
    **dict.fromkeys(("cosine", "x", "adam", "o" * 100, "")),
}  # fmt: skip


@pytest.mark.parametrize("word", SPELLINGS)
def test_a_spelling_is_suggested_only_where_it_is_near_in_whatever_order(word):
    known = ["constant", "none", "market", "lte", "fashion-mnist", "jetson-nano", "minimum_reports"]
    known += ["sgd", "y", "oort", "power-of-choice", "pixel-6", "pixel-7", "b-p-u"]
    orders = itertools.permutations(["aab", "aac", "AAB", "aad"])

    assert nearest(word, known) == SPELLINGS[word]
    assert nearest(word, []) is None
    assert len({nearest("aaa", order) for order in orders}) == 1


def test_a_good_document_becomes_the_settings():
    text = """
    server: {cohort: 5, deadline_s: 600, selector: {kind: oort}, limit: 3, plan: {kind: random}}
    sites: [{radio: lte, at_m: [1, 2.5]}]
    by_radio: {wifi: 2}
    by_count: {'3': 1}
    """
    world = faults.check(World, parse(text, "w.yaml"))

    assert (world.server.deadline_s, world.server.selector) == (600.0, Oort())
    assert world.server.plan == Uniform()
    assert world.sites == [Site(radio=Radio.LTE, at_m=(1.0, 2.5))]
    assert world.by_radio == {Radio.WIFI: 2}
    assert world.by_count == {3: 1}


@pytest.mark.parametrize(
    ("key_path", "message"),
    [
        (("a", "c"), " a.c: why"), (("a", "b", 5), " a.b[5]: why"), ((), " why"),
        (("a", "b", 0), " a.b[0] = 1: why"), (("a", "b", "c"), " a.b.c: why"), (("a",), " a: why"),
    ],
)  # fmt: skip
def test_a_line_about_a_key_that_is_not_there_shows_no_value(key_path, message):
    assert faults.line(parse("a: {b: [1]}", "w.yaml"), key_path, "why") == f"w.yaml:1:{message}"
