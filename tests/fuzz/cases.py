"""Fuzzed inputs: files in an empty folder, and the commands that read them."""

import copy
import functools
from collections.abc import Iterator
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
_COUNTS: Final = frozenset(
    ("size", "cohort", "concurrency", "epochs", "steps", "hidden", "num_classes", "dimension")
)
_SMALL: Final = 400
"""Limit of these counts in a scenario that is run."""


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
    found = schema(None)
    assert isinstance(found, dict)
    return found


@st.composite
def validations(draw: st.DrawFn) -> Case:
    """Validate a damaged scenario."""
    document = draw(documents.damaged(_scenarios(), _schema()))
    text = draw(documents.texts(document))
    raw = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        raw = draw(damage.damaged(raw))
    return Case((("validate", "s.yaml"),), {"s.yaml": raw})


@st.composite
def overrides(draw: st.DrawFn) -> Case:
    """Validate a good scenario with strange overrides."""
    words = []
    for _ in range(draw(st.integers(1, 3))):
        odd = ["", ".", "a.b", "fleet..size", "x" * 200, "fleet.size."]
        key = draw(st.sampled_from([*_keys(), *odd]))
        value = draw(st.sampled_from(documents.JUNK) | st.text(max_size=12))
        shown = value if isinstance(value, str) else yaml.safe_dump(value).removesuffix("...\n")
        words += [
            "--set",
            f"{key}={shown.strip()}".replace("\0", "%").encode("utf-8", "replace").decode(),
        ]
    return Case((("validate", "s.yaml", *words),), {"s.yaml": GOOD.encode()})


def _named_values(document: Any) -> Iterator[tuple[set[str], Any]]:
    """Yield each value of a document, with the names of all keys on the way to it."""
    for path in documents.paths_of(document):
        names = {name for key in path for name in str(key).split(".")}
        yield names, functools.reduce(lambda part, key: part[key], path, document)


def _is_small(document: Any) -> bool:
    """Return True if a run of the scenario should end soon."""
    return not any(
        _COUNTS & names and isinstance(value, int | float) and not -_SMALL < value < _SMALL
        for names, value in _named_values(document)
    )


@st.composite
def runs(draw: st.DrawFn) -> Case:
    """Run a damaged scenario for two rounds, sometimes with training."""
    document = draw(documents.damaged(_scenarios(), _schema()).filter(_is_small))
    text = draw(documents.texts(document))
    training = () if draw(st.integers(0, 4)) == 0 else ("--no-train",)
    words = (*_RUN, "--workers", "1", *training)
    return Case((words,), {"s.yaml": text.encode("utf-8", "surrogatepass")})


def _scenario(**changes: Any) -> bytes:
    document = yaml.safe_load(GOOD)
    for path, value in changes.items():
        owner = document
        *way, last = path.split("__")
        for key in way:
            owner = owner[key]
        owner[last] = value
    return yaml.safe_dump(document, sort_keys=False).encode()


@st.composite
def _with_damage(draw: st.DrawFn, files: dict[str, bytes]) -> dict[str, bytes]:
    """Draw these files with one of them damaged or missing."""
    name = draw(st.sampled_from(sorted(files)))
    if draw(st.integers(0, 30)) == 0:
        return {other: raw for other, raw in files.items() if other != name}
    return files | {name: draw(damage.damaged(files[name]))}


def _below(folder: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": raw for name, raw in files.items()}


@st.composite
def data_files(draw: st.DrawFn) -> Case:
    """Validate and run a scenario on damaged data of one's own."""
    name = draw(st.sampled_from([*sources.FOLDERS, "text"]))
    commands = (("validate", "s.yaml"), ("run", "s.yaml", "--workers", "1", "--out", "out"))
    if name == "text":
        files = draw(_with_damage({"texts.csv": sources.LABELLED_TEXT}))
        dataset: dict[str, Any] = {
            "kind": "labelled-text",
            "folder": "data",
            "file": "texts.csv",
            "max_tokens": 4,
            "test": {"kind": "column", "column": "part"},
        }
        model = {"kind": "lstm"}
    else:
        whole, kind = sources.FOLDERS[name]
        files = draw(_with_damage(whole))
        dataset, model = {"kind": "folder", "folder": "data"}, {"kind": kind}
    scenario = _scenario(task__dataset=dataset, task__model=model, fleet__size=3, server__cohort=2)
    return Case(commands, {"s.yaml": scenario} | _below("data", files))


@st.composite
def traces(draw: st.DrawFn) -> Case:
    """Run a scenario on a damaged trace, or import one."""
    kind = draw(st.sampled_from(["usage", "network", "import", "import"]))
    if kind == "import":
        format_ = draw(st.sampled_from(sorted(sources.IMPORTS)))
        files = _below("source", draw(_with_damage(sources.IMPORTS[format_])))
        is_file = format_ in ("flash", "fedscale")
        source = next(iter(files)) if is_file and files else "source"
        return Case((("trace", "import", format_, source, "mine"),), files)
    if kind == "usage":
        whole = sources.USAGE_TRACES[draw(st.sampled_from(sorted(sources.USAGE_TRACES)))]
        scenario = _scenario(fleet__usage={"trace": "./trace"})
    else:
        whole = sources.NETWORK_TRACES[draw(st.sampled_from(sorted(sources.NETWORK_TRACES)))]
        scenario = _scenario(fleet__channel={"kind": "trace", "trace": "./trace"})
    files = _below("trace", draw(_with_damage(whole)))
    return Case((("validate", "s.yaml"), _UNTRAINED), {"s.yaml": scenario} | files)


@st.composite
def tables(draw: st.DrawFn) -> Case:
    """Read a damaged table or power log of the user's."""
    command, files = sources.TABLES[draw(st.sampled_from(sorted(sources.TABLES)))]
    return Case((command,), draw(_with_damage(files)))


@functools.cache
def _profiles() -> list[tuple[str, Any]]:
    devices = [yaml.safe_load(DEVICE), *_bundled("devices")]
    found = {"devices": devices, "radios": _bundled("radios")}
    return [(kind, whole) for kind, every in found.items() for whole in every]


@st.composite
def profiles(draw: st.DrawFn) -> Case:
    """Run a scenario on a damaged device or radio file."""
    kind, whole = draw(st.sampled_from(_profiles()))
    text = draw(documents.texts(draw(documents.damaged([whole]))))
    changes: dict[str, Any] = {"fleet__devices": {"./mine.yaml": 1.0}}
    if kind == "radios":
        changes = {"fleet__channel": {"kind": "fading", "metered_radio": "./mine.yaml"}}
    files = {"s.yaml": _scenario(**changes), "mine.yaml": text.encode("utf-8", "surrogatepass")}
    return Case((_UNTRAINED,), files)


@st.composite
def run_folders(draw: st.DrawFn) -> Case:
    """Report on, compare or resume a damaged run folder, complete or interrupted."""
    whole = draw(st.sampled_from(strange_folders.made_runs()[::2]))
    commands = [
        ("report", "out"),
        ("compare", "out", "--target", "0.5", "--out", "page"),
        (*strange_folders.RESUME, "--no-train"),
    ]
    return Case((draw(st.sampled_from(commands)),), _below("out", draw(_with_damage(whole))))


_TINY: Final = {"fleet.size": 12, "server.cohort": 2, "stop.rounds": 2}
_HOME: Final = ("--home", "home")


@functools.cache
def _studies() -> list[Any]:
    """Small studies whose runs end soon: with every key, with few, and with training."""
    whole: dict[str, Any] = {
        **STUDY,
        "overrides": dict(_TINY),
        "arms": {"random": {}, "of 3": {"server.cohort": 3}},
        "baseline": "random",
        "vary": {"server.deadline_s": [50], "people": {"few": {}, "more": {"fleet.size": 13}}},
        "seeds": [1],
        "budgets": {"time_s": 60.0, "energy_j": 100.0},
        "prices": "aws-us-east-1",
        "different_worlds": False,
    }
    plain = {**STUDY, "overrides": dict(_TINY), "seeds": [1]}
    trained = {key: value for key, value in plain.items() if key != "train"}
    trained |= {"targets": [0.1, {"accuracy": 0.2, "smooth_rounds": 2}]}
    return [whole, plain, trained]


@functools.cache
def _keys() -> list[str]:
    """Key paths of overrides."""
    return sorted({".".join(map(str, path)) for path in documents.paths_of(_scenarios()[0])})


@st.composite
def _damaged_studies(draw: st.DrawFn, whole: list[Any]) -> dict[str, Any]:
    """Draw a damaged study, or a whole one, often with further overrides of the scenario."""
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(whole)))
    if draw(st.booleans()):
        document = draw(documents.damaged(whole, study_settings.schema()))
    for _ in range(draw(st.integers(0, 2))):
        places = [document.get("overrides"), document.get("vary")]
        arms = document.get("arms")
        places += list(arms.values()) if isinstance(arms, dict) else []
        usable = [place for place in places if isinstance(place, dict)]
        if not usable:
            break
        place = draw(st.sampled_from(usable))
        key = draw(st.sampled_from([*_keys(), "", ".", "fleet..size", "server.selector.kind"]))
        scenario = draw(st.sampled_from(_scenarios()))
        parts = [part for part in documents.paths_of(scenario) if ".".join(map(str, part)) == key]
        values = [functools.reduce(lambda at, part: at[part], path, scenario) for path in parts]
        drawn = draw(st.sampled_from([*values, *documents.JUNK]))
        # Junk that is itself changed later would change for all cases.
        value = yaml.safe_load(yaml.safe_dump(drawn))
        place[key] = [value] if place is document.get("vary") else value
    return document


def _is_small_study(document: dict[str, Any]) -> bool:
    """Return True if every run of a study should end soon, and there are few."""
    for names, value in _named_values(document):
        if "rounds" in names and isinstance(value, int | float) and value > 10:
            return False
        if "seeds" in names and isinstance(value, list) and len(value) > 3:
            return False
    changes = document.get("overrides")
    return _is_small(document) and isinstance(changes, dict) and "stop.rounds" in changes


@st.composite
def studies(draw: st.DrawFn) -> Case:
    """Show, report or carry out a damaged study; half of the cases begin from bundled ones."""
    if draw(st.booleans()):
        document = draw(_damaged_studies(_studies()).filter(_is_small_study))
        commands: tuple[tuple[str, ...], ...] = (
            ("study", "run", "s.yaml", *_HOME, "--jobs", "1"),
            ("study", "status", "s.yaml", *_HOME),
        )
    else:
        document = draw(_damaged_studies([*_studies(), *_bundled("studies")]))
        verb = draw(st.sampled_from(["status", "status", "report"]))
        words = draw(st.sampled_from([(), (), ("--set", "seeds=[1]"), ("--set", 'arms."a"={}')]))
        commands = (("study", verb, "s.yaml", *_HOME, *words),)
    text = yaml.safe_dump(document, sort_keys=False)
    if draw(st.integers(0, 4)) == 0:
        text = draw(documents.texts(document))
    raw = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        raw = draw(damage.damaged(raw))
    return Case(commands, {"s.yaml": raw})


@st.composite
def study_homes(draw: st.DrawFn) -> Case:
    """Show, report and carry out a study whose home is damaged."""
    whole = strange_folders.study_home()
    own = {name: raw for name, raw in whole.items() if name != "s.yaml"}
    files = {"s.yaml": whole["s.yaml"]} | draw(_with_damage(own))
    verbs = draw(st.sampled_from([("status",), ("report",), ("run",), ("run", "report")]))
    return Case(tuple(("study", verb, "s.yaml", *_HOME) for verb in verbs), files)


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
