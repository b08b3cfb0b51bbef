"""Expansion of a variable into the nodes that `tf.compat.v1.get_variable` creates, with initializers (12.1, 12.2).

Both reference and resource variables are supported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from placesim.core.dtypes import BOOL, INT32, STRING, DataType
from placesim.core.errors import GraphBuildError
from placesim.graph.argument_binding import VariableNodes
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.constants import make_constant
from placesim.graph.graph import Node, TensorRef
from placesim.ops.attributes import Shape

DEFAULT_SEED = 87654321
"""Graph seed that TensorFlow uses if only an op's seed is given."""
_CONST_ELEMENTS = 1000
"""Maximum number of elements for which `zeros` and `ones` are a Const; larger tensors are a Fill."""


class InitializerSpec(NamedTuple):
    """An initializer by name, with its settings.

    The names are `zeros`, `ones`, `glorot_uniform`, `constant`, `random_uniform`, `random_normal`, `truncated_normal` and
    `value`. `initial_value` (a constant) and `tensor` (a TensorRef) give the initial value of a `tf.Variable`.
    """

    kind: str
    values: Mapping[str, Any] = {}


VALUE_KINDS = ("value", "initial_value")
"""Initializers given by constant values, which can determine the variable's shape."""
HANDLE_OPS = {"ref": "VariableV2", "resource": "VarHandleOp"}
"""Op that holds a variable, by the variable's kind."""


class Parameter(NamedTuple):
    """A parameter of an initializer, with the name of its constant and its default for floating types."""

    key: str
    constant: str
    default: float


_NORMAL = (Parameter("mean", "mean", 0.0), Parameter("stddev", "stddev", 1.0))
RANDOM_INITIALIZERS = {
    "random_uniform": ("RandomUniform", (Parameter("minval", "min", 0.0), Parameter("maxval", "max", 1.0))),
    "random_normal": ("RandomStandardNormal", _NORMAL),
    "truncated_normal": ("TruncatedNormal", _NORMAL),
}
"""Op of each random initializer, and its parameters."""
INITIALIZER_FIELDS: Mapping[str, tuple[str, ...]] = {
    "glorot_uniform": ("seed",),
    "zeros": (),
    "ones": (),
    **{kind: (*(key for key, _, _ in parameters), "seed") for kind, (_, parameters) in RANDOM_INITIALIZERS.items()},
}


def default_initializer(dtype: DataType) -> InitializerSpec:
    """Return the default initializer of `get_variable`: glorot_uniform for a floating type, else zeros."""
    return InitializerSpec("glorot_uniform" if dtype.is_floating else "zeros")


def add_variable(
    builder: ScopedGraphBuilder,
    name: str,
    shape: Sequence[int] | None,
    dtype: DataType,
    initializer: InitializerSpec | None = None,
    kind: str = "ref",
    location: int = 0,
) -> VariableNodes:
    """Add the nodes of a variable, and return them.

    If `shape` is None, the initial value determines the shape. Raises GraphBuildError.
    """
    initializer = initializer or default_initializer(dtype)
    first = len(builder.graph)
    with builder.control_dependencies(None):
        variable = _add_parts(builder, name, shape, dtype, initializer, kind)
    for node in builder.graph.nodes[first:]:
        node.location = location
    builder.variables[variable.node] = variable
    return variable


def _add_parts(
    builder: ScopedGraphBuilder,
    name: str,
    shape: Sequence[int] | None,
    dtype: DataType,
    initializer: InitializerSpec,
    kind: str,
) -> VariableNodes:
    value: Node | TensorRef | None = None
    is_constant = initializer.kind == "initial_value"
    if initializer.kind in VALUE_KINDS:
        builder.check_scope_name(name)
        tensor = make_constant(initializer.values[initializer.kind], dtype, shape)
        shape = tensor.array.shape
        if not is_constant:
            value = builder.constant(tensor)
    elif shape is None:
        raise GraphBuildError(f"variable '{name}' has no shape: expected 'shape' or an initial value")
    if initializer.kind == "tensor":
        value = initializer.values["tensor"]
    with builder.name_scope(name) as scope, ExitStack() as labelled:
        is_given = value is not None or (is_constant and kind == "ref")
        if kind == "resource" or not is_given:
            labelled.enter_context(builder.class_attr(scope[:-1]))
        if is_constant and kind == "ref":
            value = builder.constant(tensor, name="initial_value")
        elif value is None:
            # the initial value is made before the variable and requests no device (12.1.2)
            with builder.device(None), builder.name_scope("Initializer"):
                if is_constant:
                    value = builder.constant(tensor, name="initial_value")
                else:
                    value = add_initial_value(builder, shape, dtype, initializer)
        attrs = {"dtype": dtype, "shape": Shape(tuple(shape))}
        if kind == "resource":
            debug = {"debug_name": scope} if builder.leaves_marks else {}
            attrs |= {"shared_name": scope[:-1], **debug}
        handle = builder.add(HANDLE_OPS[kind], name=scope, attrs=attrs)
        labelled.close()
        return (_finish_resource if kind == "resource" else _finish_ref)(builder, scope, handle, value, dtype)


def _finish_ref(
    builder: ScopedGraphBuilder, scope: str, variable: Node, value: Node | TensorRef, dtype: DataType
) -> VariableNodes:
    assign = builder.add("Assign", [variable, value], name=scope + "Assign/")
    with builder.colocate_with([variable]):
        read = builder.add("Identity", [variable], name=scope + "read/")
    return VariableNodes(variable.id, read.id, assign.id, "ref", dtype)


def _finish_resource(
    builder: ScopedGraphBuilder, scope: str, handle: Node, value: Node | TensorRef, dtype: DataType
) -> VariableNodes:
    builder.add("VarIsInitializedOp", [handle], name=scope + "IsInitialized/VarIsInitializedOp/")
    with builder.colocate_with((), ignore_existing=True), builder.device(handle.device):
        assign = builder.add("AssignVariableOp", [handle, value], name=scope + "Assign/", attrs={"dtype": dtype})
    with builder.device(handle.device):
        read = builder.add("ReadVariableOp", [handle], name=scope + "Read/ReadVariableOp/", attrs={"dtype": dtype})
    return VariableNodes(handle.id, read.id, assign.id, "resource", dtype)


# --- initial values -------------------------------------------------------------------------------------------------


def add_initial_value(builder: ScopedGraphBuilder, shape: Sequence[int], dtype: DataType, initializer: InitializerSpec) -> Node:
    """Add the nodes of a variable's initial value inside the current scope, and return the last node."""
    kind, values = initializer
    if kind == "constant":
        return builder.constant(values["constant"], dtype, shape)
    if kind in ("zeros", "ones"):
        return _add_filled(builder, kind, shape, dtype)
    if kind == "glorot_uniform":
        _require_floating(dtype)
        limit = glorot_limit(shape)
        return _add_uniform(builder, shape, dtype, {"minval": -limit, "maxval": limit, **values})
    if kind == "random_uniform":
        return _add_uniform(builder, shape, dtype, {"minval": 0 if dtype.is_integer else 0.0, **values})
    _require_floating(dtype)
    return _add_normal(builder, kind, shape, dtype, values)


def _require_floating(dtype: DataType) -> None:
    if not dtype.is_floating:
        raise GraphBuildError(f"Expected floating point type, got <dtype: '{dtype.python_name}'>.")


def fan_in_and_out(shape: Sequence[int]) -> tuple[float, float]:
    """Return the number of inputs and outputs of a unit with weights of this shape.

    For a vector, both numbers are its size. For a kernel, they are its input and output channels, each times the size of its
    window.
    """
    if len(shape) < 2:
        size = float(shape[0]) if shape else 1.0
        return size, size
    receptive = math.prod(shape[:-2])
    return float(shape[-2] * receptive), float(shape[-1] * receptive)


def glorot_limit(shape: Sequence[int]) -> float:
    """Return the bound of Glorot's uniform initializer: sqrt(3 / max(1, (fan_in + fan_out) / 2))."""
    return math.sqrt(3.0 / max(1.0, sum(fan_in_and_out(shape)) / 2.0))


def _add_filled(builder: ScopedGraphBuilder, kind: str, shape: Sequence[int], dtype: DataType) -> Node:
    value = _filling(kind, dtype)
    size = math.prod(shape)
    if size < _CONST_ELEMENTS:
        return builder.constant(value if size else [], dtype, shape, name=kind)
    with builder.name_scope(kind) as scope:
        dims = builder.constant(list(shape), INT32, (len(shape),), name="shape_as_tensor")
        element = builder.constant(value, dtype)
        return builder.add("Fill", [dims, element], name=scope)


def _filling(kind: str, dtype: DataType) -> Any:
    if dtype is STRING:
        if kind == "ones":
            raise GraphBuildError("Expected numeric or boolean dtype, got <dtype: 'string'>.")
        return ""
    return kind == "ones" if dtype is BOOL else int(kind == "ones")


def _add_uniform(builder: ScopedGraphBuilder, shape: Sequence[int], dtype: DataType, values: Mapping[str, Any]) -> Node:
    low, high = values["minval"], values.get("maxval", 1.0 if dtype.is_floating else None)
    if high is None:
        raise GraphBuildError(f"Must specify maxval for integer dtype {dtype.python_name}")
    op, parameters = RANDOM_INITIALIZERS["random_uniform"]
    with builder.name_scope("random_uniform") as scope:
        dims = _add_shape(builder, shape)
        named = zip(parameters, (low, high), strict=True)
        bounds = [builder.constant(value, dtype, name=parameter.constant) for parameter, value in named]
        if dtype.is_integer:
            return builder.add("RandomUniformInt", [dims, *bounds], name=scope, attrs=_seeds(values))
        random = builder.add(op, [dims], name=op, attrs={"dtype": dtype, **_seeds(values)})
        width = builder.add("Sub", [bounds[1], bounds[0]], name="sub")
        scaled = builder.add("Mul", [random, width], name="mul")
        return builder.add("AddV2", [scaled, bounds[0]], name=scope)


def _add_normal(
    builder: ScopedGraphBuilder, kind: str, shape: Sequence[int], dtype: DataType, values: Mapping[str, Any]
) -> Node:
    op, parameters = RANDOM_INITIALIZERS[kind]
    with builder.name_scope(kind) as scope:
        dims = _add_shape(builder, shape)
        mean, deviation = (builder.constant(values.get(key, default), dtype, name=name) for key, name, default in parameters)
        random = builder.add(op, [dims], name=op, attrs={"dtype": dtype, **_seeds(values)})
        scaled = builder.add("Mul", [random, deviation], name="mul")
        return builder.add("AddV2", [scaled, mean], name=scope)


def _add_shape(builder: ScopedGraphBuilder, shape: Sequence[int]) -> Node:
    return builder.constant(list(shape), INT32, (len(shape),), name="shape")


def _seeds(values: Mapping[str, Any]) -> dict[str, int]:
    """Return the seed attrs. The seed is a number for the op, or a pair for the graph and the op."""
    seed = values.get("seed")
    if seed is None:
        return {}
    graph_seed, op_seed = seed if isinstance(seed, list | tuple) else (DEFAULT_SEED, seed)
    return {"seed": graph_seed, "seed2": op_seed}


# --- initializers ---------------------------------------------------------------------------------------------------


def add_global_initializer(builder: ScopedGraphBuilder, name: str = "init", location: int = 0) -> Node:
    """Add a NoOp after the initializers of all variables so far (12.1.3).

    The node is the same as from `tf.compat.v1.global_variables_initializer`.
    """
    by_device: dict[str, list[int]] = {}
    for variable in builder.variables.values():
        by_device.setdefault(builder.graph.nodes[variable.initializer].device, []).append(variable.initializer)
    if not by_device:
        return builder.add("NoOp", name=name, location=location)
    with builder.name_scope(name) as scope:
        if len(by_device) == 1:
            ((device, targets),) = by_device.items()
            return _add_group(builder, device, targets, scope, location)
        # the order of the groups is that of the device names, not of the variables (12.1.3)
        groups = [_add_group(builder, device, targets, None, location) for device, targets in sorted(by_device.items())]
        with builder.control_dependencies(groups):
            return builder.add("NoOp", name=scope, location=location)


def _add_group(builder: ScopedGraphBuilder, device: str, targets: Sequence[int], name: str | None, location: int) -> Node:
    with builder.device(device), builder.control_dependencies(targets):
        return builder.add("NoOp", name=name, location=location)
