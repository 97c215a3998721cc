"""Runs of apps; they need flwr, as `scripts/check-flower` installs it."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks import flower_apps
from fleetsim import open_run
from fleetsim import scenario as scenarios
from fleetsim.errors import DataError, ScenarioError
from fleetsim.flower import running
from fleetsim.run_settings import RunFolderSettings

pytest.importorskip("flwr", reason="flwr is not installed; scripts/check-flower installs it")
# flwr tells of features that it will drop, and leaves files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")

_APPS = Path(__file__).parent / "apps"
_CLIENT = """
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
_SERVER = """
import json, time
from pathlib import Path
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
app = ServerApp()
def tell(**values):
    with Path(__file__).with_name("told.txt").open("a") as file:
        file.write(json.dumps(values) + "\\n")
def messages(nodes, kind="train"):
    content = RecordDict({"arrays": ArrayRecord([np.zeros(4)])})
    return [Message(content, dst_node_id=node, message_type=kind) for node in nodes]
@app.main()
def main(grid, context):
"""
_PROJECT = """
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


def _small_app(folder, main, *, project=_PROJECT, client=_CLIENT):
    folder.mkdir()
    (folder / "pyproject.toml").write_text(project)
    (folder / "server.py").write_text(_SERVER + main)
    (folder / "client.py").write_text(client)
    return folder


def _run(app, out, *overrides, run_config=(), on_client_error="reply", **settings):
    return running.run(
        app,
        scenarios.load("quickstart", [*_FLEET, *overrides]),
        RunFolderSettings(out=out, **settings),
        run_config=run_config,
        on_client_error=on_client_error,
    )


def _ran(home, main, *overrides, project=_PROJECT, client=_CLIENT, **arguments):
    """Return the folder of a small app, and its run."""
    app = _small_app(home / "app", main, project=project, client=client)
    return app, _run(app, home / "run", *overrides, **arguments)


def _train(timeout="3600.0"):
    """Return a server app of four rounds, with a timeout of each."""
    return _TRAIN.replace("TIMEOUT", timeout)


def _calls(app):
    path = app / "calls.txt"
    return path.read_text().splitlines() if path.exists() else []


def _told(app):
    return [json.loads(line) for line in (app / "told.txt").read_text().splitlines()]


@pytest.mark.parametrize(
    ("app", "accuracy"),
    [
        ("torch_quickstart", 0.4),
        ("adam_central", 0.2),
        ("federated_metrics", 0.5),
        ("legacy_numpy", 0.8),
    ],
)
def test_an_app_runs_unchanged_and_twice_the_same(app, accuracy, tmp_path):
    first = _run(_APPS / app, tmp_path / "one", "fleet.size=30")
    second = _run(_APPS / app, tmp_path / "two", "fleet.size=30")

    assert first.manifest.digest == second.manifest.digest
    assert first.manifest.stop_rule == "app"
    assert len(first.rounds) == 5
    assert first.rounds["accuracy"].iloc[-1] > accuracy
    train = first.tasks[first.tasks["purpose"] == "train"]
    assert (train["train_flop"] > 0).all()
    assert (train["train_loss"].notna()).all()
    # The balance of joules by client, task and round.
    total_j = first.rounds["energy_total_j"].iloc[-1]
    assert first.ledger()["energy_j"].sum() == pytest.approx(total_j)
    record = open_run(tmp_path / "one").manifest.flower
    assert record is not None
    assert record.app == app.replace("_", "-")


def test_bytes_samples_and_flop_are_those_of_messages_and_network_by_hand(tmp_path):
    run = _run(_APPS / "torch_quickstart", tmp_path / "run", "fleet.size=30")

    # Weights and biases of 4 bytes, and numpy's header of 128 for each of the four arrays.
    model = 4 * (8 * 9 + 8 + 1280 + 10) + 4 * 128
    train = run.tasks[run.tasks["purpose"] == "train"]
    evaluate = run.tasks[run.tasks["purpose"] == "evaluate"]
    assert set(train["download_byte"]) == {model + 2 * 8}  # learning rate and round
    assert set(train["upload_byte"]) == {model + 2 * 8}  # loss and samples
    assert set(evaluate["upload_byte"]) == {3 * 8}
    assert set(train["num_samples"]) == {1500 // 30 * 4 // 5}
    convolution, classifier = 2 * 64 * 8 * 9, 2 * 128 * 10
    # Two epochs of 40 samples; nobody wants the gradient of the images.
    assert set(train["train_flop"]) == {2 * 40 * (2 * convolution + 3 * classifier)}
    assert set(evaluate["train_flop"]) == {10 * (convolution + classifier)}


def test_the_servers_own_accuracy_is_the_one_in_the_table(tmp_path, capsys):
    run = _run(_APPS / "adam_central", tmp_path / "run")

    said = capsys.readouterr().out.partition("accuracies: ")[2]
    assert run.rounds["accuracy"].tolist() == json.loads(said)[1:]


def test_what_the_strategy_aggregates_from_evaluations_is_in_the_table(tmp_path, capsys):
    run = _run(_APPS / "federated_metrics", tmp_path / "run", "fleet.size=30")

    said = json.loads(capsys.readouterr().out.partition("metrics: ")[2])
    assert run.rounds["accuracy"].tolist() == [each["accuracy"] for each in said]
    assert run.rounds["loss"].tolist() == [each["eval_loss"] for each in said]
    evaluate = run.tasks[run.tasks["purpose"] == "evaluate"]
    # Ten digits shown and ten recognised, the loss and the samples.
    assert set(evaluate["upload_byte"]) == {8 * (10 + 10 + 2)}
    assert set(evaluate.groupby("round").size()) == {30 // 2}
    # Ten samples of eight rows through three gates of 32 units, and the classifier.
    gates, classifier = 2 * 3 * 32 * (8 + 32), 2 * 32 * 10
    assert set(evaluate["train_flop"]) == {10 * (8 * gates + classifier)}


def test_without_strategy_accuracy_is_the_mean_by_samples_of_the_evaluations(tmp_path):
    main = """
    nodes = list(grid.get_node_ids())[:3]
    grid.send_and_receive(messages(nodes))
    grid.send_and_receive(messages(nodes, "evaluate"))
    """
    client = _CLIENT.replace(
        "    arrays =",
        """    number = context.node_config["partition-id"]
    metrics = MetricRecord({"num-examples": number + 1, "eval_acc": number / 10})
    arrays =""",
    )
    evaluate = "evaluate = {flop = 1e6, num_samples = 10, upload_byte"
    project = _PROJECT.replace(evaluate, "evaluate = {flop = 1e6, upload_byte")
    _, run = _ran(tmp_path, main, client=client, project=project)

    assert run.rounds["accuracy"].tolist() == [pytest.approx((0 * 1 + 0.1 * 2 + 0.2 * 3) / 6)]
    evaluated = run.tasks[run.tasks["purpose"] == "evaluate"].sort_values("client")
    assert evaluated["num_samples"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("strategy", ["fedavgm", "fedadagrad", "fedyogi", "fedprox", "fedmedian"])
def test_strategies_of_flower_run_as_they_are(strategy, tmp_path):
    config = [f"strategy={strategy}", "num-server-rounds=2"]

    run = _run(_APPS / "adam_central", tmp_path / "run", run_config=config)

    assert run.rounds["aggregated"].all()
    assert run.rounds["accuracy"].notna().all()


def test_late_clients_are_never_trained(tmp_path):
    everybody = _run(_small_app(tmp_path / "all", _train()), tmp_path / "one")
    ends_s = (everybody.tasks["finished_at_s"] - everybody.tasks["dispatched_at_s"]).to_numpy()
    deadline_s = float(np.median(ends_s[:10]))
    app = _small_app(tmp_path / "app", _train(repr(deadline_s)))

    run = _run(app, tmp_path / "two")

    outcomes = run.tasks["outcome"].value_counts()
    assert outcomes["late"] >= 4
    assert len(_calls(app)) == outcomes["delivered"]
    late = run.tasks[run.tasks["outcome"] == "late"]
    assert np.allclose(late["finished_at_s"] - late["dispatched_at_s"], deadline_s)
    assert (late["energy_idle_j"] > 0).all()


def test_two_batches_of_a_round_draw_different_numbers_and_a_second_run_the_same(tmp_path):
    main = """
    grid.send_and_receive(messages(list(grid.get_node_ids())[:1]))
    for _ in range(2):
        [reply] = grid.send_and_receive(messages(list(grid.get_node_ids())[:1], "evaluate"))
        tell(loss=reply.content["metrics"]["loss"])
    """
    app = _small_app(tmp_path / "app", main)
    _run(app, tmp_path / "one")
    _run(app, tmp_path / "two")

    first, second, *again = [each["loss"] for each in _told(app)]
    assert first != second
    assert again == [first, second]


def test_a_lost_client_answers_with_an_error_and_is_not_trained(tmp_path):
    main = """
    replies = list(grid.send_and_receive(messages(grid.get_node_ids())))
    tell(errors=[m.error.reason for m in replies if m.has_error()], num=len(replies))
    """
    app, run = _ran(tmp_path, main, "fleet.crash_per_hour=3600", "seed=3")

    [told] = _told(app)
    num_lost = int((run.tasks["outcome"] == "crashed").sum())
    assert num_lost > 0
    assert told["num"] == 10
    assert len(told["errors"]) == num_lost
    assert all(reason.endswith("was lost: crashed") for reason in told["errors"])
    assert len(_calls(app)) == 10 - num_lost


def test_nodes_come_and_go_while_the_server_sleeps_in_virtual_time(tmp_path):
    main = """
    for _ in range(8):
        tell(nodes=list(grid.get_node_ids()))
        time.sleep(3 * 3600)
    grid.send_and_receive(messages(list(grid.get_node_ids())[:1]))
    """
    people = ["fleet.usage={trace: people-week}", "fleet.size=50"]
    app, run = _ran(tmp_path, main, *people, "server.eligibility={charging: true}")

    nodes = [told["nodes"] for told in _told(app)]
    assert len({tuple(each) for each in nodes}) > 2
    assert all(each == sorted(each) and min(each) >= 2 and max(each) <= 51 for each in nodes)
    assert run.rounds["idle_s"].iloc[0] == 8 * 3 * 3600
    assert run.rounds["num_eligible"].iloc[0] > 0


def test_pushed_messages_fly_on_their_own_and_pull_advances_the_clock(tmp_path):
    main = """
    first, second, third = list(grid.get_node_ids())[:3]
    ids = list(grid.push_messages(messages([first, second])))
    ids += grid.push_messages(messages([first], "evaluate"))  # the node is busy: it waits
    order = []
    while len(order) < 3:
        order += [m.metadata.reply_to_message_id for m in grid.pull_messages(ids)]
    tell(ids=ids, order=order, rest=len(list(grid.pull_messages(ids))))
    """
    app, run = _ran(tmp_path, main)

    [told] = _told(app)
    assert sorted(told["order"]) == sorted(told["ids"])
    assert told["rest"] == 0
    tasks = run.tasks.set_index("task")
    by_end = tasks.sort_values("finished_at_s").index.tolist()
    assert told["order"] == [f"m{task + 1}" for task in by_end]
    assert tasks.loc[2, "purpose"] == "evaluate"
    assert tasks.loc[2, "dispatched_at_s"] == tasks.loc[0, "finished_at_s"]
    assert len(_calls(app)) == 3


def test_a_timeout_cuts_off_pushed_messages_too(tmp_path):
    main = """
    nodes = list(grid.get_node_ids())
    grid.push_messages(messages(nodes[:1]))
    replies = list(grid.send_and_receive(messages(nodes[1:3]), timeout=0.01))
    tell(num=len(replies))
    """
    app, run = _ran(tmp_path, main)

    assert _told(app) == [{"num": 0}]
    assert run.tasks["outcome"].tolist() == ["cancelled", "late", "late"]
    assert _calls(app) == []


def test_at_a_timeout_messages_that_wait_for_their_client_never_begin(tmp_path):
    main = """
    nodes = list(grid.get_node_ids())[:6]
    replies = list(grid.send_and_receive(messages(nodes + nodes), timeout=0.01))
    tell(num=len(replies), rest=len(list(grid.send_and_receive(messages(nodes[:1])))))
    """
    app, run = _ran(tmp_path, main)

    assert _told(app) == [{"num": 0, "rest": 1}]
    assert run.tasks["outcome"].tolist() == ["late"] * 6 + ["delivered"]
    assert run.tasks["client"].tolist() == [0, 1, 2, 3, 4, 5, 0]


def test_all_messages_that_wait_for_a_client_that_leaves_are_answered(tmp_path):
    main = """
    time.sleep(2 * 3600)
    nodes = list(grid.get_node_ids())
    replies = list(grid.send_and_receive(messages(nodes * 4)))
    tell(num=len(nodes))
    for reply in replies:
        tell(node=reply.metadata.src_node_id, error=reply.error.reason if reply.has_error() else "")
    """
    project = _PROJECT.replace("flop = 2e9", "flop = 2e14")
    people = ["fleet.usage={trace: people-week}", "fleet.size=50"]
    app, run = _ran(tmp_path, main, *people, "server.eligibility={charging: true}", project=project)

    first, *told = _told(app)
    assert len(told) == 4 * first["num"] > 0
    gone = [each["node"] for each in told if each["error"].endswith("is not available")]
    # Some leave while more than one message waits for them.
    assert max(gone.count(node) for node in gone) > 1
    assert len(run.tasks) + len(gone) == len(told)


def test_stop_rules_of_the_scenario_end_the_app(tmp_path):
    main = _train()
    whole = _run(_small_app(tmp_path / "whole", main), tmp_path / "one")
    half_s = float(whole.rounds["finished_at_s"].iloc[1] + 0.01)

    by_rounds = _run(_small_app(tmp_path / "a", main), tmp_path / "two", "stop={rounds: 2}")
    by_time = _run(_small_app(tmp_path / "b", main), tmp_path / "three", f"stop.time_s={half_s}")

    assert by_rounds.manifest.stop_rule == "rounds"
    assert by_rounds.rounds.equals(whole.rounds.iloc[:2])
    assert by_time.manifest.stop_rule == "time_s"
    assert set(by_time.tasks.query("round == 3")["outcome"]) == {"cancelled"}


def test_waiting_for_nodes_that_never_come_ends_the_run(tmp_path):
    main = _train("9.0").replace("FedAvg(", "FedAvg(min_available_nodes=11, ")

    run = _run(_small_app(tmp_path / "app", main), tmp_path / "run")

    assert run.manifest.stop_rule == "no_clients"
    assert "of the 11 client(s)" in run.manifest.stop_text


# --- determinism, state and resume ------------------------------------------------------------


def _interrupt(app, out, *, after):
    def on_progress(progress):
        if progress.round == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(app, out, on_progress=on_progress)


@pytest.mark.parametrize(
    "app", ["torch_quickstart", "adam_central", "federated_metrics", "legacy_numpy"]
)
def test_a_resumed_run_has_the_digest_of_one_without_a_break(app, tmp_path):
    whole = _run(_APPS / app, tmp_path / "whole")
    _interrupt(_APPS / app, tmp_path / "broken", after=3)
    assert list((tmp_path / "broken" / "checkpoint" / "replies").iterdir())

    resumed = _run(_APPS / app, tmp_path / "broken", resume=True)

    assert resumed.manifest.digest == whole.manifest.digest
    assert not (tmp_path / "broken" / "checkpoint" / "replies").exists()


def test_another_app_configuration_or_source_is_not_resumed(tmp_path):
    app = _small_app(tmp_path / "app", _train())
    _interrupt(app, tmp_path / "run", after=2)

    with pytest.raises(ScenarioError, match="the same source, configuration and flwr"):
        _run(app, tmp_path / "run", resume=True, run_config=["rounds=9"])
    (app / "client.py").write_text(_CLIENT + "\n")
    with pytest.raises(ScenarioError, match="the same source, configuration and flwr"):
        _run(app, tmp_path / "run", resume=True)


def test_without_kept_replies_a_run_cannot_be_resumed(tmp_path):
    project = _PROJECT.replace("[tool.fleetsim]", "[tool.fleetsim]\nkeep_replies = false")
    app = _small_app(tmp_path / "app", _train(), project=project)
    _interrupt(app, tmp_path / "run", after=2)

    assert not (tmp_path / "run" / "checkpoint" / "replies").exists()
    with pytest.raises(ScenarioError, match="keep_replies = false"):
        _run(app, tmp_path / "run", resume=True)


def test_the_state_of_a_node_is_its_own_and_moves_with_delivered_messages_alone(tmp_path):
    client = _CLIENT.replace(
        "    arrays =",
        """    from flwr.app import ConfigRecord
    memory = context.state.setdefault("memory", ConfigRecord({"calls": 0}))
    memory["calls"] += 1
    with Path(__file__).with_name("memory.txt").open("a") as file:
        file.write(f"{context.node_config['partition-id']} {memory['calls']}\\n")
    arrays =""",
    )
    app = _small_app(tmp_path / "app", _train(), client=client)
    _interrupt(app, tmp_path / "run", after=2)

    _run(app, tmp_path / "run", resume=True)

    lines = sorted((app / "memory.txt").read_text().splitlines())
    assert lines == sorted(f"{client} {call}" for client in range(10) for call in range(1, 5))


def test_a_client_that_changes_its_message_changes_nobody_elses(tmp_path):
    main = """
    sent = messages(grid.get_node_ids())
    sent[0].content["note"] = ConfigRecord({"by": "server"})
    for message in sent:
        message.content = sent[0].content
    replies = list(grid.send_and_receive(sent))
    tell(note=sent[0].content["note"]["by"])
    """
    client = _CLIENT.replace(
        "    [weights]",
        "    assert message.content['note']['by'] == 'server'\n"
        "    message.content['note']['by'] = 'client'\n    [weights]",
    )
    app = _small_app(tmp_path / "app", main, client=client)

    _run(app, tmp_path / "run")

    assert _told(app) == [{"note": "server"}]


# --- costs and faults -------------------------------------------------------------------------


def test_without_declared_flop_a_numpy_app_is_refused(tmp_path):
    project = _PROJECT.partition("[tool.fleetsim]")[0]
    app = _small_app(tmp_path / "app", _train("9.0"), project=project)

    with pytest.raises(DataError, match=r"torch counted no FLOP .* train\.flop = "):
        _run(app, tmp_path / "run")


_GROWING = (
    _CLIENT.replace('"num-examples": 10', '"num-examples": 10 + len(_CALLS)')
    .replace("app = ClientApp()", "app = ClientApp()\n_CALLS = []")
    .replace("    [weights]", "    _CALLS.append(1)\n    [weights]")
)
_MEASURED = _PROJECT.replace("num_samples = 10, upload_byte = 100000", "MORE")


def test_a_message_that_costs_more_than_the_first_of_its_kind_is_refused(tmp_path):
    project = _MEASURED.replace(", MORE", "")
    main = _train()
    app = _small_app(tmp_path / "app", main, project=project, client=_GROWING)

    with pytest.raises(DataError, match=r'set \[tool.fleetsim\] train.measure = "always"'):
        _run(app, tmp_path / "run")


_REMEMBERING = _CLIENT.replace(
    "    arrays =",
    """    from flwr.app import ConfigRecord
    import torch
    memory = context.state.setdefault("memory", ConfigRecord({"calls": 0}))
    memory["calls"] += 1
    metrics["num-examples"] = 10 * memory["calls"]
    torch.ones(10 * memory["calls"], 500) @ torch.ones(500, 300)
    arrays =""",
)
"""Client with 10 samples more after each delivered message, and 2 * 500 * 300 FLOP for each."""
_TELLING_TRAIN = """
    start = FedAvg.aggregate_train
    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        tell(round=server_round, clients=sorted(r.metadata.src_node_id - 2 for r in replies))
        return start(self, server_round, replies)
    FedAvg.aggregate_train = aggregate_train
"""


def test_measured_always_a_late_client_is_computed_once_charged_and_not_heard(tmp_path):
    project = _MEASURED.replace("flop = 2e9, MORE", 'measure = "always"')
    everybody = _run(
        _small_app(tmp_path / "all", _train(), project=project, client=_REMEMBERING),
        tmp_path / "one",
    )
    ends_s = (everybody.tasks["finished_at_s"] - everybody.tasks["dispatched_at_s"]).to_numpy()
    deadline_s = float(np.median(ends_s[:10]))
    main = _TELLING_TRAIN + _train(repr(deadline_s))
    app = _small_app(tmp_path / "app", main, project=project, client=_REMEMBERING)

    run = _run(app, tmp_path / "two")

    is_late = run.tasks["outcome"] == "late"
    assert 4 <= is_late.sum() < len(run.tasks) == 40
    # Each message is computed once, when it is dispatched: to know what it costs, and no more.
    assert _calls(app) == [f"train {client}" for client in run.tasks["client"]]
    # A late reply does not reach the server, and its node forgets it.
    delivered = dict.fromkeys(range(10), 0)
    for told, (_, tasks) in zip(_told(app), run.tasks.groupby("round"), strict=True):
        heard = tasks.loc[tasks["outcome"] == "delivered", "client"].tolist()
        assert told["clients"] == sorted(heard)
        expected = [10 * (1 + delivered[client]) for client in tasks["client"]]
        assert tasks["num_samples"].tolist() == expected
        for client in heard:
            delivered[client] += 1
    assert run.clients["num_samples"].tolist() == [10 * delivered[c] for c in range(10)]
    # What was counted is charged, late or not; all had begun to send by the deadline.
    assert (run.tasks["upload_s"] > 0).all()
    assert run.tasks["train_flop"].tolist() == (300_000.0 * run.tasks["num_samples"]).tolist()
    first = run.tasks.iloc[:10].merge(everybody.tasks.iloc[:10], on="client")
    for column in ("download_s", "compute_s", "energy_receive_j", "energy_compute_j"):
        assert np.allclose(first[f"{column}_x"], first[f"{column}_y"])
    late = run.tasks[is_late]
    assert np.allclose(late[["download_s", "compute_s", "upload_s"]].sum(axis=1), deadline_s)


def test_an_exception_of_the_app_is_one_line_with_its_place(tmp_path):
    client = _CLIENT.replace("    [weights] =", "    1 / 0\n    [weights] =")
    app = _small_app(tmp_path / "app", _train("9.0"), client=client)

    with pytest.raises(DataError) as fault:
        _run(app, tmp_path / "run", on_client_error="stop")

    line = client.splitlines().index("    1 / 0") + 1
    assert str(fault.value).startswith(f"{app / 'client.py'}:{line}: the ClientApp, at the 'train'")
    assert "raised ZeroDivisionError: division by zero" in str(fault.value)
    assert open_run(tmp_path / "run").manifest.status == "failed"


_ROUND = """
    sent = messages(grid.get_node_ids())
    replies = grid.send_and_receive(sent, timeout=3600.0)
    tell(codes=sorted(reply.error.code for reply in replies if reply.has_error()),
         reasons=[reply.error.reason for reply in replies if reply.has_error()],
         answered=sum(reply.has_content() for reply in replies))
"""


@pytest.mark.parametrize("project", [_PROJECT, _PROJECT.replace("num_samples = 10, ", "")])
@pytest.mark.parametrize(
    ("fails", "says"),
    [
        ("raise RuntimeError('no data')", "RuntimeError: no data"),
        ("raise SystemExit(1)", "SystemExit: 1"),
        ("return None", "returned NoneType, not a Message"),
    ],
)
def test_a_client_that_fails_answers_with_an_error_and_others_go_on(fails, says, project, tmp_path):
    own = f"    if context.node_config['partition-id'] % 3 == 0:\n        {fails}\n"
    client = _CLIENT.replace("    [weights] =", f"{own}    [weights] =")
    app = _small_app(tmp_path / "app", _ROUND, client=client, project=project)
    notes: list[str] = []

    run = _run(app, tmp_path / "run", on_note=notes.append)

    [told] = _told(app)
    crashed = run.tasks.query("outcome == 'crashed'")
    assert told["codes"] == [2, 2, 2, 2]  # Flower's CLIENT_APP_RAISED_EXCEPTION
    assert all(says in reason for reason in told["reasons"])
    assert told["answered"] == 6
    assert sorted(crashed["client"]) == [0, 3, 6, 9]
    assert run.rounds["num_lost"].tolist() == [4]
    assert [says in note for note in notes] == [True]


def test_an_app_to_which_nothing_is_delivered_ends(tmp_path):
    main = """
    while True:
        grid.send_and_receive(messages(grid.get_node_ids()), timeout=0.001)
"""
    run = _run(_small_app(tmp_path / "app", main), tmp_path / "run")

    # 20 for each of 10 clients.
    assert run.manifest.stop_rule == "no_updates"
    assert run.tasks["outcome"].tolist() == ["late"] * 200


def test_a_message_to_nobody_is_refused(tmp_path):
    app = _small_app(tmp_path / "app", "    grid.send_and_receive(messages([1]))\n")

    with pytest.raises(DataError, match=r"to node 1; .* nodes are 2 to 11"):
        _run(app, tmp_path / "run")


def test_an_app_that_leaves_its_folder_is_recorded_where_it_began(tmp_path, monkeypatch):
    leaves = "import os; os.chdir(os.path.dirname(__file__)); os.environ['APP_WAS_HERE'] = '1'\n"
    main = f"    {leaves}{_train()}"
    client = _CLIENT.replace("    [weights]", f"    {leaves}    [weights]")
    app = _small_app(tmp_path / "app", main, client=client)
    plain = _run(_small_app(tmp_path / "plain", _train()), tmp_path / "p")
    monkeypatch.chdir(tmp_path)

    moved = _run(app, "run")

    assert Path.cwd() == tmp_path
    assert "APP_WAS_HERE" not in os.environ
    assert open_run("run").manifest.digest == moved.manifest.digest == plain.manifest.digest
    assert not (app / "run").exists()


@pytest.mark.parametrize("app", flower_apps.APPS)
def test_the_benchmark_sees_rounds_and_accuracy_in_flowers_own_code(app):
    folder = str(flower_apps.ROOT / app)

    # It raises if Flower's last accuracy is not the one in the rounds table.
    seen = flower_apps.ours(folder, clients=10, seed=1, rounds=2, scenario="quickstart")

    assert len(seen["round_s"]) == 2
    assert min(seen["round_s"]) > 0
