"""Runs of apps; they need flwr, as `scripts/check-flower` installs it."""

import contextlib
import functools
import io
import json
from pathlib import Path

import pytest

from benchmarks import flower_apps
from fleetsim import open_run
from fleetsim.errors import ScenarioError
from tests.flower.small_apps import CLIENT, PROJECT, calls, logged, ran, run, train
from tests.interrupts import interrupted

pytest.importorskip("flwr", reason="flwr is not installed; scripts/check-flower installs it")
# flwr tells of features that it will drop, and leaves files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")

APPS = Path(__file__).parent / "apps"
PEOPLE = (
    "fleet.usage={trace: people-week}", "fleet.size=50", "server.eligibility={charging: true}",
)  # fmt: skip


@pytest.fixture(scope="module")
def of_app(tmp_path_factory):
    """Return the run of an app on 30 clients and what it prints, made once."""

    @functools.cache
    def made(app):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            whole = run(APPS / app, tmp_path_factory.mktemp(app) / "run", "fleet.size=30")
        return whole, printed.getvalue()

    return made


@pytest.mark.parametrize(
    ("app", "accuracy"),
    [
        ("torch_quickstart", 0.4),
        ("adam_central", 0.2),
        ("federated_metrics", 0.5),
    ],
)
def test_an_app_runs_unchanged_and_the_same_again_after_a_break(app, accuracy, of_app, tmp_path):
    whole, _ = of_app(app)
    interrupted(run, APPS / app, tmp_path / "parts", "fleet.size=30", after=3)
    replies = tmp_path / "parts" / "checkpoint" / "replies"
    assert list(replies.iterdir())
    parts = run(APPS / app, tmp_path / "parts", "fleet.size=30", resume=True)

    assert parts.manifest.digest == whole.manifest.digest
    assert not replies.exists()
    assert whole.manifest.stop_rule == "app"
    assert len(whole.rounds) == 5
    assert whole.rounds["accuracy"].iloc[-1] > accuracy
    trained = whole.tasks[whole.tasks["purpose"] == "train"]
    assert (trained["train_flop"] > 0).all()
    assert (trained["train_loss"].notna()).all()
    # The balance of joules by client, task and round.
    total_j = whole.rounds["energy_total_j"].iloc[-1]
    assert whole.ledger()["energy_j"].sum() == pytest.approx(total_j)
    record = open_run(whole.folder).manifest.flower
    assert record is not None
    assert record.app == app.replace("_", "-")


def test_bytes_samples_and_flop_are_those_of_messages_and_network_by_hand(of_app):
    tasks = of_app("torch_quickstart")[0].tasks

    # Weights and biases of 4 bytes, and numpy's header of 128 for each of the four arrays.
    model = 4 * (8 * 9 + 8 + 1280 + 10) + 4 * 128
    trained = tasks[tasks["purpose"] == "train"]
    evaluated = tasks[tasks["purpose"] == "evaluate"]
    assert set(trained["download_byte"]) == {model + 2 * 8}  # learning rate and round
    assert set(trained["upload_byte"]) == {model + 2 * 8}  # loss and samples
    assert set(evaluated["upload_byte"]) == {3 * 8}
    assert set(trained["num_samples"]) == {1500 // 30 * 4 // 5}
    convolution, classifier = 2 * 64 * 8 * 9, 2 * 128 * 10
    # Two epochs of 40 samples; nobody wants the gradient of the images.
    assert set(trained["train_flop"]) == {2 * 40 * (2 * convolution + 3 * classifier)}
    assert set(evaluated["train_flop"]) == {10 * (convolution + classifier)}


def test_the_servers_own_accuracy_is_the_one_in_the_table(of_app):
    whole, printed = of_app("adam_central")

    assert whole.rounds["accuracy"].tolist() == json.loads(printed.partition("accuracies: ")[2])[1:]


def test_what_the_strategy_aggregates_from_evaluations_is_in_the_table(of_app):
    whole, printed = of_app("federated_metrics")

    metrics = json.loads(printed.partition("metrics: ")[2])
    assert whole.rounds["accuracy"].tolist() == [each["accuracy"] for each in metrics]
    assert whole.rounds["loss"].tolist() == [each["eval_loss"] for each in metrics]
    evaluated = whole.tasks[whole.tasks["purpose"] == "evaluate"]
    # Ten digits shown and ten recognised, the loss and the samples.
    assert set(evaluated["upload_byte"]) == {8 * (10 + 10 + 2)}
    assert set(evaluated.groupby("round").size()) == {30 // 2}
    # Ten samples of eight rows through three gates of 32 units, and the classifier.
    gates, classifier = 2 * 3 * 32 * (8 + 32), 2 * 32 * 10
    assert set(evaluated["train_flop"]) == {10 * (8 * gates + classifier)}


def test_without_strategy_accuracy_is_the_mean_by_samples_of_the_evaluations(tmp_path):
    main = """
    nodes = list(grid.get_node_ids())[:3]
    grid.send_and_receive(messages(nodes))
    grid.send_and_receive(messages(nodes, "evaluate"))
    """
    client = CLIENT.replace(
        "    arrays =",
        """    number = context.node_config["partition-id"]
    metrics = MetricRecord({"num-examples": number + 1, "eval_acc": number / 10})
    arrays =""",
    )
    project = PROJECT.replace("{flop = 1e6, num_samples = 10, ", "{flop = 1e6, ")
    _, made = ran(tmp_path, main, client=client, project=project)

    assert made.rounds["accuracy"].tolist() == [pytest.approx((0 * 1 + 0.1 * 2 + 0.2 * 3) / 6)]
    evaluated = made.tasks[made.tasks["purpose"] == "evaluate"].sort_values("client")
    assert evaluated["num_samples"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("strategy", ["fedavgm", "fedadagrad", "fedyogi", "fedprox", "fedmedian"])
def test_strategies_of_flower_run_as_they_are(strategy, tmp_path):
    config = [f"strategy={strategy}", "num-server-rounds=2"]
    made = run(APPS / "adam_central", tmp_path / "run", run_config=config)

    assert made.rounds["aggregated"].all()
    assert made.rounds["accuracy"].notna().all()


def test_two_batches_of_a_round_draw_different_numbers_and_a_second_run_the_same(tmp_path):
    main = """
    grid.send_and_receive(messages(list(grid.get_node_ids())[:1]))
    for _ in range(2):
        [reply] = grid.send_and_receive(messages(list(grid.get_node_ids())[:1], "evaluate"))
        log(loss=reply.content["metrics"]["loss"])
    """
    app, _ = ran(tmp_path, main)
    run(app, tmp_path / "again")

    first, second, *again = [each["loss"] for each in logged(app)]
    assert first != second
    assert again == [first, second]


def test_a_lost_client_answers_with_an_error_and_is_not_trained(tmp_path):
    main = """
    replies = list(grid.send_and_receive(messages(grid.get_node_ids())))
    log(errors=[m.error.reason for m in replies if m.has_error()], num=len(replies))
    """
    app, made = ran(tmp_path, main, "fleet.crash_per_hour=3600", "seed=3")

    [replies] = logged(app)
    num_lost = int((made.tasks["outcome"] == "crashed").sum())
    assert num_lost > 0
    assert replies["num"] == 10
    assert len(replies["errors"]) == num_lost
    assert all(reason.endswith("was lost: crashed") for reason in replies["errors"])
    assert len(calls(app)) == 10 - num_lost


def test_nodes_come_and_go_while_the_server_sleeps_in_virtual_time(tmp_path):
    main = """
    for _ in range(8):
        log(nodes=list(grid.get_node_ids()))
        time.sleep(3 * 3600)
    grid.send_and_receive(messages(list(grid.get_node_ids())[:1]))
    """
    app, made = ran(tmp_path, main, *PEOPLE)

    nodes = [each["nodes"] for each in logged(app)]
    assert len({tuple(each) for each in nodes}) > 2
    assert all(each == sorted(each) and min(each) >= 2 and max(each) <= 51 for each in nodes)
    assert made.rounds["idle_s"].iloc[0] == 8 * 3 * 3600
    assert made.rounds["num_eligible"].iloc[0] > 0


def test_pushed_messages_fly_on_their_own_and_pull_advances_the_clock(tmp_path):
    main = """
    first, second, third = list(grid.get_node_ids())[:3]
    ids = list(grid.push_messages(messages([first, second])))
    ids += grid.push_messages(messages([first], "evaluate"))  # the node is busy: it waits
    order = []
    while len(order) < 3:
        order += [m.metadata.reply_to_message_id for m in grid.pull_messages(ids)]
    log(ids=ids, order=order, rest=len(list(grid.pull_messages(ids))))
    """
    app, made = ran(tmp_path, main)

    [pulled] = logged(app)
    assert sorted(pulled["order"]) == sorted(pulled["ids"])
    assert pulled["rest"] == 0
    tasks = made.tasks.set_index("task")
    by_end = tasks.sort_values("finished_at_s").index.tolist()
    assert pulled["order"] == [f"m{task + 1}" for task in by_end]
    assert tasks.loc[2, "purpose"] == "evaluate"
    assert tasks.loc[2, "dispatched_at_s"] == tasks.loc[0, "finished_at_s"]
    assert len(calls(app)) == 3


TIMEOUTS = {
    "of pushed messages too": ("""
    nodes = list(grid.get_node_ids())
    grid.push_messages(messages(nodes[:1]))
    log(num=len(list(grid.send_and_receive(messages(nodes[1:3]), timeout=0.01))))
    """, [{"num": 0}], ["cancelled", "late", "late"]),
    "before messages that wait for their client begin": ("""
    nodes = list(grid.get_node_ids())[:6]
    replies = list(grid.send_and_receive(messages(nodes + nodes), timeout=0.01))
    log(num=len(replies), rest=len(list(grid.send_and_receive(messages(nodes[:1])))))
    """, [{"num": 0, "rest": 1}], ["late"] * 6 + ["delivered"]),
    # It ends after 20 for each of 10 clients.
    "of whatever is sent": ("""
    log()
    while True:
        grid.send_and_receive(messages(grid.get_node_ids()), timeout=0.001)
    """, [{}], ["late"] * 200),
}  # fmt: skip


@pytest.mark.parametrize("case", TIMEOUTS)
def test_a_timeout_cuts_off_messages(case, tmp_path):
    main, expected, outcomes = TIMEOUTS[case]
    app, made = ran(tmp_path, main)

    assert logged(app) == expected
    assert made.tasks["outcome"].tolist() == outcomes
    assert len(calls(app)) == outcomes.count("delivered")
    assert made.manifest.stop_rule == ("no_updates" if len(outcomes) == 200 else "app")


def test_all_messages_that_wait_for_a_client_that_leaves_are_answered(tmp_path):
    main = """
    time.sleep(2 * 3600)
    nodes = list(grid.get_node_ids())
    replies = list(grid.send_and_receive(messages(nodes * 4)))
    log(num=len(nodes))
    for reply in replies:
        log(node=reply.metadata.src_node_id, error=reply.error.reason if reply.has_error() else "")
    """
    project = PROJECT.replace("flop = 2e9", "flop = 2e14")
    app, made = ran(tmp_path, main, *PEOPLE, project=project)

    first, *replies = logged(app)
    assert len(replies) == 4 * first["num"] > 0
    gone = [each["node"] for each in replies if each["error"].endswith("is not available")]
    # Some leave while more than one message waits for them.
    assert max(gone.count(node) for node in gone) > 1
    assert len(made.tasks) + len(gone) == len(replies)


_OLD_APP = """
    pass
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
app = ServerApp(server_fn=lambda context: ServerAppComponents(config=ServerConfig(num_rounds=1)))
"""
_OLD_WORKFLOW = """
    from flwr.server import LegacyContext, ServerConfig
    from flwr.server.workflow import DefaultWorkflow
    DefaultWorkflow()(grid, LegacyContext(context, config=ServerConfig(num_rounds=1)))
"""


@pytest.mark.parametrize("main", [_OLD_APP, _OLD_WORKFLOW], ids=["server_fn", "workflow"])
def test_a_server_app_of_before_the_message_api_is_refused_with_the_way_out(main, tmp_path):
    with pytest.raises(ScenarioError, match=r"@app.main\(\).* flwr 1.29 and later") as fault:
        ran(tmp_path, main)

    assert "flwr.serverapp.strategy" in str(fault.value)


def test_stop_rules_of_the_scenario_end_the_app(tmp_path):
    app, whole = ran(tmp_path, train())
    half_s = float(whole.rounds["finished_at_s"].iloc[1] + 0.01)
    by_rounds = run(app, tmp_path / "two", "stop={rounds: 2}")
    by_time = run(app, tmp_path / "three", f"stop.time_s={half_s}")

    assert by_rounds.manifest.stop_rule == "rounds"
    assert by_rounds.rounds.equals(whole.rounds.iloc[:2])
    assert by_time.manifest.stop_rule == "time_s"
    assert set(by_time.tasks.query("round == 3")["outcome"]) == {"cancelled"}


def test_waiting_for_nodes_that_never_come_ends_the_run(tmp_path):
    _, made = ran(tmp_path, train("9.0").replace("FedAvg(", "FedAvg(min_available_nodes=11, "))

    assert made.manifest.stop_rule == "no_clients"
    assert "of the 11 client(s)" in made.manifest.stop_text


@pytest.mark.parametrize("app", flower_apps.APPS)
def test_the_benchmark_sees_rounds_and_accuracy_in_flowers_own_code(app):
    folder = str(flower_apps.ROOT / app)

    # It raises if Flower's last accuracy is not the one in the rounds table.
    seen = flower_apps.ours(folder, clients=10, seed=1, rounds=2, scenario="quickstart")

    assert len(seen["round_s"]) == 2
    assert min(seen["round_s"]) > 0
