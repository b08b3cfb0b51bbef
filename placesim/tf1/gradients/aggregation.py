"""Sum of several gradients of one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import itemgetter
from typing import Any

from placesim.core.grouped import grouped
from placesim.tf1.gradients.slices import with_one_type
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


class AggregationMethod:
    """`tf.AggregationMethod`."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def aggregate(grads: Sequence[Any], op: Operation, method: int) -> Any:
    """Sum of the gradients that one output of `op` received; None if it received none."""
    if len(grads) < 2:
        return grads[0] if grads else None
    # slices cannot be added: they are concatenated, whatever the method
    if any(isinstance(grad, IndexedSlices) for grad in grads):
        return sum_slices(grads)
    if method == AggregationMethod.ADD_N:
        return _sum_by_device(grads)
    with name_scope(op.name + "_gradient_sum"):
        return reduce(lambda total, grad: tf.add_n([total, grad]), grads)


def _sum_by_device(grads: Sequence[Tensor]) -> Any:
    """Sum of the gradients: first on each device, then of the devices' sums."""
    on_device = grouped((grad.device, grad) for grad in grads)
    sums = []
    # sorted by device, so that the order of nodes does not depend on that of the gradients
    for _, tensors in sorted(on_device.items(), key=itemgetter(0)):
        with get_default_graph().colocate_with(tensors[0].op, ignore_existing=True):
            sums.append(tf.add_n(tensors))
    return tf.add_n(sums)


def sum_slices(grads: Sequence[Any]) -> Any:
    """Sum of the gradients: a tensor if one of them is a tensor, else IndexedSlices of all their values and indices."""
    if any(isinstance(grad, Tensor) for grad in grads):
        return gen("AddN")(list(grads))
    indices = with_one_type([grad.indices for grad in grads])
    values = tf.concat([grad.values for grad in grads], axis=0)
    return IndexedSlices(values, tf.concat(indices, axis=0), grads[0].dense_shape)
