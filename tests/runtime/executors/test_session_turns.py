"""The end of a session: it waits for the step that computes, unless that was given up."""

from __future__ import annotations

from threading import Event, Thread

import pytest

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
