"""Script of the installed plotly, to be put into a page as it is.

`plotly` is never imported for its figures, which are plain JSON here; the package brings the script
alone (MIT licence, https://github.com/plotly/plotly.js).
"""

import re
from functools import cache
from importlib import resources

from fleetsim.errors import DataError

# Styles of its map charts, which the script adds unless an element has their number. The page has
# no maps, and its policy refuses foreign styles.
_STYLE_GUARD = re.compile(r'getElementById\("([0-9a-f]{64})"\)')


@cache
def script() -> str:
    """Return the script."""
    source = resources.files("plotly") / "package_data" / "plotly.min.js"
    hint = "install plotly anew"
    try:
        text = source.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise DataError(f"{source}: cannot be read ({cause}); {hint}") from None
    # A browser reads these otherwise than they are written, so the script's hash would not match.
    if re.search(r"</script|<!--|\r|\x00", text, re.IGNORECASE):
        raise DataError(f"{source}: cannot be put into a page as it is; {hint}")
    return text


def style_guards() -> list[str]:
    """Return the ids of elements whose presence keeps the script from adding styles of maps."""
    return sorted(set(_STYLE_GUARD.findall(script())))


def version() -> str:
    """Return the version that the script names."""
    found = re.search(r"plotly\.js v([\w.-]+)", script()[:300])
    return found[1] if found else "unknown"
