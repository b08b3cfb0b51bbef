"""`tf.test.compute_gradient`: gradients beside quotients of small differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import placesim.tf1 as tf
from placesim.tf1.sparse.values import IndexedSlices


def _by_gradients(x: Any, values: Any, y: Any, y_shape: Any, dx: Any, dy: Any, feeds: Mapping[Any, Any]) -> Any:
    """The Jacobian `[x_size, y_size]` from one run for each element of y."""
    run, real = tf.get_default_session().run, values.real.dtype
    direction = np.zeros(y_shape, y.dtype.as_numpy_dtype)
    elements = direction.reshape(-1).view(direction.real.dtype)
    columns = []
    for i in range(elements.size):
        elements[i] = 1
        found = run(dx, {**feeds, x: values, dy: direction})
        if isinstance(dx, IndexedSlices):
            dense = np.zeros_like(values)
            np.add.at(dense, found.indices, found.values)
            found = dense
        columns.append(np.ravel(found).view(real))
        elements[i] = 0
    return np.stack(columns, 1) if columns else np.zeros((np.ravel(values).view(real).size, 0), real)


def _by_differences(x: Any, values: Any, y: Any, delta: float, feeds: Mapping[Any, Any]) -> Any:
    """The Jacobian `[x_size, y_size]` from two runs for each element of x."""
    real = values.real.dtype

    def moved(i: int, distance: float) -> Any:
        near = values.copy()
        near.reshape(-1).view(real)[i] += distance
        return y.eval({**feeds, x: near})

    rows = []
    for i in range(values.reshape(-1).view(real).size):
        above, below = moved(i, delta), moved(i, -delta)
        quotient = (above - below) / np.asarray(2 * delta, above.real.dtype)
        rows.append(np.ravel(quotient).view(above.real.dtype).astype(real))
    return np.array(rows)


def compute_gradient(
    x: Any,
    x_shape: Any,
    y: Any,
    y_shape: Sequence[int],
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Sequence[Any] | None = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> Any:
    """Jacobian matrices `[x_size, y_size]` of y, by its gradients and by differences; a list of such pairs for a list `x`."""
    xs, shapes = (x, x_shape) if isinstance(x, list) else ([x], [x_shape])
    starts = x_init_value if isinstance(x, list) and x_init_value is not None else [x_init_value] * len(xs)
    directions = []
    for each in xs:
        with each.graph.as_default():
            dy = tf.constant(1.0, shape=y_shape, dtype=y.dtype)
            directions.append((tf.gradients(y, each, tf.identity(dy))[0], dy))
    for target in init_targets or ():
        target.run()
    feeds = extra_feed_dict or {}
    pairs = []
    for each, shape, start, (dx, dy) in zip(xs, shapes, starts, directions, strict=True):
        dtype = each.dtype.base_dtype
        values = np.random.random_sample(shape).astype(dtype.as_numpy_dtype) if start is None else np.array(start)
        if start is None and dtype.is_complex:
            values.imag = np.random.random_sample(shape)
        by_gradients = _by_gradients(each, values, y, y_shape, dx, dy, feeds)
        pairs.append((by_gradients, _by_differences(each, values, y, delta, feeds)))
    return pairs if isinstance(x, list) else pairs[0]


def compute_gradient_error(
    x: Any,
    x_shape: Any,
    y: Any,
    y_shape: Sequence[int],
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Sequence[Any] | None = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> float:
    """Largest difference between the two Jacobian matrices of `compute_gradient`."""
    found = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    pairs = found if isinstance(x, list) else [found]
    return max((np.abs(a - b).max() for a, b in pairs if a.size or b.size), default=0)
