"""A job and its axes -> rows in the order of the combinations, those that are known already among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from placesim.errors import PlacesimError
from placesim.prediction.sweeps import SweepRow, Value
from placesim.sweeping.axes import Axis, combinations
from placesim.sweeping.processes import outcomes
from placesim.sweeping.simulating import Job


class Progress(NamedTuple):
    """How many combinations are done, of how many, and the row that was the last to come."""

    done: int
    total: int
    row: SweepRow


class SweepRun:
    """A sweep under way: `rows` has what is there so far, by place among the combinations."""

    def __init__(self, job: Job, axes: Sequence[Axis], kept: Mapping[tuple[Value, ...], SweepRow] | None = None) -> None:
        self.job = job
        self.combinations = list(combinations(axes))
        kept = kept or {}
        self.rows: dict[int, SweepRow] = {
            index: kept[values] for index, values in enumerate(self.combinations) if values in kept
        }
        self._errors: list[PlacesimError | None] = []
        self.simulated = 0

    @property
    def ordered(self) -> list[SweepRow]:
        """The rows that are there, in the order of the combinations."""
        return [self.rows[index] for index in sorted(self.rows)]

    def run(self, processes: int) -> Iterator[Progress]:
        """Simulates what is not there yet.

        Where all combinations end in the same error that is none of TensorFlow's but one of the options or the graph, it is
        raised in the end.
        """
        missing = [index for index in range(len(self.combinations)) if index not in self.rows]
        with closing(outcomes(self.job, [self.combinations[index] for index in missing], processes)) as found:
            for number, outcome in found:
                self.rows[missing[number]] = outcome.row
                self._errors.append(outcome.error)
                self.simulated += 1
                yield Progress(len(self.rows), len(self.combinations), outcome.row)
        first = self._errors[0] if self._errors else None
        is_of_all = len(self._errors) == len(self.combinations) and all(str(error) == str(first) for error in self._errors)
        if first is not None and first.exit_code == 2 and is_of_all:
            raise first

    @property
    def exit_code(self) -> int:
        """0 where all of them fit, 70 where one met a defect, else 1."""
        defects = [error.exit_code for error in self._errors if error is not None and error.exit_code > 2]
        return max(defects, default=int(any(row.error is not None for row in self.rows.values())))

    def in_order(self, processes: int) -> Iterator[SweepRow]:
        """Each row once those before it are there."""
        at = 0
        for _ in self.run(processes):
            while at in self.rows:
                yield self.rows[at]
                at += 1
        while at in self.rows:
            yield self.rows[at]
            at += 1
