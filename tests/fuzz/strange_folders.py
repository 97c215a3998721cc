"""Fuzzed run folders of strangers: swapped, planted, edited, and sealed again as by a program."""

import contextlib
import copy
import functools
import hashlib
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from hypothesis import strategies as st

from fleetsim.contracts import Progress
from fleetsim.record import tables
from fleetsim.record.checkpoint import FOLDER, LATEST
from fleetsim.record.identity import content_sha256
from fleetsim.record.manifest import MANIFEST
from fleetsim.record.run_folder import SCENARIO
from fleetsim.scenario import load
from fleetsim.schema.overrides import scenario_hash
from fleetsim.simulate import run
from fleetsim.studies.backends import RemoteTasks
from fleetsim.studies.execution import execute
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study
from tests.fuzz import documents, sources
from tests.fuzz.case import PRECIOUS, Case, Link, Pipe
from tests.studies.small_studies import STUDY, AtOnce, Silent

Files = dict[str, Any]

_CHANGES: Final = ("fleet.size=6", "server.cohort=2", "stop.rounds=3", "checkpoint.every_rounds=1")
RESUME: Final = (
    *("run", "quickstart", "--resume", "--out", "out", "--workers", "1", "--seed", "1"),
    *(word for change in _CHANGES for word in ("--set", change)),
)
_STUDY: Final = STUDY | {
    "overrides": {"fleet.size": 6, "server.cohort": 2, "stop.rounds": 2},
    "arms": {"random": {}, "cohort of 3": {"server.cohort": 3}},
}
_PLANTED: Final = (
    "report.html", "timeline.pftrace", ".lock", "figures", FOLDER, f"{FOLDER}/{LATEST}", MANIFEST,
    SCENARIO, "rounds.parquet", "tasks.parquet", "clients.parquet", ".report.html.tmp",
)  # fmt: skip
_TARGETS: Final = (
    "../precious.txt", "../elsewhere", "..", ".", "nowhere", "/dev/zero", "/dev/null",
    "/etc/passwd", "/proc/self/mem", "/dev/tty", "/root", "x" * 300, "manifest.json",
    "report.html", "\x1b[31m",
)  # fmt: skip
_TEXTS: Final = ("\x1b[2J\x1b[31m", "x" * 100_000, "a\nb", "\u202e", "", "=1+1", "../../x", "{")


def read(folder: Path) -> Files:
    """Return the files below a folder by their names in it."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@functools.cache
def made_runs() -> list[Files]:
    """Files of a run that is done, one with training, an interrupted one, and another seed's."""

    def stop(progress: Progress) -> None:
        if progress.round == 2:
            raise KeyboardInterrupt

    found = []
    made = ((1, False, None), (1, True, None), (1, False, stop), (2, False, None))
    for seed, train, stops in made:
        with tempfile.TemporaryDirectory() as place, contextlib.suppress(KeyboardInterrupt):
            out = Path(place) / "out"
            try:
                scenario = load("quickstart", _CHANGES, seed=seed)
                run(scenario, out=out, train=train, workers=1, on_progress=stops)
            finally:
                found.append(read(out))
    return found


@functools.cache
def study_home() -> Files:
    """Files of a study with four complete runs, of which one failed at first."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "s.yaml"
        file.write_text(yaml.safe_dump(_STUDY), encoding="utf-8")
        study, store = load_study(file), RunStore(Path(place) / "home")
        execute(study, store, RemoteTasks(AtOnce()), Silent())
        store.save_failures("small", {study.runs[1].key: "its process was killed"})
        return read(Path(place))


def _other(draw: st.DrawFn, files: Files, other: Files) -> None:
    for name in draw(st.lists(st.sampled_from(sorted(other)), min_size=1, max_size=3)):
        files[name] = other[name]


def _replaced(draw: st.DrawFn, files: Files, other: Files) -> None:
    """Put a link, a pipe, a folder or nothing in the place of a file, or where one is written."""
    name = draw(st.sampled_from([*sorted(files), *_PLANTED]))
    for inner in [inner for inner in files if inner == name or inner.startswith(f"{name}/")]:
        del files[inner]
    match draw(st.sampled_from(["link", "link", "pipe", "folder", "empty", "text", "none"])):
        case "link":
            files[name] = Link(draw(st.sampled_from([*_TARGETS, Path(name).name])))
        case "pipe":
            files[name] = Pipe()
        case "folder":
            files[f"{name}/{draw(st.sampled_from(['x', MANIFEST, '.lock']))}"] = b"x"
        case "empty":
            files[name] = b""
        case "text":
            text = draw(st.sampled_from([*_TEXTS, "[" * 5000, "null", "[]", "0", "a: &a [*a]"]))
            files[name] = text.encode()


def _edited(draw: st.DrawFn, document: Any) -> Any:
    """Return plain data with other values in one to three places."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        paths = documents.paths_of(document)
        if not paths:
            break
        *way, last = draw(st.sampled_from(paths))
        owner = functools.reduce(lambda at, key: at[key], way, document)
        if draw(st.integers(0, 5)) == 0:
            del owner[last]
        else:
            value = draw(st.sampled_from(documents.JUNK) | st.sampled_from(_TEXTS))
            owner[last] = copy.deepcopy(value)
    return document


def _manifest(draw: st.DrawFn, files: Files, other: Files) -> None:
    whole = json.loads(files[MANIFEST])
    files[MANIFEST] = _json(_edited(draw, whole))


def _scenario(draw: st.DrawFn, files: Files, other: Files) -> None:
    data = _edited(draw, yaml.safe_load(files[SCENARIO]))
    files[SCENARIO] = yaml.safe_dump(data, sort_keys=False).encode("utf-8", "replace")


def _latest(draw: st.DrawFn, files: Files, other: Files) -> None:
    name = f"{FOLDER}/{LATEST}"
    if name in files:
        files[name] = _json(_edited(draw, json.loads(files[name])))


def _table(draw: st.DrawFn, files: Files, other: Files) -> None:
    """Change columns or rows of a table, or put one that unpacks to gigabytes in its place."""
    names = [name for name in files if name.endswith(".parquet")]
    if not names:
        return
    name = draw(st.sampled_from(names))
    table = pq.read_table(io.BytesIO(files[name]))
    place = draw(st.integers(0, table.num_columns - 1))
    key, column = table.column_names[place], table.column(place)
    length = table.num_rows
    odd: list[Any] = [None, float("nan"), float("inf"), -1.0, 1e308, 0.0]
    odd += [*map(int, (-1, 0, 2**31, 2**62)), *_TEXTS, True, b"\xff", [1], {"a": 1}]
    match draw(st.sampled_from(["odd", "odd", "odd", "drop", "name", "rows", "none", "many"])):
        case "odd":
            values = column.to_pylist()
            for at in draw(st.lists(st.integers(0, max(length - 1, 0)), max_size=3)):
                values[at : at + 1] = [draw(st.sampled_from(odd))] * (length > 0)
            with contextlib.suppress(pa.ArrowException, OverflowError):
                made = pa.array(values, type=column.type)
                table = table.set_column(place, key, made)
        case "drop":
            table = table.remove_column(place)
        case "name":
            other_type = draw(st.sampled_from([pa.string(), pa.float32(), pa.null(), pa.int8()]))
            nothing = pa.nulls(length, other_type)
            table = table.set_column(place, draw(st.sampled_from([key, *_TEXTS])), nothing)
        case "rows":
            order = draw(st.sampled_from([[0] * 5, [0], [*range(length)][::-1]]))
            table = table.take(pa.array(order if length else [], type=pa.int64()))
        case "none":
            table = table.slice(0, 0)
        case _:
            # Many equal rows take few bytes.
            num_rows = draw(st.sampled_from([10**6, 10**7]))
            table = table.select([key]).take(pa.array(np.zeros(num_rows, dtype=np.int64)))
    file = io.BytesIO()
    pq.write_table(table, file)
    files[name] = file.getvalue()


def _state(draw: st.DrawFn, files: Files, other: Files) -> None:
    """Change an array of the checkpoint's state, and its digest with it."""
    latest = f"{FOLDER}/{LATEST}"
    names = [name for name in files if name.startswith(f"{FOLDER}/state")]
    if latest not in files or not names:
        return
    with np.load(io.BytesIO(files[names[0]])) as archive:
        state = {key: archive[key] for key in archive.files}
    key = draw(st.sampled_from(sorted(state)))
    values: list[Callable[[Any], Any]] = [
        lambda each: each * np.nan, lambda each: each.astype("U1"), lambda each: each[None],
        lambda each: np.zeros(0), lambda each: each.astype(np.float16), lambda each: -each,
        lambda each: np.full_like(each, 2**30), lambda each: np.zeros(5 * 10**7),
        lambda each: ~each,
    ]  # fmt: skip
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        state[key] = draw(st.sampled_from(values))(state[key])
    if draw(st.integers(0, 4)) == 0:
        state[draw(st.sampled_from([f"{key}x", "a/../../b", "x" * 300]))] = state.pop(key)
    files[names[0]] = sources.npz(np.savez_compressed, **state)
    data = json.loads(files[latest])
    data["state"]["sha256"] = hashlib.sha256(files[names[0]]).hexdigest()
    files[latest] = _json(data)


_STRANGE: Final = (_other, *[_replaced] * 2, _manifest, _scenario, _latest, *[_table] * 2, _state)


def _json(data: Any) -> bytes:
    return json.dumps(data).encode("utf-8", "replace")


def _sealed(files: Files) -> None:
    """Write the digests of what the folder now holds into its manifest."""
    raw, data = files.get(MANIFEST), None
    try:
        data = json.loads(raw) if isinstance(raw, bytes) else None
        if not isinstance(data, dict):
            return
        found = {}
        for name in get_args(tables.TableName):
            file = f"{name}.parquet"
            if isinstance(files.get(file), bytes) and data.get("table_digests"):
                found[str(name)] = pq.read_table(io.BytesIO(files[file]))
                data["table_digests"][str(name)] = tables.digest({str(name): found[str(name)]})
        data["digest"] = tables.digest(found) if data["digest"] else None
        data["scenario_hash"] = scenario_hash(yaml.safe_load(files[SCENARIO]))
    except (KeyError, TypeError, ValueError, AttributeError, yaml.YAMLError):
        pass  # it is not there, or in no form that has a digest
    finally:
        if isinstance(data, dict):
            rest = {key: data[key] for key in data if key != "content_sha256"}
            files[MANIFEST] = _json({**rest, "content_sha256": content_sha256(rest)})


def _strange(draw: st.DrawFn, whole: Files, other: Files) -> Files:
    """Draw a run folder with one to three changes, mostly sealed."""
    files = dict(whole)
    for _ in range(draw(st.integers(1, 3))):
        change = draw(st.sampled_from(_STRANGE))
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError, yaml.YAMLError):
            change(draw, files, other)  # an earlier change may have left nothing to read
    # Nothing is written below a link: a change may have put files back where another put one.
    for name in [name for name in files if any(inner.startswith(f"{name}/") for inner in files)]:
        del files[name]
    if draw(st.integers(0, 4)):
        _sealed(files)
    return files


@st.composite
def strange_folders(draw: st.DrawFn) -> Case:
    """Read, resume or study strangers' run folders by every verb that takes one."""
    beside = {"precious.txt": PRECIOUS, "elsewhere/precious.txt": PRECIOUS}
    if draw(st.integers(0, 3)) == 0:
        home = dict(study_home())
        runs = sorted(str(Path(name).parent) for name in home if name.endswith(f"/{MANIFEST}"))
        one, two = draw(st.permutations(runs))[:2]
        parts = [_part(home, folder) for folder in (one, two)]
        for folder in (one, two):
            for name in _part(home, folder):
                del home[f"{folder}/{name}"]
        if draw(st.integers(0, 3)) == 0:
            parts.reverse()
        made = [_strange(draw, parts[0], parts[1]), parts[1]]
        for folder, files in zip((one, two), made, strict=True):
            home |= {f"{folder}/{name}": content for name, content in files.items()}
        verbs = draw(st.sampled_from([("status",), ("status",), ("run", "status"), ("report",)]))
        commands = tuple(("study", verb, "s.yaml", "--home", "home") for verb in verbs)
        beside |= {f"{Path(one).parent}/precious.txt": PRECIOUS}
        return Case(commands, home | beside, tuple(beside))
    whole, other = draw(st.permutations(made_runs()))[:2]
    files = _strange(draw, whole, other)
    untrained, timeline = (*RESUME, "--no-train"), ("timeline", "out")
    compare = ("compare", "out", "other", "--different-worlds", "--out", "page")
    choices = [(timeline,), (compare,), (("report", "out", "--target", "0.5"),), (untrained,)]
    commands = draw(st.sampled_from([*choices, (RESUME,), (untrained, timeline)]))
    found = {f"out/{name}": content for name, content in files.items()}
    found |= {f"other/{name}": content for name, content in other.items()}
    return Case(commands, found | beside, tuple(beside))


def _part(home: Files, folder: str) -> Files:
    return {
        name.removeprefix(f"{folder}/"): raw
        for name, raw in home.items()
        if name.startswith(f"{folder}/")
    }
