"""`tf.keras.backend`: functions of tensors under Keras' names, and the learning phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike, TypedTensor
from placesim.tf1.keras.activations import hard_sigmoid, relu, softmax
from placesim.tf1.layers.layer import smart_cond

__all__ = ["hard_sigmoid", "relu", "softmax"]

_PHASE = "keras_learning_phase"


def learning_phase() -> Any:
    """Training flag: a placeholder that is false by default, or the value that was set."""
    graph = tf.get_default_graph()
    found = getattr(graph, _PHASE, None)
    if found is None:
        with tf.name_scope(None), tf.init_scope():
            found = tf.placeholder_with_default(False, shape=(), name=_PHASE)
        setattr(graph, _PHASE, found)
    return found


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """`x` in training, else `alt`; both are tensors, or functions of no arguments."""
    given = learning_phase() if training is None else training
    return smart_cond(given, *(one if callable(one) else lambda one=one: one for one in (x, alt)))


def set_learning_phase(value: TensorLike) -> None:
    """Set whether layers of this graph train.  Raises ValueError for other values than 0 and 1."""
    if value not in (0, 1):
        raise ValueError("Expected learning phase to be 0 or 1.")
    setattr(tf.get_default_graph(), _PHASE, bool(value))


def epsilon() -> float:
    """Small number that avoids divisions by zero."""
    return 1e-7


def floatx() -> str:
    """Default type of layers."""
    return "float32"


def image_data_format() -> str:
    """Position of channels in images."""
    return "channels_last"


def int_shape(x: TypedTensor) -> tuple[int | None, ...] | None:
    """Static shape; None for an unknown rank."""
    return None if x.shape.rank is None else tuple(x.shape.as_list())


def ndim(x: Any) -> int | None:
    """Rank; None if unknown."""
    return x.shape.rank  # type: ignore[no-any-return]


def dtype(x: TypedTensor) -> str:
    """The element type's name."""
    return str(x.dtype.base_dtype.name)


def placeholder(
    shape: ShapeLike | None = None,
    ndim: int | None = None,
    dtype: DTypeLike | None = None,
    sparse: bool = False,
    name: str | None = None,
) -> Any:
    """A placeholder.  Raises NotImplementedError for a sparse one."""
    if sparse:
        from placesim.tf1.importing.missing_names import not_there

        raise not_there("keras.backend.placeholder with sparse", "tf.sparse_placeholder is")
    shape = (None,) * ndim if shape is None and ndim else shape
    return tf.placeholder(dtype or floatx(), shape=shape, name=name)


def _reduction(name: str) -> Any:
    def reduction(x: Any, axis: TensorLike | None = None, keepdims: bool = False) -> Any:
        x = tf.cast(x, floatx()) if name == "mean" and x.dtype.base_dtype == tf.bool else x
        return getattr(tf, f"reduce_{name}")(x, axis, keepdims)

    reduction.__doc__ = f"`tf.reduce_{name}`."
    return reduction


sum, mean, max, min, prod = (_reduction(name) for name in ("sum", "mean", "max", "min", "prod"))
abs, exp, log, square, sign, round = tf.abs, tf.exp, tf.log, tf.square, tf.sign, tf.round
sin, cos, tanh, sigmoid, softplus, softsign = tf.sin, tf.cos, tf.tanh, tf.sigmoid, tf.nn.softplus, tf.nn.softsign
equal, not_equal, greater, greater_equal, less, less_equal = (
    *(tf.equal, tf.not_equal, tf.greater),
    *(tf.greater_equal, tf.less, tf.less_equal),
)
maximum, minimum, reshape, transpose, squeeze, stop_gradient = (
    *(tf.maximum, tf.minimum, tf.reshape),
    *(tf.transpose, tf.squeeze, tf.stop_gradient),
)
shape, cast, name_scope = tf.shape, tf.cast, tf.name_scope
update, update_add, update_sub = tf.assign, tf.assign_add, tf.assign_sub


def sqrt(x: TypedTensor) -> Any:
    """The square root of each element; 0 for a negative one."""
    return tf.sqrt(tf.maximum(x, tf.constant(0.0, x.dtype.base_dtype)))


def pow(x: TensorLike, a: TensorLike) -> Any:
    """A power of each element."""
    return tf.pow(x, a)


def clip(x: TensorLike, min_value: object, max_value: object) -> Any:
    """Limit each element to a range."""
    return tf.clip_by_value(x, min_value, max_value)


def dot(x: TypedTensor, y: TypedTensor) -> Any:
    """The product of matrices.  Raises NotImplementedError for other ranks."""
    if (x.shape.rank, y.shape.rank) != (2, 2):
        from placesim.tf1.importing.missing_names import not_there

        raise not_there("keras.backend.dot of other than matrices", "tf.tensordot is")
    return tf.matmul(x, y)


def concatenate(tensors: Sequence[TypedTensor], axis: int = -1) -> Any:
    """Concatenate tensors along an axis."""
    return tf.concat(tensors, axis % tensors[0].shape.rank if axis < 0 and tensors[0].shape.rank else axis)


def expand_dims(x: TensorLike, axis: int = -1) -> Any:
    """Add a dimension of size 1."""
    return tf.expand_dims(x, axis)


def flatten(x: TensorLike) -> Any:
    """Reshape a tensor to a vector."""
    return tf.reshape(x, [-1])


def argmax(x: TensorLike, axis: int = -1) -> Any:
    """Index of the largest value on an axis."""
    return tf.argmax(x, axis)


def argmin(x: TensorLike, axis: int = -1) -> Any:
    """Index of the smallest value on an axis."""
    return tf.argmin(x, axis)


def stack(x: TensorLike, axis: int = 0) -> Any:
    """Stack tensors along a new axis."""
    return tf.stack(x, axis=axis)


def get_session() -> Any:
    """The default session, or the graph's own one, made at the first call."""
    found = tf.get_default_session()
    if found is None:
        graph = tf.get_default_graph()
        found = getattr(graph, "keras_session", None)
        if found is None:
            found = graph.keras_session = tf.Session()
    return found


def initialize_variables() -> None:
    """Initialize the layers' variables of the graph in its session, each once."""
    variables = getattr(tf.get_default_graph(), "keras_variables", [])
    if variables:
        session = get_session()
        is_ready = session.run([tf.is_variable_initialized(one) for one in variables])
        missing = [one for one, ready in zip(variables, is_ready, strict=True) if not ready]
        if missing:
            session.run(tf.variables_initializer(missing))
        variables.clear()


def set_session(session: object) -> None:
    """Set the session returned by `get_session`."""
    tf.get_default_graph().keras_session = session


def clear_session() -> None:
    """Replace the default graph."""
    tf.reset_default_graph()
