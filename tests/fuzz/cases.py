"""Fuzzed inputs: files in an empty folder, and the commands that read them."""

import copy
import functools
from collections.abc import Mapping
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from fleetsim import bundled
from fleetsim.scenario import schema
from fleetsim.schema import strict_yaml
from fleetsim.studies import settings as study_settings
from tests.bad_input.good import DEVICE, GOOD
from tests.fuzz import damage, documents, plug_ins, sources, strange_folders
from tests.fuzz.case import Case
from tests.studies.small_studies import STUDY

_RUN: Final = ("run", "s.yaml", "--out", "out", "--set", "stop={rounds: 2, time_s: 1e6}")
"""A run that ends soon."""
_UNTRAINED: Final = (*_RUN, "--no-train")
_MOST: Final = dict.fromkeys(
    ("size", "cohort", "concurrency", "epochs", "steps", "hidden", "num_classes", "dimension"), 400
)
"""Limits of the counts in a scenario that is run, so that a run ends soon."""
_MOST_TRAINED: Final = _MOST | {"epochs": 20}
"""Limits where clients train: eighty epochs in batches of two take seconds, as the user asks."""
_HOME: Final = ("--home", "home")


@functools.cache
def _scenarios() -> list[Any]:
    """Bundled scenarios that need no file, and the small one of the tests."""
    made = ("digits", "synthetic")
    of_bundle = [d for d in _bundled("scenarios") if d["task"]["dataset"]["kind"] in made]
    return [yaml.safe_load(GOOD), *of_bundle]


def _bundled(kind: bundled.Kind) -> list[Any]:
    return [strict_yaml.read(path).data for path in sorted(bundled.folder(kind).rglob("*.yaml"))]


@functools.cache
def _schema() -> dict[str, Any]:
    result = schema(None)
    assert isinstance(result, dict)
    return result


def _is_small(document: Any, most: Mapping[str, float]) -> bool:
    """Return True if no number of a key is above its limit."""
    for path in documents.paths_of(document):
        value = documents.value_at(document, path)
        names = {name for key in path for name in str(key).split(".")}
        if isinstance(value, int | float) and any(value > most.get(name, value) for name in names):
            return False
    return True


@functools.cache
def _values() -> dict[str, list[Any]]:
    """Values that scenarios have at the key paths of the small one, by the paths of overrides."""
    return {
        ".".join(map(str, path)): [
            documents.value_at(document, path)
            for document in _scenarios()
            if path in documents.paths_of(document)
        ]
        for path in documents.paths_of(_scenarios()[0])
    }


@st.composite
def _overrides(draw: st.DrawFn) -> tuple[str, Any]:
    """Draw an override of a scenario, sometimes of a key that it cannot have."""
    wrong = ["", ".", "a.b", "fleet..size", "x" * 200, "fleet.size."]
    key = draw(st.sampled_from([*sorted(_values()), *wrong]))
    # Junk that is itself changed later would change for all cases.
    return key, copy.deepcopy(draw(st.sampled_from([*_values().get(key, ()), *documents.JUNK])))


@st.composite
def validations(draw: st.DrawFn) -> Case:
    """Validate a damaged scenario."""
    document = draw(documents.damaged(_scenarios(), _schema()))
    return Case((("validate", "s.yaml"),), {"s.yaml": draw(documents.encoded(document))})


@st.composite
def overrides(draw: st.DrawFn) -> Case:
    """Validate a good scenario with strange overrides."""
    words = []
    for _ in range(draw(st.integers(1, 3))):
        key, value = draw(_overrides())
        value = draw(st.just(value) | st.text(max_size=12))
        shown = value if isinstance(value, str) else yaml.safe_dump(value).removesuffix("...\n")
        word = f"{key}={shown.strip()}".replace("\0", "%").encode("utf-8", "replace").decode()
        words += ["--set", word]
    return Case((("validate", "s.yaml", *words),), {"s.yaml": GOOD.encode()})


@st.composite
def runs(draw: st.DrawFn) -> Case:
    """Run a damaged scenario for two rounds, sometimes with training."""
    words, most = (_RUN, _MOST_TRAINED) if draw(st.integers(0, 4)) == 0 else (_UNTRAINED, _MOST)
    damaged = documents.damaged(_scenarios(), _schema())
    document = draw(damaged.filter(lambda document: _is_small(document, most)))
    return Case(((*words, "--workers", "1"),), {"s.yaml": draw(documents.encoded(document))})


def _scenario(**changes: Any) -> bytes:
    document = yaml.safe_load(GOOD)
    for path, value in changes.items():
        *above, last = path.split("__")
        documents.value_at(document, above)[last] = value
    return yaml.safe_dump(document, sort_keys=False).encode()


@st.composite
def _with_damage(draw: st.DrawFn, files: dict[str, bytes], folder: str = "") -> dict[str, bytes]:
    """Draw these files, below a folder, with one of them damaged or missing."""
    name = draw(st.sampled_from(sorted(files)))
    others = {other: raw for other, raw in files.items() if other != name}
    if draw(st.integers(0, 30)):
        others[name] = draw(damage.damaged(files[name]))
    return {f"{folder}{other}": raw for other, raw in others.items()}


@st.composite
def data_files(draw: st.DrawFn) -> Case:
    """Validate and run a scenario on damaged data of one's own."""
    name = draw(st.sampled_from([*sources.FOLDERS, "text"]))
    whole, kind = sources.FOLDERS.get(name, ({"texts.csv": sources.LABELLED_TEXT}, "lstm"))
    dataset: dict[str, Any] = {"kind": "folder", "folder": "data"}
    if name == "text":
        test = {"kind": "column", "column": "part"}
        dataset |= {"kind": "labelled-text", "file": "texts.csv", "max_tokens": 4, "test": test}
    scenario = _scenario(
        task__dataset=dataset, task__model={"kind": kind}, fleet__size=3, server__cohort=2
    )
    return Case(
        (("validate", "s.yaml"), ("run", "s.yaml", "--workers", "1", "--out", "out")),
        {"s.yaml": scenario} | draw(_with_damage(whole, "data/")),
    )


@st.composite
def traces(draw: st.DrawFn) -> Case:
    """Run a scenario on a damaged trace, or import one."""
    kind = draw(st.sampled_from(["usage", "network", "import", "import"]))
    if kind == "import":
        format_ = draw(st.sampled_from(sorted(sources.IMPORTS)))
        files = draw(_with_damage(sources.IMPORTS[format_], "source/"))
        is_file = format_ in ("flash", "fedscale")
        source = next(iter(files)) if is_file and files else "source"
        return Case((("trace", "import", format_, source, "mine"),), files)
    if kind == "usage":
        wholes, scenario = sources.USAGE_TRACES, _scenario(fleet__usage={"trace": "./trace"})
    else:
        wholes = sources.NETWORK_TRACES
        scenario = _scenario(fleet__channel={"kind": "trace", "trace": "./trace"})
    files = draw(_with_damage(wholes[draw(st.sampled_from(sorted(wholes)))], "trace/"))
    return Case((("validate", "s.yaml"), _UNTRAINED), {"s.yaml": scenario} | files)


@st.composite
def tables(draw: st.DrawFn) -> Case:
    """Read a damaged table or power log of the user's."""
    command, files = sources.TABLES[draw(st.sampled_from(sorted(sources.TABLES)))]
    return Case((tuple(command.split()),), draw(_with_damage(files)))


@functools.cache
def _profiles() -> list[tuple[str, Any]]:
    devices = [("devices", whole) for whole in (yaml.safe_load(DEVICE), *_bundled("devices"))]
    return [*devices, *(("radios", whole) for whole in _bundled("radios"))]


@st.composite
def profiles(draw: st.DrawFn) -> Case:
    """Run a scenario on a damaged device or radio file."""
    kind, whole = draw(st.sampled_from(_profiles()))
    changes: dict[str, Any] = {"fleet__devices": {"./mine.yaml": 1.0}}
    if kind == "radios":
        changes = {"fleet__channel": {"kind": "fading", "metered_radio": "./mine.yaml"}}
    profile = draw(documents.encoded(draw(documents.damaged([whole]))))
    return Case((_UNTRAINED,), {"s.yaml": _scenario(**changes), "mine.yaml": profile})


@st.composite
def run_folders(draw: st.DrawFn) -> Case:
    """Report on, compare or resume a damaged run folder."""
    done, _, interrupted, _ = strange_folders.runs()
    files = draw(_with_damage(draw(st.sampled_from([done, interrupted])), "out/"))
    commands = (
        ("report", "out"),
        ("compare", "out", "--target", "0.5", "--out", "page"),
        (*strange_folders.RESUME, "--no-train"),
    )
    return Case((draw(st.sampled_from(commands)),), files)


@functools.cache
def _studies() -> list[Any]:
    """Small studies whose runs end soon: with every key, with few, and with training."""
    tiny = {"fleet.size": 12, "server.cohort": 2, "stop.rounds": 2}
    plain = {**STUDY, "overrides": tiny, "seeds": [1]}
    whole = plain | {
        "arms": {"random": {}, "of 3": {"server.cohort": 3}},
        "baseline": "random",
        "vary": {"server.deadline_s": [50], "people": {"few": {}, "more": {"fleet.size": 13}}},
        "budgets": {"time_s": 60.0, "energy_j": 100.0},
        "prices": "aws-us-east-1",
        "different_worlds": False,
    }
    trained = {key: value for key, value in plain.items() if key != "train"}
    trained |= {"targets": [0.1, {"accuracy": 0.2, "smooth_rounds": 2}]}
    return [whole, plain, trained]


@st.composite
def _damaged_studies(draw: st.DrawFn, whole: list[Any]) -> dict[str, Any]:
    """Draw a damaged study, or a whole one, often with further overrides of the scenario."""
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(whole)))
    if draw(st.booleans()):
        document = draw(documents.damaged(whole, study_settings.schema()))
    for _ in range(draw(st.integers(0, 2))):
        arms = document.get("arms")
        places = [document.get("overrides"), document.get("vary")]
        places += list(arms.values()) if isinstance(arms, dict) else []
        usable = [place for place in places if isinstance(place, dict)]
        if not usable:
            break
        place = draw(st.sampled_from(usable))
        key, value = draw(_overrides())
        place[key] = [value] if place is document.get("vary") else value
    return document


def _ends_soon(study: dict[str, Any]) -> bool:
    """Return True if every run of a study should end soon, and there are few."""
    seeds, common = study.get("seeds"), study.get("overrides")
    is_long = isinstance(seeds, list) and len(seeds) > 3
    return (
        isinstance(common, dict)
        and "stop.rounds" in common
        and not is_long
        and _is_small(study, _MOST | {"rounds": 10})
    )


@st.composite
def studies(draw: st.DrawFn) -> Case:
    """Show, report or carry out a damaged study; half of the cases begin from bundled ones."""
    if draw(st.booleans()):
        document = draw(_damaged_studies(_studies()).filter(_ends_soon))
        commands: tuple[tuple[str, ...], ...] = (
            ("study", "run", "s.yaml", *_HOME, "--workers", "1"),
            ("study", "status", "s.yaml", *_HOME),
        )
    else:
        document = draw(_damaged_studies([*_studies(), *_bundled("studies")]))
        verb = draw(st.sampled_from(["status", "status", "report"]))
        words = draw(st.sampled_from([(), (), ("--set", "seeds=[1]"), ("--set", 'arms."a"={}')]))
        commands = (("study", verb, "s.yaml", *_HOME, *words),)
    return Case(commands, {"s.yaml": draw(documents.encoded(document))})


@st.composite
def study_homes(draw: st.DrawFn) -> Case:
    """Show, report and carry out a study whose home is damaged."""
    files = dict(strange_folders.home())
    study = {"s.yaml": files.pop("s.yaml")}
    verbs = draw(st.sampled_from([("status",), ("report",), ("run",), ("run", "report")]))
    commands = tuple(("study", verb, "s.yaml", *_HOME) for verb in verbs)
    return Case(commands, study | draw(_with_damage(files)))


TARGETS: Final = {
    "validate": (validations, 8),
    "override": (overrides, 2),
    "run": (runs, 4),
    "data": (data_files, 2),
    "trace": (traces, 2),
    "table": (tables, 2),
    "profile": (profiles, 1),
    "folder": (run_folders, 1),
    "study": (studies, 2),
    "study-home": (study_homes, 1),
    "plug-in": (plug_ins.plug_ins, 2),
    "strange-folder": (strange_folders.strange_folders, 2),
}
"""Every part of the program that is fuzzed, and its share of the cases."""
