"""`function.Defun`: TensorFlow's older library functions, whose calls are ops of the function's name."""

from __future__ import annotations

import base64
import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from placesim.formats.tensorflow.function_def import write_function
from placesim.formats.tensorflow.node_def import NodeWriter
from placesim.graph.graph import LibraryFunction
from placesim.tf1.functions.definitions import define
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.ops.arguments import as_list
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.op_arguments import graph_of
from placesim.tf1.types import dtypes

_CALL_ATTRS = {"_disable_call_shape_inference": True}


class _DefunGraph(FunctionGraph):
    """A body with version 1 control flow."""

    control_flow_is_version_2 = False

    def __init__(self, name: str) -> None:
        super().__init__(name, keeps_devices=False)

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        return super().capture(tensor, name or "Placeholder")


class DefinedFunction:
    """A Python function with fixed argument types; its body is made on first use."""

    def __init__(
        self,
        function: Callable[..., Any],
        types: Sequence[Any],
        func_name: str | None,
        grad_func: Any,
        python_grad_func: Any,
        out_names: Sequence[str] | None,
        shape_func: Any,
        attrs: dict[str, Any],
    ) -> None:
        self._function = function
        self._types = [dtypes.as_dtype(each) for each in types]
        self._func_name = func_name
        self._grad_func = grad_func
        self._python_grad_func = python_grad_func
        self._out_names = list(out_names or ())
        self._shape_func = shape_func
        self._attrs = attrs
        self._body: FunctionGraph | None = None
        self._defined: LibraryFunction | None = None

    @property
    def name(self) -> str:
        """Name in the library, with a hash of the body if none was given."""
        return self._made()[1].name

    @property
    def declared_input_types(self) -> tuple[dtypes.DType, ...]:
        return tuple(self._types)

    @property
    def captured_inputs(self) -> list[Tensor]:
        """Tensors of outer graphs that the function reads."""
        return self._made()[0].external_captures

    @property
    def stateful_ops(self) -> list[tuple[str, str]]:
        """Names and types of the function's stateful ops."""
        return [(op.name, op.type) for op in self._made()[0]._operations if op._is_stateful]

    def _made(self) -> tuple[FunctionGraph, LibraryFunction]:
        if self._body is None or self._defined is None:
            plain = self._func_name or getattr(self._function, "__name__", "lambda").replace("<lambda>", "lambda")
            self._body = body = _DefunGraph(plain)
            with body.as_default():
                names = _argument_names(self._function, len(self._types))
                arguments = [body.add_argument(dtype, None, name) for dtype, name in zip(self._types, names, strict=True)]
                result = self._function(*arguments)
                given = [] if result is None or isinstance(result, Operation) else as_list(result)
                body.outputs = [body.capture(convert_to_tensor(value)) for value in given]
            defined = define(body, _CALL_ATTRS | {f"_{key}": value for key, value in self._attrs.items()}, self._out_names)
            attrs = {key: value for key, value in defined.attrs.items() if key != "_construction_context"}
            defined = replace(defined, attrs=attrs)
            if self._func_name is None:
                defined = replace(defined, name=f"{plain}_{_hash(defined)}")
            body.name = defined.name
            self._defined = defined
        return self._body, self._defined

    def add_to_graph(self, graph: Graph) -> None:
        """Add the function, the functions that it calls, and its gradient function to a graph's library."""
        body, defined = self._made()
        for name, function in (*body.functions.items(), (defined.name, defined)):
            graph.functions.setdefault(name, function)
        if isinstance(self._grad_func, DefinedFunction):
            self._grad_func.add_to_graph(graph)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Outputs of a call: a tensor, a tuple, or the op if there are none."""
        name = kwargs.pop("name", None)
        if kwargs:
            raise ValueError(f"Unknown keyword arguments: {kwargs.keys()}.")
        unknown = {key: value for key, value in self._attrs.items() if key not in _KNOWN_ATTRS}
        if unknown:
            raise ValueError(f"Unknown keyword arguments: {unknown.keys()}.")
        body, defined = self._made()
        if len(args) != len(self._types):
            raise ValueError(f"Expected number of arguments: {len(self._types)}, received: {len(args)}")
        graph: Any = get_default_graph()
        self.add_to_graph(graph)
        captured = body.external_captures
        if isinstance(graph, FunctionGraph):
            captured = list(map(graph.capture, captured))  # outside of the call's name scope
        with name_scope(name or defined.name) as scope:
            tensors = [convert_to_tensor(arg, dtype) for arg, dtype in zip(args, self._types, strict=True)]
            inputs = [*tensors, *captured]
            graph_of(inputs)
            op = graph.make(defined.name, graph.claim_name(defined.name, scope), inputs, dict(_CALL_ATTRS))
        if self._python_grad_func is not None:
            op._gradient_function = self._python_grad_func
        if self._shape_func is not None:
            for tensor, shape in zip(op.outputs, self._shape_func(op), strict=True):
                tensor.set_shape(shape)
        if not op.outputs:
            return op
        return op.outputs[0] if len(op.outputs) == 1 else tuple(op.outputs)


def _argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """The parameters' names; the arguments of `*args` are numbered from the function's first argument on."""
    parameters = inspect.signature(function).parameters.values()
    names = [one.name for one in parameters if one.kind is not one.VAR_POSITIONAL]
    return [names[i] if i < len(names) else f"arg{i}" for i in range(count)]


def _hash(function: LibraryFunction) -> str:
    """Hash of a FunctionDef, as eleven letters.  TensorFlow has another hash, so names with a hash differ from its names."""
    digest = hashlib.sha256(write_function(function, NodeWriter())).digest()
    return base64.b64encode(digest[:8], b"aA").decode().rstrip("=")


_KNOWN_ATTRS = frozenset(["noinline", "compiled", "separate_compiled_gradients"])
_OPTIONS = ("func_name", "grad_func", "python_grad_func", "out_names", "shape_func")


class _OverloadedFunction:
    """A Python function without declared argument types: a DefinedFunction for each list of types."""

    def __init__(self, function: Callable[..., Any], define_for: Callable[[Sequence[Any]], DefinedFunction]) -> None:
        self._define_for = define_for
        self._by_types: dict[tuple[dtypes.DType, ...], DefinedFunction] = {}
        self.__name__ = getattr(function, "__name__", "lambda")

    def instantiate(self, input_types: Sequence[Any]) -> DefinedFunction:
        """The function for these types."""
        types = tuple(dtypes.as_dtype(each).base_dtype for each in input_types)
        if types not in self._by_types:
            self._by_types[types] = self._define_for(types)
        return self._by_types[types]

    def __call__(self, *args: Any, **kwargs: object) -> Any:
        """Call the function for the arguments' types."""
        tensors = [convert_to_tensor(arg) for arg in args]
        return self.instantiate([tensor.dtype for tensor in tensors])(*tensors, **kwargs)


class Defun:
    """The decorator: `Defun(*types, func_name=..., grad_func=..., python_grad_func=..., out_names=..., shape_func=...)`."""

    def __init__(self, *input_types: DTypeLike, **kwargs: Any) -> None:
        self._types = input_types
        options = {name: kwargs.pop(name, None) for name in _OPTIONS}
        self._define: Callable[..., DefinedFunction] = partial(DefinedFunction, **options, attrs=kwargs)

    def __call__(self, function: Callable[..., Any]) -> DefinedFunction | _OverloadedFunction:
        """Wrap the function; without types, it accepts any.  Raises ValueError for a wrong number of parameters."""
        if not callable(function):
            raise ValueError(f"function {function} must be callable.")
        parameters = inspect.signature(function).parameters.values()
        positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        least = sum(one.default is one.empty for one in positional)
        most: float = math.inf if any(one.kind is one.VAR_POSITIONAL for one in parameters) else len(positional)
        if not self._types and most > 0:
            return _OverloadedFunction(function, partial(self._define, function))
        if not least <= len(self._types) <= most:
            raise ValueError(
                "The number of tf.function input types is not compatible with the allowed arguments of "
                f"{function}. The tf.function have {len(self._types)} input types, while the python function allows minimum "
                f"{least} and maximum {most} arguments."
            )
        return self._define(function, self._types)
