import pydoc

import pytest

import fleetsim


def test_the_public_names_are_sorted_and_all_there():
    assert fleetsim.__all__ == sorted(fleetsim.__all__, key=str)
    for name in fleetsim.__all__:
        assert getattr(fleetsim, name) is not None


def test_dir_and_help_show_the_public_names():
    shown = pydoc.plain(pydoc.render_doc(fleetsim))

    assert dir(fleetsim) == sorted(fleetsim.__all__)
    for words in ("run(", "open_run(folder: ", "class Run(", "class ScenarioError(FaultsError)"):
        assert words in shown


def test_a_selector_needs_a_method_select_alone():
    class First(fleetsim.Selector):
        def select(self, view):
            return view.candidates[: view.wanted]

    class Nothing(fleetsim.Selector):
        pass

    assert fleetsim.check_plugin(First) == "selector"
    with pytest.raises(fleetsim.ScenarioError, match="select"):
        fleetsim.check_plugin(Nothing)
