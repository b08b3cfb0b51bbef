"""The result of `memory` for Python callers: the memory that each device needs, and whether it fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from placesim.inspection.memory_requirements import MemoryStudy, SmallestGpu
from placesim.report.readings import counted
from placesim.report.report import Report
from placesim.report.text.memory import TABLES, memory_document, memory_lines

TOP = 12
"""Default maximum of rows about the buffers in use at a device's peak."""


@dataclass(frozen=True, repr=False)
class MemoryReport(Report):
    """The report of the simulation, whose text, JSON object and page are those of the command `placesim memory`.

    `memory` has a row for each device that was used: limit, peak, and the buffers in use at the peak, in bytes. If a device ran
    out of memory, its row covers the time up to the failure; the table `devices` then has the peak without limits.
    """

    TABLES = TABLES
    study: MemoryStudy = field(kw_only=True)

    @classmethod
    def of_study(cls, study: MemoryStudy) -> MemoryReport:
        """Return the report of a study."""
        return cls.of(study.outcome, study=study)

    def __repr__(self) -> str:
        outcome = "fits" if self.fits else "runs out of memory"
        return f"<placesim.MemoryReport of {self.study.name}: {counted(len(self.study.devices), 'device')}, {outcome}>"

    @property
    def fits(self) -> bool:
        """Whether no device ran out of memory."""
        return self.study.fits

    @property
    def largest_batch(self) -> int | None:
        """Largest batch size that fits; 0 if none fits; None if every size fits, or if `batch="auto"` was not given."""
        return self.study.batch if self.study.is_searched else None

    @property
    def smallest_gpu(self) -> SmallestGpu | None:
        """The GPU model with the least memory on which the graph would fit, or None."""
        return self.study.smallest_gpu

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumed values, as sentences."""
        return self.study.assumptions

    def text(self, top: int = TOP) -> str:
        """Return the lines that the command writes to a pipe, with at most `top` holders of each device."""
        return "".join(memory_lines(self.study, top).text())

    def document(self) -> dict[str, Any]:
        """Return the JSON object as plain values."""
        return memory_document(self.study, TOP)

    def page(self) -> str:
        """Return the page with each device's memory over time, and the holders at its peak."""
        from placesim.report.pictures.memory_page import memory_page

        return memory_page(self.study, TOP)
