"""Search of the built site: questions that users ask, and the pages that must answer them.

Sphinx's own search runs in headless Chromium over the index of the site.
"""

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

FIRST = 5
"""Hits among which the page must be."""
SCRIPTS = (
    "_static/documentation_options.js",
    "_static/doctools.js",
    "_static/sphinx_highlight.js",
    "_static/language_data.js",
    "_static/searchtools.js",
    "searchindex.js",
)
ANSWERS = {
    "how do I choose a deadline": "how-to/choose-a-deadline",
    "sweep": "how-to/sweep-a-key",
    "find a key": "how-to/find-a-key",
    "figures for a paper": "how-to/figures-and-tables",
    "resume a run": "how-to/resume-and-reproduce",
    "cluster": "studies-on-clusters",
    "flower app": "flower",
    "tensorboard": "trackers",
    "own loss": "how-to/own-parts",
    "uncertain devices": "how-to/doubt-about-devices",
    "battery": "models/battery",
    "phones run low": "how-to/live-batteries",
    "differential privacy": "how-to/privacy",
    "out of memory": "how-to/memory",
    "train on a gpu": "how-to/gpu",
    "import a trace": "how-to/import-traces",
    "train a selector": "how-to/train-a-selector",
    "what is staleness": "glossary",
    "exit code": "commands",
    "server.deadline_s": "reference/keys/server",
}
"""Page of the site by question."""
PAGE = """<!doctype html><meta charset="utf-8"><pre id="found"></pre>{scripts}<script>
const hits = (question) => Search._performSearch(...Search._parseQuery(question));
const pages = (question) => hits(question).map(([page]) => page);
const found = {questions}.map((question) => pages(question).slice(-{first}).reverse());
document.getElementById("found").textContent = JSON.stringify(found);
</script>"""
"""Page that searches. Sphinx's results stand with the best at the end."""


def browser() -> str | None:
    """Return the path of a Chromium, None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def hits(home: Path, questions: list[str], chromium: str) -> list[list[str]]:
    """Return the pages of the first hits of each question, best first, on the site in `home`."""
    files = [(home / name).resolve().as_uri() for name in SCRIPTS]
    scripts = "".join(f'<script src="{file}"></script>' for file in files)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "searches.html"
        text = PAGE.format(scripts=scripts, questions=json.dumps(questions), first=FIRST)
        page.write_text(text, encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/user"]
        command = [chromium, *options, "--dump-dom", page.as_uri()]
        ended = subprocess.run(command, check=True, capture_output=True, timeout=120, text=True)
    found = re.search(r'<pre id="found">(.+?)</pre>', ended.stdout, re.DOTALL)
    if found is None:
        raise SystemExit(f"site: the search did not run in {chromium}\n{ended.stderr}")
    return [list(map(str, pages)) for pages in json.loads(html.unescape(found[1]))]


def faults(home: Path, answers: dict[str, str], chromium: str) -> list[str]:
    """Return a line for each question whose page is not among the first hits."""
    found = zip(answers.items(), hits(home, list(answers), chromium), strict=True)
    return [
        f"search for '{question}': {page} is not among the first {FIRST}: {', '.join(pages)}"
        for (question, page), pages in found
        if page not in pages
    ]
