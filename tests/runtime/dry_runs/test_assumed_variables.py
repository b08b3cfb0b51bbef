"""Variables that no step initializes: dry runs take them as restored from a checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

import placesim

SENTENCE = "no step initializes w, accumulator: assumed to be restored from a checkpoint"


def graph(variable: str, *steps: str) -> dict[str, Any]:
    """A momentum-like step `train` with its initializers `init`, of ref or resource variables."""
    is_ref = variable == "VariableV2"
    attrs = {"dtype": "float32", "shape": [64, 32]}
    assign = "Assign" if is_ref else "AssignVariableOp"
    nodes: list[dict[str, Any]] = [
        {"op": "Placeholder", "name": "x", "dtype": "float32", "shape": [None, 64]},
        {"op": "Fill", "name": "ones", "inputs": [[64, 32], 1.0]},
        {"op": "Fill", "name": "zeros", "inputs": [[64, 32], 0.0]},
        {"op": variable, "name": "w", "attrs": attrs | ({} if is_ref else {"shared_name": "w"}), "device": "/gpu:0"},
        {"op": variable, "name": "accumulator", "attrs": attrs | ({} if is_ref else {"shared_name": "accumulator"})},
        {"op": assign, "name": "w/Assign", "inputs": ["w", "ones"]},
        {"op": assign, "name": "accumulator/Assign", "inputs": ["accumulator", "zeros"]},
        {"op": "NoOp", "name": "init", "control_inputs": ["w/Assign", "accumulator/Assign"]},
        *(
            [{"op": "Identity", "name": f"{name}/read", "inputs": [name]} for name in ("w", "accumulator")]
            if is_ref
            else [
                {"op": "ReadVariableOp", "name": f"{name}/read", "inputs": [name], "attrs": {"dtype": "float32"}}
                for name in ("w", "accumulator")
            ]
        ),
        {"op": "MatMul", "name": "y", "inputs": ["x", "w/read"]},
        {"op": "MatMul", "name": "gradient", "inputs": ["x", "y"], "attrs": {"transpose_a": True}},
        {"op": "Add", "name": "accumulated", "inputs": ["accumulator/read", "gradient"]},
        # an update, whose value depends on the old one
        {"op": assign, "name": "update", "inputs": ["accumulator", "accumulated"], "control_inputs": ["gradient"]},
        {"op": "NoOp", "name": "train", "control_inputs": ["update"]},
    ]
    return {"devices": {"gpu": 1}, "nodes": nodes, "run": [{"fetch": [step]} for step in steps]}


@pytest.mark.parametrize("variable", ["VariableV2", "VarHandleOp"])
def test_memory_and_time_are_those_after_the_initializers(variable: str) -> None:
    without, after = graph(variable, "train"), graph(variable, "init", "train")
    found, expected = (placesim.simulate(each, batch=16, soft_placement=True) for each in (without, after))
    assert SENTENCE in found.assumptions
    assert SENTENCE not in expected.assumptions
    assert found.seconds == expected.seconds
    memory, expected_memory = (placesim.memory(each, batch=16, soft_placement=True) for each in (without, after))
    assert SENTENCE in memory.assumptions
    assert SENTENCE not in expected_memory.assumptions
    constants = 2 * 256  # those of the initializers stay on the GPU
    assert memory.rows[-1]["peak"] + constants == expected_memory.rows[-1]["peak"]


@pytest.mark.parametrize("variable", ["VariableV2", "VarHandleOp"])
def test_a_step_that_initializes_asks_or_lacks_a_shape_is_left_alone(variable: str) -> None:
    assert SENTENCE not in placesim.memory(graph(variable, "init"), soft_placement=True).assumptions
    unshaped = graph(variable, "train")
    for node in unshaped["nodes"]:
        if node["op"] == variable:
            node["attrs"] |= {"shape": None}
    with pytest.raises(placesim.PlacesimError, match="w"):
        placesim.memory(unshaped, batch=16, soft_placement=True)


def test_what_runs_ends_as_in_tensorflow() -> None:
    with pytest.raises(placesim.PlacesimError, match="Attempting to use uninitialized value"):
        placesim.run(graph("VariableV2", "train"), soft_placement=True, feed={"x": [[0.0] * 64]})


def test_an_iterator_that_no_step_initializes_gives_elements_of_the_declared_shapes() -> None:
    attrs = {"output_types": ["float32", "int32"], "output_shapes": [[-1, 32], [8]]}
    nodes = [
        {"op": "IteratorV2", "name": "iterator", "attrs": attrs | {"shared_name": "rows", "container": ""}},
        {"op": "IteratorGetNext", "name": "next", "inputs": ["iterator"], "attrs": attrs},
        {"op": "Relu", "name": "y", "inputs": ["next"]},
        {"op": "Neg", "name": "z", "inputs": ["next:1"]},
    ]
    rows, labels = ({"nodes": nodes, "fetch": [name]} for name in "yz")
    with pytest.raises(placesim.UsageError, match=r"node next.* is known only at run time"):
        placesim.simulate(rows)
    assumed = placesim.simulate(rows, assume=["next=50"])
    assert "no step initializes the iterator of next: assumed to give elements of the declared shapes" in assumed.assumptions
    assert placesim.memory(rows, assume=["next=50"]).assumptions == assumed.assumptions[-2:]
    with pytest.raises(placesim.PlacesimError, match="the iterator has not been initialized"):
        placesim.run(labels)
