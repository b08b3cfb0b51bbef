"""What reports derive from a study of times: sums by node and scope, and the parts of the step in which lanes were busy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placesim.prediction.time_breakdown import (
    COMPUTE,
    LAUNCH,
    NodeCost,
    NodeRun,
    PathPart,
    StepBound,
    StepTime,
    TimeStudy,
    TransferRun,
    copies_lane,
    dearest_nodes,
    dearest_transfers,
    folded_path,
    lane,
    path_by_scope,
)

CPU, GPU, OTHER = (f"/job:localhost/replica:0/task:0/device:{name}" for name in ("CPU:0", "GPU:0", "GPU:1"))


def run(node: str, start: float, end: float, device: str = CPU) -> NodeRun:
    return NodeRun(node, "Op", device, "stream", start, end, end - start, (end - start) / 2, 2 * (end - start), node == "b")


STUDY = TimeStudy(
    name="graph",
    steps=(StepTime(0, 3, 5.0, 4.0, 6.0, 7.0), StepTime(1, 4, 10.0, 9.0, 12.0, 11.0)),
    bounds=(StepBound("path", "path", 6.0), StepBound("link", "link", 8.0), StepBound("resource", "host", 7.0)),
    devices=(),
    links=(),
    nodes=(run("a", 0, 1), run("b", 1, 4), run("a", 4, 7), run("a", 4, 5.5, GPU), run("c", 6, 9.5)),
    transfers=(
        TransferRun("t", CPU, GPU, 8, 1.0, 2.0, ("GPU:0 from host",)),
        TransferRun("u", GPU, OTHER, 8, 2.0, 5.0, ("GPU:0 between GPUs", "GPU:1 between GPUs")),
        TransferRun("v", GPU, CPU, 0, 5.0, 7.0, ("GPU:0 to host",)),
        TransferRun("w", GPU, GPU, 8, 7.0, 7.5),
    ),
    critical_path=(
        PathPart("s/a", CPU, LAUNCH, 0.0, 1.0, "nothing"),
        PathPart("s/a", CPU, COMPUTE, 1.0, 3.0, "launch"),
        PathPart("s/t/b", CPU, COMPUTE, 3.0, 5.0, "input"),
        PathPart("s", CPU, COMPUTE, 5.0, 6.5, "input"),
        PathPart("r/c", CPU, COMPUTE, 6.5, 10.0, "turn"),
    ),
    assumptions=(),
)


def test_repetitions_add_up_to_the_first_and_the_steady_ones() -> None:
    assert [step.total_seconds for step in STUDY.steps] == [7 + 2 * 5, 11 + 3 * 10]
    assert STUDY.step.number == 1
    assert STUDY.bound.what == "link"


def test_transfers_within_a_device_and_control_edges_do_not_count() -> None:
    assert [one.tensor for one in STUDY.counted_transfers] == ["t", "u"]


def test_the_runs_of_a_node_on_a_device_are_one_row() -> None:
    assert dearest_nodes(STUDY, 9) == [
        NodeCost("a", "Op", CPU, "stream", 2, 4.0, 2.0, 8.0, False),
        NodeCost("c", "Op", CPU, "stream", 1, 3.5, 1.75, 7.0, False),
        NodeCost("b", "Op", CPU, "stream", 1, 3.0, 1.5, 6.0, True),
        NodeCost("a", "Op", GPU, "stream", 1, 1.5, 0.75, 3.0, False),
    ]
    assert [row.node for row in dearest_nodes(STUDY, 2)] == ["a", "c"]


def test_the_longest_transfers_come_first() -> None:
    assert [one.tensor for one in dearest_transfers(STUDY, 3)] == ["u", "v", "t"]


def test_a_path_is_folded_by_outermost_scope_and_kind() -> None:
    assert path_by_scope(STUDY.critical_path) == [
        ("s/", COMPUTE, 2, 4.0), ("r/", COMPUTE, 1, 3.5), ("s", COMPUTE, 1, 1.5), ("s/", LAUNCH, 1, 1.0)
    ]  # fmt: skip


def test_what_is_over_the_limit_of_rows_is_one_row() -> None:
    whole = path_by_scope(STUDY.critical_path)
    assert folded_path(STUDY, 4) == folded_path(STUDY, 5) == whole
    assert folded_path(STUDY, 3) == [*whole[:2], ("*", "all", 2, 2.5)]
    assert folded_path(STUDY, 1) == [("*", "all", 5, 10.0)]


def test_overlapping_runs_are_counted_once_in_each_cell() -> None:
    assert lane(STUDY, CPU, 5) == pytest.approx([1.0, 1.0, 1.0, 1.0, 0.75])
    assert lane(STUDY, GPU, 5) == pytest.approx([0, 0, 0.75, 0, 0])
    assert lane(STUDY, GPU, 1) == pytest.approx([0.15])
    assert lane(replace(STUDY, steps=(StepTime(0, 1, 0.0, 0.0, 0.0, 0.0),)), CPU, 2) == [0.0, 0.0]
    within = replace(STUDY, nodes=(run("a", 0, 8), run("b", 2, 4), run("c", 9, 10)))
    assert lane(within, CPU, 5) == pytest.approx([1, 1, 1, 1, 0.5])


def test_a_copy_is_in_the_lane_of_each_gpu_at_its_ends() -> None:
    assert copies_lane(STUDY, GPU, 10) == pytest.approx([0, 1, 1, 1, 1, 1, 1, 0, 0, 0])
    assert copies_lane(STUDY, OTHER, 10) == pytest.approx([0, 0, 1, 1, 1, 0, 0, 0, 0, 0])
    assert copies_lane(STUDY, CPU, 10) == [0.0] * 10
    # a tensor that comes from a GPU's host memory by the network takes no stream of the sender's
    far = replace(STUDY, transfers=(TransferRun("t", GPU, OTHER, 8, 0.0, 10.0, ("GPU:1 from host",)),))
    assert (copies_lane(far, GPU, 1), copies_lane(far, OTHER, 1)) == ([0.0], [1.0])
    back = replace(STUDY, transfers=(TransferRun("t", GPU, OTHER, 8, 0.0, 10.0, ("GPU:0 to host",)),))
    assert (copies_lane(back, GPU, 1), copies_lane(back, OTHER, 1)) == ([1.0], [0.0])
