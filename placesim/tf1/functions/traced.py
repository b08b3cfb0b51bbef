"""`tf.function`: a Python function, traced to one library function for each kind of arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from placesim.ops.attributes import FunctionName
from placesim.ops.kernels.shapes import Dims
from placesim.runtime.shapes.graph_shapes import GraphShapes
from placesim.tf1.control_flow.tensor_arrays import TensorArray
from placesim.tf1.functions.branches import packed_results
from placesim.tf1.functions.building import build, function_name
from placesim.tf1.functions.calls import call, resources_only_read
from placesim.tf1.functions.definitions import add_function
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.gradients.rules.calls import call_gradient
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, OwningGraph, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.types import nest
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.types.type_specs import TensorSpec

CONFIG = b"\n\x07\n\x03CPU\x10\x01\n\x07\n\x03GPU\x10\x002\x02J\x008\x01\x82\x01\x00\x92\x01\x02J\x00"
"""The ConfigProto that TensorFlow 2.21 writes into each call: one CPU and no GPU, as on the machine of the recordings."""


class ConcreteFunction:
    """A traced function body, which can be called."""

    def __init__(self, body: FunctionGraph) -> None:
        self.graph = body
        self.attrs: dict[str, Any] = {}

    @property
    def name(self) -> bytes:
        return self.graph.name.encode()

    @property
    def inputs(self) -> list[Tensor]:
        return list(self.graph.inputs)

    @property
    def outputs(self) -> list[Tensor]:
        return list(self.graph.outputs)

    captured_inputs: list[Tensor] = read_only("graph.external_captures")
    structured_outputs = read_only("graph.structured_outputs")

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the function with tensors, which may be nested or given by name."""
        given = nest.flatten([list(args), kwargs])
        count = len(self.graph.inputs) - len(self.graph.captures)
        tensors = [convert_to_tensor(value, name="args") for value in given if not _is_python(value)]
        return self.result(self.operation(tensors[:count]))

    def result(self, op: Operation) -> Any:
        """Result of the Python function, from a call's outputs."""
        if self.graph.structured_outputs is None:
            return None if self.graph.outputs == [] else op
        return packed_results(self.graph, op.outputs)

    def operation(self, tensors: Sequence[Tensor], captures: Sequence[Tensor] | None = None) -> Operation:
        """Make a call: `tensors` for the declared arguments, `captures` (default: the outer tensors) for the captured ones."""
        graph = get_default_graph()
        body = self.graph
        name = add_function(graph, body, self.attrs)
        stateful = any(op._is_stateful for op in body._operations)
        inputs = [*tensors, *(body.external_captures if captures is None else captures)]
        attrs: dict[str, Any] = {
            "Tin": tuple(tensor.element for tensor in inputs),
            "Tout": tuple(tensor.element for tensor in body.outputs),
            "f": FunctionName(name),
            "config": "",
            "config_proto": CONFIG,
            "executor_type": "",
            "_collective_manager_ids": (),
            "_read_only_resource_inputs": tuple(resources_only_read([body])),
        }
        with graph.control_dependencies(list(body.control_captures)):
            op = call(graph, "StatefulPartitionedCall" if stateful else "PartitionedCall", inputs, attrs, None)
        settle_shapes(op, body)
        op._gradient_function = functools.partial(call_gradient, self)
        return op


def settle_shapes(op: Operation, body: FunctionGraph) -> None:
    """Set the static shapes of a call's outputs: the body's, refined by the shapes and constant values of the arguments."""
    graph, given = op.graph, op.inputs
    shapes = [tensor.sizes for tensor in body.outputs]
    values = [graph.shapes.value(tensor.node_ref) for tensor in given]
    has_values = any(value is not None for value in values) and any(shape is None or -1 in shape for shape in shapes)
    if has_values or [tensor.sizes for tensor in body.inputs] != [tensor.sizes for tensor in given]:
        inferred = _inferred(graph, body, [tensor.sizes for tensor in given], values)
        shapes = [
            found if found is not None and (shape is None or -1 in shape) else shape
            for shape, found in zip(shapes, inferred, strict=True)
        ]
    for slot, (shape, output) in enumerate(zip(shapes, body.outputs, strict=True)):
        graph.shapes.settle(op.node.id, shape, slot)
        graph.shapes.hold(op.outputs[slot].node_ref, body.shapes.handle(output.node_ref))


def _inferred(graph: OwningGraph, body: FunctionGraph, given: Sequence[Dims], values: Sequence[Any]) -> list[Dims]:
    from placesim.graph.functions import instantiate

    made = instantiate(graph.builder.graph, graph.functions[body.name], {})
    shapes = GraphShapes(made.graph, given, values)
    return [shapes.outputs(made.graph.nodes[i].input_nodes[0])[made.graph.nodes[i].input_slots[0]] for i in made.results]


# --- tf.function ----------------------------------------------------------------------------------------------------


class Function:
    """A Python function that is traced to a ConcreteFunction for each kind of arguments."""

    def __init__(
        self,
        python_function: Callable[..., Any],
        input_signature: Any = None,
        name: str | None = None,
        implements: str | None = None,
    ) -> None:
        self.python_function = python_function
        self.input_signature, self._implements = input_signature, implements
        self._name: str = name or str(getattr(python_function, "__name__", type(python_function).__name__))
        self._traces: dict[Hashable, ConcreteFunction] = {}
        functools.update_wrapper(self, python_function)

    def __get__(self, instance: object, owner: type | None) -> Any:
        """The function bound to an object, with separate traces."""
        if instance is None:
            return self
        python_function = self.python_function.__get__(instance, owner)
        bound = Function(python_function, self.input_signature, self._name, self._implements)
        attribute = getattr(self.python_function, "__name__", "")
        if hasattr(instance, "__dict__") and attribute:
            instance.__dict__[attribute] = bound
        return bound

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the function traced for arguments of this kind."""
        bound = self._bound(args, kwargs)
        leaves = self._leaves(bound)
        concrete = self._concrete(bound, leaves)
        return concrete.result(concrete.operation([leaf for leaf in leaves if isinstance(leaf, Tensor)]))

    def get_concrete_function(self, *args: object, **kwargs: object) -> ConcreteFunction:
        """The function traced for arguments of these types: TensorSpecs or values."""
        bound = self._bound(args, kwargs)
        return self._concrete(bound, self._leaves(bound))

    def _leaves(self, bound: dict[str, Any]) -> list[Any]:
        """Flat arguments in the order of the parameters, with tensor-likes converted to tensors."""
        leaves = nest.flatten(list(bound.values()))
        if self._implements is not None:
            return [convert_to_tensor(leaf) for leaf in leaves]
        wanted = [] if self.input_signature is None else nest.flatten(list(self.input_signature))
        wanted += [None] * (len(leaves) - len(wanted))
        return [
            _as_argument(leaf) if spec is None or isinstance(leaf, Tensor | TensorSpec) else convert_to_tensor(leaf, spec.dtype)
            for leaf, spec in zip(leaves, wanted, strict=True)
        ]

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, with defaults for absent ones."""
        if self.input_signature is not None and not args and not kwargs:
            args = tuple(self.input_signature)
        try:
            bound = inspect.signature(self.python_function).bind(*args, **kwargs)
        except TypeError as error:
            raise self._misbound(str(error), args, kwargs) from None
        bound.apply_defaults()
        return bound.arguments

    def _misbound(self, why: str, args: Any, kwargs: Any) -> TypeError:
        signature = inspect.signature(self.python_function)
        shown = str(signature)
        if self.input_signature is not None:
            pairs = zip(signature.parameters, self.input_signature, strict=False)
            shown = f"({', '.join(f'{name}: {spec!r}' for name, spec in pairs)})"
        return TypeError(
            f"Binding inputs to tf.function failed due to `{why}`. Received args: {tuple(args)} and kwargs: {dict(kwargs)} "
            f"for signature: {shown}."
        )

    def _concrete(self, bound: dict[str, Any], leaves: Sequence[Any]) -> ConcreteFunction:
        specs = self._specs(leaves, tuple(bound.values()))
        outermost = get_default_graph()
        while isinstance(outermost, FunctionGraph):
            outermost = outermost.outer_graph
        key = (outermost, repr(nest.map_structure(lambda _: 0, bound)), tuple(_key(spec) for spec in specs))
        found = self._traces.get(key)
        if found is None:
            found = self._traces[key] = self._traced(bound, specs)
        return found

    def _specs(self, leaves: Sequence[Any], args: object) -> list[Any]:
        if self.input_signature is None:
            return [TensorSpec(leaf.shape, leaf.dtype.base_dtype) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        wanted = iter(nest.flatten(list(self.input_signature)))
        found: list[Any] = []
        for leaf in leaves:
            spec = next(wanted, None)
            if spec is None:
                found.append(leaf)
                continue
            if isinstance(leaf, Tensor) and not (spec.dtype is leaf.dtype and spec.shape.is_compatible_with(leaf.shape)):
                got = TensorSpec(leaf.shape, leaf.dtype, spec.name)
                raise self._misbound(f"Can not cast {got!r} to {spec!r}", args, {})
            found.append(spec)
        return found

    def _traced(self, bound: dict[str, Any], specs: Sequence[Any]) -> ConcreteFunction:
        body = FunctionGraph(self._name, keeps_devices=False)
        body.reads_python = True
        names = [name for parameter, value in bound.items() for name in _leaf_names(value, parameter)]
        arguments = [
            body.add_argument(spec.dtype, TensorShape(spec.shape), name) if isinstance(spec, TensorSpec) else spec
            for spec, name in zip(specs, names, strict=True)
        ]
        packed = nest.pack_sequence_as(list(bound.values()), arguments)
        given = inspect.BoundArguments(inspect.signature(self.python_function), dict(zip(bound, packed, strict=True)))

        def trace() -> Any:
            result = self.python_function(*given.args, **given.kwargs)
            for leaf in nest.flatten(result):
                if isinstance(leaf, Operation):
                    raise TypeError(
                        "To be compatible with tf.function, Python functions must return zero or more Tensors or "
                        f"ExtensionTypes or None values; in compilation of {self.python_function!s}, found return value of "
                        "type Operation, which is not a Tensor or ExtensionType."
                    )
            return result

        build(body, trace, orders_effects=True)
        body.name = function_name((f"__inference_{self._name}",))
        concrete = ConcreteFunction(body)
        if self._implements is not None:
            concrete.attrs["_implements"] = self._implements
        return concrete


def _as_argument(value: TensorLike) -> Any:
    """Convert arrays to tensors; other arguments stay."""
    is_array = isinstance(value, np.ndarray | np.generic) and not _is_python(value)
    return convert_to_tensor(value) if is_array else value


def _is_python(value: TensorLike) -> bool:
    return value is None or isinstance(value, bool | int | float | complex | str | bytes | TensorArray) or callable(value)


def _key(spec: object) -> Hashable:
    if isinstance(spec, TensorSpec):
        sizes = TensorShape(spec.shape).sizes
        return ("tensor", spec.dtype.name, sizes)
    try:
        hash(spec)
    except TypeError:
        return ("object", id(spec))
    return (type(spec), spec)


def _leaf_names(value: Any, name: str) -> Iterator[str]:
    """Argument name of each leaf: the parameter, and the keys of dictionaries in it, joined by underscores."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _leaf_names(value[key], f"{name}_{key}")
    elif nest.is_nested(value):
        for item in value:
            yield from _leaf_names(item, name)
    else:
        yield name


def function(
    func: Callable[..., Any] | None = None,
    input_signature: object = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: object = None,
    experimental_attributes: object = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Any:
    """`tf.function`: a decorator, with or without arguments.  Python's `if` and `while` of tensors are refused."""
    from placesim.tf1.importing.missing_names import not_there

    refused = {
        "jit_compile": jit_compile or experimental_compile,
        "experimental_implements": experimental_implements,
        "experimental_attributes": experimental_attributes,
    }
    for word, value in refused.items():
        if value:
            raise not_there(f"function({word}=...)", f"without {word} it is")

    def decorate(given: Callable[..., Any]) -> Function:
        return Function(given, input_signature)

    return decorate if func is None else decorate(func)
