"""Check of the extra `dask`: a study on a cluster of one worker on this machine."""

import subprocess
import sys

from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        asked = "study run quick --home runs --set seeds=[1,2]"
        command = [sys.executable, "-m", "fleetsim", *asked.split()]
        command += ["--set", "overrides={stop.rounds: 2}", "--dask", cluster.scheduler_address]
        subprocess.run(command, check=True)
