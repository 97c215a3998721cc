"""Costs, states and faults of apps in runs; they need flwr."""

import os
from pathlib import Path

import numpy as np
import pytest

from fleetsim import open_run
from fleetsim.errors import DataError, ScenarioError
from tests.flower.small_apps import CLIENT, PROJECT, calls, logged, ran, run, small_app, train
from tests.interrupts import interrupted

pytest.importorskip("flwr", reason="flwr is not installed; scripts/check-flower installs it")
# flwr tells of features that it will drop, and leaves files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")

REMEMBERS = """    from flwr.app import ConfigRecord
    memory = context.state.setdefault("memory", ConfigRecord({"calls": 0}))
    memory["calls"] += 1
"""


def client_with(lines):
    """Return a client app that begins its work with more lines."""
    return CLIENT.replace("    [weights]", f"{lines}    [weights]")


def test_another_app_configuration_or_source_is_not_resumed(tmp_path):
    app = small_app(tmp_path / "app", train())
    interrupted(run, app, tmp_path / "run", after=2)

    with pytest.raises(ScenarioError, match="the same source, configuration and flwr"):
        run(app, tmp_path / "run", resume=True, run_config=["rounds=9"])
    (app / "client.py").write_text(CLIENT + "\n")
    with pytest.raises(ScenarioError, match="the same source, configuration and flwr"):
        run(app, tmp_path / "run", resume=True)


def test_without_kept_replies_a_run_cannot_be_resumed(tmp_path):
    project = PROJECT.replace("[tool.fleetsim]", "[tool.fleetsim]\nkeep_replies = false")
    app = small_app(tmp_path / "app", train(), project=project)
    interrupted(run, app, tmp_path / "run", after=2)

    assert not (tmp_path / "run" / "checkpoint" / "replies").exists()
    with pytest.raises(ScenarioError, match="keep_replies = false"):
        run(app, tmp_path / "run", resume=True)


def test_the_state_of_a_node_is_its_own_and_moves_with_delivered_messages_alone(tmp_path):
    notes = """    with Path(__file__).with_name("memory.txt").open("a") as file:
        file.write(f"{context.node_config['partition-id']} {memory['calls']}\\n")
"""
    app = small_app(tmp_path / "app", train(), client=client_with(REMEMBERS + notes))
    interrupted(run, app, tmp_path / "run", after=2)
    run(app, tmp_path / "run", resume=True)

    lines = sorted((app / "memory.txt").read_text().splitlines())
    assert lines == sorted(f"{client} {call}" for client in range(10) for call in range(1, 5))


def test_a_client_that_changes_its_message_changes_nobody_elses(tmp_path):
    main = """
    sent = messages(grid.get_node_ids())
    sent[0].content["note"] = ConfigRecord({"by": "server"})
    for message in sent:
        message.content = sent[0].content
    replies = list(grid.send_and_receive(sent))
    log(note=sent[0].content["note"]["by"])
    """
    lines = """    assert message.content['note']['by'] == 'server'
    message.content['note']['by'] = 'client'
"""
    app, _ = ran(tmp_path, main, client=client_with(lines))

    assert logged(app) == [{"note": "server"}]


def half_late(home, before="", **texts):
    """Return an app with a timeout at which about half of its clients are late, its run, the run
    without it, and the timeout."""
    _, everybody = ran(home, train(), **texts)
    ends_s = (everybody.tasks["finished_at_s"] - everybody.tasks["dispatched_at_s"]).to_numpy()
    deadline_s = float(np.median(ends_s[:10]))
    app = small_app(home / "late", before + train(repr(deadline_s)), **texts)
    return app, run(app, home / "two"), everybody, deadline_s


def test_late_clients_are_never_trained(tmp_path):
    app, made, _, deadline_s = half_late(tmp_path)

    outcomes = made.tasks["outcome"].value_counts()
    assert outcomes["late"] >= 4
    assert len(calls(app)) == outcomes["delivered"]
    late = made.tasks[made.tasks["outcome"] == "late"]
    assert np.allclose(late["finished_at_s"] - late["dispatched_at_s"], deadline_s)
    assert (late["energy_idle_j"] > 0).all()


def test_measured_always_a_late_client_is_computed_once_charged_and_not_heard(tmp_path):
    """10 samples more after each delivered message, and 2 * 500 * 300 FLOP for each."""
    grows = """    metrics["num-examples"] = 10 * memory["calls"]
    import torch
    torch.ones(10 * memory["calls"], 500) @ torch.ones(500, 300)
    arrays ="""
    client = CLIENT.replace("    arrays =", REMEMBERS + grows)
    logs = """
    start = FedAvg.aggregate_train
    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        log(clients=sorted(r.metadata.src_node_id - 2 for r in replies))
        return start(self, server_round, replies)
    FedAvg.aggregate_train = aggregate_train
"""
    measured = 'measure = "always"}\nevaluate'
    project = PROJECT.replace(
        "flop = 2e9, num_samples = 10, upload_byte = 100000}\nevaluate", measured
    )
    app, made, everybody, deadline_s = half_late(tmp_path, logs, project=project, client=client)

    is_late = made.tasks["outcome"] == "late"
    assert 4 <= is_late.sum() < len(made.tasks) == 40
    # Each message is computed once, when it is dispatched: to know what it costs, and no more.
    assert calls(app) == [f"train {client}" for client in made.tasks["client"]]
    # A late reply does not reach the server, and its node forgets it.
    delivered = dict.fromkeys(range(10), 0)
    for replies, (_, tasks) in zip(logged(app), made.tasks.groupby("round"), strict=True):
        heard = tasks.loc[tasks["outcome"] == "delivered", "client"].tolist()
        assert replies["clients"] == sorted(heard)
        expected = [10 * (1 + delivered[client]) for client in tasks["client"]]
        assert tasks["num_samples"].tolist() == expected
        for client in heard:
            delivered[client] += 1
    assert made.clients["num_samples"].tolist() == [10 * delivered[c] for c in range(10)]
    # What was counted is charged, late or not; all had begun to send by the deadline.
    assert (made.tasks["upload_s"] > 0).all()
    assert made.tasks["train_flop"].tolist() == (300_000.0 * made.tasks["num_samples"]).tolist()
    first = made.tasks.iloc[:10].merge(everybody.tasks.iloc[:10], on="client")
    for column in ("download_s", "compute_s", "energy_receive_j", "energy_compute_j"):
        assert np.allclose(first[f"{column}_x"], first[f"{column}_y"])
    late = made.tasks[is_late]
    assert np.allclose(late[["download_s", "compute_s", "upload_s"]].sum(axis=1), deadline_s)


FAILS = client_with("    1 / 0\n")
REFUSED = {
    "no FLOP": (train("9.0"), {"project": PROJECT.partition("[tool.fleetsim]")[0]},
        r"torch counted no FLOP .* train\.flop = "),
    "more than the first of its kind": (train(), {
        "project": PROJECT.replace("num_samples = 10, upload_byte = 100000", "upload_byte = 100"),
        "client": CLIENT.replace('"num-examples": 10', '"num-examples": 10 + len(CALLS)')
            .replace("app = ClientApp()", "app = ClientApp()\nCALLS = []")
            .replace("    [weights]", "    CALLS.append(1)\n    [weights]")},
        r'set \[tool.fleetsim\] train.measure = "always"'),
    "a message to nobody": ("    grid.send_and_receive(messages([1]))\n", {},
        r"to node 1; .* nodes are 2 to 11"),
    "an exception": (train("9.0"), {"client": FAILS, "on_client_error": "stop"},
        rf"^{{}}/client.py:{1 + FAILS.splitlines().index('    1 / 0')}: the ClientApp, at the "
        "'train'.* raised ZeroDivisionError: division by zero"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_simulated_ends_the_run_with_one_line(case, tmp_path):
    main, options, message = REFUSED[case]
    with pytest.raises(DataError, match=message.format(tmp_path / "app")) as fault:
        ran(tmp_path, main, **options)

    assert "\n" not in str(fault.value)
    assert open_run(tmp_path / "run").manifest.status == "failed"


ROUND = """
    replies = grid.send_and_receive(messages(grid.get_node_ids()), timeout=3600.0)
    log(codes=sorted(reply.error.code for reply in replies if reply.has_error()),
        reasons=[reply.error.reason for reply in replies if reply.has_error()],
        answered=sum(reply.has_content() for reply in replies))
"""


@pytest.mark.parametrize("project", [PROJECT, PROJECT.replace("num_samples = 10, ", "")])
@pytest.mark.parametrize(
    ("fails", "message"),
    [
        ("raise RuntimeError('no data')", "RuntimeError: no data"),
        ("raise SystemExit(1)", "SystemExit: 1"),
        ("return None", "returned None, not a Message"),
    ],
)
def test_a_client_that_fails_answers_with_an_error_and_others_go_on(
    fails, message, project, tmp_path
):
    lines = f"    if context.node_config['partition-id'] % 3 == 0:\n        {fails}\n"
    notes: list[str] = []
    client = client_with(lines)
    app, made = ran(tmp_path, ROUND, client=client, project=project, on_note=notes.append)

    [replies] = logged(app)
    crashed = made.tasks.query("outcome == 'crashed'")
    assert replies["codes"] == [2, 2, 2, 2]  # Flower's CLIENT_APP_RAISED_EXCEPTION
    assert all(message in reason for reason in replies["reasons"])
    assert replies["answered"] == 6
    assert sorted(crashed["client"]) == [0, 3, 6, 9]
    assert made.rounds["num_lost"].tolist() == [4]
    assert [message in note for note in notes] == [True]


def test_an_app_that_leaves_its_folder_is_recorded_where_it_began(tmp_path, monkeypatch):
    leaves = (
        "    import os; os.chdir(os.path.dirname(__file__)); os.environ['APP_WAS_HERE'] = '1'\n"
    )
    app = small_app(tmp_path / "moves", f"{leaves}{train()}", client=client_with(leaves))
    _, plain = ran(tmp_path, train())
    monkeypatch.chdir(tmp_path)
    moved = run(app, "moved")

    assert Path.cwd() == tmp_path
    assert "APP_WAS_HERE" not in os.environ
    assert open_run("moved").manifest.digest == moved.manifest.digest == plain.manifest.digest
    assert not (app / "moved").exists()
