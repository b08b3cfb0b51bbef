"""Large variables are updated part by part: the same values as all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.core.errors import InvalidArgumentError
from placesim.ops.kernels.state import optimizers
from placesim.ops.kernels.state.optimizers import RULES
from placesim.ops.process.intra_op_threads import IntraOpPool
from tests.ops.kernels.kernel_calls import Machine, complete

SHAPE = (37, 11)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", sorted(RULES))
def test_parts_of_a_variable(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers, "PART_BYTES", 64)
    rule, rng = RULES[name], np.random.default_rng(0)
    tensors = {*rule.inputs[: rule.variables], rule.inputs[rule.gradient]}
    values: dict[str, Any] = {key: rng.random(SHAPE, np.float32) if key in tensors else np.float32(0.25) for key in rule.inputs}
    if "global_step" in values:
        values["global_step"] = np.int64(3)
    attrs = complete(f"ResourceApply{name}", {"T": "float32"})
    expected = rule.update(attrs, *map(np.array, values.values()))
    machine = Machine()
    handles = []
    for input_name in rule.inputs[: rule.variables]:
        handle = machine.run("VarHandleOp", node=input_name, dtype="float32", shape=SHAPE, shared_name=input_name)
        machine.run("AssignVariableOp", handle, values[input_name], dtype="float32")
        handles.append(handle)
    with IntraOpPool(threads).serving():
        machine.run(f"ResourceApply{name}", *handles, *list(values.values())[rule.variables :], T="float32")
    for handle, value in zip(handles, expected, strict=True):
        np.testing.assert_array_equal(machine.run("ReadVariableOp", handle, dtype="float32"), value)


SHAPE_MESSAGES = {
    # rule, input: what TensorFlow 2.21 says where that input is [4, 2] and the variables are [3, 2]
    ("Adam", "v"): "var and v do not have the same shape[3,2] [4,2]",
    ("CenteredRMSProp", "mg"): "var and mg do not have the same shape[3,2] [3,2]",
    ("CenteredRMSProp", "ms"): "var and ms do not have the same shape[3,2] [4,2]",
    ("GradientDescent", "delta"): "var and delta do not have the same shape[3,2] [4,2]",
    ("Momentum", "lr"): "lr is not a scalar: [4,2]",
}
"""TensorFlow's kernels take any `accum_update`, `vhat` and `sign_decay`, and read beyond their end."""


@pytest.mark.parametrize(
    ("name", "wrong"), [(name, wrong) for name in sorted(RULES) for wrong in RULES[name].inputs[1:]], ids=lambda part: part
)
def test_an_input_of_another_shape(name: str, wrong: str) -> None:
    rule = RULES[name]
    tensors = {*rule.inputs[: rule.variables], rule.inputs[rule.gradient]}
    values: dict[str, Any] = {key: np.ones((3, 2) if key in tensors else (), np.float32) for key in rule.inputs}
    if "global_step" in values:
        values["global_step"] = np.int64(3)
    values[wrong] = np.ones((4, 2), values[wrong].dtype)
    machine = Machine()
    handles = []
    for key in rule.inputs[: rule.variables]:
        handle = machine.run("VarHandleOp", node=key, dtype="float32", shape=None, shared_name=key)
        machine.run("AssignVariableOp", handle, values[key], dtype="float32")
        handles.append(handle)
    with pytest.raises(InvalidArgumentError) as found:
        machine.run(f"ResourceApply{name}", *handles, *list(values.values())[rule.variables :], T="float32")
    assert found.value.message == SHAPE_MESSAGES.get((name, wrong), found.value.message)
