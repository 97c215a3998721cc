"""Lower bounds of the requirements of extras, as constraints of pip.

`python lower_bounds.py EXTRA...` prints one `name==version` a line.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
for extra in sys.argv[1:]:
    for wanted in project["optional-dependencies"][extra]:
        name, _, bounds = wanted.partition(">=")
        print(f"{name}=={bounds.split(',')[0]}")
