"""Handles of one kind of resource given to ops of another: TensorFlow's words, whatever the kinds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import placesim
from placesim.core.errors import FailedPreconditionError, InternalError, InvalidArgumentError, NotFoundError, PlacesimError
from placesim.ops.kernels.device_resources import spell_type
from tests.ops.kernels.kernel_calls import Machine

MAKERS: dict[str, dict[str, Any]] = {
    "VarHandleOp": {"dtype": "float", "shape": ()},
    "FIFOQueueV2": {"component_types": ["float"]},
    "WholeFileReaderV2": {},
    "MutableHashTableV2": {"key_dtype": "string", "value_dtype": "int64"},
    "IteratorV2": {"shared_name": "i", "container": "", "output_types": ["float"], "output_shapes": [()]},
}
USERS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "VariableShape": ("VarHandleOp", (), {}),
    "AssignVariableOp": ("VarHandleOp", (np.float32(1),), {"dtype": "float"}),
    "ResourceScatterAdd": (
        "VarHandleOp",
        (np.array([0], np.int32), np.array([1], np.float32)),
        {"dtype": "float", "Tindices": "int32"},
    ),
    "QueueSizeV2": ("FIFOQueueV2", (), {}),
    "QueueEnqueueV2": ("FIFOQueueV2", (np.float32(1),), {"Tcomponents": ["float"]}),
    "QueueDequeueManyV2": ("FIFOQueueV2", (np.int32(1),), {"component_types": ["float"]}),
    "QueueCloseV2": ("FIFOQueueV2", (), {}),
    "ReaderNumRecordsProducedV2": ("WholeFileReaderV2", (), {}),
    "LookupTableSizeV2": ("MutableHashTableV2", (), {}),
    "LookupTableExportV2": ("MutableHashTableV2", (), {"Tkeys": "string", "Tvalues": "int64"}),
    "IteratorGetNext": ("IteratorV2", (), {"output_types": ["float"], "output_shapes": [()]}),
    "StackCloseV2": ("StackV2", (), {}),
    "TensorArrayCloseV3": ("TensorArrayV3", (), {}),
}


@pytest.mark.parametrize(("maker", "user"), [(made, used) for used in USERS for made in MAKERS if USERS[used][0] != made])
def test_a_handle_of_another_kind_is_refused(maker: str, user: str) -> None:
    _, inputs, attrs = USERS[user]
    machine = Machine()
    handle = machine.run(maker, node="r", **MAKERS[maker])
    with pytest.raises(InvalidArgumentError, match=r"^Trying to access a handle's resource using the wrong type"):
        machine.run(user, handle, *inputs, **attrs)


def test_the_message_names_both_types() -> None:
    machine = Machine()
    reader = machine.run("WholeFileReaderV2", node="r")
    wrong = (
        "Trying to access a handle's resource using the wrong type. The handle points to a resource (name '_0_r') of type "
        "'tensorflow::ReaderInterface' (hash code 13438509206727821711) but you are trying to access the resource as type "
        "'tensorflow::Var' (hash code 17454915466513971685)"
    )
    with pytest.raises(FailedPreconditionError) as read:
        machine.run("ReadVariableOp", reader, dtype="float")
    assert read.value.message.endswith(f"container=localhost, status error message={wrong}")
    with pytest.raises(InternalError, match=r"^Invalid variable reference"):
        machine.run("ResourceApplyGradientDescent", reader, np.float32(1), np.float32(1), T="float")
    assert not machine.run("VarIsInitializedOp", reader)
    assert spell_type("N10tensorflow6lookup15LookupInterfaceE") == "tensorflow::lookup::LookupInterface"


def test_the_older_form_of_a_handle_tells_no_kind() -> None:
    machine = Machine()
    with pytest.raises(NotFoundError):
        machine.run("QueueSize", machine.run("WholeFileReader", node="r"))


@pytest.mark.parametrize(
    ("attrs", "counts"),
    [
        ({"N": 1, "dtypes": [], "shapes": []}, "dtypes (n=1, num dtypes=0)"),
        ({"N": 1, "dtypes": ["float"], "shapes": []}, "shapes (n=1, num shapes=0)"),
        ({"N": 1, "dtypes": ["float"], "shapes": [[]], "shared_names": []}, "shared_names (n=1, num shared_names=0)"),
    ],
)
def test_handles_of_several_variables_want_an_attr_for_each(attrs: dict[str, Any], counts: str) -> None:
    node = {"op": "_VarHandlesOp", "name": "h", "attrs": {"containers": [""], "shared_names": ["v"], **attrs}}
    with pytest.raises(PlacesimError, match=f"^Mismatched number of {re.escape(counts)}"):
        placesim.run({"raw": True, "nodes": [node]})
