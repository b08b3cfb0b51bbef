"""`tf.hessians`."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.backward import gradients
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.arguments import as_list

tf = namespace("")


def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
) -> list[Any]:
    """Second derivatives of the sum of ys with respect to each x, computed row by row in a loop."""
    xs = as_list(xs)
    settings = {
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
        "gate_gradients": gate_gradients,
        "aggregation_method": aggregation_method,
    }
    found = []
    for first, x in zip(gradients(ys, xs, **settings), xs, strict=True):
        # each element of the gradient is differentiated by itself
        flat = tf.reshape(first, [-1])
        count = tf.size(flat)
        variables = [tf.constant(0, tf.int32), tf.TensorArray(x.dtype, count)]

        def row(j: Any, rows: Any, flat: Any = flat, x: TensorLike = x) -> tuple[Any, Any]:
            return j + 1, rows.write(j, gradients(flat[j], x)[0])

        _, rows = tf.while_loop(lambda j, _, count=count: j < count, row, variables)
        shape = tf.shape(x)
        found.append(tf.reshape(rows.stack(), tf.concat((shape, shape), 0)))
    return found
