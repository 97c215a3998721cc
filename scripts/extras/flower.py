"""Check of the extra `flower`: an app of the message API with a client that only counts."""

import subprocess
import sys
from pathlib import Path

Path("app").mkdir()
Path("app/pyproject.toml").write_text(
    '[project]\nname = "counts"\nversion = "1"\n'
    '[tool.flwr.app]\npublisher = "me"\n'
    '[tool.flwr.app.components]\nserverapp = "counts:server"\nclientapp = "counts:client"\n'
    "[tool.fleetsim]\ntrain = {flop_per_sample = 1e6, batches = 3}\n"
    "evaluate = {flop_per_sample = 1e5}\n"
)
Path("app/counts.py").write_text("""
import numpy as np
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import Message
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

client, server = ClientApp(), ServerApp()


@client.train()
def train(message, context):
    arrays = [array + 1 for array in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"num-examples": 10})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content=content, reply_to=message)


@server.main()
def main(grid, context):
    strategy = FedAvg(fraction_evaluate=0.0)
    result = strategy.start(grid, ArrayRecord([np.zeros(5)]), num_rounds=2)
    assert np.allclose(result.arrays.to_numpy_ndarrays()[0], 2.0)
""")
asked = "flower run app --scenario quickstart --set fleet.size=10 --out run --no-report"
subprocess.run([sys.executable, "-m", "fleetsim", *asked.split()], check=True)
