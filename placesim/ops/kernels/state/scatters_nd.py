"""ScatterNd ops on variables: update elements or slices, whose positions are the rows of an index matrix.

`indices` is `[batch..., depth]`, `updates` is `[batch...] + params.shape[depth:]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from placesim.ops.attributes import Attrs
from placesim.ops.kernels.array.index_matrices import ignores_bad_indices, scatter_nd_dims, scatter_slices
from placesim.ops.kernels.array.indices import COMBINATIONS, Combine
from placesim.ops.kernels.cost_model import CostModel, SliceAccess
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table
from placesim.ops.kernels.memory_rules import touches_rows
from placesim.ops.kernels.shapes import Dims, ShapeContext, with_rank_at_least
from placesim.ops.kernels.state.scatters import scatter_flops
from placesim.ops.kernels.state.variables import find_variable, held_shape, ref_output, writable_value


def build_scatter_nd(combine: Combine) -> Callable[..., Sequence[Any]]:
    """Return a kernel that combines slice `indices[i]` of a variable with `updates[i]`. It raises the errors of `typed_value`.

    It also raises InvalidArgumentError for bad shapes, and indices out of range unless `bad_indices_policy` ignores them.
    """

    def scatter_nd(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        ignore_bad = ignores_bad_indices(attrs)
        variable = find_variable(inputs[0], context)
        params = writable_value(variable, context, attrs["T"])
        # slices before a bad index stay updated
        try:
            scatter_slices(combine, params, np.asarray(inputs[1]), np.asarray(inputs[2]), ignore_bad)
        finally:
            variable.value = params
        return ref_output(inputs[0])

    return scatter_nd


def _variable_shape(context: ShapeContext) -> Dims:
    indices, updates = (with_rank_at_least(context.shapes[i], 1) for i in (1, 2))
    return scatter_nd_dims(indices, updates, held_shape(context))


def _infer_ref(context: ShapeContext) -> Sequence[Dims]:
    return (_variable_shape(context),)


def _infer_resource(context: ShapeContext) -> Sequence[Dims]:
    _variable_shape(context)
    return ()


def _elements_of_slices(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    # a vector of indices counts as a column
    params, indices = inputs[0] or (), inputs[1] or ()
    *batch, depth = indices if len(indices) > 1 else (*indices, 1)
    return prod(batch) * prod(params[depth:])


_COST = CostModel("scatter", access=SliceAccess(_elements_of_slices, updates=True))


def _build_ref(name: str) -> Kernel:
    return Kernel(build_scatter_nd(COMBINATIONS[name]), _infer_ref, scatter_flops(name), needs_context=True, cost=_COST)


def _build_resource(name: str) -> Kernel:
    compute = build_scatter_nd(COMBINATIONS[name])
    memory = touches_rows()
    return Kernel(compute, _infer_resource, scatter_flops(name), needs_context=True, memory=memory, cost=_COST)


TABLE: Table = {
    "ScatterNdUpdate": _build_ref("Update"),
    "ResourceScatterNdUpdate": _build_resource("Update"),
    "ScatterNdAdd": _build_ref("Add"),
    "ResourceScatterNdAdd": _build_resource("Add"),
    "ScatterNdSub": _build_ref("Sub"),
    "ResourceScatterNdSub": _build_resource("Sub"),
    "ScatterNdMin": _build_ref("Min"),
    "ResourceScatterNdMin": _build_resource("Min"),
    "ScatterNdMax": _build_ref("Max"),
    "ResourceScatterNdMax": _build_resource("Max"),
}
