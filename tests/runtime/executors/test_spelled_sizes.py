"""A huge number wherever one stands in a recorded case of an op: nothing is made that there is no room for."""

from __future__ import annotations

import resource
from typing import Any

import pytest

import placesim
from placesim.core.errors import DefectError
from placesim.runtime.executors.output_sizes import AllocationCheck
from tests.runtime.executors.spelled_sizes import cases_by_op, graphs

LIMIT = 64 << 20
TIMEOUT_SECONDS = 20.0
GROWTH_BYTES = 8 * LIMIT
SLICES = 8


def error_of(graph: dict[str, Any]) -> placesim.PlacesimError | None:
    """How a run under the limits ended."""
    try:
        placesim.run(graph, memory_limit=LIMIT, timeout=TIMEOUT_SECONDS)
    except placesim.PlacesimError as error:
        return error
    return None


@pytest.mark.corpus
@pytest.mark.parametrize("first", range(SLICES))
def test_a_huge_number_fills_no_memory(first: int, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    """Every eighth op."""
    ops = sorted(cases_by_op())
    assert len(ops) == 452
    for op in ops[first::SLICES]:
        with subtests.test(op), monkeypatch.context() as patch:
            hold(op, patch)


def hold(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run an op's graphs, and look at the memory."""
    failed: list[Exception] = []
    refuse = AllocationCheck.refuse

    def noted(self: AllocationCheck, error: Exception) -> Any:
        if isinstance(error, MemoryError):
            failed.append(error)
        return refuse(self, error)

    monkeypatch.setattr(AllocationCheck, "refuse", noted)
    for what, graph in graphs(op):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = error_of(graph)
        assert not isinstance(found, DefectError | placesim.DeadlineExceededError), what
        if isinstance(found, placesim.ResourceExhaustedError):
            assert found.message.startswith("OOM when allocating tensor with shape["), what
            assert found.node == "op"
        assert not failed, f"{what}: allocated without a look at the room for it"
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < GROWTH_BYTES, what
