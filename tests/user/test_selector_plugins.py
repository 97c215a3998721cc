"""A selector of the user's own, named by `--plugin` or given from Python."""

import doctest
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetsim import simulate
from fleetsim.errors import ScenarioError
from fleetsim.record.manifest import PluginRecord
from fleetsim.record.saved_run import open_run
from fleetsim.scenario import BufferedServerSettings, load
from fleetsim.schema import strict_yaml
from fleetsim.user import load_plugin
from tests.interrupts import interrupted

PAGE = Path(__file__).parents[2] / "docs" / "own-selectors.md"
SIX = ("setup", "probe", "select", "observe", "state", "restore")


def page_classes() -> str:
    """The examples of docs/own-selectors.md that define or import something, as a module."""
    examples = doctest.DocTestParser().get_examples(PAGE.read_text())
    return "".join(e.source for e in examples if e.source.startswith(("import", "from", "class")))


@pytest.fixture
def least(own_module):
    """The page's selectors as least.py."""
    return own_module(page_classes())


def plain(text="least:LeastAsked", *changes):
    return load("small.yaml", changes, plugin=text)


def selected(run):
    """Return the clients chosen in each round."""
    return [sorted(part) for _, part in run.tasks.groupby("round")["client"]]


@pytest.mark.slow
@pytest.mark.usefixtures("without_figures")
def test_the_ten_lines_of_the_page_replace_the_selector_of_a_scenario(least, command):
    ended = command(
        "run", "small.yaml", "--plugin", "least:LeastAsked", "--no-train", "--out", "out"
    )

    run = open_run("out")
    assert ended.code == 0
    assert selected(run) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert run.scenario["server"]["selector"] == {"kind": "least:LeastAsked"}
    assert run.manifest.plugins == (
        PluginRecord(
            kind="selector",
            name="least:LeastAsked",
            source_sha256=hashlib.sha256(least.read_bytes()).hexdigest(),
            version=None,
        ),
    )
    assert "least:LeastAsked" in Path("out/report.html").read_text()
    given = sys.modules["least"].LeastAsked()
    by_object = simulate.run(load("small.yaml"), out="o", train=False, selector=given)
    assert by_object.manifest.digest == run.manifest.digest
    assert by_object.manifest.plugins == run.manifest.plugins
    assert by_object.scenario == run.scenario


def test_its_settings_are_those_of_a_buffered_server_too(least):
    server = (
        "server={mode: buffered, concurrency: 4, buffer_size: 2, selector: {kind: least-asked}}"
    )
    scenario = plain("least:LeastAskedFairly", server, "server.selector.ties=lowest_id")
    run = simulate.run(scenario, out="out", train=False)

    assert isinstance(scenario.server, BufferedServerSettings)
    assert run.scenario["server"]["selector"] == {"kind": "least-asked", "ties": "lowest_id"}
    assert run.manifest.status == "done"


def test_processes_that_train_import_nothing_of_it(least):
    note = Path("imported").resolve()
    mark = f"import os\nwith open({str(note)!r}, 'a') as file: print(os.getpid(), file=file)\n"
    least.write_text(mark + least.read_text())
    one = simulate.run(plain(), out="one", workers=1)
    two = simulate.run(plain(), out="two", workers=2)

    assert note.read_text() == f"{os.getpid()}\n"
    assert one.manifest.digest == two.manifest.digest


@pytest.mark.slow
def test_a_run_is_resumed_with_its_own_plugin_alone(least, own_module):
    def resumed(scenario):
        return simulate.run(scenario, out=folder, train=False, resume=True)

    simulate.run(load("small.yaml"), out="without", train=False)
    with pytest.raises(ScenarioError, match="without: was run without a plug-in; leave it out"):
        simulate.run(plain(), out="without", train=False, resume=True)
    interrupted(simulate.run, plain(), train=False, after=2)
    (folder,) = Path("runs").iterdir()
    least.with_name("other.py").write_text(least.read_text())

    with pytest.raises(ScenarioError, match="with the plug-in least:LeastAsked, not other:Least"):
        resumed(plain("other:LeastAsked"))
    own_module(page_classes() + "# a note\n")
    with pytest.raises(ScenarioError, match="the file of least:LeastAsked is not as it was"):
        resumed(plain())
    own_module(page_classes())
    message = r": was run with the plug-in least:LeastAsked; give it again with --plugin least:L"
    with pytest.raises(ScenarioError, match=message):
        resumed(load("small.yaml"))
    assert "least" not in sys.modules
    run = simulate.run(plain(), train=False, resume=True)
    assert run.folder == folder
    assert selected(run) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert run.manifest.digest == simulate.run(plain(), out="o", train=False).manifest.digest


HEALTHY = "class Mine:\n    needs_losses = needs_probes = False\n" + "".join(
    f"    def {name}(self{', given' if name != 'state' else ''}): return ()\n" for name in SIX
)
OWN = """\
from typing import Literal
from fleetsim.settings import Settings
class Mine:
    class Settings({base}):
        {kind}
    def __init__(self, settings): pass
    def select(self, view): pass
"""
REFUSED = {
    "no class named": ("mine", "", "must be MODULE:CLASS, such as mine:Mine"),
    "a file named": ("mine.py:Mine", HEALTHY, "must be MODULE:CLASS"),
    "no such module": ("miner:Mine", HEALTHY, "there is no module 'miner', neither in "),
    "no such submodule": ("mine.deep:Mine", HEALTHY, "there is no module 'mine.deep'"),
    "no such class": ("mine:Mien", HEALTHY, "mine.py has no class 'Mien'; did you mean 'Mine'?"),
    "no class": ("mine:Mine", "Mine = 5", "mine.py means no class by 'Mine'"),
    "module that lacks another": ("mine:Mine", "import nowhere_to_be_found",
        "importing mine fails: ModuleNotFoundError"),
    "syntax error": ("mine:Mine", "class Mine\n", "SyntaxError: expected ':' (mine.py, line 1)"),
    "module that fails": ("mine:Mine", "\n1 / 0", "ZeroDivisionError: division by zero", "line 2"),
    "module that ends": ("mine:Mine", "import sys\nsys.exit(0)", "fails: SystemExit: 0"),
    "__init__ with arguments": ("mine:Mine",
        "class Mine:\n    select = 0\n    def __init__(self, x): pass",
        "Mine() fails: TypeError: "),
    **{f"no {name}": ("mine:Mine", HEALTHY.replace(f"def {name}(", f"def {name}_(", 1),
        f"is no selector, it lacks {name}; `fleetsim docs own-selectors`") for name in SIX},
    "state of something": ("mine:Mine", HEALTHY.replace("state(self)", "state(self, given)"),
        "cannot be called as state()"),
    "settings of no kind": ("mine:Mine", OWN.format(base="Settings", kind="alpha: float = 1.0"),
        "kind: Literal['mine']"),
    "settings of two kinds": ("mine:Mine", OWN.format(base="Settings",
        kind="kind: Literal['a', 'b'] = 'a'"), "need one kind of their own"),
    "settings of a kind with a colon": ("mine:Mine", OWN.format(base="Settings",
        kind="kind: Literal['mine:Mine'] = 'mine:Mine'"),
        "need one kind of their own without a colon"),
    "settings of a kind of fleetsim's": ("mine:Mine", OWN.format(base="Settings",
        kind="kind: Literal['oort'] = 'oort'"), "kind 'oort' is a selector of fleetsim's"),
    "settings of another sort": ("mine:Mine", OWN.format(base="dict", kind="kind = 'mine'"),
        "fleetsim.settings.Settings"),
    "settings that are not asked for": ("mine:Mine", OWN.format(base="Settings",
        kind="kind: Literal['mine'] = 'mine'"), "server.selector.kind = 'fixed'",
        "--set server.selector.kind=mine"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_will_not_do_is_refused_in_one_line(case, own_module):
    name, text, *message = REFUSED[case]
    own_module(text, "mine")

    def use():
        plugin = load_plugin(name)
        plugin.placed(strict_yaml.read(Path("small.yaml")))
        plugin.build(plugin.settings())

    with pytest.raises(ScenarioError) as fault:
        use()

    (line,) = fault.value.faults
    assert f"--plugin {name}" in line
    assert all(words in line for words in message)


@pytest.mark.parametrize("verb", ["validate", "run"])
@pytest.mark.parametrize("text", ["1 / 0", "class Mine: pass"], ids=["module", "object"])
def test_a_command_that_refuses_one_leaves_nothing(text, verb, own_module, command):
    own_module(text, "mine")

    ended = command(verb, "small.yaml", "--plugin", "mine:Mine")

    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("error: --plugin mine:Mine: ")
    assert sorted(path.name for path in Path().iterdir()) == ["mine.py", "small.yaml"]


def test_settings_for_a_selector_that_another_replaces_are_refused(least):
    for change in ("server.selector.kind=oort", "server={cohort: 3, selector: {kind: oort}}"):
        with pytest.raises(ScenarioError, match=r"^--set server.*: has no effect"):
            plain("least:LeastAsked", change)


def test_an_installed_module_is_not_hidden_by_a_file_of_its_name(own_module):
    own_module("raise RuntimeError('imported')", "email")

    with pytest.raises(ScenarioError, match=r"email.__init__.py has no class 'Mine'"):
        plain("email:Mine")


def test_a_class_or_anything_else_given_for_an_object_is_refused(least):
    plain()
    given: Any
    least_asked = sys.modules["least"].LeastAsked
    for given, message in ((least_asked, "give an object of it"), (object(), "is no selector")):
        with pytest.raises(ScenarioError, match=message):
            simulate.run(load("small.yaml"), out="out", selector=given)
    assert not Path("out").exists()


def test_a_selector_that_needs_losses_is_refused_without_training_by_its_name(own_module):
    head = "class LeastAsked(fleetsim.Selector):\n"
    own_module(page_classes().replace(head, f"{head}    needs_losses = True\n"))

    with pytest.raises(ScenarioError, match="'least:LeastAsked' chooses by losses"):
        simulate.run(plain(), out="out", train=False)
