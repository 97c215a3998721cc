"""Build hook of hatchling: the built site of the documentation goes into wheel and sdist.

Without `build/site/html`, which `scripts/site` writes, an installed fleetsim has the pages as
Markdown alone. An editable installation reads both from the checkout.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SITE = "build/site/html"


class SiteHook(BuildHookInterface[Any]):
    """Hook that adds the site to the files of a build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the site, unless it was not built or the installation is editable."""
        if version != "editable" and (Path(self.root) / _SITE / "index.html").is_file():
            place = "fleetsim/_bundle/site" if self.target_name == "wheel" else _SITE
            build_data["force_include"][_SITE] = place
