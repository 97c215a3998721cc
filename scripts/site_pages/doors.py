"""Navigation of the site: its doors from docs/site.toml, and the lists on index pages."""

import tomllib
from typing import Any

from scripts.site_pages import key_pages
from scripts.site_pages.staging import ROOT


def doors() -> dict[str, Any]:
    """Return the doors by place."""
    return tomllib.loads((ROOT / "docs" / "site.toml").read_text("utf-8"))


def toctree(pages: list[str], options: str = ":titlesonly:") -> str:
    """Return a list of pages, which is their place in the navigation."""
    lines = "\n".join(pages)
    return f"```{{toctree}}\n{options}\n\n{lines}\n```\n"


def home() -> str:
    """Return what follows README.md on the first page: the doors."""
    rows = [
        f"- [{door['title']}](/{place}/index.md): {door.get('text', 'How the world is modelled.')}"
        for place, door in doors().items()
    ]
    places = [f"{door['title']} </{place}/index>" for place, door in doors().items()]
    return "\n".join(["\n## Documentation\n", *rows, "", toctree(places, ":hidden:")])


def _longer(door: dict[str, Any]) -> tuple[str, ...]:
    """Return a second list, of pages that one reads rather than follows."""
    if "longer" not in door:
        return ()
    return "## Longer pages", toctree([f"/{page}" for page in door["longer"]])


def pages() -> dict[str, str]:
    """Return the pages of the doors, and lists that they name, by place."""
    found = {
        f"{place}/index.md": "\n\n".join(
            [
                f"# {door['title']}",
                door["text"],
                *([door["more"]] if "more" in door else []),
                toctree([f"/{page}" for page in door["pages"]]),
                *_longer(door),
            ]
        )
        for place, door in doors().items()
        if door["pages"]
    }
    key_places = [f"/{place.removesuffix('.md')}" for place in key_pages.places()]
    found["reference/keys/index.md"] = (
        "# Keys of scenarios, studies and searches\n\nFor users who write these files. After these"
        f" pages you know {key_pages.INTRO} Keys of selectors: [](/selectors.md).\n\n"
        f"{toctree(key_places)}"
    )
    found["reference/bundled/index.md"] = (
        "# Bundled files\n\nFor users and reviewers of files that fleetsim brings. After these"
        " pages you know their origin, licence and columns.\n\n"
        "```{toctree}\n:titlesonly:\n:glob:\n\n*\n```\n"
    )
    return found
