"""The end of a session: it waits for the step that computes, unless that was given up."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from placesim.core.errors import CancelledError
from placesim.runtime.executors.session_turns import Turns


@pytest.mark.parametrize("is_given_up", [False, True])
def test_a_step_that_was_given_up_is_not_waited_for(is_given_up: bool) -> None:
    turns, began, may_end = Turns(), Event(), Event()

    def step() -> None:
        with turns:
            began.set()
            may_end.wait(60)

    computing, closing = Thread(target=step), Thread(target=turns.close)
    computing.start()
    assert began.wait(60)
    if is_given_up:
        turns.give_up()
    closing.start()
    closing.join(60 if is_given_up else 0.1)
    assert closing.is_alive() is not is_given_up
    may_end.set()
    computing.join()
    closing.join()


def test_a_step_that_waits_lets_others_where_there_is_a_thread_that_may_run_one() -> None:
    turns, may_end = Turns(), Event()
    names = ("placesim-pool", "Dask-worker", "MainTwin")
    threads = [Thread(target=may_end.wait, args=(60,), name=name) for name in names]
    try:
        with turns:
            assert turns.running == 1
            assert not turns.let_others("q")
            for thread in threads[:2]:
                thread.start()
            assert not turns.let_others("q")
            threads[2].start()
            assert turns.let_others("q")
            assert turns.waiting_node == ""
            turns.close()
            with pytest.raises(CancelledError, match="Run call was cancelled"):
                turns.let_others("q")
    finally:
        may_end.set()
    assert turns.running == 0


def test_the_node_that_waits_is_known_meanwhile() -> None:
    turns, seen, may_end = Turns(), [], Event()

    def other() -> None:
        with turns:
            seen.append((turns.waiting_node, turns.running))
        may_end.wait(60)

    with turns:
        thread = Thread(target=other, name="another")
        thread.start()
        while not seen:
            assert turns.let_others("q")
    may_end.set()
    thread.join()
    assert seen == [("q", 2)]
