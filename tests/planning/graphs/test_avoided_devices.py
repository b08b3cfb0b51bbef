"""Plans that avoid devices: what stays and why, and words that name no device."""

from __future__ import annotations

from typing import Any

import pytest

from placesim.core.errors import UsageError
from placesim.planning.graphs.plan_comparison import BY_NODE, Aim, PlanStudy
from placesim.planning.portfolio import Effort
from tests.planning.graphs.test_plans import plan

GRAPH: dict[str, Any] = {
    "devices": {"cpu": 1, "gpu": {"count": 2, "model": "Tesla V100-SXM2-16GB"}},
    "nodes": [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [4096, 4096]},
        {"op": "MatMul", "name": "left/first", "inputs": ["x", "x"], "device": "/cpu:0"},
        {"op": "MatMul", "name": "left/second", "inputs": ["left/first", "x"]},
        {"op": "MatMul", "name": "right/first", "inputs": ["x", "x"]},
        {"op": "Add", "name": "sum", "inputs": ["left/second", "right/first"]},
        {"op": "AsString", "name": "text", "inputs": ["sum"]},
    ],
    "fetch": ["text"],
}
CPU, FIRST, SECOND = (f"/job:localhost/replica:0/task:0/device:{name}" for name in ("CPU:0", "GPU:0", "GPU:1"))


def _plan(*without: str, free: tuple[str, ...] = (), **aim: Any) -> PlanStudy:
    return plan(GRAPH, free, Effort(evaluations=60, jobs=1), Aim(**{"by": None, **aim}, without=without))


def _devices(study: PlanStudy) -> dict[str, str]:
    assert study.plan is not None
    assert study.plan.study is not None
    return {run.node: run.device for run in study.plan.study.nodes if run.node in {"x", "text", "sum"} or "/" in run.node}


@pytest.mark.parametrize("by", [None, BY_NODE])
def test_nodes_avoid_a_device_unless_a_kernel_or_a_request_holds_them_there(by: str | None) -> None:
    held = _plan("CPU", by=by)
    assert [(row.device, row.nodes) for row in held.staying] == [("CPU:0", ("left/first",)), ("CPU:0", ("text",))]
    assert "left/first requests" in held.staying[0].reason
    assert "AsString has no kernel for GPU" in held.staying[1].reason
    freed = _plan("cpu:0", free=("*",), by=by)
    assert [row.nodes for row in freed.staying] == [("text",)]
    assert {name for name, device in _devices(freed).items() if device == CPU} <= {"text", "x"}
    # what TensorFlow's default puts on GPU:0 must move
    moved = _devices(_plan("/gpu:0", free=("*",), by=by))
    assert FIRST not in moved.values()
    assert SECOND in moved.values()
    assert set(_devices(_plan("GPU", free=("*",), by=by)).values()) == {CPU}


def test_words_that_name_no_device_and_too_many_are_errors_with_suggestions() -> None:
    with pytest.raises(UsageError, match=r"got 'GPU:2', expected one of CPU, GPU, CPU:0, GPU:0, GPU:1; did you mean 'GPU:1'\?"):
        _plan("GPU:2")
    with pytest.raises(UsageError, match="no device is left: got --without CPU GPU"):
        _plan("CPU", "GPU")
