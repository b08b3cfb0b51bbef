"""Memory that one process lends to another: a large array arrives as it was, and what nobody holds is used again."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placesim.graph.session_steps import GraphStep
from placesim.runtime.cluster.cluster_setup import Cluster
from placesim.runtime.sessions.session import GraphSession
from tests.processes import until
from tests.runtime.dask.test_law import CPU, GPU, case_of, const
from tests.runtime.dask.workers import open_session

pytest.importorskip("distributed", reason="of the extra `dask`")
lending = pytest.importorskip("placesim.runtime.dask.shared_memory")
pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memory to lend")

LARGE = np.arange(lending.LEAST_BYTES, dtype=np.float32).reshape(2, -1)


def arrived(lent: Any, borrower: Any = None) -> np.ndarray[Any, Any]:
    """What the other side gets."""
    borrower = borrower or lending.SharedMemoryBorrower()
    found: np.ndarray[Any, Any] = borrower.borrow(pickle.loads(pickle.dumps(lent, 5)))
    return found


@pytest.mark.parametrize(
    "value", [LARGE, np.asfortranarray(LARGE), LARGE[:, ::2], LARGE > 7], ids=["c", "f", "strided", "bool"]
)
def test_an_array_arrives_as_it_was(value: np.ndarray[Any, Any]) -> None:
    lender = lending.SharedMemoryLender()
    lent = lender.lend(value)
    assert isinstance(lent, lending.SharedArray)
    found = arrived(lent)
    np.testing.assert_array_equal(found, value)
    assert found.dtype == value.dtype
    if value.flags.forc:
        assert found.flags.c_contiguous == value.flags.c_contiguous
    found[...] = 0
    assert value.any(), "what is written there is not seen here"


def test_what_is_small_or_no_numbers_stays() -> None:
    lender = lending.SharedMemoryLender()
    for value in (np.zeros(10), np.full(lending.LEAST_BYTES, b"", object), b"x" * lending.LEAST_BYTES):
        assert lender.lend(value) is value


def test_memory_is_used_again_once_nobody_holds_it() -> None:
    lender = lending.SharedMemoryLender()
    first = arrived(lender.lend(LARGE))
    row = first[1]
    second = lender.lend(LARGE + 1)
    del first
    third = lender.lend(LARGE + 2)
    assert len({second.path, third.path}) == 2
    np.testing.assert_array_equal(row, LARGE[1])
    held = arrived(second)
    del row
    fourth = lender.lend(LARGE + 3)
    assert fourth.path not in (second.path, third.path)
    np.testing.assert_array_equal(held, LARGE + 1)
    np.testing.assert_array_equal(arrived(fourth), LARGE + 3)


def test_memory_stays_mapped_for_the_next_tensor() -> None:
    lender, borrower = lending.SharedMemoryLender(), lending.SharedMemoryBorrower()
    before = mapped_bytes()
    row = arrived(lender.lend(LARGE), borrower)[1]
    second = arrived(lender.lend(LARGE + 1), borrower)
    np.testing.assert_array_equal(row, LARGE[1])
    two = mapped_bytes() - before
    del row
    for number in range(2 * lending.KEPT_STEPS):  # all in the first segment
        borrower.step_ended()
        np.testing.assert_array_equal(arrived(lender.lend(LARGE + number), borrower), LARGE + number)
        assert mapped_bytes() - before == two
    np.testing.assert_array_equal(second, LARGE + 1)
    del second
    assert mapped_bytes() - before < two
    borrower.close()
    lender.close()
    assert mapped_bytes() == before


def test_a_path_that_another_segment_has_taken_over() -> None:
    lender, borrower = lending.SharedMemoryLender(), lending.SharedMemoryBorrower()
    first = lender.lend(LARGE)
    arrived(first, borrower)
    for _ in range(lending.KEPT_STEPS + 1):
        lender.step_ended()
    second = lender.lend(LARGE + 1)
    assert second.path == first.path
    np.testing.assert_array_equal(arrived(second, borrower), LARGE + 1)


def test_memory_that_steps_do_not_use_is_given_back() -> None:
    lender = lending.SharedMemoryLender()
    used, kept = lender.lend(LARGE), lender.lend(LARGE)
    arrived(used)
    held = arrived(kept)
    for _ in range(lending.KEPT_STEPS + 1):
        lender.step_ended()
    assert not Path(used.path).exists()
    assert Path(kept.path).exists()
    lender.close()
    assert not Path(kept.path).exists()
    np.testing.assert_array_equal(held, LARGE)


def test_no_more_pieces_than_a_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "MOST_PIECES", 1)
    lender = lending.SharedMemoryLender()
    lent = lender.lend(LARGE)
    assert isinstance(lent, lending.SharedArray)
    assert lender.lend(LARGE) is LARGE
    arrived(lent)
    for _ in range(2):  # each use counts the steps anew
        lent = lender.lend(LARGE)
        arrived(lent)
        for _ in range(lending.KEPT_STEPS):
            lender.step_ended()
        assert Path(lent.path).exists()
    lender.step_ended()
    assert not Path(lent.path).exists()
    assert isinstance(lender.lend(np.concatenate([LARGE, LARGE])), lending.SharedArray), "there is room for another"


def test_who_cannot_read_it_borrows_nothing() -> None:
    lender = lending.SharedMemoryLender()
    probe = lender.probe()
    assert lending.can_borrow(probe)
    assert not lending.can_borrow(None)
    assert not lending.can_borrow(probe._replace(token=b"another"))
    lender.close()
    assert not lending.can_borrow(probe)


def mapped_bytes() -> int:
    """Of lent memory in this process."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "memfd:placesim" in line:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            total += end - start
    return total


def test_workers_lend_and_leave_nothing(workers: Cluster) -> None:
    nodes = [
        const("dims", [1000, 1000], CPU),
        const("value", 1.0, CPU),
        {"op": "Fill", "name": "many", "inputs": ["dims", "value"], "device": CPU},
        {"op": "Neg", "name": "there", "inputs": ["many"], "device": GPU},
    ]
    case = case_of(nodes)
    session: GraphSession = open_session(workers, case.file.graph, case.devices, case.config)
    for _ in range(4):
        session.run(GraphStep(case.steps[0].fetches))
    assert sum(workers.client.run(mapped_bytes).values()) >= 4_000_000
    session.close()
    assert until(lambda: not any(workers.client.run(mapped_bytes).values()))
