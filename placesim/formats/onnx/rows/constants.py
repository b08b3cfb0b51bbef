"""Constants, and Identity."""

from __future__ import annotations

import numpy as np

from placesim.core.dtypes import FLOAT, INT64, STRING
from placesim.formats.onnx.onnx_node import OnnxNode, Outputs, Rows, Tensor, UnsupportedNodeError
from placesim.ops.attributes import TensorValue


def constant(node: OnnxNode) -> Tensor:
    """Const."""
    value = node.attr("value")
    if value is not None:
        return node.constant(value, name="Const")
    for name, dtype in (("value_float", FLOAT), ("value_int", INT64), ("value_floats", FLOAT), ("value_ints", INT64)):
        if (found := node.attr(name)) is not None:
            return node.constant(np.asarray(found, dtype.numpy), dtype, name="Const")
    for name in ("value_string", "value_strings"):
        if (found := node.attr(name)) is not None:
            return node.constant(found if isinstance(found, str | bytes) else list(found), STRING, name="Const")
    expected = "'value', 'value_float(s)', 'value_int(s)' or 'value_string(s)'"
    raise UnsupportedNodeError(f"no value of a Constant: expected {expected}")


def constant_of_shape(node: OnnxNode) -> Tensor:
    """Fill with the element of `value`, by default a float 0."""
    value = node.attr("value")
    given = TensorValue(FLOAT, np.zeros((), np.float32)) if value is None else value
    return node.emit("Fill", node[0], node.constant(TensorValue(given.dtype, given.array.reshape(())), name="value"))


def identity(node: OnnxNode) -> Outputs:
    """Identity; no op for a sequence or an optional."""
    value = node.value(0)
    is_tensor = value.type is None or value.type.HasField("tensor_type")
    return node.emit("Identity", node[0]) if is_tensor else value


ROWS: Rows = {
    ("Constant", 1, 9, 11, 12, 13, 19, 21, 23, 24, 25): constant,
    ("ConstantOfShape", 9, 20, 21, 23, 24, 25): constant_of_shape,
    ("Identity", 1, 13, 14, 16, 19, 21, 23, 24, 25): identity,
}
