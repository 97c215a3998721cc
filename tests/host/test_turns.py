"""Turns of threads, without libraries: a list of words stands for the settings of the process."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleetsim.errors import ScenarioError
from fleetsim.host.turns import as_the_caller, turn

settings = ["caller"]


class Held:
    def take(self):
        settings.append("run")

    def give_back(self):
        settings.pop()


def test_what_a_turn_holds_is_given_back_around_a_callback_and_at_the_end() -> None:
    seen = []
    with turn(Held):
        seen.append(list(settings))
        with turn(Held):
            seen.append(list(settings))
            with as_the_caller():
                seen.append(list(settings))
            seen.append(list(settings))

    assert seen == [["caller", "run"], ["caller", "run", "run"], ["caller"], seen[1]]
    assert settings == ["caller"]


def settings_of_another_turn() -> list[str]:
    with turn(Held):
        return list(settings)


def test_a_fault_of_giving_back_gives_back_the_rest_and_ends_the_turn() -> None:
    class Broken(Held):
        def give_back(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), turn(Held, Broken):
        settings.pop()  # what Broken leaves behind
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(settings_of_another_turn).result(30)

    assert held == ["caller", "run"]
    assert settings == ["caller"]


def test_threads_take_turns_one_after_the_other() -> None:
    began, ends, order = threading.Event(), threading.Event(), []

    def first() -> None:
        with turn():
            began.set()
            ends.wait(30)
            order.append("first")

    def second() -> None:
        with turn():
            order.append("second")

    with ThreadPoolExecutor(2) as pool:
        pool.submit(first)
        assert began.wait(30)
        later = pool.submit(second)
        assert not order
        ends.set()
        later.result(30)

    assert order == ["first", "second"]


def test_a_callback_may_wait_for_a_turn_of_another_thread() -> None:
    with turn(Held), as_the_caller(), ThreadPoolExecutor(1) as pool:
        held = pool.submit(settings_of_another_turn).result(30)

    assert held == ["caller", "run"]


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("is_other_thread", [True, False])
def test_a_forked_process_has_a_turn_unless_another_thread_had_it(is_other_thread) -> None:
    began, ends = threading.Event(), threading.Event()

    def hold() -> None:
        with turn():
            began.set()
            ends.wait(30)

    if is_other_thread:
        threading.Thread(target=hold).start()
        assert began.wait(30)
    with turn() if not is_other_thread else as_the_caller():
        child = os.fork()
        if child == 0:
            try:
                with turn():
                    os._exit(0)
            except ScenarioError as fault:
                os._exit(1 if "was forked while another thread" in str(fault) else 2)
            finally:
                os._exit(3)
    ends.set()
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == int(is_other_thread)
