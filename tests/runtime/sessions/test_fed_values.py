"""Values that are fed where an op wants something else: a variable, a scalar."""

from __future__ import annotations

from pathlib import Path

import pytest

import placesim
from placesim.api.runs import run
from placesim.core.dtypes import FLOAT
from placesim.core.errors import InvalidArgumentError, PlacesimError
from placesim.graph.session_steps import GeneratedFeed
from placesim.runtime.partitioning.step_requests import generate
from tests.processes import PLACESIM, run_process
from tests.runtime.sessions.graphs import fetch, make_session


def test_a_variable_that_is_fed_cannot_be_assigned() -> None:
    nodes = [
        {"op": "VariableV2", "name": "v", "attrs": {"dtype": "float", "shape": []}},
        {"op": "Const", "name": "one", "value": 1.0},
        {"op": "Assign", "name": "a", "inputs": ["v", "one"]},
    ]
    expected = r"^Input 0 of node a was passed float from _arg_v_0_0:0 incompatible with expected float_ref\."
    with pytest.raises(InvalidArgumentError, match=expected):
        fetch(make_session(nodes), "a", v=2.0)
    assert fetch(make_session(nodes), "v", v=2.0) == 2.0


def test_a_predicate_that_is_fed_must_be_a_scalar() -> None:
    nodes = [
        {"op": "Placeholder", "name": "p", "attrs": {"dtype": "bool"}},
        {"op": "Const", "name": "one", "value": 1.0},
        {"op": "Switch", "name": "s", "inputs": ["one", "p"]},
    ]
    with pytest.raises(InvalidArgumentError, match=r"^The second input must be a scalar, but it has shape \[1\]") as caught:
        fetch(make_session(nodes), "s:1", p=[True])
    assert caught.value.node == "s"
    assert fetch(make_session(nodes), "s:1", p=True) == 1.0


@pytest.mark.slow
def test_warnings_of_numpy_stay_inside(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(
        '{"raw": true, "nodes": [{"op": "Const", "name": "i", "dtype": "int64", "value": -2},'
        ' {"op": "Acos", "name": "op", "inputs": ["i"], "attrs": {"T": "int64"}}]}'
    )
    assert "Warning" not in run_process((*PLACESIM, "run", path)).complaint


def test_a_seed_may_be_negative() -> None:
    made = [generate(GeneratedFeed("random_normal", (2,), seed=-1), FLOAT) for _ in range(2)]
    assert made[0].tolist() == made[1].tolist()


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,), }",
        "{'descr': [], 'fortran_order': False, 'shape': (), }",
        "{'descr': {}, 'fortran_order': False, 'shape': (1,), }",
        "{[]: 1, 'fortran_order': False, 'shape': (1,), }",
        "'''",
        "((((((",
        "",
    ],
)
def test_a_header_that_numpy_cannot_read(header: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"\0\0\0\0")
    graph = {"nodes": [{"op": "Placeholder", "name": "x", "dtype": "float"}]}
    with pytest.raises(PlacesimError, match=r"x\.npy is not a \.npy file of numbers: "):
        run(graph, feed={"x": {"file": str(path)}})


@pytest.mark.parametrize("dtype", ["string", "resource", "variant"])
def test_nothing_is_generated_but_numbers(dtype: str) -> None:
    graph = {
        "nodes": [{"op": "Placeholder", "name": "x", "dtype": dtype}],
        "run": [{"fetch": ["x"], "feed": {"x": {"zeros": [2]}}}],
    }
    with pytest.raises(PlacesimError, match=f"^Cannot feed x: no zeros of type {dtype}: expected a placeholder of numbers"):
        placesim.run(graph)
