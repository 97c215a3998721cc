import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleetsim.errors import DataError
from fleetsim.record.manifest import write_manifest
from fleetsim.record.recorder import RunRecorder
from fleetsim.record.run_folder import create_folder
from fleetsim.record.saved_content import _ScenarioKeys
from fleetsim.record.saved_run import Run, open_run
from fleetsim.scenario import schema
from fleetsim.schema import strict_yaml
from fleetsim.schema.overrides import scenario_hash
from tests.record.rows import STARTED, client_columns, new_recorder, simulate, task_row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create_folder(tmp_path / "quick", scenario="name: quick\n", manifest=STARTED)
    return tmp_path / "quick"


@pytest.fixture
def done(folder: Path) -> Path:
    recorder = new_recorder(folder, every_rounds=3)
    simulate(recorder, None, 8)
    digest = recorder.finish([client_columns()])
    end = {"status": "done", "digest": digest, "stop_rule": "rounds", "rounds": 8}
    end["table_digests"] = recorder.table_digests
    write_manifest(folder, STARTED.model_copy(update=end))
    return folder


def ended(folder: Path, status: str) -> None:
    write_manifest(folder, STARTED.model_copy(update={"status": status, "stop_text": "why"}))


def test_done_run_gives_its_scenario_manifest_and_tables(done):
    run = open_run(str(done))

    assert run.scenario == {"name": "quick"}
    assert run.manifest.status == "done"
    assert run.rounds["round"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert run.tasks["task"].tolist() == list(range(12))
    assert run.tasks["train_loss"].isna().sum() == 4  # every third was late
    assert run.clients["battery_fraction"].isna().tolist() == [False, False, True, True, True]
    assert run.rounds is run.rounds

    # Accuracy after round r is (1 + 2 + ... + r) / 1000: 0.021 in round 6.
    assert run.rounds_to_accuracy(0.02) == 6
    assert run.time_to_accuracy(0.02) == 60.0
    assert run.energy_to_accuracy(0.02) == 600.0
    assert run.time_to_accuracy(0.5) is None


@pytest.mark.parametrize("status", ["running", "failed"])
def test_run_without_tables_shows_what_its_last_checkpoint_holds(status, folder):
    with pytest.raises(DataError, match="the run is running and nothing is saved yet"):
        _ = open_run(folder).rounds
    simulate(new_recorder(folder, every_rounds=3), None, 8)
    ended(folder, status)
    run = open_run(folder)

    assert run.rounds["round"].tolist() == [1, 2, 3, 4, 5, 6]
    assert run.tasks["round"].max() == 6
    with pytest.raises(DataError, match=rf"clients\.parquet.*the run is {status}.*--resume"):
        _ = run.clients


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_run_cut_off_by_a_fault_or_a_person_shows_all_unless_changed(folder, status):
    recorder = new_recorder(folder, every_rounds=3)
    simulate(recorder, None, 8)
    recorder.task(task_row(99, round_=9))
    recorder.flush()
    end = {"status": status, "stop_text": "why", "table_digests": recorder.table_digests}
    write_manifest(folder, STARTED.model_copy(update=end))

    run = open_run(folder)

    assert run.rounds["round"].max() == 8
    assert run.tasks["round"].max() == 9
    edited(folder, "rounds", "accuracy")
    with pytest.raises(DataError, match=r"rounds\.parquet: was changed after the run"):
        _ = open_run(folder).rounds


def test_resumed_and_killed_run_does_not_show_the_tables_of_its_earlier_interrupt(folder):
    recorder = new_recorder(folder, every_rounds=3)
    simulate(recorder, None, 4)
    recorder.flush()
    ended(folder, "interrupted")
    recorder, state = RunRecorder.resume(folder, run=STARTED.identity, every_rounds=3)
    write_manifest(folder, STARTED)
    simulate(recorder, state, 8)

    assert open_run(folder).rounds["round"].max() == 7


def edited(folder: Path, name: str, column: str) -> None:
    """Set the first value of a column to 99, and leave everything else as it is."""
    table = pq.read_table(folder / f"{name}.parquet")
    field = table.schema.field(column)
    values = pa.array([99, *table[column].to_pylist()[1:]], type=field.type)
    changed = table.set_column(table.schema.get_field_index(column), field, values)
    pq.write_table(changed, folder / f"{name}.parquet")


VALUES = [("rounds", "accuracy"), ("tasks", "energy_tail_j"), ("clients", "num_selected")]


@pytest.mark.parametrize(("name", "column"), VALUES, ids=[name for name, _ in VALUES])
def test_table_in_which_a_value_was_changed_is_refused_by_name(name, column, done):
    edited(done, name, column)
    run = open_run(done)
    others = {"rounds", "tasks", "clients"} - {name}

    message = (
        rf"^{done}/{name}\.parquet: was changed after the run, .* manifest\.json; restore the file"
    )
    for reads in (lambda: getattr(run, name), run.require_unchanged):
        with pytest.raises(DataError, match=message):
            reads()
    assert all(len(getattr(run, other)) for other in others)


def test_scenario_that_is_not_the_one_that_was_run_is_refused(done):
    (done / "scenario.yaml").write_text("# a note\nname:   quick\ncheckpoint: {every_rounds: 9}\n")
    assert open_run(done).scenario["name"] == "quick"
    for other in ("name: quick\nseed: 2\n", "name: quick\nfleet: {size: .nan}\n"):
        (done / "scenario.yaml").write_text(other)
        with pytest.raises(DataError, match=r"scenario\.yaml: was changed after the run began, "):
            _ = open_run(done).scenario


OTHER_TYPES = [
    "task: 3", "server: [1]", "fleet: {size: 1.5}", "fleet: {thermal: hot}", "stop: {rounds: 0}",
    "server: {deadline_s: {}}", "server: {privacy: {delta: x}}",
    "server: {selector: {kind: null}}", "server: {selector: {clients: [a]}}",
    "fleet: {devices: {a: {}}}", "task: {local: {optimizer: 1}}", "stop: {accuracy: {}}",
]  # fmt: skip


@pytest.mark.parametrize("text", OTHER_TYPES)
def test_a_key_of_another_type_is_told_though_the_hash_is_that_of_the_file(done, text):
    """An edit by a program that knows the form; a report then ended in a bug of fleetsim."""
    key, value = text.split(": ", 1)
    names = [key, *re.findall(r"\{(\w+):", value)][: 3 if value.startswith("{") else 1]

    with pytest.raises(DataError) as caught:
        _ = with_scenario(done, text).scenario

    assert f"scenario.yaml:1: {'.'.join(names)}" in str(caught.value)
    assert str(caught.value).endswith("; restore the file, or run the scenario again")
    # Keys that are null or not there are not refused.
    text = "{server: {selector: {kind: own, clients: null}, privacy: null}, stop: {rounds: null}}"
    assert with_scenario(done, text).scenario == strict_yaml.parse(text, "x").data


def with_scenario(folder: Path, text: str) -> Run:
    (folder / "scenario.yaml").write_text(text)
    data = strict_yaml.parse(text, "x").data
    manifest = open_run(folder).manifest.model_copy(update={"scenario_hash": scenario_hash(data)})
    write_manifest(folder, manifest)
    return open_run(folder)


def _numbers(schema: Any, path: tuple[str, ...]) -> set[tuple[object, ...]]:
    """Return types and bounds that a JSON Schema allows at a key path; `*` is any element."""

    def alternatives(part: Any) -> Iterator[Any]:
        if "$ref" in part:
            part = schema["$defs"][part["$ref"].rsplit("/", 1)[1]]
        others = [each for word in ("anyOf", "oneOf", "allOf") for each in part.get(word, ())]
        yield from (each for other in others for each in alternatives(other))
        if not others:
            yield part

    parts = list(alternatives(schema))
    for key in path:
        owners = [part.get("properties", {}) for part in parts]
        if key == "*":
            owners = [
                {"*": part.get("items") or part.get("additionalProperties")} for part in parts
            ]
        found = [owner[key] for owner in owners if isinstance(owner.get(key), dict)]
        parts = [each for part in found for each in alternatives(part)]
    bounds = ("type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    return {
        tuple(part.get(bound) for bound in bounds)
        for part in parts
        if part.get("type") in ("integer", "number")
    }


@pytest.mark.parametrize(
    "path",
    ["fleet.size", "fleet.devices.*", "stop.rounds", "stop.time_s", "stop.accuracy",
     "stop.energy_j", "server.deadline_s", "server.privacy.delta", "server.selector.slot_rounds",
     "server.selector.clients.*"],
)  # fmt: skip
def test_recorded_numbers_have_the_bounds_of_the_scenario(path):
    """Narrower ones would refuse a good run; wider ones would let an edited one pass."""
    keys = tuple(path.split("."))
    expected = _numbers(schema(None), keys)

    assert len(expected) == 1
    assert _numbers(_ScenarioKeys.model_json_schema(), keys) == expected
