"""Fuzzed run folders of strangers: swapped, planted, edited, and sealed again as by a program."""

import contextlib
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
from fleetsim.record import digests, tables
from fleetsim.record.checkpoint import FOLDER, LATEST
from fleetsim.record.identity import content_sha256
from fleetsim.record.manifest import MANIFEST
from fleetsim.record.run_folder import SCENARIO
from fleetsim.scenario import load
from fleetsim.schema.overrides import scenario_hash
from fleetsim.simulate import run
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study import load_study
from tests.fuzz import documents, sources
from tests.fuzz.case import PRECIOUS, Case, Link, Pipe
from tests.studies.small_studies import STUDY, executed

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
_LATEST: Final = f"{FOLDER}/{LATEST}"
_PLANTED: Final = (
    "report.html", "timeline.pftrace", ".lock", "figures", FOLDER, _LATEST, MANIFEST,
    SCENARIO, "rounds.parquet", "tasks.parquet", "clients.parquet", ".report.html.tmp",
)  # fmt: skip
_TARGETS: Final = (
    "../precious.txt", "../elsewhere", "..", ".", "nowhere", "/dev/zero", "/dev/null",
    "/etc/passwd", "/proc/self/mem", "/dev/tty", "/root", "x" * 300, "manifest.json",
    "report.html", "\x1b[31m",
)  # fmt: skip
_TEXTS: Final = ("\x1b[2J\x1b[31m", "x" * 100_000, "a\nb", "\u202e", "", "=1+1", "../../x", "{")
_JUNK: Final = (*documents.JUNK, *_TEXTS)


def read(folder: Path) -> Files:
    """Return the files below a folder by their names in it."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@functools.cache
def runs() -> list[Files]:
    """Files of a run that is done, one with training, an interrupted one, and another seed's."""

    def stop(progress: Progress) -> None:
        if progress.round == 2:
            raise KeyboardInterrupt

    results = []
    for seed, train, stops in (1, False, None), (1, True, None), (1, False, stop), (2, False, None):
        with tempfile.TemporaryDirectory() as place, contextlib.suppress(KeyboardInterrupt):
            out = Path(place) / "out"
            try:
                scenario = load("quickstart", _CHANGES, seed=seed)
                run(scenario, out=out, train=train, workers=1, on_progress=stops)
            finally:
                results.append(read(out))
    return results


@functools.cache
def home() -> Files:
    """Files of a study with four complete runs, one of which is said to have failed."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "s.yaml"
        file.write_text(yaml.safe_dump(_STUDY), encoding="utf-8")
        study, store = load_study(file), RunStore(Path(place) / "home")
        executed(study, store.home)
        store.save_failures("small", {study.runs[1].key: "its process was killed"})
        return read(Path(place))


_UNREADABLE: Final = (
    *(KeyError, TypeError, ValueError, AttributeError),
    *(RecursionError, yaml.YAMLError),  # of a deeply nested document
)
"""Exceptions of readers of files of another form."""


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


def _documents(draw: st.DrawFn, files: Files, other: Files) -> None:
    """Change the manifest, the scenario, or the record of the last checkpoint."""
    name = draw(st.sampled_from([MANIFEST, SCENARIO, _LATEST]))
    whole = (yaml.safe_load if name == SCENARIO else json.loads)(files[name])
    document = draw(documents.damaged([whole], junk=_JUNK))
    if name == SCENARIO:
        files[name] = yaml.safe_dump(document, sort_keys=False).encode("utf-8", "replace")
    else:
        files[name] = _json(document)


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
    (name,) = [name for name in files if name.startswith(f"{FOLDER}/state")]
    data = json.loads(files[_LATEST])
    with np.load(io.BytesIO(files[name])) as archive:
        state = dict(archive)
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
    files[name] = sources.npz(np.savez_compressed, **state)
    data["state"]["sha256"] = hashlib.sha256(files[name]).hexdigest()
    files[_LATEST] = _json(data)


_STRANGE: Final = (_other, _state, *[_replaced, _table] * 2, *[_documents] * 3)


def _json(data: Any) -> bytes:
    return json.dumps(data).encode("utf-8", "replace")


def _sealed(files: Files) -> None:
    """Write the digests of what the folder now holds into its manifest."""
    data = json.loads(files[MANIFEST])
    # A document, a table or a digest may be missing, or in no form that has a digest.
    with contextlib.suppress(*_UNREADABLE):
        content = {}
        for name in get_args(tables.TableName):
            file = f"{name}.parquet"
            if isinstance(files.get(file), bytes) and data.get("table_digests"):
                content[str(name)] = pq.read_table(io.BytesIO(files[file]))
                data["table_digests"][str(name)] = digests.digest({str(name): content[str(name)]})
        data["digest"] = digests.digest(content) if data["digest"] else None
        data["scenario_hash"] = scenario_hash(yaml.safe_load(files[SCENARIO]))
    rest = {key: data[key] for key in data if key != "content_sha256"}
    files[MANIFEST] = _json({**rest, "content_sha256": content_sha256(rest)})


def _strange(draw: st.DrawFn, whole: Files, other: Files) -> Files:
    """Draw a run folder with one to three changes, mostly sealed."""
    files = dict(whole)
    for _ in range(draw(st.integers(1, 3))):
        change = draw(st.sampled_from(_STRANGE))
        # An earlier change may have left nothing to read.
        with contextlib.suppress(*_UNREADABLE):
            change(draw, files, other)
    # Nothing is written below a link: a change may have put files back where another put one.
    for name in [name for name in files if any(inner.startswith(f"{name}/") for inner in files)]:
        del files[name]
    if draw(st.integers(0, 4)):
        with contextlib.suppress(*_UNREADABLE):
            _sealed(files)
    return files


@st.composite
def strange_folders(draw: st.DrawFn) -> Case:
    """Read, resume or study strangers' run folders by every verb that takes one."""
    beside = {"precious.txt": PRECIOUS, "elsewhere/precious.txt": PRECIOUS}
    if draw(st.integers(0, 3)) == 0:
        files = dict(home())
        folders = [str(Path(name).parent) for name in files if name.endswith(f"/{MANIFEST}")]
        one, two = draw(st.permutations(sorted(folders)))[:2]
        parts = [
            {name: files.pop(f"{folder}/{name}") for name in _names_below(files, folder)}
            for folder in (one, two)
        ]
        if draw(st.integers(0, 3)) == 0:
            parts.reverse()
        files |= _below(one, _strange(draw, *parts)) | _below(two, parts[1])
        verbs = draw(st.sampled_from([("status",), ("status",), ("run", "status"), ("report",)]))
        commands = tuple(("study", verb, "s.yaml", "--home", "home") for verb in verbs)
        beside |= {f"{Path(one).parent}/precious.txt": PRECIOUS}
        return Case(commands, files | beside, tuple(beside))
    whole, other = draw(st.permutations(runs()))[:2]
    resume = (*RESUME, "--no-train")
    timeline = ("timeline", "out")
    commands = draw(
        st.sampled_from(
            [
                (timeline,),
                (timeline,),
                (("compare", "out", "other", "--different-worlds", "--out", "page"),),
                (("report", "out", "--target", "0.5"),),
                (resume,),
                (RESUME,),
                (resume, timeline),
            ]
        )
    )
    files = _below("out", _strange(draw, whole, other)) | _below("other", other)
    return Case(commands, files | beside, tuple(beside))


def _names_below(files: Files, folder: str) -> list[str]:
    return [name.removeprefix(f"{folder}/") for name in files if name.startswith(f"{folder}/")]


def _below(folder: str, files: Files) -> Files:
    return {f"{folder}/{name}": content for name, content in files.items()}
