"""`tf.keras.layers` in graphs: layers of `tf.layers` with Keras' names, scopes and variables, and layers without variables."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, PerDimension, ShapeLike, TensorLike
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.keras import activations, backend, regularizers
from placesim.tf1.layers import convolutional, core, layer, normalization, pooling
from placesim.tf1.types import nest
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.variables.initializers import keras_get

_OF_INPUTS = ("input_shape", "input_dim", "batch_input_shape", "batch_size", "input_length", "weights", "autocast")


class Layer(layer.Layer):
    """Base class of Keras layers, which have a name scope and resource variables, but no variable scope."""

    supports_masking = False
    """Whether the outputs have the mask of the inputs."""
    reads_mask = False
    """Whether the layer computes with the mask of the inputs in a way that is not there."""
    _constructor: partial[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        made._constructor = partial(cls, *args, **kwargs)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        for nested in _layers_in(value):
            nested.uses_resources = True
        super().__setattr__(name, value)

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: DTypeLike | None = None, **kwargs: Any) -> None:
        self.batch_input_shape = _batch_shape({key: kwargs.pop(key) for key in _OF_INPUTS if key in kwargs})
        super().__init__(trainable, name or _unique_name(type(self).__name__), dtype, **kwargs)
        self._regularized: list[tuple[Any, Callable[[Any], Any]]] = []
        self._mask: Any = None

    def clone(self, **changes: Any) -> Any:
        """Make a layer with the arguments and the name of this one, except for changed arguments."""
        given = (self._constructor.args, self._constructor.keywords)
        args, kwargs = nest.map_structure(lambda arg: arg.clone() if isinstance(arg, Layer) else arg, given)
        return type(self)(*args, **kwargs | {"name": self.name} | changes)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the layer; a call inside another layer's has its `training`, unless it is given.

        The mask of the inputs is passed on to a layer that takes one.
        """
        given = dict(kwargs)
        parameters = inspect.signature(self.call).parameters
        training = kwargs.get("training")
        if training is None and _calls.training[-1] is not None:
            training = _calls.training[-1]
            if "training" in parameters:
                kwargs["training"] = training
        self._mask = kwargs["mask"] if kwargs.get("mask") is not None else _mask_of(inputs)
        if self._mask is not None and self.reads_mask:
            raise not_there(f"keras.layers.{type(self).__name__} of masked inputs", "without masks it is there")
        if self._mask is not None and "mask" in parameters:
            kwargs["mask"] = self._mask
        _calls.training.append(training)
        try:
            outputs = super().__call__(inputs, *args, **kwargs)
        finally:
            _calls.training.pop()
        record_call(self, (inputs, *args), given, outputs)
        return outputs

    def _finish_call(self, inputs: Any, outputs: Any) -> Any:
        """The outputs with their masks; outputs that are inputs of a model are copied, as they have another layer's history."""
        if all_of_models(inputs):
            own = {id(value) for value in nest.flatten(inputs)}
            outputs = nest.map_structure(lambda value: self._copied(value) if id(value) in own else value, outputs)
        flat = nest.flatten(outputs)
        if any(getattr(value, "_keras_mask", None) is None for value in flat):
            # outputs without a mask may follow
            for value, mask in zip(flat, nest.flatten(self.compute_mask(inputs, self._mask)), strict=False):
                if mask is not None:
                    value._keras_mask = mask
        return outputs

    def _copied(self, value: Any) -> Any:
        with tf.name_scope(self.name):
            return tf.identity(value)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the outputs."""
        return mask if self.supports_masking else None

    def _enter_first(self, scope: object = None) -> None:
        """Do nothing: Keras layers use no variable scope."""

    @contextmanager
    def _inside(self) -> Iterator[None]:
        with tf.name_scope(self._name):
            yield

    def add_weight(  # type: ignore[override]
        self,
        name: str | None = None,
        shape: ShapeLike | None = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: object = None,
        **_: object,
    ) -> Any:
        """A variable of the layer."""
        dtype = tf.as_dtype(dtype or self._given_dtype or tf.float32)
        if initializer is None:
            initializer = "glorot_uniform" if dtype.is_floating else "zeros"
        make, sizes = keras_get(initializer), TensorShape(() if shape is None else shape).as_list()
        trainable = True if trainable is None else trainable
        variable = tf.Variable(
            lambda: make(sizes, dtype=dtype),
            name=name or "Variable",
            dtype=dtype,
            trainable=trainable,
            use_resource=True,
            constraint=constraint,
        )
        self._variables.append(variable)
        self._trainable.append(trainable)
        if regularizer is not None:
            self._regularized.append((variable, regularizers.get(regularizer)))
        return variable

    def add_loss(self, losses: TensorLike, inputs: TensorLike | None = None, **_: object) -> None:
        """Add losses to the layer's own list."""
        self._losses += losses if isinstance(losses, (list, tuple)) else [losses]

    def add_update(self, updates: TensorLike, inputs: TensorLike | None = None) -> None:
        """Add updates to the layer's own list."""
        for update in updates if isinstance(updates, (list, tuple)) else [updates]:
            self._updates.append(getattr(update, "op", update))

    @property
    def trainable(self) -> bool:
        return self._is_trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._is_trainable = value
        for nested in self._nested:
            nested.trainable = value

    @property
    def _nested(self) -> list[layer.Layer]:
        """The layers in the attributes, in order; also those in lists, tuples and dictionaries."""
        return list(dict.fromkeys(one for value in vars(self).values() for one in _layers_in(value)))

    def _with_nested(self, own: list[Any], name: str) -> list[Any]:
        """Own items, and those of nested layers that the property `name` has."""
        return own + [item for nested in self._nested for item in getattr(nested, name)]

    @property
    def trainable_variables(self) -> list[Any]:
        return self._with_nested(super().trainable_variables, "trainable_variables") if self.trainable else []

    @property
    def non_trainable_variables(self) -> list[Any]:
        return self._with_nested(super().non_trainable_variables, "non_trainable_variables" if self.trainable else "weights")

    trainable_weights, non_trainable_weights = trainable_variables, non_trainable_variables

    @property
    def losses(self) -> list[Any]:
        """Losses of the layer and of nested layers; those of regularizers are built at each access."""
        found = list(self._losses)
        for variable, regularizer in self._regularized:
            with tf.name_scope(variable.op.name + "/Regularizer"):
                found.append(regularizer(variable))
        return self._with_nested(found, "losses")

    @property
    def updates(self) -> list[Any]:
        return self._with_nested(super().updates, "updates")


def _layers_in(value: Any) -> list[layer.Layer]:
    return [leaf for leaf in nest.flatten(value) if isinstance(leaf, layer.Layer)]


class _Calls(threading.local):
    """The `training` of a thread's unfinished calls, outermost first: a strategy's replicas run in threads that alternate."""

    def __init__(self) -> None:
        self.training: list[Any] = [None]


_calls = _Calls()


def is_in_call() -> bool:
    """Whether the thread is in a layer's call."""
    return len(_calls.training) > 1


def _batch_shape(given: Mapping[str, Any]) -> tuple[int | None, ...] | None:
    """The shape of a first layer's inputs, from the layer's arguments; None without them."""
    if given.get("batch_input_shape") is not None:
        return tuple(given["batch_input_shape"])
    shape = given.get("input_shape")
    if shape is None and given.get("input_dim") is not None:
        shape = (given["input_dim"],)
    return None if shape is None else (given.get("batch_size"), *shape)


def _mask_of(inputs: Any) -> Any:
    """The masks of tensors, in their structure; None if no tensor has one."""
    masks = [getattr(value, "_keras_mask", None) for value in nest.flatten(inputs)]
    return None if all(mask is None for mask in masks) else nest.pack_sequence_as(inputs, masks)


@dataclass(frozen=True, slots=True, eq=False)
class LayerCall:
    """A call of a layer on tensors of a model: its arguments and outputs."""

    layer: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any

    @property
    def inputs(self) -> list[Any]:
        """The model's tensors among the arguments, in order."""
        return [value for value in nest.flatten((self.args, self.kwargs)) if hasattr(value, "keras_call")]


def all_of_models(inputs: Any) -> bool:
    """Whether all tensors come from `keras.Input` through layers alone."""
    flat = nest.flatten(inputs)
    return bool(flat) and all(hasattr(value, "keras_call") for value in flat)


def record_call(called: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any) -> None:
    """Note the call at its outputs, if its inputs are tensors of a model."""
    if all_of_models(args[0]) or isinstance(called, InputLayer):
        call = LayerCall(called, args, kwargs, outputs)
        for value in nest.flatten(outputs):
            value.keras_call = call


def _unique_name(kind: str) -> str:
    """`dense`, `dense_1`, ...: numbered per graph together with `tf.layers`."""
    word = layer.word_of(kind)
    number = layer.next_number(word)
    return word if number == 1 else f"{word}_{number - 1}"


_READ = {"activation": activations.get, "regularizer": regularizers.get, "initializer": keras_get}


def read_argument(name: str, value: Any) -> Any:
    """The value of a layer's argument: activations, regularizers and initializers may be given by their names."""
    read = _READ.get(name.rpartition("_")[2])
    if read is None or name == "activity_regularizer" or (value is None and read is not activations.get):
        return value
    return read(value)


def named_arguments(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a constructor by name.  Raises TypeError for too many, and for one that is given twice."""
    if len(args) > len(names):
        raise TypeError(f"__init__() got {len(args) - len(names)} positional arguments too many")
    positional = dict(zip(names, args, strict=False))
    for name in positional:
        if name in kwargs:
            raise TypeError(f"__init__() got multiple values for argument {name!r}")
    return positional | dict(kwargs)


def _of(kind: Any, **defaults: object) -> Any:
    """Make the Keras class for a class of `tf.layers`; its activation, regularizers and initializers can be names."""
    arguments = [
        name for name in inspect.signature(kind.__init__).parameters if name not in ("self", "kwargs", "name", "trainable")
    ]

    def __init__(self: Any, *args: object, **kwargs: object) -> None:  # noqa: N807
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
    def call(self, inputs: TensorLike, training: object = None, *args: object, **kwargs: object) -> Any:
        return super().call(inputs, _phase(training) if self.trainable else False)


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


def _function_layer(name: str, make: Callable[..., Callable[[Any], Any]]) -> Any:
    """Make a layer class.  Its layers apply the function that `make` returns for the constructor's arguments."""

    def __init__(self: Any, *args: object, **kwargs: Any) -> None:  # noqa: N807
        own = {key: kwargs.pop(key) for key in ("name", "trainable", "dtype", *_OF_INPUTS) if key in kwargs}
        Layer.__init__(self, **own)
        self._function = make(*args, **kwargs)

    def call(self: Any, inputs: Tensor, *args: object, **kwargs: object) -> Any:
        return self._function(inputs)

    described = f"Keras' layer `{name}`."
    return type(name, (Layer,), {"__init__": __init__, "call": call, "__doc__": described, "__module__": __name__})


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


def _merge(combine: Callable[[Any, Any], Any]) -> Callable[[], Callable[[Any], Any]]:
    def merged(inputs: Sequence[Tensor]) -> Any:
        total = inputs[0]
        for other in inputs[1:]:
            total = combine(total, other)
        return total

    return lambda: merged


def _concatenated(axis: int = -1) -> Callable[[Any], Any]:
    return lambda inputs: backend.concatenate(inputs, axis=axis)


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
Softmax = _function_layer("Softmax", lambda axis=-1: lambda inputs: activations.softmax(inputs, axis))
GlobalAveragePooling1D = GlobalAvgPool1D = _function_layer("GlobalAveragePooling1D", _global(tf.reduce_mean, 1))
GlobalAveragePooling2D = GlobalAvgPool2D = _function_layer("GlobalAveragePooling2D", _global(tf.reduce_mean, 2))
GlobalMaxPooling1D = GlobalMaxPool1D = _function_layer("GlobalMaxPooling1D", _global(tf.reduce_max, 1))
GlobalMaxPooling2D = GlobalMaxPool2D = _function_layer("GlobalMaxPooling2D", _global(tf.reduce_max, 2))
Concatenate = _function_layer("Concatenate", _concatenated)
Add = _function_layer("Add", _merge(lambda x, y: x + y))
Multiply = _function_layer("Multiply", _merge(lambda x, y: x * y))
Subtract = _function_layer("Subtract", _merge(lambda x, y: x - y))
Maximum = _function_layer("Maximum", _merge(tf.maximum))
Minimum = _function_layer("Minimum", _merge(tf.minimum))


for _kind in (Dense, Dropout, Activation, LeakyReLU, ReLU, ELU):
    _kind.supports_masking = True
for _kind in (BatchNormalization, Softmax, GlobalAveragePooling1D, Concatenate, Add, Multiply, Subtract, Maximum, Minimum):
    _kind.reads_mask = True


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
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
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

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
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


class InputLayer(Layer):
    """A placeholder for a model's inputs."""

    def __init__(
        self,
        input_shape: ShapeLike | None = None,
        batch_size: int | None = None,
        dtype: DTypeLike | None = None,
        name: str | None = None,
        batch_input_shape: ShapeLike | None = None,
        **_: object,
    ) -> None:
        if batch_input_shape is None:
            batch_input_shape = (batch_size, *(input_shape if isinstance(input_shape, (list, tuple)) else (input_shape,)))
        super().__init__(name=name or f"input_{layer.next_number('input')}")
        self.batch_input_shape, self.built = tuple(TensorShape(batch_input_shape).as_list()), True
        self.output = tf.placeholder(dtype or tf.float32, batch_input_shape, name=self.name)
        record_call(self, (None,), {}, self.output)
