"""Lifetimes of buffers in the last recorded step, from the moments at which nodes allocated and freed them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from placesim.machine.memory.buffer_sources import JournalEntry
from placesim.machine.memory.buffers import Buffer
from placesim.runtime.recording.lifetimes import BEFORE, Lifetime, lifetimes
from placesim.runtime.recording.recorder import ExecutionRecorder


@pytest.mark.parametrize(
    ("made", "freed", "found"),
    [
        (5, 9, None),
        (5, 10, Lifetime(64, BEFORE, (0,), False)),
        (10, 11, Lifetime(64, 0, (1,), False)),
        (11, 12, Lifetime(64, 1, (1,), False)),
        (11, 13, Lifetime(64, 1, None, False)),
        (11, 14, Lifetime(64, 1, None, True)),
        (5, None, Lifetime(64, BEFORE, None, True)),
        (12, None, Lifetime(64, 1, None, True)),
        (13, None, None),
    ],
)
def test_a_buffer_is_there_from_its_making_to_its_freeing(made: int, freed: int | None, found: Lifetime | None) -> None:
    """The step has two executions, at moments 10 and 11, and frees the rest at moment 13."""
    names, buffer = {10: "a", 11: "b"}, Buffer(None, 64, 64)
    journal = [JournalEntry(buffer, True, names.get(made, ""), made)]
    if freed is not None:
        journal.append(JournalEntry(buffer, False, names.get(freed, ""), freed))
    executions = [SimpleNamespace(site=SimpleNamespace(name=name)) for name in names.values()]
    recorder = SimpleNamespace(steps=[executions], moments=[10], reads=[], journals={"cpu": journal})
    assert lifetimes(cast("ExecutionRecorder", recorder)) == {"cpu": [] if found is None else [found]}
