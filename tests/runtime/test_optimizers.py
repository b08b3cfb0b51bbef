"""Large variables are updated part by part: the same values as all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placesim.runtime.intra_op import IntraOpPool
from placesim.runtime.kernels.state import optimizers
from placesim.runtime.kernels.state.optimizers import RULES
from tests.runtime.kernel_calls import Machine, complete

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
    expected = rule.update(attrs, *values.values())
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
