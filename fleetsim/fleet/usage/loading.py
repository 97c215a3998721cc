"""Loading of the usage trace that a scenario names, recorded or synthetic."""

from pathlib import Path

from fleetsim import bundled
from fleetsim.errors import ScenarioError
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage.synthetic import make_usage
from fleetsim.fleet.usage.usage import UsageSettings
from fleetsim.quoting import quoted


def load_trace(settings: UsageSettings, *, seed: int) -> Trace | None:
    """Read or generate the usage trace of a scenario; None if it has none.

    Raises:
        ScenarioError: it is not there.
        DataError: a file of it is wrong.
    """
    if settings.synthetic is not None:
        return make_usage(settings.synthetic, seed=seed)
    if settings.trace is None:
        return None
    return read_trace(find_trace(settings.trace), unknown=settings.unknown)


def find_trace(name: str) -> Path:
    """Return the folder or file of a trace, bundled or the user's own.

    Raises:
        ScenarioError: neither exists.
    """
    path = bundled.find("traces", name)
    if path is None:
        message = bundled.not_found("traces", name)
        raise ScenarioError(f"fleet.usage.trace = {quoted(name)}: {message}")
    return path
