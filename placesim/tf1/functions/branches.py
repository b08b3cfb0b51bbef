"""Branches of a conditional as functions: `If` and `Case` of version 2 control flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.ops.attributes import FunctionName, Shape
from placesim.tf1.control_flow.tensor_arrays import TensorArray, build_with_flow
from placesim.tf1.functions.building import build, function_name
from placesim.tf1.functions.calls import call, resources_only_read
from placesim.tf1.functions.definitions import add_function
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.math.casting import cast
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices
from placesim.tf1.types import dtypes, nest


def cond(pred: TensorLike, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: str | None) -> Any:
    """`tf.cond` of version 2.  Raises TypeError and ValueError in TensorFlow's words."""
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool", pred)
    with name_scope("cond" if name is None else name) as scope:
        names = [function_name((scope, word)) for word in ("true", "false")]
        pred = as_predicate(pred)
        bodies = [
            build(FunctionGraph(each, shares_collections=True), function, after_op=pred)
            for each, function in zip(names, (true_fn, false_fn), strict=True)
        ]
        _check_captures(bodies, ("true_fn", "false_fn"))
        _check_alike(bodies, ("true_fn", "false_fn"), "cond")
        return packed_results(bodies[0], conditional("If", pred, bodies, scope))


def switch_case(branch_index: TensorLike, functions: Sequence[Callable[[], Any]], name: str) -> Any:
    """`tf.switch_case`: result of the function at `branch_index`, or of the last function for an invalid index."""
    with name_scope(name) as scope:
        names = [function_name((scope, f"branch{i}")) for i in range(len(functions))]
        index = convert_to_tensor(branch_index, name="branch_index")
        bodies = [
            build(FunctionGraph(each, shares_collections=True), function, after_op=index)
            for each, function in zip(names, functions, strict=True)
        ]
        _check_captures(bodies, [f"branch {i}" for i in range(len(bodies))])
        _check_alike(bodies, [f"branches[{i}]" for i in range(len(bodies))], "switch_case")
        return packed_results(bodies[0], conditional("Case", index, bodies, scope))


def _check_captures(bodies: Sequence[FunctionGraph], words: Sequence[str]) -> None:
    """Raise ValueError if a branch reads a tensor of another branch."""
    names = dict(zip(bodies, words, strict=True))
    for body, word in names.items():
        for tensor in body.captures:
            if tensor.graph in names:
                raise ValueError(f"Tensor {tensor.name} in {names[tensor.graph]} is accessed from {word}.")


def _check_alike(bodies: Sequence[FunctionGraph], words: Sequence[str], call_name: str) -> None:
    """Raise TypeError or ValueError if a branch's structure or types differ from the first one's."""
    first = bodies[0]
    counts = [len(nest.flatten(body.structured_outputs)) for body in bodies]
    if len(set(counts)) > 1:
        raise AssertionError(counts)
    _cast_indices(bodies)
    for body, word in zip(bodies[1:], words[1:], strict=True):
        detail = _difference(first, body)
        if detail:
            raise TypeError(
                f"{words[0]} and {word} arguments to tf.{call_name} must have the same number, type, and overall structure of "
                f"return values.\n\n{words[0]} output: {first.structured_outputs}\n{word} output: {body.structured_outputs}\n\n"
                f"Error details:\n{detail}"
            )


def _difference(first: FunctionGraph, body: FunctionGraph) -> str:
    """Difference between a branch's outputs and the first one's; empty if there is none."""
    if len(first.outputs) != len(body.outputs):
        raise ValueError(
            f"Lengths of branch outputs of cond must match.\nlen(graphs[0].outputs): {len(first.outputs)}\n"
            f"len(graphs[1].outputs): {len(body.outputs)}\n"
        )
    try:
        nest.assert_same_structure(first.structured_outputs, body.structured_outputs)
    except (TypeError, ValueError) as error:
        return str(error)
    for one, other in zip(first.outputs, body.outputs, strict=True):
        if one.element is not other.element:
            return f"{one} and {other} have different types"
    return ""


def _cast_indices(bodies: Sequence[FunctionGraph]) -> None:
    """Cast the indices of corresponding IndexedSlices to int64, if their types differ between the branches."""
    leaves = [nest.flatten(body.structured_outputs) for body in bodies]
    for place, each in enumerate(zip(*leaves, strict=True)):
        if not all(isinstance(leaf, IndexedSlices) for leaf in each) or len({leaf.indices.element for leaf in each}) == 1:
            continue
        for body, own in zip(bodies, leaves, strict=True):
            slices = own[place]
            with body.as_default():
                indices = cast(slices.indices, dtypes.int64)
            body.outputs = [indices if tensor is slices.indices else tensor for tensor in body.outputs]
            own[place] = IndexedSlices(slices.values, indices, slices.dense_shape)
            body.structured_outputs = nest.pack_sequence_as(body.structured_outputs, own)


def as_predicate(value: TensorLike) -> Tensor:
    """Convert a condition to a scalar tensor."""
    found = convert_to_tensor(value)
    return found if found.shape.rank == 0 else gen("Squeeze")(found)


def conditional(kind: str, selector: Tensor, bodies: Sequence[FunctionGraph], scope: str | None) -> list[Tensor]:
    """Make an If or Case op, and return an Identity of each result.  An If's first body is for true."""
    op = conditional_op(kind, selector, bodies, scope)
    return [gen("Identity")(tensor) for tensor in op.outputs]


def conditional_op(kind: str, selector: Tensor, bodies: Sequence[FunctionGraph], scope: str | None) -> Operation:
    """Make an If or Case op named like `scope`."""
    graph = get_default_graph()
    inputs = share_inputs(bodies)
    names = [FunctionName(add_function(graph, body)) for body in bodies]
    stateless = not any(op._is_stateful for body in bodies for op in body._operations)
    attrs: dict[str, Any] = {
        "Tin": tuple(tensor.element for tensor in inputs),
        "Tout": tuple(tensor.element for tensor in bodies[0].outputs),
        "output_shapes": tuple(
            Shape(_common_sizes([tensor.sizes for tensor in each]))
            for each in zip(*(body.outputs for body in bodies), strict=True)
        ),
    }
    if bodies[0].outputs:
        attrs["_lower_using_switch_merge"] = True
        attrs["_read_only_resource_inputs"] = tuple(i + 1 for i in resources_only_read(bodies))
    if kind == "If":
        attrs |= {"Tcond": selector.element, "then_branch": names[0], "else_branch": names[1]}
    else:
        attrs["branches"] = tuple(names)
    with graph.control_dependencies([op for body in bodies for op in body.control_captures]):
        made = call(graph, ("Stateless" if stateless else "") + kind, [selector, *inputs], attrs, scope)
    made.bodies = list(bodies)  # type: ignore[attr-defined]
    return made


def share_inputs(bodies: Sequence[FunctionGraph]) -> list[Tensor]:
    """Give all bodies the union of their arguments in order of first use, and return the outer tensors."""
    inputs = list(dict.fromkeys(tensor for body in bodies for tensor in body.captures))
    for body in bodies:
        captures = body.captures
        body.inputs = []
        body.captures = {}
        with body.as_default():
            for tensor in inputs:
                found = captures.get(tensor)
                if found is None:
                    found = body.placeholder_of(tensor, None)
                else:
                    body.inputs.append(found)
                body.captures[tensor] = found
    return inputs


def _common_sizes(shapes: Sequence[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """Sizes that all shapes have in common; other sizes are unknown."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len({len(shape) for shape in known}) > 1:
        return None
    return tuple(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*known, strict=True))


def packed_results(body: FunctionGraph, tensors: Sequence[Tensor]) -> Any:
    """Pack a call's outputs into the structure that the body's Python function returned."""
    rest = iter(tensors)
    leaves = nest.flatten(body.structured_outputs)
    found: list[Any] = []
    for leaf in leaves:
        if leaf is None:
            found.append(None)
        elif isinstance(leaf, TensorArray):
            found.append(build_with_flow(leaf, next(rest)))
        elif isinstance(leaf, Tensor):
            found.append(next(rest))
        else:
            found.append(nest.with_components(leaf, [next(rest) for _ in nest.components(leaf)]))
    return nest.pack_sequence_as(body.structured_outputs, found)
