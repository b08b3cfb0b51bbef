"""Work that is ended from outside, wherever it is."""

from __future__ import annotations

import os
import threading
import time

import pytest

from placesim.core.errors import DeadlineExceededError, InvalidArgumentError
from placesim.core.process.deadlines import ThreadInterruption, run_within


def spin() -> None:
    while True:
        pass


def test_what_the_work_gives_and_raises_is_passed_on() -> None:
    assert run_within(60, lambda: 3) == 3

    def fail() -> None:
        raise InvalidArgumentError("no")

    with pytest.raises(InvalidArgumentError, match="no"):
        run_within(60, fail)


def test_without_a_limit_the_work_stays_in_its_thread() -> None:
    assert run_within(None, threading.get_ident) == threading.get_ident()


@pytest.mark.slow
def test_a_loop_is_interrupted() -> None:
    ended = threading.Event()

    def work() -> None:
        try:
            spin()
        except ThreadInterruption:
            ended.set()
            raise

    with pytest.raises(DeadlineExceededError, match="Timed out waiting for notification"):
        run_within(0.2, work)
    assert ended.wait(60)


@pytest.mark.slow
def test_code_that_takes_exceptions_for_its_own_is_interrupted() -> None:
    ended = threading.Event()

    def work() -> None:
        try:
            while True:
                try:
                    spin()
                except Exception:  # as a kernel might
                    continue
        finally:
            ended.set()

    with pytest.raises(DeadlineExceededError):
        run_within(0.2, work)
    assert ended.wait(60)


@pytest.mark.slow
def test_code_that_does_not_return_to_python_is_left_to_itself() -> None:
    sleeping = threading.Event()

    def sleep() -> None:
        sleeping.set()
        time.sleep(1)

    with pytest.raises(DeadlineExceededError):
        run_within(0.2, sleep)
    assert sleeping.is_set()


@pytest.mark.slow
def test_a_limit_around_a_limit_ends_both() -> None:
    ended = threading.Event()

    def inner() -> None:
        try:
            spin()
        finally:
            ended.set()

    with pytest.raises(DeadlineExceededError):
        run_within(0.2, lambda: run_within(60, inner))
    assert ended.wait(60)


@pytest.mark.posix("forked processes")
def test_a_forked_process_has_threads_of_its_own() -> None:
    run_within(10, lambda: None)
    child = os.fork()
    if not child:
        try:
            os._exit(run_within(10, lambda: 7))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
