"""Check of the extra `optimize`: a search of two trials."""

import subprocess
import sys

asked = "study optimize quick-cohort --home runs --trials 2 --set seeds=[1]"
command = [sys.executable, "-m", "fleetsim", *asked.split()]
subprocess.run([*command, "--set", "overrides={stop.rounds: 2}"], check=True)
