"""Plug-ins that travel to a process, and again with another source."""

import importlib
import sys

import pytest

from fleetsim.errors import ScenarioError
from fleetsim.host.plugin_sources import PluginSource, place_plugin


def test_a_plug_in_that_travels_again_with_another_source_is_replaced(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for number in (1, 2):
        place_plugin(PluginSource("travelled:Mine", f"NUMBER = {number}\n"))

        result = importlib.import_module("travelled").NUMBER
        assert result == number
    del sys.modules["travelled"]


def test_a_plug_in_of_the_name_of_an_installed_module_is_refused():
    with pytest.raises(ScenarioError, match="on this machine is another module; rename your own"):
        place_plugin(PluginSource("simpy:Mine", "NUMBER = 1\n"))
