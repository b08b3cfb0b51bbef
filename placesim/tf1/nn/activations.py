"""Activations, softmax, and functions of a few ops."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.custom import custom_gradient
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.conversion import convert_named, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def relu6(features: TensorLike, name: str | None = None) -> Any:
    """Relu with a maximum of 6."""
    with name_scope(name, "Relu6", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        return gen("Relu6")(features, name=scope)


def leaky_relu(features: TensorLike, alpha: TensorLike = 0.2, name: str | None = None) -> Any:
    """Relu with a slope below 0; integers become float32."""
    with name_scope(name, "LeakyRelu", [features, alpha]) as scope:
        features = convert_to_tensor(features, name="features")
        if features.dtype.is_integer:
            features = tf.cast(features, "float32")
        return gen("LeakyRelu")(features, alpha=alpha, name=scope)


def crelu(features: TensorLike, name: str | None = None, axis: int = -1) -> Any:
    """Relu of the features concatenated with their negatives."""
    with name_scope(name, "CRelu", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        both = tf.concat([features, -features], axis, name=scope)
        return gen("Relu")(both)


def swish(features: TensorLike, beta: TensorLike = 1.0) -> Any:
    """x * sigmoid(beta * x), whose gradient computes the sigmoid again."""
    features = convert_to_tensor(features, name="features")
    beta = convert_to_tensor(beta, name="beta")
    beta = tf.cast(beta, features.dtype)

    @custom_gradient
    def swished(features: TensorLike, beta: Any) -> Any:
        def grad(upstream: object) -> Any:
            with tf.control_dependencies([upstream]):
                sigmoid = tf.sigmoid(beta * features)
            slope = sigmoid * (1.0 + (beta * features) * (1.0 - sigmoid))
            beta_grad = tf.reduce_sum(upstream * tf.square(features) * sigmoid * (1.0 - sigmoid))
            return upstream * slope, beta_grad

        return features * tf.sigmoid(beta * features), grad

    return swished(features, beta)


def _softmax_along(op: str) -> Any:
    def apply(logits: TensorLike, axis: TensorLike | None = None, name: str | None = None, dim: object = None) -> Any:
        axis = renamed("axis", axis, "dim", dim)
        if axis is None:
            axis = -1
        return _wrapped(op, logits, axis, name)

    return apply


def _wrapped(op: str, logits: TensorLike, axis: Any, name: str | None) -> Any:
    """Apply an op along any dimension, which is moved to the end and back."""
    logits = convert_to_tensor(logits)
    rank = logits.shape.rank
    is_known = not isinstance(axis, Tensor)
    if is_known and axis == -1:
        return gen(op)(logits, name=name)
    if is_known and rank is not None and not -rank <= axis < rank:
        from placesim.tf1.errors import InvalidArgumentError

        wanted = f"in the range [{-rank}, {rank}) where {rank} is the number of dimensions in the input"
        raise InvalidArgumentError(None, None, f"`dim` must be {wanted}. Received: dim={axis}")
    if rank is None:
        raise TypeError("unsupported operand type(s) for -: 'NoneType' and 'int'")
    if is_known and axis % rank == rank - 1:
        return gen(op)(logits, name=name)
    before = tf.rank(logits)
    if not is_known:
        axis = tf.where(tf.less(axis, 0), axis + before, axis)
    rank_tensor = tf.rank(logits)
    axis %= rank
    moved = _swap_with_last(logits, axis, tf.subtract(rank_tensor, 1))
    result = gen(op)(moved)
    result = _swap_with_last(result, axis, tf.subtract(rank_tensor, 1), name)
    result.set_shape(logits.shape)
    return result


def _swap_with_last(tensor: TensorLike, axis: Any, last: object, name: str | None = None) -> Any:
    order = tf.concat([tf.range(axis), [last], tf.range(axis + 1, last), [axis]], 0)
    return tf.transpose(tensor, order, **({} if name is None else {"name": name}))


softmax = _softmax_along("Softmax")
log_softmax = _softmax_along("LogSoftmax")


def bias_add(value: TensorLike, bias: TensorLike, data_format: str | None = None, name: str | None = None) -> Any:
    """Add a vector along the channels."""
    with name_scope(name, "BiasAdd", [value, bias]) as scope:
        layout = None if data_format is None else _layout(data_format)
        value = convert_to_tensor(value, name="input")
        bias = convert_to_tensor(bias, dtype=value.dtype, name="bias")
        return gen("BiasAdd")(value, bias, data_format=layout, name=scope)


def _layout(data_format: str) -> str:
    """Data format of the op, NCHW or NHWC, for a format of any rank.  Raises ValueError."""
    if data_format[:2] == "NC":
        return "NCHW"
    if data_format[:1] == "N" and data_format[-1] == "C":
        return "NHWC"
    raise ValueError(f"`data_format` must be of the form `N...C` or `NC...`. Received: data_format={data_format}")


def xw_plus_b(x: TensorLike, weights: TensorLike, biases: object, name: str | None = None) -> Any:
    """x times weights, plus biases."""
    return _affine("xw_plus_b", {"x": x, "weights": weights, "biases": biases}, name, is_rectified=False)


def relu_layer(x: TensorLike, weights: TensorLike, biases: object, name: str | None = None) -> Any:
    """Relu of x times weights, plus biases."""
    return _affine("relu_layer", {"x": x, "weights": weights, "biases": biases}, name, is_rectified=True)


def _affine(word: str, values: dict[str, Any], name: str | None, is_rectified: bool) -> Any:
    with name_scope(name, word, list(values.values())) as scope:
        matrix, factors, offsets = convert_named(**values)
        product = tf.matmul(matrix, factors)
        if not is_rectified:
            return bias_add(product, offsets, name=scope)
        return gen("Relu")(bias_add(product, offsets), name=scope)


def top_k(input: TensorLike, k: object = 1, sorted: bool = True, name: str | None = None) -> Any:
    """The k largest elements of each row, and their indices."""
    return gen("TopKV2")(input, k=k, sorted=sorted, name=name)


def in_top_k(predictions: TensorLike, targets: TensorLike, k: object, name: str | None = None) -> Any:
    """Whether each target is among the k largest of its row."""
    with name_scope(name, "in_top_k"):
        return gen("InTopKV2")(predictions, targets, k, name=name)


def zero_fraction(value: TensorLike, name: str | None = None) -> Any:
    """Fraction of zero elements."""
    with name_scope(name, "zero_fraction", [value]):
        value = convert_to_tensor(value, name="value")
        total = tf.size(value, out_type=tf.int64)
        # Numbers of 32 bits are enough for all but huge tensors.
        is_small = total <= tf.int32.max
        others = tf.cond(is_small, lambda: tf.cast(_nonzeros(value, tf.int32), tf.int64), lambda: _nonzeros(value, tf.int64))
        with name_scope("counts_to_fraction"):
            share = tf.cast(total - others, "float32") / tf.cast(total, "float32")
        return tf.identity(share, "fraction")


def _nonzeros(value: Tensor, dtype: DTypeLike) -> Any:
    """Number of nonzero elements."""
    with name_scope("count_nonzero", "count_nonzero", [value]):
        found = tf.not_equal(value, tf.zeros([], dtype=value.dtype))
        return tf.reduce_sum(tf.cast(found, dtype), name="nonzero_count")
