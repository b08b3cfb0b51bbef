"""One function per registered op, made from its definition on first use, like TensorFlow's generated wrappers."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import Any

from placesim.ops.attributes import Attrs, Shape
from placesim.ops.definitions import OpDef
from placesim.ops.registry import load_registry
from placesim.tf1.graphs.tensor import Operation
from placesim.tf1.ops.attr_values import held_value
from placesim.tf1.ops.op_arguments import apply_op
from placesim.tf1.ops.signatures import Parameters, parameter_names

Wrapper = Callable[..., Any]


@cache
def gen(op: str) -> Wrapper:
    """The function of an op.  Its parameters are the op's inputs and attrs in TensorFlow's order, and `name`.

    The function returns an Operation for an op without outputs, a Tensor or a list for one output, else a named tuple.
    Raises KeyError for an unknown op.
    """
    definition = load_registry().op(op)
    if definition is None:
        raise KeyError(op)
    return _wrapper(definition)


def _wrapper(definition: OpDef) -> Wrapper:
    parameters = parameter_names(definition)
    order, defaults = parameters.order, parameters.defaults
    count = len(parameters.inputs)
    is_plain = not defaults and len(order) == count
    gather = _gatherer(definition)
    op = definition.name

    def call(*args: Any, **kwargs: Any) -> Any:
        name = kwargs.pop("name", None)
        if is_plain and len(args) == count and not kwargs:
            return gather(apply_op(definition, args, None, name))
        if len(args) == len(order) + 1:
            args, name = args[:-1], args[-1]
        values = _bind(parameters, args, kwargs)
        attrs: dict[str, Any] = {}
        for attr, key in parameters.attrs:
            value = values.get(key)
            if value is not None:
                attrs[attr] = held_value(definition.attrs[attr], value, op)
            elif key not in defaults and definition.attrs[attr].type == "shape":
                attrs[attr] = Shape(None)
        return gather(apply_op(definition, [values[key] for key in parameters.inputs], attrs, name))

    call.__name__ = call.__qualname__ = parameters.function
    call.__signature__ = _signature(parameters)  # type: ignore[attr-defined]
    call.op = op  # type: ignore[attr-defined]
    return call


def _bind(parameters: Parameters, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Values by parameter, without those left to their defaults.  Raises TypeError for a wrong call, as Python does."""
    function, order = parameters.function, parameters.order
    if len(args) > len(order):
        taken = f"{len(parameters.inputs)} to {len(order) + 1}"
        raise TypeError(f"{function}() takes from {taken} positional arguments but {len(args)} were given")
    values = dict(zip(order, args, strict=False))
    for key, value in kwargs.items():
        if key in values:
            raise TypeError(f"{function}() got multiple values for argument '{key}'")
        if key not in order:
            raise TypeError(f"{function}() got an unexpected keyword argument '{key}'")
        values[key] = value
    missing = [key for key in order if key not in values and key not in parameters.defaults]
    if missing:
        names = ", ".join(map(repr, missing))
        plural = "s" if len(missing) > 1 else ""
        raise TypeError(f"{function}() missing {len(missing)} required positional argument{plural}: {names}")
    return values


def _signature(parameters: Parameters) -> Signature:
    optional = {*parameters.defaults, "name"}
    return Signature(
        [
            Parameter(
                name + "_" * iskeyword(name),
                Parameter.POSITIONAL_OR_KEYWORD,
                default=None if name in optional else Parameter.empty,
            )
            for name in (*parameters.order, "name")
        ]
    )


def _gatherer(definition: OpDef) -> Callable[[Operation], Any]:
    """Function that gathers an op's outputs: none -> the op, one -> a tensor or a list, more -> a named tuple."""
    outputs = definition.outputs
    if not outputs:
        return lambda operation: operation
    plain = [arg.number_attr is None and arg.type_list_attr is None for arg in outputs]
    if len(outputs) == 1:
        if plain[0]:
            return lambda operation: operation.outputs[0]
        return lambda operation: list(operation.outputs) if operation.outputs else operation
    kind: Any = namedtuple(definition.name, [arg.name for arg in outputs])  # type: ignore[misc]
    if all(plain):
        return lambda operation: kind._make(operation.outputs)

    def gather(operation: Operation) -> Any:
        attrs: Attrs = operation.graph.builder.graph.full_attrs(operation.node)
        rest = list(operation.outputs)
        parts: list[Any] = []
        for arg, is_plain in zip(outputs, plain, strict=True):
            length = len(arg.dtypes(attrs))
            parts.append(rest[0] if is_plain else rest[:length])
            rest = rest[length:]
        return kind._make(parts)

    return gather
