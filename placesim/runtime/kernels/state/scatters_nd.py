"""ScatterNd ops on variables: update elements or slices that rows of an index matrix name.

`indices` is `[batch..., depth]`, `updates` is `[batch...] + params.shape[depth:]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.ops.attributes import Attrs
from placesim.runtime.kernels.array.index_matrices import (
    ignores_bad_indices,
    scatter_nd_dims,
    scatter_slices,
)
from placesim.runtime.kernels.array.indices import COMBINATIONS, Combine
from placesim.runtime.kernels.kernel import Kernel, KernelContext, Table, per_element
from placesim.runtime.kernels.state.variables import find_variable, held_shape, ref_output, value_of
from placesim.runtime.shapes import (
    Dims,
    ShapeContext,
    with_rank_at_least,
)

# --- kernels ----------------------------------------------------------------------------------------------------------


def build_scatter_nd(combine: Combine) -> Callable[..., Sequence[Any]]:
    """The kernel `params[tuple(indices[i])] = combination of it with updates[i]`."""

    def scatter_nd(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        ignore_bad = ignores_bad_indices(attrs)
        variable = find_variable(inputs[0], context)
        params = np.array(value_of(variable, context))
        try:
            scatter_slices(combine, params, np.asarray(inputs[1]), np.asarray(inputs[2]), ignore_bad)
        finally:
            variable.value = params
        return ref_output(inputs[0])

    return scatter_nd


# --- shape functions --------------------------------------------------------------------------------------------------


def _variable_shape(context: ShapeContext) -> Dims:
    indices, updates = (with_rank_at_least(context.shapes[i], 1) for i in (1, 2))
    return scatter_nd_dims(indices, updates, held_shape(context))


def _infer_ref(context: ShapeContext) -> Sequence[Dims]:
    return (_variable_shape(context),)


def _infer_resource(context: ShapeContext) -> Sequence[Dims]:
    _variable_shape(context)
    return ()


TABLE: Table = {}
for _name in ("Update", "Add", "Sub", "Min", "Max"):
    _scatter_nd = build_scatter_nd(COMBINATIONS[_name])
    _flops = None if _name == "Update" else per_element(2)
    TABLE["ScatterNd" + _name] = Kernel(_scatter_nd, _infer_ref, _flops, needs_context=True)
    TABLE["ResourceScatterNd" + _name] = Kernel(_scatter_nd, _infer_resource, _flops, needs_context=True)
