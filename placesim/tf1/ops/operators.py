"""Operators of tensors: `x + y`, `-x`, `x[1:]`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import SymbolicTensor, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops import packing as _packing  # noqa: F401 - registers its conversion
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.ops.op_arguments import graph_of
from placesim.tf1.types import dtypes

Binary = Callable[[Any, Any, str], Any]


def _op(op: str) -> Binary:
    return lambda x, y, name: gen(op)(x, y, name=name)


def _lazily(module: str, function: str) -> Binary:
    def call(x: TensorLike, y: TensorLike, name: str) -> Any:
        from importlib import import_module

        return getattr(import_module("placesim.tf1." + module), function)(x, y, name=name)

    return call


_BINARY: dict[str, Binary] = {
    "add": _lazily("math.elementwise", "_sum"),
    "sub": _op("Sub"),
    "mul": _lazily("math.elementwise", "_product"),
    "truediv": _lazily("math.elementwise", "_true_quotient"),
    "div": _lazily("math.elementwise", "_quotient_by_type"),
    "floordiv": _op("FloorDiv"),
    "mod": _op("FloorMod"),
    "pow": _op("Pow"),
    "matmul": _lazily("math.products", "matmul"),
    "and": _lazily("math.elementwise", "_and"),
    "or": _lazily("math.elementwise", "_or"),
    "xor": _lazily("math.elementwise", "_xor"),
}
"""Python's name of an operator, which is also its name scope -> function of two tensors and the scope."""
_UNSCOPED = {"lt": "Less", "le": "LessEqual", "gt": "Greater", "ge": "GreaterEqual", "neg": "Neg", "abs": "Abs"}
"""Op of each operator that opens no name scope."""


def binary_operator(scope_name: str, make: Binary) -> Callable[[Any, Any], Any]:
    """Make the method for `x OP y` of a tensor x; if it fails, y's own reversed operator is tried."""
    reverse = f"__r{scope_name}__"

    def operate(x: TensorLike, y: TensorLike) -> Any:
        graph = x.graph if x.__class__ is SymbolicTensor else get_default_graph()
        with _in_graph(graph, x, y), get_default_graph().name_scope(scope_name) as scope:
            if x.__class__ is not SymbolicTensor:
                x = convert_to_tensor(x)
            try:
                return make(x, y, scope)
            except (TypeError, ValueError):
                if isinstance(y, Tensor) or not hasattr(type(y), reverse):
                    raise
                found = _reversed(y, reverse, x)
                if found is NotImplemented:
                    raise
                return found

    return operate


def _reversed(y: TensorLike, reverse: str, x: Tensor) -> Any:
    """Result of y's reversed operator; NotImplemented if it also fails."""
    try:
        return getattr(y, reverse)(x)
    except (TypeError, ValueError):
        return NotImplemented


def reversed_operator(scope_name: str, make: Binary) -> Callable[[Any, Any], Any]:
    """Make the method for `x OP y` of a tensor y and another value x, which is converted to y's type."""

    def operate(y: Any, x: Any) -> Any:
        with _in_graph(y.graph, x, y), get_default_graph().name_scope(scope_name) as scope:
            x = convert_to_tensor(x, y.dtype.base_dtype, "x")
            return make(x, y, scope)

    return operate


def _in_graph(graph: object, x: TensorLike, y: TensorLike) -> Any:
    return nullcontext() if graph is get_default_graph() else graph_of((x, y)).as_default()


def _unscoped_operator(op: str) -> Callable[..., Any]:
    return lambda *operands: gen(op)(*operands)


def _getitem(x: Tensor, key: object) -> Any:
    from placesim.tf1.array.slicing import slice_tensor

    return slice_tensor(x, key)


def _invert(x: Tensor) -> Any:
    return gen("LogicalNot" if x.dtype.base_dtype is dtypes.bool_ else "Invert")(x)


def operator_table() -> dict[str, Callable[..., Any]]:
    """All operators by method name; variables use them too."""
    table: dict[str, Callable[..., Any]] = {}
    for method, make in _BINARY.items():
        table[f"__{method}__"] = binary_operator(method, make)
        table[f"__r{method}__"] = reversed_operator(method, make)
    table |= {f"__{method}__": _unscoped_operator(op) for method, op in _UNSCOPED.items()}
    table["__invert__"] = _invert
    table["__getitem__"] = _getitem
    return table


for _method, _operate in operator_table().items():
    _operate.__name__ = _method
    setattr(Tensor, _method, _operate)
Tensor.OVERLOADABLE_OPERATORS = set(operator_table())
