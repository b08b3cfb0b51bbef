"""Values that a copy of the process computes ahead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from placesim.core import operating_system
from placesim.core.operating_system import FORKS
from placesim.core.process import ahead

pytestmark = pytest.mark.skipif(not FORKS, reason="this system copies no processes")
HERE = os.getpid()


def _numbers(count: int) -> Iterator[tuple[int, str]]:
    for number in range(count):
        yield number, "x" * number


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process ids of the copies that are made."""
    made: list[int] = []
    start = operating_system.start_fork

    def start_fork(work: object) -> object:
        process, pipe = start(work)  # type: ignore[arg-type]
        made.append(process)
        return process, pipe

    monkeypatch.setattr(ahead, "start_fork", start_fork)
    return made


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_values_come_in_their_order(copies: list[int]) -> None:
    with ahead.computed_ahead(_numbers(500)) as values:
        assert list(values) == list(_numbers(500))
    assert len(copies) == 1
    assert not any(map(_is_there, copies))


def test_a_copy_can_be_a_large_value_ahead() -> None:
    from fcntl import F_GETPIPE_SZ, F_SETPIPE_SZ, fcntl

    process, pipe = operating_system.start_fork(lambda pipe: None)
    reader, writer = os.pipe()
    with pipe, suppress(OSError):  # the user may have too many wide pipes
        fcntl(writer, F_SETPIPE_SZ, 1 << 20)
        assert fcntl(pipe, F_GETPIPE_SZ) == 1 << 20
    operating_system.end_fork(process)
    os.close(reader)
    os.close(writer)


def test_no_copy_is_left_if_the_values_are_not_used(copies: list[int]) -> None:
    with suppress(KeyboardInterrupt), ahead.computed_ahead(_numbers(10_000)) as values:
        assert next(values) == (0, "")
        raise KeyboardInterrupt
    assert copies
    assert not any(map(_is_there, copies))


@pytest.mark.parametrize("last", [0, 3])
def test_values_of_a_copy_that_ends_are_computed_here(last: int) -> None:
    def ending() -> Iterator[int]:
        here = os.getpid()
        for number in range(6):
            if number == last and here != HERE:
                os._exit(9)
            yield number

    with ahead.computed_ahead(ending()) as values:
        assert list(values) == list(range(6))


def test_an_error_is_raised_here() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("two")

    with ahead.computed_ahead(failing()) as values:
        assert next(values) == 1
        with pytest.raises(ValueError, match="two"):
            next(values)


def test_values_are_computed_here_if_there_can_be_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def start_fork(work: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr(ahead, "start_fork", start_fork)
    with ahead.computed_ahead(_numbers(5)) as values:
        assert list(values) == list(_numbers(5))


def test_only_the_main_thread_of_a_command_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "available_processors", lambda: 2)
    assert not ahead.can_compute_ahead()
    monkeypatch.setattr(ahead, "is_own_process", lambda: True)
    assert ahead.can_compute_ahead()
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(ahead.can_compute_ahead).result()
    monkeypatch.setattr(ahead, "available_processors", lambda: 1)
    assert not ahead.can_compute_ahead()
