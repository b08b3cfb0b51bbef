"""Fetched values: their names and texts, and those that show what a variable holds when the step has ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.core.dtypes import FLOAT, INT32, RESOURCE, STRING
from placesim.runtime.sessions.printed_values import as_array, format_array
from placesim.runtime.sessions.results import Result, Results, full_name
from tests.runtime.sessions.graphs import fetch, make_session


@pytest.mark.parametrize(
    ("name", "full"), [("x", "x:0"), ("x:0", "x:0"), ("x:12", "x:12"), ("7", "7:0"), ("a:b", "a:b:0"), ("x:", "x::0")]
)
def test_full_names(name: str, full: str) -> None:
    assert full_name(name) == full


def test_results_by_position_and_by_name() -> None:
    rows = [Result(0, "x", FLOAT, 1.0), Result(0, "y:1", INT32, 2), Result(1, "x:0", FLOAT, 3.0)]
    found = Results(rows)
    assert (len(found), list(found), found[1], found[-2:]) == (3, rows, rows[1], tuple(rows[1:]))
    assert (found["x"], found["x:0"], found["y:1"]) == (3.0, 3.0, 2)
    assert found["x"].dtype == np.float32
    assert found.names() == ("x:0", "y:1")
    assert repr(found) == "Results(x:0, y:1)"
    with pytest.raises(KeyError):
        found["y"]


def test_texts_of_values() -> None:
    assert format_array(as_array(0.1, FLOAT)) == "0.1"
    assert format_array(as_array(b"a", STRING)) == "b'a'"
    assert format_array(as_array([1.0, 2.0], FLOAT)) == "[1. 2.]"
    assert format_array(as_array([1.0, 2.0], FLOAT), classic=True) == "[ 1.  2.]"
    handle = object()
    array = as_array(handle, RESOURCE)
    assert (array.shape, array.dtype, array[()]) == ((), np.dtype(object), handle)


ONE: list[Any] = [
    {"variable": "v", "shape": [2], "initializer": "zeros"},
    {"op": "AssignAdd", "name": "add", "inputs": ["v", [1.0, 1.0]]},
    {"op": "Neg", "name": "minus", "inputs": ["v/read"]},
    {"op": "Reshape", "name": "shaped", "inputs": ["v/read", [2, 1]]},
]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("v/read", 0.0, 1.0), ("v", 0.0, 1.0), ("add", 1.0, 1.0), ("minus", 0.0, None), ("shaped", 0.0, 1.0)],
)
def test_what_shares_a_variable_s_memory_shows_the_update(name: str, before: float, after: float | None) -> None:
    session = make_session([*ONE, {"initializer": "init"}])
    fetch(session, "init")
    if name != "add":
        assert not fetch(session, name).any()
    value, _ = fetch(session, name, "add")
    assert (value.shape, value.dtype) == ((2, 1) if name == "shaped" else (2,), np.float32)
    if after is not None:
        assert value.tolist() == np.full(value.shape, after).tolist()
    else:
        assert set(value.tolist()) in ({-1.0}, {0.0})
