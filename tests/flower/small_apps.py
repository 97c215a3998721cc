"""Small Flower apps, written for one test, and their runs; they need flwr."""

import json

from fleetsim import scenario as scenarios
from fleetsim.flower import running
from fleetsim.run_settings import RunFolderSettings

CLIENT = """
from pathlib import Path
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
import numpy as np
app = ClientApp()
def answer(message, context):
    with Path(__file__).with_name("calls.txt").open("a") as file:
        file.write(f"{message.metadata.message_type} {context.node_config['partition-id']}\\n")
    [weights] = message.content["arrays"].to_numpy_ndarrays()
    metrics = MetricRecord({"num-examples": 10, "loss": float(np.random.random())})
    arrays = ArrayRecord([weights + np.random.standard_normal(4)])
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
app.train()(answer)
app.evaluate()(answer)
app.query()(answer)
"""
SERVER = """
import json, time
from pathlib import Path
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
app = ServerApp()
def log(**values):
    with Path(__file__).with_name("log.txt").open("a") as file:
        file.write(json.dumps(values) + "\\n")
def messages(nodes, kind="train"):
    content = RecordDict({"arrays": ArrayRecord([np.zeros(4)])})
    return [Message(content, dst_node_id=node, message_type=kind) for node in nodes]
@app.main()
def main(grid, context):
"""
PROJECT = """
[project]
name = "small"
[tool.flwr.app.components]
serverapp = "server:app"
clientapp = "client:app"
[tool.flwr.app.config]
rounds = 4
[tool.fleetsim]
train = {flop = 2e9, num_samples = 10, upload_byte = 100000}
evaluate = {flop = 1e6, num_samples = 10, upload_byte = 100}
query = {flop = 0, num_samples = 10, upload_byte = 100}
"""
_TRAIN = """
    FedAvg(fraction_train=1.0, fraction_evaluate=0.0).start(
        grid=grid, initial_arrays=ArrayRecord([np.zeros(4)]),
        num_rounds=context.run_config["rounds"], timeout=TIMEOUT,
    )
"""
_FLEET = ["fleet.size=10", "checkpoint.every_rounds=1", "fleet.usage={trace: null}"]


def small_app(folder, main, *, project=PROJECT, client=CLIENT):
    folder.mkdir()
    (folder / "pyproject.toml").write_text(project)
    (folder / "server.py").write_text(SERVER + main)
    (folder / "client.py").write_text(client)
    return folder


def run(app, out, *overrides, run_config=(), on_client_error="reply", **settings):
    return running.run(
        app,
        scenarios.load("quickstart", [*_FLEET, *overrides]),
        RunFolderSettings(out=out, **settings),
        run_config=run_config,
        on_client_error=on_client_error,
    )


def ran(home, main, *overrides, project=PROJECT, client=CLIENT, **arguments):
    """Return the folder of a small app, and its run."""
    app = small_app(home / "app", main, project=project, client=client)
    return app, run(app, home / "run", *overrides, **arguments)


def train(timeout="3600.0"):
    """Return a server app of four rounds, with a timeout of each."""
    return _TRAIN.replace("TIMEOUT", timeout)


def calls(app):
    """Return the type and the client of each message that a client app was called with."""
    path = app / "calls.txt"
    return path.read_text().splitlines() if path.exists() else []


def logged(app):
    """Return what the server app has logged, call by call."""
    return [json.loads(line) for line in (app / "log.txt").read_text().splitlines()]
