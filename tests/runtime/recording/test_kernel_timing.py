"""The trace of measured rows: where its time begins, and which runs its arrows join."""

from __future__ import annotations

import pytest

from placesim.machine.memory.buffer_sources import JournalEntry
from placesim.machine.memory.buffers import Buffer
from placesim.machine.timelines.trace_events import Arrow, TraceSlice, Track
from placesim.runtime.recording.kernel_timing import Measurements, RemoteNode, TransferPath

CPU, GPU = (f"/job:localhost/replica:0/task:0/device:{name}" for name in ("CPU:0", "GPU:0"))
MADE, READ, MOVED = Track(f"{CPU} Compute", "pool"), Track(f"{GPU} Compute", "pool 2"), Track(f"{GPU}/memcpy Compute", "in 0")


def two_steps(*, step: int = 100, run: int = 110, sent: int = 125) -> Measurements:
    """Two steps in which the CPU makes a tensor that is sent to the GPU, with the starts of the first."""
    found = Measurements()
    found.nodes += [RemoteNode(CPU, "a", "Neg", ("x",)), RemoteNode(GPU, "b", "Neg", ("a",))]
    found.ways.append(TransferPath("edge_1_a", CPU, GPU, 0, (1,)))
    found.threads |= {7: "pool", 8: "pool"}
    found.steps.extend((1, step, 170, 2, 200, 270))
    found.runs.extend((0, run, 120, 7, 1, 150, 160, 8, 0, 210, 220, 7, 1, 250, 260, 8))
    found.transfers.extend((0, sent, 140, 0, 0, 225, 240, 0))
    return found


@pytest.mark.parametrize("first", [{"step": 90}, {"run": 90}, {"sent": 90}])
def test_time_begins_with_whatever_is_first(first: dict[str, int]) -> None:
    slices = [record for record in two_steps(**first).records() if isinstance(record, TraceSlice)]
    assert min(shown.start for shown in slices) == 0
    assert max(shown.end for shown in slices) == 270 - 90


def test_time_begins_with_an_allocation_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Buffer(None, 64, 64)
    monkeypatch.setattr(
        Measurements, "journals", {CPU: [JournalEntry(held, True, "a", 80), JournalEntry(held, False, "a", 165)]}
    )
    assert min(record.start for record in two_steps().records() if isinstance(record, TraceSlice)) == 100 - 80


def test_a_tensor_goes_from_the_last_run_before_to_the_first_run_after() -> None:
    records = list(two_steps().records())
    slices = [(shown.track, shown.start, shown.end) for shown in records if isinstance(shown, TraceSlice)]
    assert [span for track, *span in slices if track == MADE] == [[10, 20], [110, 120]]
    assert [span for track, *span in slices if track == READ] == [[50, 60], [150, 160]]
    assert [span for track, *span in slices if track == MOVED] == [[25, 40], [125, 140]]
    assert [record for record in records if isinstance(record, Arrow)] == [
        Arrow("a", MADE, 19, MOVED, 26),
        Arrow("a", MOVED, 39, READ, 51),
        Arrow("a", MADE, 119, MOVED, 126),
        Arrow("a", MOVED, 139, READ, 151),
    ]


def test_a_tensor_whose_maker_or_reader_did_not_run_has_no_arrow() -> None:
    found = two_steps()
    found.transfers = found.transfers[:4]
    found.runs = found.runs[8:12]  # the maker ran later
    assert [record for record in found.records() if isinstance(record, Arrow)] == []
    found.runs = found.runs[:0]
    assert [record for record in found.records() if isinstance(record, Arrow)] == []
