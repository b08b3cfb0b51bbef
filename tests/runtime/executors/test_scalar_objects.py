"""Resources and variants in the place of tensors: kernels that only move elements take them as scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import InvalidArgumentError
from placesim.ops.kernels.device_resources import ResourceHandle
from placesim.ops.kernels.lists.growing import GrowingList, popped, pushed

HANDLE = {"op": "VarHandleOp", "name": "v", "attrs": {"dtype": "float", "shape": [2, 3], "shared_name": "v"}}
LIST = {"op": "EmptyTensorList", "name": "l", "inputs": ["m", "m"], "attrs": {"element_dtype": "float", "shape_type": "int32"}}
MINUS = {"op": "Const", "name": "m", "dtype": "int32", "shape": [], "value": -1}
PLACE = "/job:localhost/replica:0/task:0/device:CPU:0"


def run(op: str, inputs: list[str], **attrs: Any) -> Any:
    nodes = [MINUS, HANDLE, LIST, {"op": op, "name": "o", "inputs": inputs, "attrs": attrs}]
    return placesim.run({"raw": True, "nodes": nodes, "run": [{"fetch": ["o:0"]}]}).results[0].array


@pytest.mark.parametrize(("source", "dtype"), [("v", "resource"), ("l", "variant")])
def test_a_scalar_of_any_type_has_a_size_and_a_rank(source: str, dtype: str) -> None:
    assert run("Size", [source], T=dtype) == 1
    assert run("Rank", [source], T=dtype) == 0


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("DepthToSpace", ["v"], {"block_size": 2}, "Input rank should be: 4 instead of: 0"),
        ("Roll", ["v", "m", "m"], {"Tshift": "int32", "Taxis": "int32"}, "input must be 1-D or higher"),
        ("Gather", ["v", "m"], {"Tparams": "resource", "Tindices": "int32"}, "params must be at least 1 dimensional"),
    ],
)
def test_a_resource_of_no_dimensions_is_refused(op: str, inputs: list[str], attrs: dict[str, Any], message: str) -> None:
    kind = {} if "Tparams" in attrs else {"T": "resource"}
    with pytest.raises(InvalidArgumentError, match=message):
        run(op, inputs, **attrs, **kind)


# as TensorFlow 2.21 gives it
def test_a_handle_in_a_text_and_in_a_message() -> None:
    shown = f'name="v", device="{PLACE}", container="localhost", type="tensorflow::Var", dtype and shapes : '
    assert run("StringFormat", ["v"], T=["resource"]) == f'<ResourceHandle({shown}"[ DType enum: 1, Shape: [2,3] ]")>'.encode()
    assert run("StringFormat", ["l"], T=["variant"]) == b"<TensorList>"
    assert run("SerializeTensor", ["v"], T="resource") == (
        b'\x08\x14\x12\x00"ji\n,' + PLACE.encode() + b"\x12\tlocalhost\x1a\x01v \xe5\xf3\xa5\xf0\xaf\xa4\x94\x9e\xf2\x01"
        b"*\x12N10tensorflow3VarE2\x0c\x08\x01\x12\x08\x12\x02\x08\x02\x12\x02\x08\x03"
    )
    with pytest.raises(placesim.PlacesimError, match="cannot serialize variants"):
        run("SerializeTensor", ["l"], T="variant")


def test_the_shape_of_a_handle_is_no_shape_of_a_tensor() -> None:
    assert np.shape(np.asarray(ResourceHandle("d", "c", "n"))) == ()


def test_counting_a_variable_of_another_type() -> None:
    nodes = [
        HANDLE | {"attrs": {"dtype": "string", "shape": []}},
        {"op": "Const", "name": "s", "dtype": "string", "shape": [], "value": "x"},
        {"op": "AssignVariableOp", "name": "a", "inputs": ["v", "s"], "attrs": {"dtype": "string"}},
        {"op": "ResourceCountUpTo", "name": "o", "inputs": ["v", "^a"], "attrs": {"limit": 1, "T": "int64"}},
    ]
    with pytest.raises(InvalidArgumentError, match=r"Trying to count variable with wrong dtype\. Expected int64 got string"):
        placesim.run({"raw": True, "nodes": nodes, "run": [{"fetch": ["o:0"]}]})


def test_sequences_that_share_their_elements_stay_as_they_are() -> None:
    one = pushed((), "a")
    two, other = pushed(one, "b"), pushed(one, "c")
    less = popped(two)
    again = pushed(less, "d")
    assert [list(each) for each in (one, two, other, less, again)] == [["a"], ["a", "b"], ["a", "c"], ["a"], ["a", "d"]]
    assert (two[-1], two[:1], len(other)) == ("b", ("a",), 2)
    assert isinstance(popped(("a", "b")), GrowingList)
    with pytest.raises(IndexError):
        less[1]
