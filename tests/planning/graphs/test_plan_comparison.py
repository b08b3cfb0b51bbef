"""What a plan of a graph comes to beside other placements, and which of them it is held against."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from placesim.core.errors import UsageError
from placesim.planning.bounds import Bound
from placesim.planning.graphs.plan_comparison import (
    ANNOTATED,
    DEFAULT,
    PLANNED,
    PlanMeasure,
    PlanStudy,
    SimulatedPlacement,
    device_loads,
)
from placesim.prediction.time_breakdown import DeviceTime, NodeRun, StepTime, TimeStudy, TransferRun

CPU, GPU, OTHER = (f"/job:localhost/replica:0/task:0/device:{name}" for name in ("CPU:0", "GPU:0", "GPU:1"))


def run(device: str, start: float, end: float) -> NodeRun:
    return NodeRun("n", "Op", device, "stream", start, end, end - start, 0.0, 0.0, False)


def study(seconds: float = 9.0, *peaks: int | None) -> TimeStudy:
    """A step whose busiest device takes 4 + 2 + 3 s."""
    devices = tuple(
        DeviceTime(device, "p", 1, 0.0, 0.0, 0, 0, peak, None)
        for device, peak in zip((CPU, GPU, OTHER), peaks or (None, 5, 7), strict=True)
    )
    return TimeStudy(
        name="g",
        steps=(StepTime(0, 1, seconds, 0.0, 0.0, 0.0),),
        bounds=(),
        devices=devices,
        links=(),
        nodes=(run(CPU, 0, 6), run(GPU, 0, 3), run(GPU, 4, 5), run(OTHER, 8, 9)),
        transfers=(
            TransferRun("a", CPU, GPU, 8, 0.0, 2.0),
            TransferRun("b", GPU, OTHER, 8, 2.0, 5.0),
            TransferRun("c", GPU, GPU, 8, 5.0, 9.0),
        ),
        critical_path=(),
        assumptions=(),
    )


def test_a_gpu_is_busy_with_its_nodes_and_what_it_sends_and_gets() -> None:
    assert device_loads(study()) == {CPU: 6, GPU: 3 + 1 + 2 + 3, OTHER: 1 + 3}


def test_a_placement_comes_to_what_is_sought() -> None:
    placed = SimulatedPlacement(DEFAULT, study())
    assert [placed.value(sought) for sought in PlanMeasure] == [9.0, 9.0, 7.0]
    assert (placed.seconds, placed.fits) == (9.0, True)
    assert SimulatedPlacement(DEFAULT, study(8.0)).value(PlanMeasure.THROUGHPUT) == 9.0
    assert SimulatedPlacement(DEFAULT, study(9.0, None, None, None)).value(PlanMeasure.MEMORY) == 0
    assert not placed._replace(error=UsageError("full")).fits
    refused = SimulatedPlacement(DEFAULT, None)
    assert [refused.value(sought) for sought in PlanMeasure] == [math.inf] * 3
    assert (refused.seconds, refused.fits) == (math.inf, False)


def compared(*placements: SimulatedPlacement, bound: float = 0.0, plan: SimulatedPlacement | None = None) -> PlanStudy:
    return PlanStudy("g", placements, plan, Bound(bound, "why"), "m", {}, (), False, PlanMeasure.LATENCY, 0, (), False)


def placed(label: str, seconds: float) -> SimulatedPlacement:
    return SimulatedPlacement(label, study(seconds))


def test_a_plan_is_held_against_the_graphs_own_placement_and_else_tensorflows() -> None:
    plan, annotated, default = placed(PLANNED, 5.0), placed(ANNOTATED, 9.0), placed(DEFAULT, 6.0)
    assert compared(default, annotated, plan, plan=plan).before is annotated
    assert compared(default, plan, plan=plan).before is default
    refused = SimulatedPlacement(ANNOTATED, None)
    assert compared(default, refused, plan, plan=plan).before is default
    # nothing was better than what there is: the best of the others
    others = placed("round robin", 8.0), placed("all on CPU:0", 7.0)
    assert compared(annotated, *others, plan=annotated).before is others[1]
    assert compared(annotated, plan=annotated).before is annotated
    assert compared(*others, plan, plan=plan).before is others[1]
    assert compared().before is None


@pytest.mark.parametrize(
    ("seconds", "bound", "gap", "is_optimal"), [(8.0, 6.0, 0.25, False), (8.0, 9.0, 0.0, True), (0.0, 0.0, 0.0, True)]
)
def test_a_gap_is_a_share_of_the_plans_value(seconds: float, bound: float, gap: float, is_optimal: bool) -> None:
    plan = placed(PLANNED, seconds)
    found = compared(plan, plan=plan, bound=bound)
    assert (found.value, found.gap, found.is_optimal) == (seconds, gap, is_optimal)
    assert replace(found, sought=PlanMeasure.MEMORY).value == 7
    nothing = replace(found, plan=None)
    assert (nothing.value, nothing.gap, nothing.is_optimal) == (math.inf, 0.0, False)
