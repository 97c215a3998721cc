"""`fleetsim.run`, `load` and `study` as scripts and notebooks call them."""

import sys
from types import SimpleNamespace

import pytest

import fleetsim
from fleetsim import simulate
from fleetsim.host import notebook
from fleetsim.host.termination import Terminated
from fleetsim.record.run_folder import RunExistsError
from fleetsim.schema import strict_yaml
from tests.interrupts import interrupted
from tests.studies.small_studies import STUDY, AtOnce

SMALL = {"fleet.size": 12, "server.cohort": 3, "stop.rounds": 2}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Cell:
    """Output of a cell, as IPython's `display` makes it; it keeps what it was given."""

    def __init__(self):
        self.shown: list[str] = []

    def update(self, html):
        self.shown.append(html)


@pytest.fixture
def cell(monkeypatch):
    """A notebook: the parts of IPython that are used."""
    cell = Cell()
    display = SimpleNamespace(HTML=str, display=lambda html, display_id: cell)
    shell = SimpleNamespace(kernel=object())
    ipython = SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return cell


@pytest.mark.slow
def test_a_scenario_may_be_a_name_a_path_a_mapping_or_a_scenario(here):
    loaded = fleetsim.load("quickstart", SMALL)
    path = here / "mine.yaml"
    path.write_text(loaded.to_yaml(), encoding="utf-8")
    data = loaded.data()

    runs = [
        fleetsim.run("quickstart", SMALL, train=False),
        fleetsim.run(path, train=False),
        fleetsim.run(str(path), train=False),
        fleetsim.run(data, train=False),
        fleetsim.run(loaded, train=False),
        simulate.run(loaded, train=False),
    ]

    assert len({run.folder for run in runs}) == 6
    assert {run.manifest.digest for run in runs} == {runs[0].manifest.digest}


def test_a_scenario_that_is_there_can_be_changed():
    loaded = fleetsim.load("quickstart", SMALL)

    changed = fleetsim.load(loaded, "server.selector.kind=oort", server__deadline_s=9, seed=4)

    assert fleetsim.load(loaded) is loaded
    assert changed.server.selector.kind == "oort"
    assert changed.data() == (
        fleetsim.load(
            "quickstart", SMALL | {"server.selector.kind": "oort", "server.deadline_s": 9}, seed=4
        ).data()
    )
    assert (loaded.seed, loaded.server.selector.kind) == (1, "random")


def test_a_selector_of_ones_own_stays_where_other_keys_change(monkeypatch, here):
    (here / "own_uniform.py").write_text(
        "from fleetsim.selectors.baselines.uniform import RandomSettings\n"
        "def __getattr__(name): raise AttributeError(name)\n"
        "class Mine(type(RandomSettings().build())):\n"
        "    def __init__(self): super().__init__(RandomSettings())\n"
    )
    monkeypatch.syspath_prepend(here)
    loaded = fleetsim.load("quickstart", SMALL, plugin="own_uniform:Mine")

    changed = fleetsim.load(loaded, server__deadline_s=9)

    assert changed.data()["server"]["selector"] == {"kind": "own_uniform:Mine"}
    assert [plugin.name for plugin in changed.plugins] == ["own_uniform:Mine"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"server__cohort": 0}, "keyword server__cohort=0: server.cohort = 0: must be a whole"),
        ({"overrides": {"server.cohrot": 4}}, "override server.cohrot=4: .*did you mean 'cohort'"),
        ({"overrides": "server.cohort=x"}, "--set server.cohort=x: server.cohort = 'x'"),
    ],
)
def test_a_wrong_key_is_named_as_it_was_given(arguments, message):
    with pytest.raises(fleetsim.ScenarioError, match=message):
        fleetsim.run("quickstart", **arguments)


def test_a_wrong_mapping_is_named_by_its_keys_without_lines():
    data = fleetsim.load("quickstart").data()
    data["server"]["cohort"] = -1

    with pytest.raises(fleetsim.ScenarioError, match=r"^scenario: server.cohort = -1: must"):
        fleetsim.run(data)
    with pytest.raises(fleetsim.ScenarioError, match=r"^scenario: task: missing"):
        fleetsim.load({"name": "mine"})


def test_a_misspelt_argument_is_a_type_error():
    with pytest.raises(TypeError, match=r"run\(\) .*'exists_ok'; did you mean 'exist_ok'"):
        fleetsim.run("quickstart", exists_ok=True)
    with pytest.raises(TypeError, match=r"study\(\) .*'sedes'; did you mean 'seeds'"):
        fleetsim.study("quick", sedes=[1])
    with pytest.raises(TypeError, match=r"load\(\) .*'plug_in'; did you mean 'plugin'"):
        fleetsim.load("quickstart", plug_in="a:B")


def test_a_run_that_exists_is_returned_if_asked_and_refused_if_not(here):
    out = here / "run"
    first = fleetsim.run("quickstart", SMALL, out=out, train=False)

    again = fleetsim.run("quickstart", SMALL, out=out, train=False, exist_ok=True)

    assert again.manifest == first.manifest
    with pytest.raises(RunExistsError, match=r"holds a complete run; exist_ok=True returns it; or"):
        fleetsim.run("quickstart", SMALL, out=out, train=False)
    with pytest.raises(fleetsim.ScenarioError, match="another scenario"):
        fleetsim.run("quickstart", SMALL, seed=2, out=out, train=False, exist_ok=True)
    # Without a folder it is the last one of the scenario.
    one, same, other = (
        fleetsim.run("quickstart", SMALL, train=False, exist_ok=may).folder
        for may in (True, True, False)
    )
    assert one == same != other


def test_a_run_that_was_interrupted_goes_on_if_it_may_exist(here):
    interrupted(fleetsim.run, "quickstart", SMALL, out=here / "run", train=False)
    with pytest.raises(RunExistsError, match="an unfinished run; exist_ok=True continues it; or"):
        fleetsim.run("quickstart", SMALL, out=here / "run", train=False)

    done = fleetsim.run("quickstart", SMALL, out=here / "run", train=False, exist_ok=True)
    whole = fleetsim.run("quickstart", SMALL, out=here / "whole", train=False)
    assert done.manifest.digest == whole.manifest.digest


@pytest.mark.usefixtures("cell")
def test_an_interrupt_is_one_line_in_a_notebook(here):
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(notebook.Interrupted) as raised:
        fleetsim.run("quickstart", SMALL, out=here / "run", train=False, on_progress=stop)

    assert raised.value._render_traceback_() == [
        f"interrupted: 1 round(s) are recorded in {here / 'run'}; exist_ok=True continues it"
    ]


@pytest.mark.parametrize("fault", [KeyboardInterrupt, Terminated])
def test_an_interrupt_elsewhere_and_a_termination_are_as_they_were(fault, request):
    if fault is Terminated:
        request.getfixturevalue("cell")

    with pytest.raises(fault) as raised, notebook.interruptible("way out"):
        raise fault

    assert type(raised.value) is fault


def test_a_notebook_shows_the_last_state_of_a_run_or_that_it_had_no_new_rounds(cell, here):
    fleetsim.run("quickstart", SMALL, train=False, out=here / "run")

    assert notebook.is_active()
    assert '<progress value="0.000">' in cell.shown[0]
    done = '<progress value="1.000"></progress> quickstart&nbsp; '
    assert f"{done}round 2&nbsp; " in cell.shown[-1]
    fleetsim.run("quickstart", SMALL, train=False, out=here / "run", exist_ok=True)
    assert f"{done}no new rounds</div>" in cell.shown[-1]
    assert sum("no new rounds" in shown for shown in cell.shown) == 1


@pytest.mark.parametrize("arguments", [{"progress": False}, {"on_progress": print}])
def test_a_notebook_shows_nothing_if_asked_or_if_the_caller_does(arguments, cell):
    fleetsim.run("quickstart", SMALL, train=False, **arguments)

    assert cell.shown == []


@pytest.mark.slow
def test_a_notebook_shows_the_runs_of_a_study(cell):
    fleetsim.study(STUDY, seeds=[1], executor=AtOnce())

    assert '<progress value="1.000"></progress> 2 of 2 runs done</div>' in cell.shown[-1]


def test_output_of_a_cell_changes_five_times_a_second_at_most_and_at_the_end(cell):
    now_s = [0.0]
    output = notebook.CellOutput(lambda: now_s[0])
    for at_s in (0.0, 0.1, 0.19, 0.2, 0.3):
        now_s[0] = at_s
        output.show(f"at {at_s}")
    output.show("end", is_last=True)

    assert cell.shown == ["at 0.0", "at 0.2", "end"]


def test_ipython_on_a_terminal_is_no_notebook(monkeypatch):
    ipython = SimpleNamespace(get_ipython=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "IPython", ipython)

    assert not notebook.is_active()


def test_progress_that_is_asked_for_goes_to_stderr(monkeypatch, capsys):
    monkeypatch.setattr("fleetsim.progress.LOGGED_EVERY_S", 0.0)
    fleetsim.run("quickstart", SMALL, train=False, progress=True)

    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("quickstart: 50%  round 1  ")


@pytest.mark.slow
def test_a_study_may_be_a_mapping_and_its_keys_keywords(here):
    data = STUDY | {"seeds": [1, 2, 3]}
    path = here / "small.yaml"
    path.write_text(strict_yaml.dump(data), encoding="utf-8")

    one = fleetsim.study(data, {"seeds": [1]}, arms={"random": {}}, executor=AtOnce())
    two = fleetsim.study(path, ["seeds=[1]"], executor=AtOnce())

    assert list(one.runs["seed"]) == [1]
    assert set(two.runs["arm"]) == {"random", "cohort of 5"}
    assert one.runs["folder"][0] == two.runs["folder"][0]  # the same run, made once


def test_a_wrong_study_is_named_by_its_keys():
    with pytest.raises(fleetsim.ScenarioError, match=r"^study: seeds = \[\]: must have at least"):
        fleetsim.study(STUDY | {"seeds": []})
    with pytest.raises(fleetsim.ScenarioError, match=r"^keyword seeds=\[\]: seeds = \[\]: must"):
        fleetsim.study("quick", seeds=[])
