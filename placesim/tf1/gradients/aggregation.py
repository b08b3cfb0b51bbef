"""Sum of several gradients of one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    """The sum of the gradients that one output of `op` received, None of none."""
    if len(grads) < 2:
        return grads[0] if grads else None
    if any(isinstance(grad, IndexedSlices) for grad in grads):
        return sum_slices(grads)
    if method == AggregationMethod.ADD_N:
        return _sum_by_device(grads)
    with name_scope(op.name + "_gradient_sum"):
        total = grads[0]
        for grad in grads[1:]:
            total = tf.add_n([total, grad])
    return total


def _sum_by_device(grads: Sequence[Tensor]) -> Any:
    """Each device's gradients are summed there first."""
    on_device: dict[str, list[Tensor]] = {}
    for grad in grads:
        on_device.setdefault(grad.device, []).append(grad)
    sums = []
    for device in sorted(on_device):
        tensors = on_device[device]
        with get_default_graph().colocate_with(tensors[0].op, ignore_existing=True):
            sums.append(tf.add_n(tensors))
    return tf.add_n(sums)


def sum_slices(grads: Sequence[Any]) -> Any:
    """Slices are laid one after another; where one gradient is dense, all become so."""
    if any(isinstance(grad, Tensor) for grad in grads):
        return gen("AddN")(list(grads))
    values, indices = [grad.values for grad in grads], [grad.indices for grad in grads]
    if any(index.dtype.name == "int32" for index in indices) and any(index.dtype.name == "int64" for index in indices):
        indices = [tf.cast(index, "int64") if index.dtype.name == "int32" else index for index in indices]
    joined = tf.concat(values, axis=0)
    return IndexedSlices(joined, tf.concat(indices, axis=0), grads[0].dense_shape)
