"""Threads inside an op: parts are shared, errors come out, BLAS has its threads back, results stay the same."""

from __future__ import annotations

import gc
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from placesim.graph.session_steps import Config
from placesim.ops.kernels.array.padding import pad_tensor
from placesim.ops.kernels.linalg.products import PART_WORK, product
from placesim.ops.process.denormals import flushing_denormals
from placesim.ops.process.intra_op_threads import IntraOpPool, spread
from placesim.runtime.executors.thread_pools import ThreadPools
from tests.processes import run_process

Tensor = np.ndarray[Any, Any]


@contextmanager
def threads(number: int) -> Iterator[None]:
    with IntraOpPool(number).serving():
        yield


@lru_cache(maxsize=1)  # tests follow one another by their shapes
def small_integers(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Two matrices, and their product: a float64 holds each of its sums exactly."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(np.float64) for shape in (left, right))
    return a, b, np.matmul(a, b)


def random_matrices(left: tuple[int, ...], right: tuple[int, ...], dtype: type) -> tuple[Tensor, Tensor]:
    a, b, _ = small_integers(left, right)
    return a.astype(dtype), b.astype(dtype)


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("number", [1, 2, 5])
def test_every_part_is_worked_on_once(number: int) -> None:
    done: list[int] = []
    with threads(number):
        spread(done.append, range(100))
    assert sorted(done) == list(range(100))


def test_without_a_step_parts_run_here() -> None:
    seen: list[int] = []
    spread(lambda _: seen.append(threading.get_ident()), range(3))
    assert seen == [threading.get_ident()] * 3


def test_two_parts_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=30)
    with threads(2):
        spread(lambda _: meeting.wait(), range(2))


def test_helpers_take_the_last_parts() -> None:
    here, meeting = threading.get_ident(), threading.Barrier(2, timeout=30)
    taken: dict[int, list[int]] = {True: [], False: []}

    def work(part: int) -> None:
        taken[threading.get_ident() == here].append(part)
        meeting.wait()

    with threads(2):
        spread(work, range(6))
    assert taken == {True: [0, 1, 2], False: [5, 4, 3]}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("shape", "before", "after"), [((1, 300, 400, 3), (0, 1, 0, 0), (0, 2, 3, 0)), ((600_000,), (2,), (0,))]
)
def test_a_large_tensor_is_padded_in_parts(
    number: int, shape: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    tensor = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    rows = list(zip(before, after, strict=True))
    with threads(number):
        found = pad_tensor(tensor, rows, 7)
    np.testing.assert_array_equal(found, np.pad(tensor, rows, constant_values=7))


def test_a_part_may_spread_its_own_work() -> None:
    done: list[tuple[int, int]] = []
    with threads(2):
        spread(lambda i: spread(lambda j: done.append((i, j)), range(4)), range(4))
    assert sorted(done) == [(i, j) for i in range(4) for j in range(4)]


@pytest.mark.parametrize("number", [1, 3])
def test_a_failing_part_ends_the_work(number: int) -> None:
    def fail(part: int) -> None:
        if part == 2:
            raise IndexError("no such part")

    with threads(number), pytest.raises(IndexError, match="no such part"):
        spread(fail, range(5))


@pytest.mark.parametrize("end", [IntraOpPool.close, lambda pool: None])
def test_helpers_end_with_their_pool(end: Callable[[IntraOpPool], None]) -> None:
    seen: list[threading.Thread] = []
    meeting = threading.Barrier(3, timeout=30)

    def meet(_: int) -> None:
        meeting.wait()
        seen.append(threading.current_thread())

    pool = IntraOpPool(3)
    with pool.serving():
        spread(meet, range(3))
    end(pool)
    del pool
    for thread in seen:
        if thread is not threading.current_thread():
            thread.join(30)
            assert not thread.is_alive()
    assert len(set(seen)) == 3


def test_an_error_of_a_helper_holds_nothing_back() -> None:
    meeting = threading.Barrier(2, timeout=30)

    class Owner:
        pass

    def fail() -> weakref.ref[Owner]:
        held = Owner()

        def work(_: int) -> None:
            meeting.wait()
            if threading.current_thread() is not threading.main_thread():
                raise IndexError(held)

        with threads(2), suppress(IndexError):
            spread(work, range(2))
        return weakref.ref(held)

    gc.disable()
    try:
        reference = fail()
        deadline = time.monotonic() + 30
        while reference() is not None and time.monotonic() < deadline:
            time.sleep(0.001)  # the helper may still be leaving
        assert reference() is None
    finally:
        gc.enable()


def test_helpers_flush_denormals_and_do_not_warn() -> None:
    tiny = np.full(1000, 1e-39, np.float32)
    results: list[float] = []
    meeting = threading.Barrier(2, timeout=30)

    def halve(_: int) -> None:
        meeting.wait()  # so that one part runs in the helper
        results.append(float((tiny * np.float32(0.5)).max()))
        np.float32(1) / np.zeros(3, np.float32)

    with threads(2), flushing_denormals(), warnings.catch_warnings():
        warnings.simplefilter("error")
        spread(halve, range(2))
    assert results == [0.0, 0.0]


def test_blas_has_one_thread_until_the_last_step_ends() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with ExitStack() as first, ExitStack() as second:
            first.enter_context(threads(2))
            second.enter_context(threads(2))
            assert blas_threads() == {1}
            first.close()
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_the_first_session_decides() -> None:
    pools = ThreadPools()
    assert pools.intra_op(Config(intra_op_parallelism_threads=3)).threads == 3
    assert pools.intra_op(Config(intra_op_parallelism_threads=7)).threads == 3


@pytest.mark.parametrize(("value", "expected"), [("2", 2), ("many", None), ("0", None)])
def test_the_environment_decides_where_the_config_does_not(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: int | None
) -> None:
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", value)
    monkeypatch.setattr("placesim.runtime.executors.thread_pools.available_processors", lambda: 11)
    assert ThreadPools().intra_op(Config()).threads == (expected or 11)
    assert ThreadPools().intra_op(Config(intra_op_parallelism_threads=4)).threads == 4


SIDE = 260
assert SIDE**3 > 2 * PART_WORK
SHAPES = [
    ((SIDE, SIDE), (SIDE, SIDE)),
    ((40, 600), (600, 900)),
    ((900, 600), (600, 40)),
    ((9000, 50), (50, 60)),
    ((6, SIDE, 90), (6, 90, SIDE)),
    ((1, 4, 170, 170), (3, 1, 170, 130)),
    ((5, 300, 120), (120, 100)),
    ((1, 4000), (4000, 4200)),
    ((2101, 20), (20, 600)),
    ((12, 1100), (1100, 1701)),
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int32])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_products_in_parts(left: tuple[int, ...], right: tuple[int, ...], dtype: type) -> None:
    a, b = random_matrices(left, right, dtype)
    expected: Tensor = small_integers(left, right)[2].astype(dtype)
    turned_a, turned_b = (np.ascontiguousarray(matrix.swapaxes(-1, -2)).swapaxes(-1, -2) for matrix in (a, b))
    for number in (1, 3):
        with threads(number):
            result = product(a, b)
            transposed = product(turned_a, b)
            other = product(a, turned_b)
        for found in (result, transposed, other):
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_rounding_does_not_depend_on_the_threads(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = (np.sin(matrix) for matrix in random_matrices(left, right, np.float32))
    with threads(1):
        expected = product(a, b)
    for number in (2, 4):
        with threads(number):
            np.testing.assert_array_equal(product(a, b), expected)


def test_a_system_that_forbids_choosing_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr("os.sched_setaffinity", refuse)
    meeting = threading.Barrier(2, timeout=30)
    with threads(2):
        spread(lambda _: meeting.wait(), range(2))


LATER_BLAS = """
import threadpoolctl
from placesim.ops.process.intra_op_threads import IntraOpPool

def limits():
    return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]

with IntraOpPool(2).serving():
    before = limits()
import {module}
with IntraOpPool(2).serving():
    print(before, limits())
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["scipy.linalg", "scipy.special"])
def test_a_blas_that_is_loaded_later_has_one_thread_too(module: str) -> None:
    """scipy's own, loaded when an op first needs it."""
    result = run_process((sys.executable, "-c", LATER_BLAS.format(module=module)), check=True)
    assert result.output == "[1] [1, 1]\n"
