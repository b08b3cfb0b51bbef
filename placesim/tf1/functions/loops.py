"""Loops as functions: `While` of version 2 control flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.ops.attributes import FunctionName, Shape
from placesim.tf1.control_flow.tensor_arrays import TensorArray, pack_with_flows
from placesim.tf1.functions.branches import as_predicate
from placesim.tf1.functions.building import build, function_name
from placesim.tf1.functions.calls import call, resources_only_read
from placesim.tf1.functions.definitions import add_function
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices, SparseTensor
from placesim.tf1.types import dtypes, nest
from placesim.tf1.types.shapes import TensorShape, as_shape


class TurnGraph(FunctionGraph):
    """The graph of a loop's body."""

    is_turn = True


COUNTERS = 2
"""Number of loop variables in front of the script's variables: the count of past iterations, and its maximum."""


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: object,
    shape_invariants: object,
    parallel_iterations: int,
    maximum_iterations: TensorLike | None,
    name: str | None,
    return_same_structure: bool,
) -> Any:
    """`tf.while_loop` of version 2.  Raises TypeError and ValueError in TensorFlow's words."""
    given, loop_vars = loop_vars, nest.map_structure(_as_variable, loop_vars)
    variables = _flat(loop_vars)
    shapes = _invariants(loop_vars, shape_invariants)
    with name_scope(name or "while") as scope:
        cond_name, body_name = (function_name((scope, word)) for word in ("cond", "body"))
        cond_body = FunctionGraph(cond_name, shares_collections=True)
        maximum = convert_to_tensor(
            -1 if maximum_iterations is None else maximum_iterations, dtypes.int32, name="maximum_iterations"
        )
        counters = [constant(0, maximum.dtype, name="loop_counter"), maximum]

        def goes_on() -> Any:
            done, most, *rest = _arguments(cond_body, counters, variables, shapes)
            pred = cond(*pack_with_flows(loop_vars, rest))
            pred = as_predicate(pred) if isinstance(pred, Tensor) else pred
            return pred if maximum_iterations is None else gen("LogicalAnd")(done < most, pred)

        build(cond_body, goes_on)
        body_body = TurnGraph(body_name, shares_collections=True)

        def turn() -> Any:
            done, most, *rest = _arguments(body_body, counters, variables, shapes)
            for tensor in cond_body.captures:
                body_body.capture(tensor)
            result = body(*pack_with_flows(loop_vars, rest))
            if not nest.is_nested(result):
                result = [result]
            nest.assert_same_structure(result, given, check_types=False)
            result = nest.map_structure(_as_variable, result)
            return [done + 1, most, *_flat(result)]

        build(body_body, turn)
        _check_turn(variables, shapes, body_body.outputs[COUNTERS:])
        inputs = [*counters, *variables]
        share_captures(cond_body, body_body, inputs)
        if len(body_body.outputs) != len(inputs):
            raise AssertionError(f"body_graph has {len(body_body.outputs)} outputs; Expected: {len(inputs)}")
        sizes = [tensor.sizes for tensor in body_body.outputs]
        sizes[COUNTERS : COUNTERS + len(shapes)] = shapes
        op = loop_op(inputs, cond_body, body_body, sizes, parallel_iterations, scope)
        # fetching an output of the lowered loop would run all ops of its body; an Identity allows pruning
        outputs = op.outputs if get_default_graph().building_function else list(map(gen("Identity"), op.outputs))
        found = pack_with_flows(loop_vars, outputs[COUNTERS : COUNTERS + len(variables)])
    leaves = nest.flatten(found, expand_composites=True)
    return leaves[0] if len(leaves) == 1 and not return_same_structure else found


def _arguments(
    graph: FunctionGraph,
    counters: Sequence[Tensor],
    variables: Sequence[Tensor],
    shapes: Sequence[tuple[int, ...] | None],
) -> list[Tensor]:
    """Add the arguments of a loop's condition or body: counters under their own names, variables with these shapes."""
    found = [graph.placeholder_of(tensor, tensor.op.name) for tensor in counters]
    for tensor, shape in zip(variables, shapes, strict=True):
        argument = graph.placeholder_of(tensor, None)
        graph.shapes.settle(argument.op.node.id, shape)
        found.append(argument)
    return found


def share_captures(cond_body: FunctionGraph, body: FunctionGraph, inputs: list[Tensor]) -> None:
    """Turn the body's captures into loop variables that never change; the condition gets them as arguments too."""
    body.outputs.extend(body.internal_captures)
    inputs.extend(body.captures)
    with cond_body.as_default():
        for number, tensor in enumerate(list(body.captures)[len(cond_body.captures) :]):
            name = f"{cond_body.name}/__redundant_placeholder{number}"
            cond_body.captures[tensor] = cond_body.add_argument(tensor.dtype, None, name)


def loop_op(
    inputs: Sequence[Tensor],
    cond_body: FunctionGraph,
    body: FunctionGraph,
    sizes: Sequence[tuple[int, ...] | None],
    parallel_iterations: int,
    scope: str,
) -> Operation:
    """A While named like `scope` with initial values `inputs`."""
    graph = get_default_graph()
    stateless = not any(op._is_stateful for each in (cond_body, body) for op in each._operations)
    attrs: dict[str, Any] = {
        "T": tuple(tensor.element for tensor in inputs),
        "cond": FunctionName(add_function(graph, cond_body)),
        "body": FunctionName(add_function(graph, body)),
        "output_shapes": tuple(map(Shape, sizes)),
        "parallel_iterations": parallel_iterations,
        "_lower_using_switch_merge": True,
        "_num_original_outputs": len(body.outputs),
        "_read_only_resource_inputs": tuple(resources_only_read((cond_body, body))),
    }
    with graph.control_dependencies([*cond_body.control_captures, *body.control_captures]):
        made = call(graph, "StatelessWhile" if stateless else "While", inputs, attrs, scope)
    made.bodies = [cond_body, body]  # type: ignore[attr-defined]
    for tensor, output in zip(inputs, made.outputs, strict=True):
        graph.shapes.hold(output.node_ref, tensor.graph.shapes.handle(tensor.node_ref))
    return made


# --- loop variables -------------------------------------------------------------------------------------------------


def _as_variable(value: TensorLike) -> Any:
    if value is None or isinstance(value, TensorArray | IndexedSlices | SparseTensor):
        return value
    return convert_to_tensor(value)


def _flat(structure: Any) -> list[Tensor]:
    leaves = nest.flatten(structure, expand_composites=True)
    return [leaf.flow if isinstance(leaf, TensorArray) else leaf for leaf in leaves if leaf is not None]


def _invariants(loop_vars: object, given: object) -> list[tuple[int, ...] | None]:
    """Static shape, valid in all iterations, of each tensor of the loop variables."""
    leaves = nest.flatten(loop_vars)
    if given is None:
        shapes: list[Any] = [None] * len(leaves)
    else:
        nest.assert_same_structure(loop_vars, given, check_types=False)
        shapes = [as_shape(shape) for shape in nest.flatten(given)]
    return [sizes for leaf, shape in zip(leaves, shapes, strict=True) for sizes in _leaf_invariants(leaf, shape)]


def _leaf_invariants(leaf: Any, shape: TensorShape | None) -> list[tuple[int, ...] | None]:
    if isinstance(leaf, TensorArray):
        return [leaf.flow.sizes]
    if isinstance(leaf, SparseTensor):
        rank = (leaf.shape if shape is None else shape).rank
        return [(-1, -1 if rank is None else rank), (-1,), (-1 if rank is None else rank,)]
    if isinstance(leaf, IndexedSlices):
        rest = [tensor.sizes for tensor in nest.components(leaf)[1:]]
        return [leaf.values.sizes if shape is None else shape.sizes, *rest]
    return [leaf.sizes if shape is None else shape.sizes]


def _check_turn(variables: Sequence[Tensor], shapes: Sequence[tuple[int, ...] | None], outputs: Sequence[Tensor]) -> None:
    """Raise TypeError or ValueError if an iteration changes a loop variable's type, or its shape in a forbidden way."""
    for tensor, sizes, output in zip(variables, shapes, outputs, strict=False):
        if tensor.element is not output.element:
            raise TypeError(
                f"Loop var {tensor.name} enters the loop with type {tensor.dtype!s} but has type {output.dtype!s} after "
                f"1 iteration. {tensor.name} type should remain constant."
            )
        if not TensorShape.of(sizes).is_compatible_with(output.shape):
            raise ValueError(
                f"Input tensor `{tensor.name}` enters the loop with shape {TensorShape.of(sizes)}, but has shape "
                f"{output.shape} after one iteration. To allow the shape to vary across iterations, use the "
                "`shape_invariants` argument of tf.while_loop to specify a less-specific shape."
            )
