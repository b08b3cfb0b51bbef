"""`tf.keras.layers` in graphs: layers of `tf.layers` with Keras' names, scopes and variables, and layers without variables."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import PerDimension, ShapeLike, TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.keras import activations, backend
from placesim.tf1.keras.keras_layer import OF_INPUTS, Layer, named_arguments, read_argument
from placesim.tf1.layers import convolutional, core, layer, normalization, pooling
from placesim.tf1.types import nest


def _of(kind: Any, **defaults: object) -> Any:
    """Make the Keras class for a class of `tf.layers`; its activation, regularizers and initializers can be names."""
    arguments = [
        name for name in inspect.signature(kind.__init__).parameters if name not in ("self", "kwargs", "name", "trainable")
    ]

    def __init__(self: object, *args: object, **kwargs: object) -> None:  # noqa: N807
        given = defaults | named_arguments(arguments, args, kwargs)
        if given.pop("groups", 1) != 1:
            raise not_there(f"keras.layers.{kind.__name__} with groups", "without them it is there")
        if given.get("data_format", "") is None:
            given["data_format"] = "channels_last"
        given = {key: read_argument(key, value) for key, value in given.items()}
        if given.get("activation") is activations.linear:
            given["activation"] = None
        kind.__init__(self, **given)

    return type(kind.__name__, (kind, Layer), {"__init__": __init__, "__doc__": kind.__doc__, "__module__": __name__})


def _phase(training: object) -> Any:
    return backend.learning_phase() if training is None else training


class _DropoutCall(core.Dropout):
    def call(self, inputs: TensorLike, training: object = None, *args: object, **kwargs: object) -> Any:
        return super().call(inputs, _phase(training))


class _BatchNormalizationCall(normalization.BatchNormalization):
    def call(self, inputs: TensorLike, training: object = None, mask: object = None, *args: object, **kwargs: object) -> Any:
        return super().call(inputs, _phase(training) if self.trainable else False, mask)


_DropoutCall.__name__, _BatchNormalizationCall.__name__ = "Dropout", "BatchNormalization"
Dense = _of(core.Dense)
Dropout = _of(_DropoutCall)
Flatten = _of(core.Flatten)
BatchNormalization = _of(_BatchNormalizationCall)
Conv1D = Convolution1D = _of(convolutional.Conv1D)
Conv2D = Convolution2D = _of(convolutional.Conv2D)
Conv3D = Convolution3D = _of(convolutional.Conv3D)
Conv2DTranspose = Convolution2DTranspose = _of(convolutional.Conv2DTranspose)
Conv3DTranspose = Convolution3DTranspose = _of(convolutional.Conv3DTranspose)
SeparableConv2D = SeparableConvolution2D = _of(convolutional.SeparableConv2D)
MaxPooling1D = MaxPool1D = _of(pooling.MaxPooling1D, pool_size=2, strides=None)
MaxPooling2D = MaxPool2D = _of(pooling.MaxPooling2D, pool_size=(2, 2), strides=None)
MaxPooling3D = MaxPool3D = _of(pooling.MaxPooling3D, pool_size=(2, 2, 2), strides=None)
AveragePooling1D = AvgPool1D = _of(pooling.AveragePooling1D, pool_size=2, strides=None)
AveragePooling2D = AvgPool2D = _of(pooling.AveragePooling2D, pool_size=(2, 2), strides=None)
AveragePooling3D = AvgPool3D = _of(pooling.AveragePooling3D, pool_size=(2, 2, 2), strides=None)


# --- layers without variables: a name and a function ---


def _function_layer(
    name: str, make: Callable[..., Callable[..., Any]], mask_of: Callable[[Any, Any, Any], Any] | None = None
) -> Any:
    """Make a layer class.  Its layers apply the function that `make` returns for the constructor's arguments.

    A function with a parameter `mask` gets the mask of the inputs.  `mask_of` makes the mask of the outputs from layer, inputs
    and mask.
    """

    def __init__(self: Any, *args: object, **kwargs: Any) -> None:  # noqa: N807
        own = {key: kwargs.pop(key) for key in ("name", "trainable", "dtype", *OF_INPUTS) if key in kwargs}
        Layer.__init__(self, **own)
        self._function = make(*args, **kwargs)
        self._reads_mask = "mask" in inspect.signature(self._function).parameters

    def call(self: Any, inputs: Tensor, *args: object, mask: object = None, **kwargs: object) -> Any:
        return self._function(inputs, mask=mask) if self._reads_mask else self._function(inputs)

    members = {"__init__": __init__, "call": call, "__doc__": f"Keras' layer `{name}`.", "__module__": __name__}
    return type(name, (Layer,), members | ({"compute_mask": mask_of} if mask_of else {}))


def _activation(activation: object) -> Callable[[Any], Any]:
    return activations.get(activation)


def _lambda(
    function: Callable[..., Any],
    output_shape: ShapeLike | None = None,
    mask: object = None,
    arguments: Mapping[str, Any] | None = None,
) -> Callable[[Any], Any]:
    return lambda inputs: function(inputs, **(arguments or {}))


def _reshape(target_shape: Sequence[int]) -> Callable[[Any], Any]:
    def reshaped(inputs: Any) -> Any:
        outputs = tf.reshape(inputs, (tf.shape(inputs)[0], *target_shape))
        batch, *sizes = inputs.shape.as_list()
        known = [None if size == -1 else size for size in target_shape]
        outputs.set_shape([batch, *(known if None in sizes else _completed(sizes, known))])
        return outputs

    return reshaped


def _completed(sizes: list[int], target: list[int | None]) -> list[int | None]:
    """A shape with its unknown size, for as many elements as `sizes` have.  Raises ValueError if they do not fit."""
    wanted = [-1 if size is None else size for size in target]
    if wanted.count(-1) > 1:
        raise ValueError(f"There must be at most one unknown dimension in output_shape. Received: output_shape={wanted}.")
    count, known = math.prod(sizes), math.prod(size for size in wanted if size != -1)
    if (known == 0 or count % known) if -1 in wanted else known != count:
        raise ValueError(f"total size of new array must be unchanged, input_shape = {sizes}, output_shape = {wanted}")
    return [count // known if size == -1 else size for size in wanted]


def _permute(dims: Sequence[int]) -> Callable[[Any], Any]:
    return lambda inputs: tf.transpose(inputs, perm=[0, *dims])


def _zero_padding(padding: int | Sequence[PerDimension] = (1, 1), data_format: str | None = None) -> Callable[[Any], Any]:
    rows, columns = (padding, padding) if isinstance(padding, int) else padding
    pairs = [(size, size) if isinstance(size, int) else tuple(size) for size in (rows, columns)]
    around = [[0, 0], *map(list, pairs), [0, 0]] if data_format != "channels_first" else [[0, 0], [0, 0], *map(list, pairs)]
    return lambda inputs: tf.pad(inputs, around)


def _global(reduce: Callable[..., Any], rank: int) -> Callable[..., Callable[[Any], Any]]:
    def make(data_format: str | None = None, keepdims: bool = False) -> Callable[[Any], Any]:
        axes = list(range(1, rank + 1)) if data_format != "channels_first" else list(range(2, rank + 2))
        return lambda inputs: reduce(inputs, axis=axes if rank > 1 else axes[0], keepdims=keepdims)

    return make


def _global_average(data_format: str | None = None, keepdims: bool = False) -> Callable[..., Any]:
    plain = _global(tf.reduce_mean, 1)(data_format, keepdims)
    steps = 2 if data_format == "channels_first" else 1

    def averaged(inputs: Tensor, mask: TensorLike | None = None) -> Any:
        if mask is None:
            return plain(inputs)
        weights = tf.expand_dims(tf.cast(mask, inputs[0].dtype), 3 - steps)
        return tf.reduce_sum(inputs * weights, axis=steps, keepdims=keepdims) / tf.reduce_sum(
            weights, axis=steps, keepdims=keepdims
        )

    return averaged


def _softmax(axis: int = -1) -> Callable[..., Any]:
    def softmax(inputs: Tensor, mask: TensorLike | None = None) -> Any:
        if mask is not None:
            inputs += (1.0 - tf.cast(mask, inputs.dtype)) * (tf.float16.min if inputs.dtype == tf.float16 else -1e9)
        return activations.softmax(inputs, axis)

    return softmax


def _all_masks(layer: object, inputs: object, mask: object) -> Any:
    """The mask of elements that no mask of the inputs leaves out."""
    masks = [tf.expand_dims(one, axis=0) for one in nest.flatten(mask) if one is not None]
    return tf.reduce_all(backend.concatenate(masks, axis=0), axis=0, keepdims=False) if masks else None


def _concatenated_masks(layer: Any, inputs: Any, mask: Any) -> Any:
    """The mask of elements of which each part is in the mask of its input."""
    if mask is None:
        return None
    masks = []
    for value, one in zip(inputs, mask, strict=True):
        if one is None:
            masks.append(tf.compat.v2.ones_like(value, dtype=tf.bool))
        else:
            masks.append(tf.expand_dims(one, axis=-1) if one.shape.rank < value.shape.rank else one)
    return tf.reduce_all(backend.concatenate(masks, axis=layer._function.keywords["axis"]), axis=-1, keepdims=False)


def _merge(combine: Callable[[Any, Any], Any]) -> Callable[[], Callable[[Any], Any]]:
    def merged(inputs: Sequence[Tensor]) -> Any:
        total = inputs[0]
        for other in inputs[1:]:
            total = combine(total, other)
        return total

    return lambda: merged


def _concatenated(axis: int = -1) -> Callable[[Any], Any]:
    return partial(backend.concatenate, axis=axis)


def _up_sampling(
    size: PerDimension = (2, 2), data_format: str | None = None, interpolation: str = "nearest"
) -> Callable[[Any], Any]:
    if data_format == "channels_first" or interpolation != "nearest":
        raise not_there("keras.layers.UpSampling2D with data_format or interpolation", "without them it is there")
    factors = (size, size) if isinstance(size, int) else tuple(size)

    def grown(inputs: Tensor) -> Any:
        sizes = inputs.shape.as_list()
        rows, columns = sizes[1:3]
        now = tf.shape(inputs)[1:3] if None in (rows, columns) else tf.constant([rows, columns])
        outputs = tf.image.resize_nearest_neighbor(
            inputs, now * tf.constant(factors), half_pixel_centers=True, name="resize/ResizeNearestNeighbor"
        )
        known = [None if one is None else one * factor for one, factor in zip((rows, columns), factors, strict=True)]
        outputs.set_shape([sizes[0], *known, sizes[3]])
        return outputs

    return grown


Activation = _function_layer("Activation", _activation)
UpSampling2D = _function_layer("UpSampling2D", _up_sampling)
Lambda = _function_layer("Lambda", _lambda)
Reshape = _function_layer("Reshape", _reshape)
Permute = _function_layer("Permute", _permute)
ZeroPadding2D = _function_layer("ZeroPadding2D", _zero_padding)
LeakyReLU = _function_layer("LeakyReLU", lambda alpha=0.3: lambda inputs: tf.nn.leaky_relu(inputs, alpha=alpha))
ReLU = _function_layer("ReLU", lambda max_value=None: lambda inputs: activations.relu(inputs, max_value=max_value))
ELU = _function_layer("ELU", lambda: tf.nn.elu)
Softmax = _function_layer("Softmax", _softmax)
GlobalAveragePooling1D = GlobalAvgPool1D = _function_layer("GlobalAveragePooling1D", _global_average)
GlobalAveragePooling2D = GlobalAvgPool2D = _function_layer("GlobalAveragePooling2D", _global(tf.reduce_mean, 2))
GlobalMaxPooling1D = GlobalMaxPool1D = _function_layer("GlobalMaxPooling1D", _global(tf.reduce_max, 1))
GlobalMaxPooling2D = GlobalMaxPool2D = _function_layer("GlobalMaxPooling2D", _global(tf.reduce_max, 2))
Concatenate = _function_layer("Concatenate", _concatenated, _concatenated_masks)
Add = _function_layer("Add", _merge(lambda x, y: x + y), _all_masks)
Multiply = _function_layer("Multiply", _merge(lambda x, y: x * y), _all_masks)
Subtract = _function_layer("Subtract", _merge(lambda x, y: x - y), _all_masks)
Maximum = _function_layer("Maximum", _merge(tf.maximum), _all_masks)
Minimum = _function_layer("Minimum", _merge(tf.minimum), _all_masks)


for _kind in (Dense, Dropout, Activation, LeakyReLU, ReLU, ELU, BatchNormalization, Softmax):
    _kind.supports_masking = True


def _called(kind: type[layer.Layer]) -> Callable[..., Any]:
    def call(inputs: Any, **kwargs: Any) -> Any:
        return kind(**kwargs)(inputs)

    call.__doc__ = f"Make a `{kind.__name__}` layer and apply it."
    return call


add, multiply, subtract, maximum, minimum, concatenate = map(_called, (Add, Multiply, Subtract, Maximum, Minimum, Concatenate))


class Embedding(Layer):
    """Maps each number to a row of a variable."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: object = "uniform",
        embeddings_regularizer: object = None,
        activity_regularizer: object = None,
        embeddings_constraint: object = None,
        mask_zero: bool = False,
        input_length: int | Sequence[int | None] | None = None,
        **kwargs: Any,
    ) -> None:
        lengths = input_length if isinstance(input_length, (list, tuple)) else (input_length,)
        super().__init__(**{"input_shape": lengths} | kwargs, activity_regularizer=activity_regularizer)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.mask_zero = self.supports_masking = mask_zero
        self._constraint = embeddings_constraint
        self._start, self._regularizer = embeddings_initializer, embeddings_regularizer
        self._given_dtype = tf.float32

    def build(self, input_shape: ShapeLike) -> None:
        shape = (self.input_dim, self.output_dim)
        self.embeddings = self.add_weight(
            "embeddings", shape, initializer=self._start, regularizer=self._regularizer, constraint=self._constraint
        )

    def call(self, inputs: Any, *args: object, **kwargs: object) -> Any:
        if inputs.dtype.base_dtype not in (tf.int32, tf.int64):
            inputs = tf.cast(inputs, tf.int32)
        return tf.nn.embedding_lookup(self.embeddings, inputs)

    def compute_mask(self, inputs: object, mask: object = None) -> Any:
        """With `mask_zero`, the numbers other than 0."""
        return tf.not_equal(inputs, 0) if self.mask_zero else None


class Masking(Layer):
    """Masks steps whose values all are `mask_value`."""

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mask_value, self.supports_masking = mask_value, True

    def call(self, inputs: Any, *args: object, **kwargs: object) -> Any:
        mask = tf.reduce_any(tf.not_equal(inputs, self.mask_value), axis=-1, keepdims=True)
        outputs = inputs * tf.cast(mask, inputs.dtype)
        outputs._keras_mask = tf.squeeze(mask, axis=-1)
        return outputs
