"""Scatter ops: update the rows of a variable at `indices`.

The ref and the resource op of a combination (`COMBINATIONS`) have the same kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.errors import InvalidArgumentError
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.indices import COMBINATIONS, Combine, first_outside, position_text, set_rows
from placesim.ops.kernels.cost_model import CostModel, SliceAccess
from placesim.ops.kernels.device_resources import VariableResource
from placesim.ops.kernels.kernel import Flops, Kernel, KernelContext, Table, Tensor, elements_of_rows, per_element
from placesim.ops.kernels.memory_rules import touches_rows
from placesim.ops.kernels.shapes import Dims, ShapeContext, concatenate, format_dims, merge, subshape
from placesim.ops.kernels.state.variables import find_variable, ref_output, typed_handle_shape, writable_value


def build_scatter(combine: Combine) -> Callable[..., Sequence[Any]]:
    """Return a kernel that combines row `indices[i]` of a variable with `updates[i]`; updates may be one scalar.

    The variable is `[rows, ...]`, indices have any shape, updates `indices.shape + params.shape[1:]`. Raises
    InvalidArgumentError for other shapes, a bad index, and a resource's division by 0, and the errors of `typed_value`.
    """

    def scatter(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        variable = find_variable(inputs[0], context)
        indices, updates = np.asarray(inputs[1]), np.asarray(inputs[2])
        params = writable_value(variable, context, attrs["dtype"] if "dtype" in attrs else attrs["T"])
        _check_shapes(params.shape, indices.shape, updates.shape, is_ref=isinstance(inputs[0], VariableResource))
        # a ref op does not check division by 0
        if combine is COMBINATIONS["Div"] and not isinstance(inputs[0], VariableResource) and (updates == 0).any():
            raise InvalidArgumentError("updates must not contain 0")
        # a resource op compares the leading dimensions only now, and only if it has indices
        if indices.size and updates.ndim and updates.shape[: indices.ndim] != indices.shape:
            raise InvalidArgumentError(
                f"The shape of indices ({format_dims(indices.shape)}) must be a prefix of "
                f"the shape of updates ({format_dims(updates.shape)})"
            )
        # TensorFlow updates the rows before a bad index
        bad = first_outside(indices.reshape(-1), params.shape[0])
        _scatter_rows(combine, params, indices.reshape(-1)[:bad], updates, indices.size)
        variable.value = params
        if bad < indices.size:
            raise InvalidArgumentError(
                f"indices{position_text(indices.shape, bad)} = {indices.reshape(-1)[bad]} is not in [0, {params.shape[0]})"
            )
        return ref_output(inputs[0])

    return scatter


def _check_shapes(params: tuple[int, ...], indices: tuple[int, ...], updates: tuple[int, ...], is_ref: bool) -> None:
    # resource ops compare only ranks; ref ops refuse a scalar variable below
    fits = updates == indices + params[1:] if is_ref else len(updates) == len(indices) + len(params) - 1
    if updates and not fits and (params or not is_ref):
        raise InvalidArgumentError(
            "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got "
            f"updates.shape {format_dims(updates)}, indices.shape {format_dims(indices)}, params.shape {format_dims(params)}"
        )
    if not params:
        raise InvalidArgumentError(f"params must be at least 1-D, got shape {format_dims(params)}")


def _scatter_rows(combine: Combine, params: Tensor, index: Tensor, updates: Tensor, count: int) -> None:
    if not index.size or not params.size:
        return
    rows = params.reshape(params.shape[0], -1)
    if not updates.ndim:
        combine(rows, index, updates)
        return
    given = updates.reshape(count, -1)
    if given.shape[1] == rows.shape[1]:
        combine(rows, index, given[: len(index)])
    elif combine is set_rows and rows.dtype != object:
        _copy_runs(rows, index, given)
    else:
        _combine_prefixes(combine, rows, index, given)


def _copy_runs(rows: Tensor, index: Tensor, given: Tensor) -> None:
    # the resource kernel does not compare inner shapes: it copies a whole update, even beyond the row's end
    flat = rows.reshape(-1)
    for row, update in zip(index, given, strict=False):
        target = flat[int(row) * rows.shape[1] :][: given.shape[1]]
        target[:] = update[: len(target)]


def _combine_prefixes(combine: Combine, rows: Tensor, index: Tensor, given: Tensor) -> None:
    # likewise it reads the length of a whole row, even beyond the update's end
    flat = given.reshape(-1)
    sources = np.arange(len(index))[:, None] * given.shape[1] + np.arange(rows.shape[1])
    combine(rows, index, flat[np.minimum(sources, flat.size - 1)] if flat.size else np.zeros_like(rows, shape=sources.shape))


def _check_update_shapes(params: Dims, context: ShapeContext) -> None:
    expected = concatenate(context.shapes[1], subshape(params, 1))
    if context.shapes[2] != ():
        merge(context.shapes[2], expected)


def _infer_ref(context: ShapeContext) -> Sequence[Dims]:
    _check_update_shapes(context.shapes[0], context)
    return (context.shapes[0],)


def _infer_resource(context: ShapeContext) -> Sequence[Dims]:
    _check_update_shapes(typed_handle_shape(context), context)
    return ()


def scatter_flops(name: str) -> Flops | None:
    """Return the cost of the scatter op with this combination."""
    return None if name == "Update" else per_element(2)


_COST = CostModel("scatter", access=SliceAccess(elements_of_rows, updates=True))


def _build_ref(name: str) -> Kernel:
    return Kernel(build_scatter(COMBINATIONS[name]), _infer_ref, scatter_flops(name), needs_context=True, cost=_COST)


def _build_resource(name: str) -> Kernel:
    compute = build_scatter(COMBINATIONS[name])
    memory = touches_rows()
    return Kernel(compute, _infer_resource, scatter_flops(name), needs_context=True, memory=memory, cost=_COST)


TABLE: Table = {
    "ScatterUpdate": _build_ref("Update"),
    "ResourceScatterUpdate": _build_resource("Update"),
    "ScatterAdd": _build_ref("Add"),
    "ResourceScatterAdd": _build_resource("Add"),
    "ScatterSub": _build_ref("Sub"),
    "ResourceScatterSub": _build_resource("Sub"),
    "ScatterMul": _build_ref("Mul"),
    "ResourceScatterMul": _build_resource("Mul"),
    "ScatterDiv": _build_ref("Div"),
    "ResourceScatterDiv": _build_resource("Div"),
    "ScatterMin": _build_ref("Min"),
    "ResourceScatterMin": _build_resource("Min"),
    "ScatterMax": _build_ref("Max"),
    "ResourceScatterMax": _build_resource("Max"),
}
