"""Settings of Sphinx for the site; `scripts/site` runs it over the staged sources.

Sphinx with MyST and furo: all three are maintained, read Markdown as forges do, load nothing from
other hosts, and search without a server.
"""

from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

import fleetsim

project = "fleetsim"
author = copyright = "The fleetsim authors"
version = release = fleetsim.__version__
extensions = ["myst_parser"]
exclude_patterns = ["files/**"]
html_theme = "furo"
html_title = f"fleetsim {version}"
html_show_sourcelink = html_copy_source = False
# Local files only: no font, icon or script comes from another host.
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "static" / "scorer.js")
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 6
highlight_language = "none"
smartquotes = False
python_maximum_signature_line_length = 88
add_module_names = False
suppress_warnings = ["myst.header"]
KEYS = {"key": "scenario key", "study-key": "study key", "search-key": "search key"}


def with_short_navigation(app: Any, page: str, template: str, context: Any, doctree: Any) -> None:
    """Show the pages below the present door alone, or every page would list all of them."""
    if (toctree := context.get("toctree")) is not None:
        context["toctree"] = lambda **options: toctree(**options | {"collapse": True})


def setup(app: Any) -> None:
    """Declare keys as objects for the search, plain blocks of CSV, and a short navigation."""
    for kind, words in KEYS.items():
        app.add_object_type(kind, kind, objname=words)
    app.add_lexer("csv", TextLexer)
    app.connect("html-page-context", with_short_navigation, priority=100)
