"""The result of `plan` for Python callers: a better placement of a graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from placesim.inspection.predicted_step import predicted_step
from placesim.inspection.snapshot import Snapshot
from placesim.planning.bounds import Bound
from placesim.planning.graphs.plan_comparison import CurvePoint, PlanEdit, PlanMove, PlanStudy, SimulatedPlacement, StayingNodes
from placesim.report.readings import Reading, plain_document
from placesim.report.text.planning import TABLES, plan_document, plan_lines, plan_tables
from placesim.report.time_report import TimeReport

TOP = 10
"""Default number of moved groups in the text."""


class PlanReport(Reading):
    """A plan and the placements compared with it. Times are in seconds; `value` is in bytes for the memory objective."""

    TABLES = TABLES

    def __init__(
        self,
        study: PlanStudy,
        content: Callable[[Path, Callable[[str], None]], Iterator[bytes]],
        planned: Callable[[], Snapshot],
        *,
        has_page: bool = False,
    ) -> None:
        self.study = study
        self._has_page = has_page
        self._content = content
        self._planned = planned

    def __repr__(self) -> str:
        return f"<placesim.PlanReport of {self.study.name}: {self.study.sought.value} {self.value:.6g}>"

    @property
    def name(self) -> str:
        """Name of the graph."""
        return self.study.name

    def snapshot(self) -> Snapshot:
        """Return the placement with the plan's devices and its step, for inspections. Raises ValueError if no plan fits."""
        if self.study.plan is None or self.study.plan.study is None:
            raise ValueError("no plan fits, so there is no placement")
        return replace(self._planned(), step=predicted_step(self.study.plan.study))

    @property
    def value(self) -> float:
        """Objective value of the plan; infinite if no plan fits."""
        return self.study.value

    @property
    def bound(self) -> Bound:
        """Lower bound that no placement can beat, with its reason."""
        return self.study.bound

    @property
    def gap(self) -> float:
        """Largest possible improvement of the value, as a share of the value."""
        return self.study.gap

    @property
    def is_optimal(self) -> bool:
        """Whether no placement can be better."""
        return self.study.is_optimal

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended the search: the plan is the best found until then."""
        return self.study.is_interrupted

    @property
    def ended_early(self) -> str:
        """A sentence if `seconds` or `evaluations` ended the search before it had a result; else an empty text."""
        return self.study.ended_early

    @property
    def method(self) -> str:
        """Method that found the plan."""
        return self.study.method

    @property
    def devices(self) -> Mapping[str, str]:
        """Minimal device requests, by node, that produce the plan."""
        return self.study.asked

    @property
    def edits(self) -> tuple[PlanEdit, ...]:
        """Devices of scopes and nodes that make up the plan; empty for a plan by node without `changes`."""
        return self.study.edits

    @property
    def curve(self) -> tuple[CurvePoint, ...]:
        """The best plans for increasing numbers of edits."""
        return self.study.curve

    @property
    def staying(self) -> tuple[StayingNodes, ...]:
        """Nodes that had to stay on a device listed in `without`, with the reasons."""
        return self.study.staying

    @property
    def places(self) -> dict[str, str]:
        """The device of each node that the step runs."""
        plan = self.study.plan
        return {} if plan is None or plan.study is None else {run.node: run.device for run in plan.study.nodes}

    @property
    def placements(self) -> tuple[SimulatedPlacement, ...]:
        """All simulated placements; `SimulatedPlacement.fits` says whether a placement fits in memory."""
        return self.study.placements

    @property
    def moves(self) -> tuple[PlanMove, ...]:
        """The groups of nodes that the plan moves to other devices."""
        return self.study.moves

    @property
    def ways_out(self) -> tuple[str, ...]:
        """Changes that would let a plan fit, if no plan fits."""
        return self.study.ways_out

    @property
    def step(self) -> TimeReport:
        """The simulated step of the plan. Raises ValueError if there is no plan."""
        if self.study.plan is None or self.study.plan.study is None:
            raise ValueError("no plan fits, so there is no step")
        return TimeReport(self.study.plan.study)

    def text(self, top: int = TOP) -> str:
        """Return the lines that the command writes to a pipe."""
        return "".join(plan_lines(self.study, top).text())

    def document(self) -> dict[str, Any]:
        """Return the JSON object as plain values."""
        return plain_document(plan_document(self.study))

    def _table_document(self) -> dict[str, Any]:
        return plan_tables(self.study)

    def page(self) -> str | None:
        """Return a page that compares the plan with other placements; None unless `plan` was called with `page=True`."""
        from placesim.report.pictures.comparison_page import plan_page

        return plan_page(self.study) if self._has_page else None

    def _notebook_text(self) -> str:
        from placesim.report.terminal.planning import plain_plan

        return plain_plan(self.study, TOP)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the graph with the plan's devices. The ending selects the format: .yaml, .json, .pb, .pbtxt or .onnx.

        `.py` writes a device function, and `.patch` or `.diff` a script's patch. A UserWarning names the edits that no line can
        express. Only ONNX models can be written as .onnx. Raises UsageError for another ending, and OSError if the file can't
        be written.
        """
        from placesim.core.files.writer import write_whole

        notes: list[str] = []
        write_whole(Path(path), b"".join(self._content(Path(path), notes.append)))
        for note in notes:
            warnings.warn(note, stacklevel=2)
