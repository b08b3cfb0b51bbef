"""Rows of a sweep in the order of combinations, including rows that are already known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import NamedTuple

from placesim.core.errors import PlacesimError
from placesim.prediction.sweep_rows import SweepRow, Value
from placesim.studies.sweeping.axes import Axis, combinations
from placesim.studies.sweeping.processes import ProcessCount, run_combinations
from placesim.studies.sweeping.row_simulation import SweepJob


class SweepProgress(NamedTuple):
    """Progress of a sweep: the number of finished combinations, the total, and the newest row."""

    done: int
    total: int
    row: SweepRow


class SweepRun:
    """A running sweep; `rows` has the finished rows by index of the combination.

    `assumptions` has the sentences of all simulated rows about values that are unknown before the step runs.
    """

    def __init__(self, job: SweepJob, axes: Sequence[Axis], kept: Mapping[tuple[Value, ...], SweepRow] | None = None) -> None:
        self.job = job
        self.combinations = list(combinations(axes))
        kept = kept or {}
        self.rows: dict[int, SweepRow] = {
            index: kept[values] for index, values in enumerate(self.combinations) if values in kept
        }
        self._common: PlacesimError | None = None
        self._defect = 0
        self.simulated = 0
        self.assumptions: dict[str, None] = {}

    @property
    def ordered(self) -> list[SweepRow]:
        """Finished rows in the order of the combinations."""
        return [self.rows[index] for index in sorted(self.rows)]

    def run(self, processes: ProcessCount) -> Iterator[SweepProgress]:
        """Simulate the missing rows, and yield the progress after each.

        If all combinations fail with the same error of the options or the graph, this error is raised at the end.
        """
        missing = [index for index in range(len(self.combinations)) if index not in self.rows]
        with closing(run_combinations(self.job, [self.combinations[index] for index in missing], processes)) as found:
            for number, outcome in found:
                self.rows[missing[number]] = outcome.row
                self.simulated += 1
                self.assumptions |= dict.fromkeys(outcome.assumptions)
                self._note(outcome.error)
                yield SweepProgress(len(self.rows), len(self.combinations), outcome.row)
        if self._common is not None:
            raise self._common

    def _note(self, error: PlacesimError | None) -> None:
        if error is not None and error.exit_code > 2:
            self._defect = error.exit_code
        is_first = self.simulated == 1
        if is_first and error is not None and error.exit_code == 2 and len(self.rows) == 1:
            self._common = error
        elif error is None or str(error) != str(self._common):
            self._common = None

    @property
    def is_in_vain(self) -> bool:
        """Whether all rows so far failed with the same error about the options or the graph."""
        return self._common is not None

    @property
    def exit_code(self) -> int:
        """Return 0 if all rows fit, 70 if a row revealed a bug, else 1."""
        return self._defect or int(any(row.error is not None for row in self.rows.values()))

    def in_order(self, processes: ProcessCount) -> Iterator[SweepRow]:
        """Yield each row when it and all rows before it are finished."""
        at = 0
        for _ in chain(self.run(processes), [None]):  # the last turn yields rows that were known from the start
            while at in self.rows:
                yield self.rows[at]
                at += 1
